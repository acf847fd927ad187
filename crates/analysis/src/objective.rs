//! Whether a level meets an objective: its interval must lie inside.

use crate::achieved::Side;
use crate::censored::NEVER;
use crate::clocks;
use crate::faults;
use crate::level::LevelSummary;
use crate::time_summary::TimeSummary;
use plimsoll_model::Metric;
use plimsoll_model::objective::{Comparison, Objective, Subject};
use plimsoll_model::record::LevelRecord;
use plimsoll_model::text::grouped;
use plimsoll_stats::quantile;

/// What a level is with respect to one objective, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Inside the objective.
    Met,
    /// Outside it: the reason.
    Missed(String),
    /// The measurement is too short to tell: the reason.
    Undecided(String),
    /// The clocks of workers are too far apart to tell: the reason.
    Refused(String),
}

/// What an objective looks at: the level, or one of its populations.
pub fn about<'a>(
    objective: &Objective,
    level: &'a LevelSummary,
    record: &'a LevelRecord,
) -> (&'a LevelSummary, &'a LevelRecord) {
    let own = level.populations.iter().position(|own| Some(&own.name) == objective.population.as_ref());
    let own =
        own.and_then(|place| Some((&*level.populations.get(place)?.figures, record.populations.get(place)?)));
    own.unwrap_or((level, record))
}

/// Judges one objective by the level's figures.
pub fn judge(objective: &Objective, level: &LevelSummary) -> Standing {
    let level = level.about(objective);
    match objective.subject {
        // A level with fewer devices than the one before connects none, so none was slow.
        Subject::Quantile(Metric::ConnectTime, _) | Subject::Mean(Metric::ConnectTime)
            if level.connects == 0 && level.times[Metric::ConnectTime].n == 0 =>
        {
            Standing::Met
        }
        Subject::Delivered => judge_count(objective, level.delivered_ratio()),
        Subject::Achieved => judge_achieved(objective, level),
        Subject::Connected => judge_count(objective, level.connected_ratio()),
        Subject::FaultRecovery => faults::judge(objective, level),
        Subject::Quantile(metric, q) => {
            let time = level.with_censored.get(&metric).or_else(|| time(level, metric));
            let (value, interval) = time.map(|time| time.quantile(q)).unwrap_or_default();
            if value.is_none() {
                let [has, needs] = [time.map_or(0, |time| time.n), quantile::fewest_observations(q)]
                    .map(|count| grouped(count as f64));
                return Standing::Undecided(format!(
                    "{objective} needs {needs} observations, there are {has}: hold longer or offer more"
                ));
            }
            // How many are missing is an exact count, whatever an interval says.
            if value.is_some_and(|value| value >= NEVER.as_secs_f64()) {
                return Standing::Missed(format!(
                    "too many operations never completed for {objective} to be met"
                ));
            }
            judge_sampled(objective, value, interval, clocks::doubt(objective, level))
        }
        Subject::Mean(metric) => {
            let Some(time) = time(level, metric) else { return judge_sampled(objective, None, None, 0.0) };
            if level.overload {
                return Standing::Missed(format!(
                    "{objective}: the level is in overload, a mean does not exist"
                ));
            }
            judge_sampled(objective, time.mean, time.ci95, clocks::doubt(objective, level))
        }
    }
}

impl Standing {
    /// Why it is not met.
    pub fn reason(&self) -> Option<String> {
        match self {
            Standing::Met => None,
            Standing::Missed(reason) | Standing::Undecided(reason) | Standing::Refused(reason) => {
                Some(reason.clone())
            }
        }
    }
}

/// The share that a platform kept up with has an interval, whatever was under way when the hold began and ended.
fn judge_achieved(objective: &Objective, level: &LevelSummary) -> Standing {
    let side = match objective.comparison {
        Comparison::AtLeast | Comparison::Above => level.achievement.side(objective.bound),
        // Nobody wants less.
        Comparison::AtMost | Comparison::Below => return judge_count(objective, level.achieved_ratio()),
    };
    let Some(value) = level.achieved_ratio() else { return judge_count(objective, None) };
    let at_last = level.achievement.at_last.filter(|at_last| *at_last < objective.bound);
    match (side, level.achievement.ci95) {
        (Side::Inside, _) => Standing::Met,
        (Side::Outside, _) => Standing::Missed(format!(
            "{} (objective {objective})",
            shown(objective, at_last.unwrap_or(value))
        )),
        (Side::Open, Some([lo, hi])) => {
            let (lo, hi) = (at(objective, lo), at(objective, hi));
            let value = shown(objective, value);
            Standing::Undecided(format!("{value}, interval {lo} to {hi} spans the objective {objective}"))
        }
        (Side::Open, None) => Standing::Undecided(format!("{objective}: too few samples for an interval")),
    }
}

/// Counts are exact: they have no interval.
fn judge_count(objective: &Objective, value: Option<f64>) -> Standing {
    match value {
        None => Standing::Undecided(format!("{objective}: nothing was due")),
        Some(value) if objective.comparison.holds(value, objective.bound) => Standing::Met,
        Some(value) => Standing::Missed(format!("{} (objective {objective})", shown(objective, value))),
    }
}

/// `doubt` is by how much clocks may have moved the values: both ends of the interval, with that, must lie on one side.
fn judge_sampled(
    objective: &Objective,
    value: Option<f64>,
    interval: Option<[f64; 2]>,
    doubt: f64,
) -> Standing {
    let Some(value) = value else {
        return Standing::Undecided(format!("{objective}: too few observations"));
    };
    let holds = |value: f64| objective.comparison.holds(value, objective.bound);
    let Some([lo, hi]) = interval else {
        return Standing::Undecided(format!("{objective}: fewer than two samples, so no interval"));
    };
    let is_doubtful = holds(lo - doubt) != holds(hi + doubt);
    match (holds(lo), holds(hi)) {
        (one, other) if one == other && is_doubtful => {
            Standing::Refused(clocks::refusal(objective, &shown(objective, value), doubt))
        }
        (true, true) => Standing::Met,
        (false, false) => Standing::Missed(format!("{} (objective {objective})", shown(objective, value))),
        _ => {
            let (lo, hi) = (at(objective, lo), at(objective, hi));
            let value = shown(objective, value);
            Standing::Undecided(format!("{value}, interval {lo} to {hi} spans the objective {objective}"))
        }
    }
}

fn shown(objective: &Objective, value: f64) -> String {
    format!("{} {}", objective.key(), at(objective, value))
}

/// A value for people; one that stands for a time without an end says so.
fn at(objective: &Objective, value: f64) -> String {
    let is_time = matches!(objective.subject, Subject::Quantile(..) | Subject::Mean(_));
    if is_time && value >= NEVER.as_secs_f64() {
        "without end".to_owned()
    } else {
        objective.subject.show(value)
    }
}

/// The level's summary of a time that objectives may look at.
pub fn time(level: &LevelSummary, metric: Metric) -> Option<&TimeSummary> {
    metric.row().objective.map(|_| &level.times[metric])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_summary::QuantileIntervals;
    use plimsoll_model::objective::Objectives;
    use plimsoll_model::record::{LevelEnd, LevelRecord, LevelStart, SampleRecord, Terms};
    use plimsoll_model::{Counts, Histogram, Load, Nanos};

    fn p99_below_50_ms() -> Objective {
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        Objective { population: None, subject, comparison: Comparison::Below, bound: 0.05 }
    }

    fn level(p99: Option<f64>, interval: [f64; 2]) -> LevelSummary {
        let quantiles_ci95 = QuantileIntervals { p99: Some(interval), ..QuantileIntervals::default() };
        let publish_time = TimeSummary { p99, quantiles_ci95, ..TimeSummary::default() };
        LevelSummary { times: [(Metric::PublishTime, publish_time)].into(), ..LevelSummary::default() }
    }

    #[test]
    fn the_interval_must_lie_inside_the_objective() {
        let judged = |p99, interval| judge(&p99_below_50_ms(), &level(p99, interval));
        assert_eq!(judged(Some(0.04), [0.03, 0.045]), Standing::Met);
        assert!(matches!(judged(Some(0.04), [0.03, 0.055]), Standing::Undecided(_)));
        assert!(matches!(judged(Some(0.06), [0.055, 0.07]), Standing::Missed(_)));
        assert!(matches!(judged(None, [0.0, 0.0]), Standing::Undecided(_)));
    }

    /// A level of ten samples with a hundred messages due in each, of which so many were never acknowledged; the times of
    /// the others are 1 to 100 ms less their number.
    fn with_unacknowledged(missing: u64) -> Standing {
        let sample = || {
            let mut times = Histogram::new();
            (1..=100 - missing as i64).for_each(|millis| times.record(Nanos::from_millis(millis)));
            let counts = Counts { due: 100, sent: 100, acknowledged: 100 - missing, ..Counts::default() };
            SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() }
        };
        let p90 = Subject::Quantile(Metric::PublishTime, 0.9);
        let objective =
            Objective { population: None, subject: p90, comparison: Comparison::Below, bound: 0.0915 };
        let terms = Terms {
            qos: 1,
            objectives: Objectives { level: vec![objective.clone()], load_line: None },
            ..Terms::default()
        };
        let record = LevelRecord {
            populations: Vec::new(),
            start: LevelStart {
                load: Load::Rate(100.0),
                hold: Nanos::from_secs(10),
                samples: 10,
                ..LevelStart::default()
            },
            end: Some(LevelEnd { at: Nanos::from_secs(11), ..LevelEnd::default() }),
            warm_up: SampleRecord::default(),
            samples: (0..10).map(|_| Some(sample())).collect(),
            threads: Vec::new(),
        };
        judge(&objective, &crate::summarize_level(&record, &terms, &[]))
    }

    #[test]
    fn what_was_never_acknowledged_is_slower_than_any_bound_and_shifts_the_rank() {
        // The 90th of 100 is 90 ms whether the last ten came or not.
        assert_eq!(with_unacknowledged(0), Standing::Met);
        assert_eq!(with_unacknowledged(10), Standing::Met);
        let Standing::Missed(reason) = with_unacknowledged(11) else { panic!("the 90th never came") };
        assert!(reason.contains("too many operations never completed for publish_p90"), "{reason}");
        assert!(matches!(with_unacknowledged(100), Standing::Missed(_)), "nothing was ever acknowledged");
    }

    #[test]
    fn a_count_is_exact() {
        let objective = Objective {
            population: None,
            subject: Subject::Delivered,
            comparison: Comparison::AtLeast,
            bound: 0.999,
        };
        let level = |delivered| LevelSummary {
            due: 1000,
            sent: 1000,
            expected_deliveries: 2000,
            delivered,
            ..LevelSummary::default()
        };
        assert_eq!(judge(&objective, &level(1998)), Standing::Met);
        assert_eq!(
            judge(&objective, &level(1997)),
            Standing::Missed("delivered 99.85 % (objective delivered >= 99.9 %)".into())
        );
        // What the contract allows to be left out is not owed; what is lost besides is.
        let superseded = |delivered| LevelSummary { superseded: 1000, ..level(delivered) };
        assert_eq!(judge(&objective, &superseded(999)), Standing::Met);
        assert!(matches!(judge(&objective, &superseded(998)), Standing::Missed(_)));
    }

    #[test]
    fn who_never_connected_is_slower_than_any_bound_and_who_need_not_connect_is_not_slow() {
        let subject = Subject::Quantile(Metric::ConnectTime, 0.9);
        let objective = Objective { population: None, subject, comparison: Comparison::Below, bound: 1.0 };
        let mut all = plimsoll_model::Histogram::new();
        (1..=800).for_each(|millis| all.record(plimsoll_model::Nanos::from_millis(millis)));
        let connect_time = TimeSummary::of_independent(&all);
        let [lo, hi] = connect_time.quantile(0.9).1.unwrap();
        // 0.9 x 800, less and plus 1.96 x sqrt(800 x 0.9 x 0.1): the order statistics 703 and 737.
        assert!((lo - 0.703).abs() < 0.002 && (hi - 0.737).abs() < 0.002, "{lo} {hi}");
        let mut level = LevelSummary {
            load: Load::Devices { devices: 1000, rate: None },
            connected: Some(950),
            connects: 1000,
            times: [(Metric::ConnectTime, connect_time)].into(),
            ..LevelSummary::default()
        };
        assert_eq!(judge(&objective, &level), Standing::Met);
        // A hundred more that never came: the 90 % quantile of all is none of those that did.
        all.record_n(NEVER, 100);
        level.with_censored.insert(Metric::ConnectTime, TimeSummary::of_independent(&all));
        assert!(matches!(judge(&objective, &level), Standing::Missed(_)));
        let none = LevelSummary {
            load: Load::Devices { devices: 10, rate: None },
            connected: Some(10),
            ..LevelSummary::default()
        };
        assert_eq!(judge(&objective, &none), Standing::Met);
    }
}
