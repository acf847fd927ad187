//! `plimsoll check`: reads the scenario, says what would happen, touches nothing unless it is to probe.

use super::load_options::LoadOptions;
use super::probe;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;

/// Reads the scenario and says what would happen; touches nothing
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll check examples/quickstart.yaml --set load.hold=3m
  plimsoll check examples/work-b-ngsi-update.yaml --probe")]
pub struct Check {
    #[command(flatten)]
    load: LoadOptions,
    /// Bring the platform up and send it a few messages in each form of the marker, to see
    /// which come through unharmed; nothing is counted or stored
    #[arg(long)]
    probe: bool,
}

impl Check {
    pub fn perform(self) -> Result<u8, Failure> {
        say(&self.load.plan()?.describe());
        if self.probe {
            say("\n");
            return probe::perform(&self.load);
        }
        Ok(exit_code::MET)
    }
}
