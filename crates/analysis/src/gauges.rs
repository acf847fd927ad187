//! What observers saw, level by level, whatever they look at.

use plimsoll_model::Nanos;
use plimsoll_model::record::{Gauge, LevelRecord, LevelStart};
use plimsoll_stats::student::mean_interval;
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
    /// Their mean.
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
            series.values.push((gauge.at, gauge.value));
        }
    }
    series.into_iter().map(|series| series.summary(levels)).collect()
}

/// All values of one quantity.
struct Series<'a> {
    first: &'a Gauge,
    values: Vec<(Nanos, f64)>,
}

impl Series<'_> {
    fn summary(&self, levels: &[LevelRecord]) -> GaugeSummary {
        let Gauge { sampler, subject, quantity, unit, .. } = self.first;
        let idle: Vec<(Nanos, Nanos)> = levels.iter().filter_map(|level| level.start.idle).collect();
        let end = LevelRecord::last_end(levels);
        let is_idle = |at: Nanos| idle.iter().any(|&(begin, end)| at > begin && at <= end);
        GaugeSummary {
            sampler: sampler.clone(),
            subject: subject.clone(),
            quantity: quantity.clone(),
            unit: unit.clone(),
            idle: GaugeValues::of(&self.within(is_idle)),
            idle_after: end.and_then(|end| GaugeValues::of(&self.within(|at| at > end))),
            levels: levels.iter().filter_map(|level| self.in_hold(&level.start)).collect(),
        }
    }

    fn in_hold(&self, start: &LevelStart) -> Option<GaugeLevel> {
        let values = self.within(|at| at > start.hold_start && at <= start.hold_start + start.hold);
        let max = values.iter().copied().fold(f64::MIN, f64::max);
        Some(GaugeLevel { level: start.index, values: GaugeValues::of(&values)?, max })
    }

    fn within(&self, span: impl Fn(Nanos) -> bool) -> Vec<f64> {
        self.values.iter().filter(|(at, _)| span(*at)).map(|(_, value)| *value).collect()
    }
}

impl GaugeValues {
    fn of(values: &[f64]) -> Option<GaugeValues> {
        let readings = values.len();
        (readings > 0).then(|| GaugeValues {
            mean: values.iter().sum::<f64>() / readings as f64,
            interval: mean_interval(values).map(|interval| [interval.lo, interval.hi]),
            readings,
        })
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
}
