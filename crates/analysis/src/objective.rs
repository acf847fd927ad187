//! Whether a level meets an objective: its interval must lie inside.

use crate::level::LevelSummary;
use crate::summary::TimeSummary;
use plimsoll_model::Metric;
use plimsoll_model::objective::{Objective, Subject};
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
}

/// Judges one objective.
pub fn judge(objective: &Objective, level: &LevelSummary) -> Standing {
    match objective.subject {
        // A level with fewer devices than the one before connects none, so none was slow.
        Subject::Quantile(Metric::ConnectTime, _) | Subject::Mean(Metric::ConnectTime)
            if level.connects == 0 && level.connect_time.n == 0 =>
        {
            Standing::Met
        }
        Subject::Delivered => judge_count(objective, level.delivered_ratio()),
        Subject::Achieved => judge_count(objective, level.achieved_ratio()),
        Subject::Connected => judge_count(objective, level.connected_ratio()),
        Subject::Quantile(metric, q) => {
            let time = time(level, metric);
            let (value, interval) = time.map(|time| time.quantile(q)).unwrap_or_default();
            if value.is_none() {
                let (has, needs) = (time.map_or(0, |time| time.n), quantile::fewest_observations(q));
                return Standing::Undecided(format!(
                    "{objective} needs {needs} observations, there are {has}: hold longer or offer more"
                ));
            }
            let missing = missing_share(level, metric);
            if missing > 1.0 - q {
                return Standing::Missed(format!(
                    "{:.2} % of what was due never came to its end, more than lies beyond the quantile \
                     (objective {objective})",
                    missing * 100.0
                ));
            }
            judge_sampled(objective, value, interval)
        }
        Subject::Mean(metric) => {
            let Some(time) = time(level, metric) else { return judge_sampled(objective, None, None) };
            if level.overload {
                return Standing::Missed(format!(
                    "{objective}: the level is in overload, a mean does not exist"
                ));
            }
            judge_sampled(objective, time.mean, time.ci95)
        }
    }
}

/// All objectives together: one missed is missed, else one undecided is undecided.
pub fn judge_all(objectives: &[Objective], level: &LevelSummary) -> (Standing, Vec<String>) {
    let standings: Vec<Standing> = objectives.iter().map(|objective| judge(objective, level)).collect();
    let reasons = standings.iter().filter_map(|standing| match standing {
        Standing::Met => None,
        Standing::Missed(reason) | Standing::Undecided(reason) => Some(reason.clone()),
    });
    let worst = standings
        .iter()
        .find(|standing| matches!(standing, Standing::Missed(_)))
        .or_else(|| standings.iter().find(|standing| matches!(standing, Standing::Undecided(_))));
    (worst.cloned().unwrap_or(Standing::Met), reasons.collect())
}

/// Counts are exact: they have no interval.
fn judge_count(objective: &Objective, value: Option<f64>) -> Standing {
    match value {
        None => Standing::Undecided(format!("{objective}: nothing was due")),
        Some(value) if objective.comparison.holds(value, objective.bound) => Standing::Met,
        Some(value) => Standing::Missed(format!("{} (objective {objective})", shown(objective, value))),
    }
}

fn judge_sampled(objective: &Objective, value: Option<f64>, interval: Option<[f64; 2]>) -> Standing {
    let Some(value) = value else {
        return Standing::Undecided(format!("{objective}: too few observations to tell"));
    };
    let holds = |value: f64| objective.comparison.holds(value, objective.bound);
    let Some([lo, hi]) = interval else {
        return Standing::Undecided(format!("{objective}: fewer than two samples, so no interval"));
    };
    match (holds(lo), holds(hi)) {
        (true, true) => Standing::Met,
        (false, false) => Standing::Missed(format!("{} (objective {objective})", shown(objective, value))),
        _ => {
            let (lo, hi) = (objective.subject.show(lo), objective.subject.show(hi));
            let value = shown(objective, value);
            Standing::Undecided(format!("{value}, interval {lo} to {hi} spans the objective {objective}"))
        }
    }
}

/// Share of what was due that has no time from due at all, because it was never acknowledged or never delivered: such a
/// time is longer than any that was seen.
fn missing_share(level: &LevelSummary, metric: Metric) -> f64 {
    match metric {
        Metric::PublishTime if level.due > 0 => {
            (1.0 - level.publish_time.n as f64 / level.due as f64).max(0.0)
        }
        Metric::SubscribeTime => level.delivered_ratio().map_or(0.0, |ratio| (1.0 - ratio).max(0.0)),
        Metric::ConnectTime => level.connected_ratio().map_or(0.0, |ratio| (1.0 - ratio).max(0.0)),
        _ => 0.0,
    }
}

fn shown(objective: &Objective, value: f64) -> String {
    format!("{} {}", objective.subject.key(), objective.subject.show(value))
}

/// The level's summary of a time that objectives may look at.
pub fn time(level: &LevelSummary, metric: Metric) -> Option<&TimeSummary> {
    match metric {
        Metric::PublishTime => Some(&level.publish_time),
        Metric::PublishTimeFromSend => Some(&level.publish_time_from_send),
        Metric::SubscribeTime => Some(&level.subscribe_time),
        Metric::SubscribeTimeFromSend => Some(&level.subscribe_time_from_send),
        Metric::ConnectTime => Some(&level.connect_time),
        Metric::Freshness => Some(&level.freshness),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::objective::Comparison;

    fn p99_below_50_ms() -> Objective {
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        Objective { subject, comparison: Comparison::Below, bound: 0.05 }
    }

    fn level(p99: Option<f64>, interval: [f64; 2]) -> LevelSummary {
        let mut quantiles_ci95 = vec![None; 6];
        quantiles_ci95[4] = Some(interval);
        let publish_time = TimeSummary { p99, quantiles_ci95, ..TimeSummary::default() };
        LevelSummary { publish_time, ..LevelSummary::default() }
    }

    #[test]
    fn the_interval_must_lie_inside_the_objective() {
        let judged = |p99, interval| judge(&p99_below_50_ms(), &level(p99, interval));
        assert_eq!(judged(Some(0.04), [0.03, 0.045]), Standing::Met);
        assert!(matches!(judged(Some(0.04), [0.03, 0.055]), Standing::Undecided(_)));
        assert!(matches!(judged(Some(0.06), [0.055, 0.07]), Standing::Missed(_)));
        assert!(matches!(judged(None, [0.0, 0.0]), Standing::Undecided(_)));
    }

    #[test]
    fn what_was_never_acknowledged_is_slower_than_any_bound() {
        let mut level = level(Some(0.04), [0.03, 0.045]);
        (level.due, level.publish_time.n) = (1000, 989);
        assert!(matches!(judge(&p99_below_50_ms(), &level), Standing::Missed(_)));
        level.publish_time.n = 991;
        assert_eq!(judge(&p99_below_50_ms(), &level), Standing::Met);
    }

    #[test]
    fn a_count_is_exact() {
        let objective =
            Objective { subject: Subject::Delivered, comparison: Comparison::AtLeast, bound: 0.999 };
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
    }

    #[test]
    fn who_never_connected_is_slower_than_any_bound_and_who_need_not_connect_is_not_slow() {
        let subject = Subject::Quantile(Metric::ConnectTime, 0.9);
        let objective = Objective { subject, comparison: Comparison::Below, bound: 1.0 };
        let mut all = plimsoll_model::Histogram::new();
        (1..=800).for_each(|millis| all.record(plimsoll_model::Nanos::from_millis(millis)));
        let connect_time = TimeSummary::of_independent(&all);
        let [lo, hi] = connect_time.quantile(0.9).1.unwrap();
        // 0.9 x 800, less and plus 1.96 x sqrt(800 x 0.9 x 0.1): the order statistics 703 and 737.
        assert!((lo - 0.703).abs() < 0.002 && (hi - 0.737).abs() < 0.002, "{lo} {hi}");
        let mut level = LevelSummary {
            devices: Some(1000),
            connected: Some(950),
            connects: 1000,
            connect_time,
            ..LevelSummary::default()
        };
        assert_eq!(judge(&objective, &level), Standing::Met);
        level.connected = Some(800);
        assert!(matches!(judge(&objective, &level), Standing::Missed(_)));
        let none = LevelSummary { devices: Some(10), connected: Some(10), ..LevelSummary::default() };
        assert_eq!(judge(&objective, &none), Standing::Met);
    }
}
