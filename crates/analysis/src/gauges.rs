//! What observers saw, level by level, whatever they look at.
//!
//! A value stands for the time since the value before it: readings are not taken at equal distances where an observer is kept
//! waiting, and a rate is that of the time since the reading before.

use plimsoll_model::Nanos;
use plimsoll_model::record::{Gauge, LevelRecord, LevelStart};
use plimsoll_stats::student::weighted_mean;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// A quantity that an observer saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GaugeSummary {
    /// The observer, such as `pressure`.
    pub sampler: String,
    /// Of what: `host`, or a component.
    pub subject: String,
    /// Which quantity, such as `io`.
    pub quantity: String,
    /// The unit of its values: `share` (of one), `processors`, `count`, `bytes`, `bytes/s`, `1/s`, `seconds`, `W`.
    pub unit: String,
    /// Its values in the times without load before levels; null where the scenario has none (`load.idle_before`).
    pub idle: Option<GaugeValues>,
    /// Its values in the time without load after the last level; null where there is none (`load.idle_after`).
    pub idle_after: Option<GaugeValues>,
    /// Its values in the hold of each level that it was seen in.
    pub levels: Vec<GaugeLevel>,
}

/// The values of a quantity in the hold of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GaugeLevel {
    /// The level's number within the run.
    pub level: u16,
    /// All of them.
    #[serde(flatten)]
    pub values: GaugeValues,
    /// The largest of them.
    pub max: f64,
}

/// Some values of a quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GaugeValues {
    /// Their mean; each counts as much as the time since the value before it.
    pub mean: f64,
    /// Its 95 % interval over batches of consecutive values; null with fewer than two values.
    pub interval: Option<[f64; 2]>,
    /// How many values there are.
    pub readings: usize,
}

/// All quantities, in the order in which they were seen first.
pub fn of(gauges: &[Gauge], levels: &[LevelRecord]) -> Vec<GaugeSummary> {
    let mut places: HashMap<[&str; 3], usize> = HashMap::new();
    let mut series: Vec<Series<'_>> = Vec::new();
    for gauge in gauges {
        let name = [gauge.sampler.as_str(), &gauge.subject, &gauge.quantity];
        let place = *places.entry(name).or_insert(series.len());
        if place == series.len() {
            series.push(Series { first: gauge, values: Vec::new() });
        }
        if let Some(series) = series.get_mut(place) {
            let since = series.values.last().map(|last| last.at);
            series.values.push(Value { since, at: gauge.at, value: gauge.value });
        }
    }
    series.into_iter().map(|series| series.summary(levels)).collect()
}

/// The sampler of what the platform itself reports.
pub const REPORTED: &str = "metrics";

/// All values of one quantity.
struct Series<'a> {
    first: &'a Gauge,
    values: Vec<Value>,
}

/// A value, with the time that it stands for.
#[derive(Clone, Copy)]
struct Value {
    /// When the quantity was seen before; `None` for the first value.
    since: Option<Nanos>,
    at: Nanos,
    value: f64,
}

impl Series<'_> {
    fn summary(&self, levels: &[LevelRecord]) -> GaugeSummary {
        let Gauge { sampler, subject, quantity, unit, .. } = self.first;
        let idle: Vec<(Nanos, Nanos)> = levels.iter().filter_map(|level| level.start.idle).collect();
        let end = LevelRecord::last_end(levels);
        GaugeSummary {
            sampler: sampler.clone(),
            subject: subject.clone(),
            quantity: quantity.clone(),
            unit: unit.clone(),
            idle: GaugeValues::of(&self.within(&idle)).map(|values| self.bounded(values)),
            idle_after: end
                .and_then(|end| GaugeValues::of(&self.within(&[(end, Nanos(i64::MAX))])))
                .map(|values| self.bounded(values)),
            levels: levels.iter().filter_map(|level| self.in_hold(&level.start)).collect(),
        }
    }

    fn in_hold(&self, start: &LevelStart) -> Option<GaugeLevel> {
        let values = self.within(&[(start.hold_start, start.hold_start + start.hold)]);
        let max = values.iter().map(|(value, _)| *value).fold(f64::MIN, f64::max);
        Some(GaugeLevel { level: start.index, values: self.bounded(GaugeValues::of(&values)?), max })
    }

    /// Nothing that observers read is below zero, and no mean of it. What the platform itself reports may be anything.
    fn bounded(&self, values: GaugeValues) -> GaugeValues {
        let may_be_negative = self.first.sampler == REPORTED;
        let interval =
            values.interval.map(|[lo, hi]| if may_be_negative { [lo, hi] } else { [lo.max(0.0), hi] });
        GaugeValues { interval, ..values }
    }

    /// The values of some spans of time, each with the seconds that it stands for. Those that also stand for time before a span
    /// are left out if there are others: a rate may have been another one there.
    fn within(&self, spans: &[(Nanos, Nanos)]) -> Vec<(f64, f64)> {
        let of_span = |&(begin, end): &(Nanos, Nanos)| {
            let inside = self.values.iter().filter(move |value| value.at > begin && value.at <= end);
            inside.map(move |value| {
                let since = value.since.map_or(begin, |since| since.max(begin));
                let whole = value.since.is_some_and(|since| since >= begin);
                (whole, (value.value, (value.at - since).as_secs_f64()))
            })
        };
        let all: Vec<(bool, (f64, f64))> = spans.iter().flat_map(of_span).collect();
        let any_whole = all.iter().any(|(whole, _)| *whole);
        all.into_iter().filter(|(whole, _)| *whole || !any_whole).map(|(_, value)| value).collect()
    }
}

impl GaugeValues {
    /// Of values with the seconds that each stands for.
    fn of(weighted: &[(f64, f64)]) -> Option<GaugeValues> {
        let (mean, interval) = weighted_mean(weighted)?;
        let interval = interval.map(|interval| [interval.lo, interval.hi]);
        Some(GaugeValues { mean, interval, readings: weighted.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_the_hold_in_which_they_were_seen() {
        let gauge = |at: i64, quantity: &str, value: f64| Gauge {
            at: Nanos::from_secs(at),
            sampler: "pressure".into(),
            subject: "host".into(),
            quantity: quantity.into(),
            unit: "share".into(),
            value,
        };
        let level = |index: u16, begin: i64| LevelRecord {
            start: LevelStart {
                index,
                idle: Some((Nanos::from_secs(begin - 1), Nanos::from_secs(begin))),
                hold_start: Nanos::from_secs(begin),
                hold: Nanos::from_secs(2),
                ..LevelStart::default()
            },
            ..LevelRecord::default()
        };
        let gauges = vec![
            gauge(1, "io", 9.0),
            gauge(2, "io", 0.1),
            gauge(3, "io", 0.3),
            gauge(3, "cpu", 0.5),
            gauge(9, "io", 0.7),
        ];
        let levels = [level(0, 1), level(1, 5)];
        let summaries: Vec<GaugeSummary> = of(&gauges, &levels);
        assert_eq!(summaries.iter().map(|one| one.quantity.as_str()).collect::<Vec<_>>(), ["io", "cpu"]);
        let [io] = summaries[0].levels.as_slice() else { panic!("{:?}", summaries[0]) };
        assert_eq!((io.level, io.max, io.values.readings), (0, 0.3, 2));
        assert!((io.values.mean - 0.2).abs() < 1e-9);
        let [lo, hi] = io.values.interval.unwrap();
        assert!(lo < 0.2 && hi > 0.2, "{io:?}");
        let idle = summaries[0].idle.as_ref().unwrap();
        assert_eq!(
            (idle.mean, idle.readings, idle.interval),
            (9.0, 1, None),
            "that of 1 s, before the first level"
        );
        assert_eq!(summaries[1].idle, None);
    }

    /// The observer was kept waiting for three seconds: what it saw then stands for three.
    #[test]
    fn a_value_stands_for_the_time_since_the_one_before_and_not_for_time_before_the_hold() {
        let gauge = |at: f64, value: f64| Gauge {
            at: Nanos::from_secs_f64(at),
            sampler: "tcp".into(),
            subject: "broker".into(),
            quantity: "sent".into(),
            unit: "bytes/s".into(),
            value,
        };
        let start = LevelStart {
            hold_start: Nanos::from_secs(10),
            hold: Nanos::from_secs(6),
            ..LevelStart::default()
        };
        let levels = [LevelRecord { start, ..LevelRecord::default() }];
        let mean = |gauges: &[Gauge]| of(gauges, &levels).remove(0).levels.remove(0).values.mean;
        // The reading at 10.5 is mostly of the time before.
        let readings = [(9.5, 9.0), (10.5, 9.0), (11.5, 1.0), (14.5, 3.0), (15.5, 1.0), (16.5, 9.0)];
        let gauges: Vec<Gauge> = readings.map(|(at, value)| gauge(at, value)).to_vec();
        assert!((mean(&gauges) - 2.2).abs() < 1e-9, "{}", mean(&gauges));
        assert_eq!(mean(&gauges[..2]), 9.0, "better than none");
        assert_eq!(mean(&gauges[2..3]), 1.0, "nothing was seen before");
    }
}
