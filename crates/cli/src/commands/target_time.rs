//! Service times of targets, as options.

use plimsoll_model::Nanos;
use plimsoll_scenario::duration;

/// Longest service time.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// A service time that a target can take.
pub fn service_time(text: &str) -> Result<Nanos, String> {
    let time = duration(text)?;
    match time <= LONGEST {
        true => Ok(time),
        false => Err("a service time is one hour at most".into()),
    }
}
