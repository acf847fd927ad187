//! `plimsoll platforms`: the platform profiles, and one in full.

use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;
use plimsoll_scenario::{profile, profiles, wrapped};

/// Lists the platform profiles, or shows one in full
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll platforms mosquitto")]
pub struct Platforms {
    /// The profile to show
    name: Option<String>,
}

impl Platforms {
    pub fn perform(self) -> Result<u8, Failure> {
        let Some(name) = self.name else {
            let known = profiles();
            let width = known.iter().map(|profile| profile.name.len()).max().unwrap_or_default();
            for profile in known {
                say(&wrapped(&format!("{:<width$} ", profile.name), &profile.title));
            }
            return Ok(exit_code::MET);
        };
        match profile(&name) {
            Some(profile) => say(&profile.source),
            None => {
                let known: Vec<String> = profiles().into_iter().map(|profile| profile.name).collect();
                let known = known.join(", ");
                return Err(Failure::Usage(format!("no platform profile {name}; there are: {known}")));
            }
        }
        Ok(exit_code::MET)
    }
}
