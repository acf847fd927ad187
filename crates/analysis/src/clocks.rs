//! Times that begin on one clock and end on another one, where workers have the load: how certain they are, and which objectives they
//! cannot decide.

use crate::level::LevelSummary;
use plimsoll_model::Nanos;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{ClockReading, Crossed, WorkerClock};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Share of an objective's bound up to which the clocks of workers may be wrong. The bound of our own lateness is the same.
const SHARE_OF_OBJECTIVE: f64 = 0.1;

/// How the clock of a worker stood to the coordinator's in a level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClockSummary {
    /// The worker.
    pub worker: String,
    /// When the level began.
    pub began: ClockStanding,
    /// When it was closed.
    pub ended: ClockStanding,
}

/// How a clock stood to another one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClockStanding {
    /// The worker's minus the coordinator's, in seconds.
    pub offset: f64,
    /// The offset is no more wrong than this, in seconds, however unequal the two ways of each round trip were.
    pub within: f64,
    /// Parts per million by which the worker's clock is faster.
    pub drift: f64,
    /// Half of the 95 % interval of that; null with fewer than three round trips.
    pub drift_within: Option<f64>,
    /// Round trips so far.
    pub readings: usize,
    /// Whether offset and bound come from the hosts' wall clocks, by the scenario's `clock_bound`.
    pub by_wall_clock: bool,
}

/// Deliveries of which one clock saw the sending and another one the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CrossedSummary {
    /// How many, in the level with its warm-up.
    pub deliveries: u64,
    /// Their times are no more wrong by the clocks than this, in seconds.
    pub within: f64,
}

impl From<&WorkerClock> for ClockSummary {
    fn from(clock: &WorkerClock) -> ClockSummary {
        let WorkerClock { worker, began, ended } = clock;
        ClockSummary { worker: worker.clone(), began: (*began).into(), ended: (*ended).into() }
    }
}

impl From<ClockReading> for ClockStanding {
    fn from(reading: ClockReading) -> ClockStanding {
        let ClockReading { offset, within, drift, drift_within, readings, by_wall_clock } = reading;
        let (offset, within) = (offset.as_secs_f64(), within.as_secs_f64());
        ClockStanding { offset, within, drift, drift_within, readings, by_wall_clock }
    }
}

impl From<Crossed> for CrossedSummary {
    fn from(Crossed { deliveries, within }: Crossed) -> CrossedSummary {
        CrossedSummary { deliveries, within: within.as_secs_f64() }
    }
}

/// By how many seconds the clocks of workers may have moved what an objective looks at, where that matters: by more than a tenth of the
/// objective's bound. Zero where they cannot have.
pub(crate) fn doubt(objective: &Objective, level: &LevelSummary) -> f64 {
    let is_time = matches!(objective.subject, Subject::Quantile(..) | Subject::Mean(_));
    let of_deliveries = is_time && objective.subject.needs_subscribers();
    let within = level.crossed.filter(|_| of_deliveries).map_or(0.0, |crossed| crossed.within);
    if within > objective.bound.abs() * SHARE_OF_OBJECTIVE { within } else { 0.0 }
}

/// Why such an objective is not judged, for people.
pub(crate) fn refusal(objective: &Objective, shown: &str, doubt: f64) -> String {
    format!(
        "{shown} is not judged (objective {objective}): deliveries went from one worker's clock to another's, which are known to within \
         {} of each other; keep the hosts' clocks by chrony or PTP and write `clock_bound`, or let subscribers stand `beside: devices`",
        Nanos::from_secs_f64(doubt)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{Standing, judge};
    use crate::time_summary::{QuantileIntervals, TimeSummary};
    use plimsoll_model::Metric;
    use plimsoll_model::objective::Comparison;

    fn objective(metric: Metric, bound: f64) -> Objective {
        let subject = Subject::Quantile(metric, 0.99);
        Objective { population: None, subject, comparison: Comparison::Below, bound }
    }

    /// What becomes of an objective on a time whose interval is that, where clocks are known to within so much.
    fn judged(metric: Metric, bound: f64, interval: [f64; 2], within: f64) -> Standing {
        let quantiles_ci95 = QuantileIntervals { p99: Some(interval), ..QuantileIntervals::default() };
        let time = TimeSummary { p99: Some(interval[0]), quantiles_ci95, ..TimeSummary::default() };
        let crossed = Some(CrossedSummary { deliveries: 100, within });
        let level = LevelSummary { times: [(metric, time)].into(), crossed, ..LevelSummary::default() };
        judge(&objective(metric, bound), &level)
    }

    #[test]
    fn a_tenth_of_the_bound_is_allowed_and_more_only_where_it_changes_nothing() {
        let subscribe = |interval, within| judged(Metric::SubscribeTime, 0.05, interval, within);
        assert_eq!(subscribe([0.04, 0.048], 0.005), Standing::Met, "a tenth");
        let refused = subscribe([0.04, 0.048], 0.0051);
        let Standing::Refused(why) = refused.clone() else { panic!("{refused:?}") };
        assert!(why.contains("known to within 5.10 ms") && why.contains("clock_bound"), "{why}");
        assert_eq!(subscribe([0.01, 0.02], 0.02), Standing::Met, "it is far enough inside");
        assert!(matches!(subscribe([0.08, 0.09], 0.02), Standing::Missed(_)), "and far enough outside");
        assert!(matches!(subscribe([0.055, 0.06], 0.02), Standing::Refused(_)));
        assert!(
            matches!(subscribe([0.045, 0.055], 0.02), Standing::Undecided(_)),
            "the interval alone says nothing"
        );
    }

    #[test]
    fn times_of_one_clock_are_judged_whatever_the_others_do() {
        assert_eq!(judged(Metric::PublishTime, 0.05, [0.04, 0.045], 10.0), Standing::Met);
        assert!(matches!(
            judged(Metric::SubscribeTimeFromSend, 0.05, [0.04, 0.045], 10.0),
            Standing::Refused(_)
        ));
    }
}
