//! `plimsoll doctor`: whether this host is fit to generate a load, and the fix where it is not.

use super::load_options::LoadOptions;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use crate::progress::colour;
use clap::Args;
use plimsoll_observe::limits::{Limits, raise_open_files};
use plimsoll_observe::probe::Probe;
use plimsoll_report::doctor;
use plimsoll_runner::preflight::{Demand, Severity, examine};
use std::time::Duration;

/// Long enough for a steal of 1 % to show (ticks of 10 ms) and for over a thousand wake-ups.
const PROBE: Duration = Duration::from_secs(1);
/// Stands for a platform that was not named; an address for documentation (RFC 5737), to which nothing is sent.
const UNNAMED: &str = "mqtt://192.0.2.1";

/// Checks whether this host is fit to generate a load, and prints a fix for each problem
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll doctor
  plimsoll doctor examples/quickstart.yaml
  plimsoll doctor --devices 100000 --rate 5000

Exit codes: 0 possible, perhaps with warnings; 104 impossible on this host.")]
pub struct Doctor {
    /// Scenario file, or mqtt://HOST[:PORT]; without either the host is looked at
    /// in general, or for a remote platform with that many devices
    #[arg(value_name = "SCENARIO.yaml|mqtt://HOST:PORT")]
    what: Option<String>,
    /// Sets any key of the scenario, as in --set population.devices=5000 (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Simulated devices
    #[arg(long, value_name = "N")]
    devices: Option<String>,
    /// Operations per second
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
}

impl Doctor {
    pub fn perform(self) -> Result<u8, Failure> {
        let demand = self.demand()?;
        if let Some(demand) = &demand {
            raise_open_files(demand.open_files());
        }
        let probe = Probe::take(PROBE);
        let found = examine(&Limits::read(), Some(&probe), demand.as_ref());
        say(&doctor::render(&found, colour()));
        let impossible = found.iter().any(|finding| finding.severity == Severity::Problem);
        Ok(if impossible { exit_code::USAGE } else { exit_code::MET })
    }

    /// What is asked of the host; `None` where the user asks for nothing in particular.
    fn demand(self) -> Result<Option<Demand>, Failure> {
        let of_unnamed = self.what.is_none();
        if of_unnamed && self.devices.is_none() && self.rate.is_none() && self.set.is_empty() {
            return Ok(None);
        }
        let what = self.what.unwrap_or_else(|| UNNAMED.to_owned());
        // An address wants both; what decides here is mostly the number of devices.
        let address = what.contains("://");
        let or_one = |value: Option<String>| value.or_else(|| address.then(|| "1".to_owned()));
        let options = LoadOptions::brief(what, self.set, or_one(self.devices), or_one(self.rate));
        Ok(Some(Demand::of(&options.plan()?)))
    }
}
