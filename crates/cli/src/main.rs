//! `plimsoll`: finds the load line of an IoT platform. Wiring only: each command is a file in `commands`.

mod commands;
mod exit_code;
mod failure;
mod interrupt;
mod output;
mod progress;

use clap::Parser;
use commands::Command;
use failure::Failure;
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
            let printed = error.print();
            if error.use_stderr() {
                return ExitCode::from(exit_code::USAGE);
            }
            // Help and version.
            output::said(printed);
            return ExitCode::from(told(Ok(exit_code::MET)));
        }
    };
    ExitCode::from(told(arguments.command.perform()))
}

/// Tells what went wrong, standard output included; the exit code.
fn told(performed: Result<u8, Failure>) -> u8 {
    let tell = |failure: &Failure| output::complain(&failure.to_string());
    let unsaid = output::unsaid().inspect(tell);
    match performed.inspect_err(tell) {
        Err(failure) => failure.code(),
        Ok(exit_code::INTERRUPTED) => exit_code::INTERRUPTED,
        Ok(code) => unsaid.map_or(code, |failure| failure.code()),
    }
}
