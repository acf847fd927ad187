//! `plimsoll`: finds the load line of an IoT platform. Wiring only: each command is a file in `commands`.

mod commands;
mod exit_code;
mod failure;
mod help;
mod interrupt;
mod output;
mod progress;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::Command;
use failure::Failure;
use std::process::ExitCode;

/// Finds the load line of an IoT platform: the device load that it sustains, the component that limits it, and the evidence
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
    interrupt::outlive_full_files();
    let parsed = program().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
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
    ExitCode::from(told(arguments.command.perform(program())))
}

/// The command line.
fn program() -> clap::Command {
    help::grouped(Arguments::command())
}

/// Tells what went wrong, standard output included; the exit code.
fn told(performed: Result<u8, Failure>) -> u8 {
    let tell = |failure: &Failure| output::complain(&failure.told());
    let unsaid = output::unsaid().inspect(tell);
    match performed.inspect_err(tell) {
        Err(failure) => failure.code(),
        // What was found stands, also where nobody could be told.
        Ok(exit_code::MET) => unsaid.map_or(exit_code::MET, |failure| failure.code()),
        Ok(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that were broken again could not be copied, and what follows it would stand ragged.
    #[test]
    fn what_stands_below_the_options_fits_80_columns() {
        fn check(command: &clap::Command) {
            let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in below.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&program());
    }
}
