//! What a load line takes in energy, where the host counts that of its processors.

use crate::gauges::GaugeSummary;
use crate::level::LevelSummary;
use crate::load_line::LoadLine;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The sampler that reads powercap's counters.
const SAMPLER: &str = "energy";
/// How the zones of whole processor packages are named (Documentation/power/powercap of the kernel). Those within a package
/// (cores, graphics, memory) are parts of it, and `psys` holds all packages.
const PACKAGE: &str = "package-";

/// What the host's processors took in the hold of the load line's level: platform, generator and all else.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EnergySummary {
    /// Index of the level.
    pub level: u16,
    /// Mean power of all processor packages, in watts.
    pub watts: f64,
    /// Its 95 % interval, as wide as those of the packages together; null with fewer than two readings.
    pub watts_ci95: Option<[f64; 2]>,
    /// The same without load, before levels; null where the scenario has no such time (`load.idle_before`).
    pub idle_watts: Option<f64>,
    /// Joules for each operation that was achieved; null where none was.
    pub joules_per_operation: Option<f64>,
    /// The same of what it took more than without load; null where that is not known.
    pub joules_per_operation_above_idle: Option<f64>,
}

/// The energy of the load line's level; `None` where there is no load line or the host showed no counter of a package.
pub fn of(
    gauges: &[GaugeSummary],
    levels: &[LevelSummary],
    line: Option<&LoadLine>,
) -> Option<EnergySummary> {
    let index = line?.level;
    let is_package = |gauge: &&GaugeSummary| gauge.sampler == SAMPLER && gauge.quantity.starts_with(PACKAGE);
    let packages: Vec<&GaugeSummary> = gauges.iter().filter(is_package).collect();
    let held = packages.iter().map(|gauge| gauge.levels.iter().find(|own| own.level == index));
    let held = held.collect::<Option<Vec<_>>>().filter(|held| !held.is_empty())?;
    let watts = held.iter().map(|own| own.values.mean).sum();
    let ends: Option<Vec<[f64; 2]>> = held.iter().map(|own| own.values.interval).collect();
    let idle: Option<Vec<f64>> =
        packages.iter().map(|gauge| gauge.idle.as_ref().map(|values| values.mean)).collect();
    let idle_watts = idle.map(|values| values.iter().sum());
    let achieved = levels.iter().find(|level| level.index == index).and_then(|level| level.achieved);
    let achieved = achieved.filter(|rate| *rate > 0.0);
    Some(EnergySummary {
        level: index,
        watts,
        watts_ci95: ends.map(|ends| [0, 1].map(|end| ends.iter().map(|own| own[end]).sum())),
        idle_watts,
        joules_per_operation: achieved.map(|rate| watts / rate),
        joules_per_operation_above_idle: achieved.zip(idle_watts).map(|(rate, idle)| (watts - idle) / rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauges::{GaugeLevel, GaugeValues};

    fn gauge(quantity: &str, idle: Option<f64>, held: f64) -> GaugeSummary {
        let values = |mean: f64| GaugeValues { mean, interval: Some([mean - 1.0, mean + 1.0]), readings: 5 };
        GaugeSummary {
            sampler: SAMPLER.into(),
            subject: "host".into(),
            quantity: quantity.into(),
            unit: "W".into(),
            idle: idle.map(values),
            idle_after: None,
            levels: vec![GaugeLevel { level: 2, values: values(held), max: held }],
        }
    }

    fn line(level: u16) -> LoadLine {
        LoadLine {
            rate: Some(1000.0),
            devices: None,
            connect_rate: None,
            level,
            at_least: false,
            below: None,
            at_most: None,
            limited_by: None,
            next_level: None,
        }
    }

    fn levels() -> Vec<LevelSummary> {
        vec![LevelSummary { achieved: Some(1000.0), index: 2, ..LevelSummary::default() }]
    }

    #[test]
    fn packages_count_and_what_is_part_of_one_or_holds_all_does_not() {
        let gauges = [
            gauge("package-0 intel-rapl:0", Some(10.0), 30.0),
            gauge("core intel-rapl:0:0", Some(5.0), 20.0),
            gauge("package-1 intel-rapl:1", Some(10.0), 15.0),
            gauge("psys intel-rapl:2", Some(30.0), 60.0),
        ];
        let found = of(&gauges, &levels(), Some(&line(2))).unwrap();
        assert_eq!((found.watts, found.watts_ci95, found.idle_watts), (45.0, Some([43.0, 47.0]), Some(20.0)));
        assert_eq!(found.joules_per_operation, Some(0.045));
        assert_eq!(found.joules_per_operation_above_idle, Some(0.025));
    }

    #[test]
    fn nothing_is_said_of_a_level_without_readings_or_of_a_part_that_was_not_idle() {
        let gauges =
            [gauge("package-0 intel-rapl:0", None, 30.0), gauge("package-1 intel-rapl:1", Some(1.0), 5.0)];
        assert_eq!(of(&gauges, &levels(), Some(&line(1))), None);
        assert_eq!(of(&[], &levels(), Some(&line(2))), None);
        assert_eq!(of(&gauges, &levels(), None), None);
        let found = of(&gauges, &levels(), Some(&line(2))).unwrap();
        assert_eq!((found.idle_watts, found.joules_per_operation_above_idle), (None, None));
    }
}
