//! How levels follow each other, and what happens in them, where that is more than a list.

use super::Duration;
use crate::quantity::{AsText, Rate, Share};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// A component of the platform is killed (SIGKILL) and started again with the same ports and files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Storm {
    /// The component's name in the platform profile. Default: the first one that devices connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// When it is killed, from the beginning of the hold.
    pub after: Duration,
    /// How long it is down before it is started again.
    pub down: Duration,
}

/// A load that changes in the hold of one level. It is played in `hold`, by default in as much time as it has itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    /// Its points in the order of time; the load is on the straight line from each to the next. Two at one time are a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub points: Option<Vec<CurvePoint>>,
    /// A CSV file with the points in its columns `time` and `rate`, in place of `points`. A time is `08:10`, `08:10:30`, `8h10m` or a
    /// number of seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct CurvePoint {
    /// The time on the curve's own clock, such as `8h`.
    pub at: Duration,
    /// Operations per second of the whole population, zero for none.
    pub rate: AsText<Rate>,
}

/// A load that rises at once, stays for a while, and falls back at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Spike {
    /// Operations per second before it and after it.
    pub from: AsText<Rate>,
    /// Operations per second in it.
    pub to: AsText<Rate>,
    /// When it begins, from the beginning of the hold. At least three samples of the hold come before it.
    pub at: Duration,
    /// How long it lasts. At least three samples of the hold come after it.
    #[serde(rename = "for")]
    pub length: Duration,
}

/// A search for the load line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// First level; the platform should sustain it.
    pub from: AsText<Rate>,
    /// No level is above this.
    pub to: AsText<Rate>,
    /// How far the lowest missed level may lie above the load line, from 1 % to 100 %.
    #[serde(default = "tolerance")]
    pub tolerance: AsText<Share>,
    /// No level is begun that could end later than this after the first one began; what was found by then is
    /// reported.
    #[serde(default = "search_time")]
    pub time: Duration,
}

/// The load at which a platform is just not overloaded, found as in work E: one level far above it, then one at the rate that was
/// achieved there, and so on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Calibration {
    /// The first level, above what the platform sustains; where it sustains that, the next one is twice as high.
    pub from: AsText<Rate>,
    /// What must be done in the hold of what was due in it. Default 90 %.
    #[serde(default = "done")]
    pub done: AsText<Share>,
    /// Levels at most. Default 8.
    #[serde(default = "attempts")]
    #[cfg_attr(test, schemars(range(min = 2, max = 100)))]
    pub attempts: u16,
}

/// Each part of the platform is slowed in turn, in blocks with untouched ones between, to learn which one limits the load.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// How long it may take; from a minute to a day. Default 20m.
    #[serde(default = "experiment_time")]
    pub within: Duration,
    /// Whether the levels of the scenario are run before. Default true.
    #[serde(default = "yes")]
    pub with_levels: bool,
    /// Operations in flight at most. Default 20,000; over HTTP and CoAP one for each device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub in_flight: Option<u32>,
}

fn experiment_time() -> Duration {
    AsText(Nanos::from_secs(1200))
}

fn yes() -> bool {
    true
}

fn done() -> AsText<Share> {
    AsText(Share(0.9))
}

fn attempts() -> u16 {
    8
}

fn tolerance() -> AsText<Share> {
    AsText(Share(0.05))
}

fn search_time() -> Duration {
    AsText(Nanos::from_secs(600))
}
