//! What observers saw, level by level, whatever they look at.

use plimsoll_model::record::{Gauge, LevelRecord, LevelStart};
use schemars::JsonSchema;
use serde::Serialize;

/// A quantity that an observer saw.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GaugeSummary {
    /// The observer, such as `pressure`.
    pub sampler: String,
    /// Of what: `host`, or a component.
    pub subject: String,
    /// Which quantity, such as `io`.
    pub quantity: String,
    /// The unit of its values: `share` (of one), `bytes`, `1/s`, `seconds`.
    pub unit: String,
    /// Its values in the hold of each level that it was seen in.
    pub levels: Vec<GaugeLevel>,
}

/// The values of a quantity in the hold of one level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GaugeLevel {
    /// The level's number within the run.
    pub level: u16,
    /// Mean of the values.
    pub mean: f64,
    /// The largest of them.
    pub max: f64,
    /// How many there are.
    pub readings: usize,
}

/// All quantities, in the order in which they were seen first.
pub fn of(gauges: &[Gauge], levels: &[LevelRecord]) -> Vec<GaugeSummary> {
    let mut summaries: Vec<GaugeSummary> = Vec::new();
    for gauge in gauges {
        if !summaries.iter().any(|known| known.is_of(gauge)) {
            summaries.push(GaugeSummary {
                sampler: gauge.sampler.clone(),
                subject: gauge.subject.clone(),
                quantity: gauge.quantity.clone(),
                unit: gauge.unit.clone(),
                levels: Vec::new(),
            });
        }
    }
    for summary in &mut summaries {
        summary.levels = levels.iter().filter_map(|level| summary.in_hold(gauges, &level.start)).collect();
    }
    summaries
}

impl GaugeSummary {
    fn is_of(&self, gauge: &Gauge) -> bool {
        (&self.sampler, &self.subject, &self.quantity) == (&gauge.sampler, &gauge.subject, &gauge.quantity)
    }

    fn in_hold(&self, gauges: &[Gauge], start: &LevelStart) -> Option<GaugeLevel> {
        let within =
            |gauge: &&Gauge| gauge.at > start.hold_start && gauge.at <= start.hold_start + start.hold;
        let values = gauges.iter().filter(within).filter(|gauge| self.is_of(gauge)).map(|gauge| gauge.value);
        let values: Vec<f64> = values.collect();
        let readings = values.len();
        (readings > 0).then(|| GaugeLevel {
            level: start.index,
            mean: values.iter().sum::<f64>() / readings as f64,
            max: values.iter().copied().fold(f64::MIN, f64::max),
            readings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

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
        assert_eq!((io.level, io.max, io.readings), (0, 0.3, 2));
        assert!((io.mean - 0.2).abs() < 1e-9);
    }
}
