//! How much, when and for how long.

use super::{Arrivals, Calibration, Curve, Duration, Experiment, Per, Search, Spike, Storm};
use crate::quantity::{AsText, Rate};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// How much, when and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// The workload model. `open`: operations arrive whatever becomes of earlier ones. `closed`: a fixed number of operations
    /// is in flight, each followed by the next. `partly_open`: sessions arrive whatever becomes of earlier ones, and each sends
    /// some messages, one after the other.
    #[serde(default)]
    pub model: WorkloadModel,
    /// Open and partly open model: distribution of the gaps between operations, or between sessions; or the times of a trace.
    /// Default: poisson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Open model: one arrival process for the whole population, or one for each device. Default: population.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// Open and partly open model: the offered loads in operations per second of the whole population, in the order of running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// Whether the listed levels are run again in reverse order after the highest one. This shows whether the platform is as fast at
    /// equal load as on the way up (docs/load-shapes.md). The load line is that of the way up. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ramp_down: bool,
    /// Open model: a load that changes within one level, such as that of a day, in place of `levels` (docs/load-shapes.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
    /// Open model: one level with a spike, in place of `levels` (docs/load-shapes.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spike: Option<Spike>,
    /// Open model: a search for the load line, in place of `levels`. The load doubles while the objectives are met. Then the
    /// bracket is halved, and a fresh hold confirms the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Open model: a search for the load at which the platform is just not overloaded, in place of `levels`. A level far above
    /// it comes first, then one at the rate that was achieved there, until most of what is due is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrate: Option<Calibration>,
    /// After the levels, each part of the platform is slowed in turn, to learn which one limits the load (docs/why.md). The
    /// platform must have been started by Plimsoll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// Open model: how many devices are connected, one level each, in place of `levels`. Those that are missing are
    /// connected at `connect_rate` before the level's warm-up; those too many are disconnected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1), inner(range(min = 1))))]
    pub devices: Option<Vec<u32>>,
    /// Operations per second of each device of `devices`. Default: 0, idle but for keep-alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_device: Option<AsText<Rate>>,
    /// Open model: connections begun per second, one level each, in place of `levels`. In each the whole population
    /// connects again and stays idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub connect_rates: Option<Vec<AsText<Rate>>>,
    /// After so many levels in a row that missed an objective, no level that is not lower is run any more. Default: all
    /// are run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub stop_after_missed: Option<u16>,
    /// How long it may take to hold listed levels again that decided nothing: undecided, still warming up, a busy host. Each is
    /// held again at most twice, and for longer where that helps. `0s` for never. Default: twice as long as all listed levels
    /// take; never where they end by `messages` or `cycles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<AsText<Nanos>>,
    /// Closed model: operations kept in flight over the whole population, one level each. Default: [1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1), inner(range(min = 1))))]
    pub in_flight: Option<Vec<u32>>,
    /// Closed and partly open model: pause between the end of an operation and the next. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Duration>,
    /// Closed and partly open model, and experiments: after this long an operation is given up and the next begins. Default: 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_timeout: Option<Duration>,
    /// Partly open model: messages of a session. A level of R operations per second has R / messages sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub session_messages: Option<u32>,
    /// Reconnect storm: in each hold a component of the platform is killed and started again, so that all devices come
    /// back at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<Storm>,
    /// Listed levels: time without load before each, in which what the platform's components use is recorded as their baseline. At
    /// most an hour. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_before: Option<Duration>,
    /// Time without load after the last level, in which the platform's components are still observed: what they have not done yet
    /// shows. At most an hour. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Duration>,
    /// Load before each hold that is not counted.
    #[serde(default = "warm_up")]
    pub warm_up: Duration,
    /// Measured time of each level. With `messages` or `cycles`, how long a level may take at most; the default is an hour then.
    #[serde(default = "hold")]
    pub hold: Duration,
    /// Open and closed model: each level ends when so many messages of its hold were due, of all devices together. In the
    /// closed model, it ends when the last of them has come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100_000_000)))]
    pub messages: Option<u32>,
    /// The same as `messages` for each device. In the open model devices must take turns: `arrivals: constant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 100_000_000)))]
    pub cycles: Option<u32>,
    /// Equal parts of the hold, each at least 10 ms long.
    #[serde(default = "samples")]
    #[cfg_attr(test, schemars(range(min = 2, max = 10_000)))]
    pub samples: u16,
    /// Longest wait for stragglers after each hold.
    #[serde(default = "drain")]
    pub drain: Duration,
    /// Connections begun per second before the first level, or before each level of `devices`.
    #[serde(default = "connect_rate")]
    pub connect_rate: AsText<Rate>,
    /// Load threads. Default: one for each core that is left to the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1024)))]
    pub threads: Option<u16>,
    /// Whether a platform on this host has processors of its own (`disjoint`) or all of them (`shared`). With `shared`, load
    /// threads go before it, and it has what they leave. Few processors may need that. Default: disjoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// Open model: how far sending may lag behind due by design. One wake-up sends what falls due within it, and reads what has
    /// arrived. A coarse value costs little processor time, a fine one more. At most a second. Default: 100us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Duration>,
    /// Open model: how long before a due time a load thread watches its clock instead of sleeping. It buys lateness
    /// of a few microseconds with processor time. At most 10 ms. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin: Option<Duration>,
}

fn warm_up() -> Duration {
    AsText(Nanos::from_secs(5))
}

fn hold() -> Duration {
    AsText(Nanos::from_secs(30))
}

fn samples() -> u16 {
    30
}

fn drain() -> Duration {
    AsText(Nanos::from_secs(5))
}

fn connect_rate() -> AsText<Rate> {
    AsText(Rate(500.0))
}

/// How a platform on this host and the load threads divide its processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Processors {
    #[default]
    Disjoint,
    Shared,
}

/// The workload model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkloadModel {
    #[default]
    Open,
    Closed,
    PartlyOpen,
}

impl WorkloadModel {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadModel::Open => "open",
            WorkloadModel::Closed => "closed",
            WorkloadModel::PartlyOpen => "partly open",
        }
    }
}

/// Offered loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Levels {
    // First, because a list of three numbers would also pass for the fields of a range.
    /// One by one.
    List(#[cfg_attr(test, schemars(length(min = 1)))] Vec<AsText<Rate>>),
    /// From one rate to another in equal steps.
    Range(LevelRange),
}

/// From one rate to another in equal steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct LevelRange {
    /// First level.
    pub from: AsText<Rate>,
    /// No level is above this.
    pub to: AsText<Rate>,
    /// Difference between levels.
    pub step: AsText<Rate>,
}
