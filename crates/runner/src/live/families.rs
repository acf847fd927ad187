//! The metrics of a run by name, with their help texts; docs/observing.md lists them.

use super::State;
use plimsoll_codec::openmetrics::{Family, Kind, Series, Value};
use plimsoll_model::{Counts, Histogram, Load, Metric, Nanos};

/// Upper ends of buckets, in seconds.
const ENDS: [f64; 19] = [
    1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0,
    100.0,
];

/// A counter of the ledger.
struct CounterRow {
    name: &'static str,
    help: &'static str,
    of: fn(&Counts) -> u64,
}

const COUNTERS: &[CounterRow] = &[
    CounterRow { name: "messages_due", help: "Messages that were due.", of: |c| c.due },
    CounterRow { name: "messages_sent", help: "Messages that were sent.", of: |c| c.sent },
    CounterRow { name: "messages_unsent", help: "Messages that were due and never sent.", of: |c| c.unsent },
    CounterRow {
        name: "messages_acknowledged",
        help: "Messages that the platform acknowledged.",
        of: |c| c.acknowledged,
    },
    CounterRow { name: "messages_refused", help: "Messages that the platform refused.", of: |c| c.refused },
    CounterRow { name: "messages_repeated", help: "Messages that were sent again.", of: |c| c.repeated },
    CounterRow {
        name: "deliveries_expected",
        help: "Deliveries that the sent messages entail.",
        of: |c| c.expected_deliveries,
    },
    CounterRow { name: "deliveries", help: "Deliveries in time.", of: |c| c.delivered },
    CounterRow { name: "deliveries_late", help: "Deliveries after their level was closed.", of: |c| c.late },
    CounterRow {
        name: "deliveries_superseded",
        help: "Deliveries that a newer one replaced.",
        of: |c| c.superseded,
    },
    CounterRow {
        name: "deliveries_missing",
        help: "Deliveries that had not come when their level was closed.",
        of: |c| c.missing_acknowledged + c.missing_unacknowledged,
    },
    CounterRow { name: "deliveries_duplicated", help: "Deliveries that came again.", of: |c| c.duplicated },
    CounterRow {
        name: "deliveries_reordered",
        help: "Deliveries that came out of order.",
        of: |c| c.reordered,
    },
    CounterRow {
        name: "deliveries_foreign",
        help: "Deliveries that do not belong to the run.",
        of: |c| c.foreign,
    },
    CounterRow { name: "connections_made", help: "Connections that were made.", of: |c| c.connects },
    CounterRow {
        name: "connections_failed",
        help: "Connections that could not be made.",
        of: |c| c.connect_failed,
    },
    CounterRow { name: "connections_lost", help: "Connections that were lost.", of: |c| c.disconnected },
    CounterRow { name: "queries", help: "Northbound queries.", of: |c| c.queries },
    CounterRow { name: "queries_failed", help: "Northbound queries that failed.", of: |c| c.queries_failed },
    CounterRow { name: "sent_bytes", help: "Bytes that clients wrote to connections.", of: |c| c.bytes_sent },
    CounterRow {
        name: "received_bytes",
        help: "Bytes that clients read from connections.",
        of: |c| c.bytes_received,
    },
];

/// All of them.
pub fn of(state: &State) -> Vec<Family> {
    if state.run.is_empty() {
        return Vec::new();
    }
    let mut all = vec![info(state)];
    all.extend(level(state));
    all.extend(COUNTERS.iter().map(|row| {
        let value = (row.of)(&state.counts) as f64;
        family(row.name, row.help, Kind::Counter, vec![Series::number(Vec::new(), value)])
    }));
    all.extend(state.times.iter().map(|(metric, times)| of_times(*metric, times)));
    all.extend(components(state));
    all.extend(observed(state));
    all.extend(judged(state));
    all
}

fn family(name: &str, help: &str, kind: Kind, series: Vec<Series>) -> Family {
    Family { name: format!("plimsoll_{name}"), help: help.to_owned(), kind, series }
}

fn gauge(name: &str, help: &str, value: f64) -> Family {
    family(name, help, Kind::Gauge, vec![Series::number(Vec::new(), value)])
}

fn info(state: &State) -> Family {
    let labels = vec![
        ("run", state.run.clone()),
        ("scenario", state.name.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    family("run_info", "The run; always 1.", Kind::Gauge, vec![Series::number(labels, 1.0)])
}

/// The level that goes on: nothing between levels.
fn level(state: &State) -> Vec<Family> {
    let Some(start) = &state.level else { return Vec::new() };
    let load = match start.load {
        Load::Rate(rate) => gauge("level_offered_rate", "Operations per second that the level offers.", rate),
        Load::InFlight(count) => {
            gauge("level_in_flight", "Operations that the level keeps in flight.", f64::from(count))
        }
        Load::Devices { devices, .. } => {
            gauge("level_devices", "Devices that the level connects.", f64::from(devices))
        }
        Load::ConnectRate { rate, .. } => {
            gauge("level_connect_rate", "Connections per second that the level begins.", rate)
        }
    };
    let number = f64::from(start.index) + 1.0;
    let hold = f64::from(u8::from(state.in_hold));
    vec![
        gauge("level", "Number of the level that goes on, from 1.", number),
        load,
        gauge("level_hold", "1 in the hold of a level, 0 in its warm-up.", hold),
    ]
}

/// A time as a histogram, with its name in seconds.
fn of_times(metric: Metric, times: &Histogram) -> Family {
    let counts = ENDS.map(|end| (end, times.count() - times.count_above(Nanos::from_secs_f64(end))));
    let sum = times.mean().unwrap_or(0.0) / 1e9 * times.count() as f64;
    let value = Value::Buckets { counts: counts.to_vec(), count: times.count(), sum };
    let name = format!("{}_seconds", metric.name());
    family(&name, metric.row().about, Kind::Histogram, vec![Series { labels: Vec::new(), value }])
}

fn components(state: &State) -> Vec<Family> {
    if state.components.is_empty() {
        return Vec::new();
    }
    let of = |value: fn(&super::Component) -> f64| {
        let series = state.components.iter();
        series.map(|(name, one)| Series::number(vec![("component", name.clone())], value(one))).collect()
    };
    let descriptors = state.components.iter().filter_map(|(name, one)| {
        Some(Series::number(vec![("component", name.clone())], one.last.descriptors? as f64))
    });
    vec![
        family(
            "component_cpu_seconds",
            "Processor time that the component used while it was observed.",
            Kind::Counter,
            of(|one| one.cpu),
        ),
        family(
            "component_memory_bytes",
            "Resident memory of the component.",
            Kind::Gauge,
            of(|one| one.last.rss as f64),
        ),
        family(
            "component_descriptors",
            "Open file descriptors of the component.",
            Kind::Gauge,
            descriptors.collect(),
        ),
    ]
}

/// What observers saw last.
fn observed(state: &State) -> Option<Family> {
    let series: Vec<Series> = state
        .gauges
        .values()
        .map(|gauge| {
            let labels = vec![
                ("sampler", gauge.sampler.clone()),
                ("subject", gauge.subject.clone()),
                ("quantity", gauge.quantity.clone()),
                ("unit", gauge.unit.clone()),
            ];
            Series::number(labels, gauge.value)
        })
        .collect();
    let help = "Latest reading of an observer: threads, connections, cgroups, host, metrics of the platform.";
    (!series.is_empty()).then(|| family("observed", help, Kind::Gauge, series))
}

/// The levels that are closed.
fn judged(state: &State) -> Vec<Family> {
    if state.ended.is_empty() {
        return Vec::new();
    }
    let of = |value: fn(&super::Ended) -> Option<f64>| {
        let series = state.ended.iter().filter_map(|(number, ended)| {
            let labels = vec![("level", (number + 1).to_string()), ("load", ended.load.clone())];
            Some(Series::number(labels, value(ended)?))
        });
        series.collect()
    };
    let met = |ended: &super::Ended| match ended.verdict {
        "met" => Some(1.0),
        "missed" => Some(0.0),
        _ => None,
    };
    vec![
        family(
            "level_met",
            "1 for a closed level that met its objectives, 0 for one that missed them.",
            Kind::Gauge,
            of(met),
        ),
        family(
            "level_achieved_rate",
            "Operations per second that a closed level completed.",
            Kind::Gauge,
            of(|ended| ended.achieved),
        ),
    ]
}
