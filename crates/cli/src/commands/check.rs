//! `plimsoll check`: reads the scenario, says what would happen, touches nothing.

use super::load_options::LoadOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;

/// Reads the scenario and says what would happen; touches nothing
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll check examples/quickstart.yaml --set load.hold=3m")]
pub struct Check {
    #[command(flatten)]
    load: LoadOptions,
}

impl Check {
    pub fn perform(self) -> Result<u8, Failure> {
        say(&self.load.plan()?.describe());
        Ok(exit_code::MET)
    }
}
