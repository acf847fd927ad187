//! `plimsoll guard`: starts a component that ends with the run. For Plimsoll's own use.

use crate::failure::Failure;
use clap::Args;
use plimsoll_platform::guard::become_command;

/// Becomes a command that ends when its parent does
#[derive(Args)]
#[command(hide = true)]
pub struct Guard {
    /// Process that this one must be a child of
    #[arg(long)]
    parent: i32,
    /// Processors to be bound to, separated by commas
    #[arg(long, default_value = "")]
    processors: String,
    /// The command
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl Guard {
    pub fn perform(self) -> Result<u8, Failure> {
        let processors: Vec<usize> =
            self.processors.split(',').filter_map(|number| number.parse().ok()).collect();
        let error = become_command(self.parent, &processors, &self.command);
        Err(Failure::Undoable(format!("{}: {error}", self.command.join(" "))))
    }
}
