//! What more devices take than any run had: a bound by what each further one took, and never an interval, since nobody saw so many.

use super::Basis;
use crate::usage;
use plimsoll_model::Load;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use plimsoll_model::text::grouped;
use plimsoll_stats::regression::{self, Point};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// So many numbers of devices show a slope with its interval.
const NUMBERS: usize = 3;

/// What so many devices take of a component as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DeviceBound {
    /// The component.
    pub component: String,
    /// Which quantity.
    pub quantity: DeviceQuantity,
    /// The fewest and the most devices of which it was read.
    pub between: [u32; 2],
    /// What each further device takes at least: the lower end of the 95 % interval of the slope.
    pub each: f64,
    /// What the wanted devices take at least, if each takes as much.
    pub least: f64,
    /// What the component may have; null where that is not known.
    pub limit: Option<f64>,
    /// The most devices with which it stays below that limit; null where that is not known.
    pub most_devices: Option<u32>,
}

/// What connections take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceQuantity {
    /// Resident memory, in bytes.
    Memory,
    /// Open file descriptors.
    Descriptors,
}

impl DeviceQuantity {
    const ALL: [DeviceQuantity; 2] = [DeviceQuantity::Memory, DeviceQuantity::Descriptors];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceQuantity::Memory => "memory",
            DeviceQuantity::Descriptors => "descriptors",
        }
    }

    fn of(self, usage: &ComponentUsage) -> Option<f64> {
        match self {
            DeviceQuantity::Memory => Some(usage.rss as f64),
            DeviceQuantity::Descriptors => usage.descriptors.map(|count| count as f64),
        }
    }
}

/// What so many devices take at least, and what is not known of it, for people.
pub fn beyond(basis: &[Basis<'_>], devices: u32) -> (Vec<DeviceBound>, Vec<String>) {
    let names: BTreeSet<&str> = basis.iter().flat_map(|run| usage::names(&run.record.components)).collect();
    let (mut bounds, mut steady, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for quantity in DeviceQuantity::ALL {
        for name in &names {
            let seen = readings(basis, name, quantity);
            let of = || format!("{} of {name}", quantity.name());
            match slope(&seen) {
                Some(each) if each > 0.0 => {
                    bounds.extend(bound(&seen, each, devices, quantity, name, limit(basis, name, quantity)));
                }
                Some(_) => steady.push(of()),
                None => unseen.push(of()),
            }
        }
    }
    let mut open = Vec::new();
    if !steady.is_empty() {
        open.push(format!(
            "what did not grow for certain with the devices has no bound for {}: {}",
            grouped(f64::from(devices)),
            steady.join(", ")
        ));
    }
    if !unseen.is_empty() || names.is_empty() {
        let what = if names.is_empty() { "memory and descriptors".to_owned() } else { unseen.join(", ") };
        open.push(format!(
            "what a device takes is not known: {what}. Runs with {NUMBERS} numbers of devices show it, as of `plimsoll sweep SCENARIO --set \
             'matrix.population.devices=[500, 1000, 2000, 4000]'`"
        ));
    }
    open.push(
        "ports between components were not counted: a proxy has at most 64,511 connections from one of its addresses to one port"
            .to_owned(),
    );
    (bounds, open)
}

/// What a component had with each number of devices: the least at the ends of holds, which is what stays when messages have come and
/// gone.
fn readings(basis: &[Basis<'_>], name: &str, quantity: DeviceQuantity) -> BTreeMap<u32, f64> {
    let mut seen: BTreeMap<u32, f64> = BTreeMap::new();
    for Basis { record, summary } in basis {
        for (level, own) in record.levels.iter().zip(&summary.levels) {
            let connected = match own.load {
                Load::Rate(_) | Load::InFlight(_) => Some(record.terms.devices),
                Load::Devices { .. } => own.connected,
                Load::ConnectRate { .. } => None,
            };
            let last = at_end(&record.components, name, &level.start).and_then(|usage| quantity.of(usage));
            if let Some((devices, value)) = connected.zip(last).filter(|_| own.finished) {
                let least = seen.entry(devices).or_insert(value);
                *least = least.min(value);
            }
        }
    }
    seen
}

/// The last reading of a component within a level's hold.
fn at_end<'a>(
    components: &'a [ComponentUsage],
    name: &str,
    level: &LevelStart,
) -> Option<&'a ComponentUsage> {
    let hold = level.hold_start..=level.hold_start + level.hold;
    components.iter().rev().filter(|usage| usage.component == name).find(|usage| hold.contains(&usage.at))
}

/// What a further device takes at least; `None` with too few numbers of devices.
fn slope(seen: &BTreeMap<u32, f64>) -> Option<f64> {
    let points = seen.iter().map(|(devices, value)| Point { x: f64::from(*devices), y: *value, weight: 1.0 });
    let points: Vec<Point> = points.collect();
    let line = regression::line(&points).filter(|_| points.len() >= NUMBERS)?;
    line.slope_interval.map(|interval| interval.lo)
}

fn bound(
    seen: &BTreeMap<u32, f64>,
    each: f64,
    devices: u32,
    quantity: DeviceQuantity,
    name: &str,
    limit: Option<f64>,
) -> Option<DeviceBound> {
    let ((fewest, _), (most, at)) = seen.first_key_value().zip(seen.last_key_value())?;
    let further = f64::from(devices.saturating_sub(*most));
    // A number too large for its type becomes the largest of that.
    let most_devices = limit.map(|limit| (f64::from(*most) + ((limit - at) / each).max(0.0)).floor() as u32);
    Some(DeviceBound {
        component: name.to_owned(),
        quantity,
        between: [*fewest, *most],
        each,
        least: at + each * further,
        limit,
        most_devices,
    })
}

/// The memory that the control group of a component lets it have, else that of the instance type that it is on.
fn limit(basis: &[Basis<'_>], name: &str, quantity: DeviceQuantity) -> Option<f64> {
    if quantity != DeviceQuantity::Memory {
        return None;
    }
    let of_group = basis.iter().flat_map(|run| &run.record.gauges).filter(|gauge| {
        (gauge.sampler.as_str(), gauge.quantity.as_str()) == ("cgroup", "memory limit")
            && gauge.subject == name
    });
    let of_type = || {
        let cost = basis.first()?.record.terms.cost.as_ref()?;
        let on = cost.priced.iter().find(|part| part.name == name)?.on.as_ref()?;
        Some(cost.types.iter().find(|kind| kind.name == *on)?.memory? as f64)
    };
    of_group.map(|gauge| gauge.value).reduce(f64::max).or_else(of_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LevelSummary;
    use crate::summary::Summary;
    use plimsoll_model::Nanos;
    use plimsoll_model::record::{Gauge, LevelRecord, RunRecord};

    const MEBIBYTE: f64 = 1_048_576.0;

    /// A run with so many devices, whose store has so much memory.
    fn run(devices: u32, memory: f64) -> (RunRecord, Summary) {
        let mut record = RunRecord::default();
        record.terms.devices = devices;
        let start = LevelStart {
            hold_start: Nanos::from_secs(10),
            hold: Nanos::from_secs(10),
            ..LevelStart::default()
        };
        record.levels = vec![LevelRecord { start, ..LevelRecord::default() }];
        let usage = |at: i64, rss: f64| ComponentUsage {
            component: "store".into(),
            at: Nanos::from_secs(at),
            rss: rss as u64,
            descriptors: Some(u64::from(devices) + 20),
            ..ComponentUsage::default()
        };
        // What is read after the hold does not count.
        record.components = vec![usage(12, 9e9), usage(20, memory), usage(21, 9e9)];
        let level = LevelSummary { load: Load::Rate(100.0), finished: true, ..LevelSummary::default() };
        let summary = Summary { levels: vec![level], ..crate::summarize(&RunRecord::default()) };
        (record, summary)
    }

    fn found(runs: &[(RunRecord, Summary)], devices: u32) -> (Vec<DeviceBound>, Vec<String>) {
        let basis: Vec<Basis<'_>> = runs.iter().map(|(record, summary)| Basis { record, summary }).collect();
        beyond(&basis, devices)
    }

    #[test]
    fn devices_that_nobody_saw_take_at_least_what_each_further_one_took() {
        let memory = |devices: u32| 50.0 * MEBIBYTE + 2048.0 * f64::from(devices);
        let mut runs: Vec<_> =
            [500, 1000, 2000, 4000].into_iter().map(|devices| run(devices, memory(devices))).collect();
        runs[0].0.gauges.push(Gauge {
            at: Nanos::from_secs(15),
            sampler: "cgroup".into(),
            subject: "store".into(),
            quantity: "memory limit".into(),
            unit: "bytes".into(),
            value: 1024.0 * MEBIBYTE,
        });
        let (bounds, open) = found(&runs, 1_000_000);
        let [memory_bound, descriptors] = bounds.as_slice() else { panic!("{bounds:?}") };
        assert_eq!((memory_bound.quantity, memory_bound.between), (DeviceQuantity::Memory, [500, 4000]));
        assert!((memory_bound.least / memory(1_000_000) - 1.0).abs() < 1e-6, "{memory_bound:?}");
        // 974 MiB of 2 KiB each are left.
        assert!(memory_bound.most_devices.unwrap().abs_diff(498_688) <= 1, "{memory_bound:?}");
        assert_eq!((descriptors.least.round(), descriptors.limit), (1_000_020.0, None));
        assert_eq!(open.len(), 1, "{open:?}");
    }

    #[test]
    fn what_was_seen_of_few_numbers_or_does_not_grow_has_no_bound() {
        let (bounds, open) = found(&[run(500, 1e8), run(1000, 2e8)], 1_000_000);
        assert!(bounds.is_empty() && open[0].contains("memory of store, descriptors of store"), "{open:?}");
        assert!(open[0].contains("matrix.population.devices"), "{open:?}");
        let (bounds, open) = found(&[run(500, 1e8), run(1000, 1.1e8), run(2000, 0.9e8)], 1_000_000);
        assert!(bounds.iter().all(|bound| bound.quantity == DeviceQuantity::Descriptors), "{bounds:?}");
        assert!(
            open[0].contains("did not grow for certain") && open[0].ends_with("memory of store"),
            "{open:?}"
        );
        let nobody = (RunRecord::default(), crate::summarize(&RunRecord::default()));
        assert!(found(&[nobody], 7).1[0].contains("memory and descriptors"));
    }
}
