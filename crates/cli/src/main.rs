//! `plimsoll`: finds the load line of an IoT platform. Wiring only: each command is a file in `commands`.

mod commands;
mod exit_code;
mod failure;
mod interrupt;
mod output;
mod progress;

use clap::Parser;
use commands::Command;
use std::process::ExitCode;

/// Finds the load line of an IoT platform: how much device load it bears, what gives way first, and the evidence.
#[derive(Parser)]
#[command(
    name = "plimsoll",
    version,
    max_term_width = 80,
    after_help = "Example:\n  plimsoll run examples/quickstart.yaml"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version come this way too; a closed standard output is no reason to complain.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit_code::USAGE } else { exit_code::MET });
        }
    };
    match arguments.command.perform() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::complain(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}
