//! The result in the shape of k6's end-of-test summary (`handleSummary` data), for scripts and pages that read those.
//!
//! Each metric stands once for the whole run and once for each level, as a sub-metric `NAME{level:INDEX}`, and in a run of
//! several populations once for each, as `NAME{level:INDEX,population:POPULATION}`. Times are in milliseconds, as in k6. Objectives are thresholds of the sub-metrics, since they are asked of each level; a level that
//! is not valid meets none. A level in overload has no mean (rule 5), nor has a run with such a level.

use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::objective::{self, Standing};
use plimsoll_analysis::time_summary::quantile_of;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::RunRecord;
use plimsoll_model::{Histogram, Metric, Nanos, Validity};
use serde_json::{Map, Value, json};

/// What k6 tells of a time unless it is told otherwise.
const STATISTICS: [&str; 6] = ["avg", "min", "med", "max", "p(90)", "p(95)"];

/// The summary as indented JSON with a final line feed.
pub fn render(record: &RunRecord) -> String {
    let levels = plimsoll_analysis::summarize(record).levels;
    let hold: f64 = levels.iter().map(|level| level.hold).sum();
    let mut metrics = Map::new();
    for metric in Metric::ALL {
        let of_levels: Vec<Histogram> = record.levels.iter().map(|level| merged(level, metric)).collect();
        let mut whole = Histogram::new();
        of_levels.iter().for_each(|histogram| whole.merge(histogram));
        if whole.is_empty() {
            continue;
        }
        let steady = levels.iter().all(|level| !level.overload);
        metrics.insert(metric.name().into(), trend(&whole, steady));
        for ((histogram, level), own) in of_levels.iter().zip(&levels).zip(&record.levels) {
            metrics.insert(of_level(metric.name(), level), trend(histogram, !level.overload));
            for (population, own) in level.populations.iter().zip(&own.populations) {
                let name = of_population(metric.name(), level, &population.name);
                metrics.insert(name, trend(&merged(own, metric), !population.figures.overload));
            }
        }
    }
    for (name, count) in COUNTERS {
        let total = levels.iter().map(count).sum();
        metrics.insert(name.into(), counter(total, hold));
        for level in &levels {
            metrics.insert(of_level(name, level), counter(count(level), level.hold));
        }
    }
    for (name, share) in RATES {
        for level in &levels {
            if let Some((passes, all)) = share(level) {
                metrics.insert(of_level(name, level), rate(passes, all));
            }
            for own in &level.populations {
                if let Some((passes, all)) = share(&own.figures) {
                    metrics.insert(of_population(name, level, &own.name), rate(passes, all));
                }
            }
        }
    }
    let clients = u64::from(record.terms.devices);
    let gauge = json!({ "value": clients, "min": clients, "max": clients });
    metrics.insert("vus".into(), json!({ "type": "gauge", "contains": "default", "values": gauge }));
    for level in &levels {
        for objective in &record.terms.objectives.level {
            add_threshold(&mut metrics, objective, level);
        }
    }
    let root = json!({ "name": "", "path": "", "groups": [], "checks": [] });
    let summary = json!({
        "root_group": root,
        "options": { "summaryTrendStats": STATISTICS, "summaryTimeUnit": "", "noColor": true },
        "state": { "isStdOutTTY": false, "isStdErrTTY": false, "testRunDurationMs": hold * 1e3 },
        "metrics": metrics,
    });
    format!("{summary:#}\n")
}

type Counter = fn(&LevelSummary) -> u64;
/// How many of how many; `None` where that does not exist.
type Share = fn(&LevelSummary) -> Option<(u64, u64)>;

const COUNTERS: [(&str, Counter); 9] = [
    ("due", |level| level.due),
    ("sent", |level| level.sent),
    ("unsent", |level| level.unsent),
    ("expected_deliveries", |level| level.expected_deliveries),
    ("deliveries", |level| level.delivered),
    ("lost", |level| level.lost),
    ("duplicated", |level| level.duplicated),
    ("data_sent", |level| level.bytes_sent),
    ("data_received", |level| level.bytes_received),
];

const RATES: [(&str, Share); 3] = [
    ("delivered", |level| {
        let owed =
            (level.delivered as f64 / level.delivered_ratio().filter(|&ratio| ratio > 0.0)?).round() as u64;
        Some((level.delivered, owed))
    }),
    ("achieved", |level| {
        Some(((level.achieved? * level.hold).round() as u64, level.due)).filter(|_| level.due > 0)
    }),
    ("connected", |level| Some((level.connected?.into(), level.load.devices()?.into()))),
];

fn merged(level: &plimsoll_model::record::LevelRecord, metric: Metric) -> Histogram {
    let mut merged = Histogram::new();
    let samples = level.samples.iter().flatten();
    samples.filter_map(|sample| sample.histograms.get(&metric)).for_each(|histogram| merged.merge(histogram));
    merged
}

fn of_level(name: &str, level: &LevelSummary) -> String {
    format!("{name}{{level:{}}}", level.index)
}

fn of_population(name: &str, level: &LevelSummary, population: &str) -> String {
    format!("{name}{{level:{},population:{population}}}", level.index)
}

/// A quantile that has too few observations is null.
fn trend(histogram: &Histogram, steady: bool) -> Value {
    let millis = |time: Option<Nanos>| time.map(|time| time.as_secs_f64() * 1e3);
    let at = |q| millis(quantile_of(histogram, q));
    let values = json!({
        "avg": histogram.mean().filter(|_| steady).map(|nanos| nanos / 1e6),
        "min": millis(histogram.min()),
        "med": at(0.5),
        "max": millis(histogram.max()),
        "p(90)": at(0.9),
        "p(95)": at(0.95),
    });
    json!({ "type": "trend", "contains": "time", "values": values })
}

fn counter(count: u64, seconds: f64) -> Value {
    let rate = (seconds > 0.0).then(|| count as f64 / seconds);
    json!({ "type": "counter", "contains": "default", "values": { "count": count, "rate": rate } })
}

fn rate(passes: u64, all: u64) -> Value {
    let rate = (all > 0).then(|| passes as f64 / all as f64);
    let values = json!({ "rate": rate, "passes": passes, "fails": all.saturating_sub(passes) });
    json!({ "type": "rate", "contains": "default", "values": values })
}

/// Adds an objective to the metric that it looks at, in k6's words: `p(99)<50`, `avg<20`, `rate>=0.999`.
fn add_threshold(metrics: &mut Map<String, Value>, objective: &Objective, level: &LevelSummary) {
    let symbol = objective.comparison.symbol();
    let millis = objective.bound * 1e3;
    let (name, condition) = match objective.subject {
        Subject::Quantile(metric, q) => (metric.name(), format!("p({}){symbol}{millis}", percent(q))),
        Subject::Mean(metric) => (metric.name(), format!("avg{symbol}{millis}")),
        Subject::FaultRecovery => ("fault_recovery", format!("max{symbol}{millis}")),
        Subject::Delivered | Subject::Achieved | Subject::Connected => {
            (key_of_rate(objective.subject), format!("rate{symbol}{}", objective.bound))
        }
    };
    let met = objective::judge(objective, level) == Standing::Met && level.validity == Validity::Valid;
    let empty = || json!({ "type": "trend", "contains": "time", "values": {} });
    // An objective on what was never observed stands there all the same, unmet.
    let name = match &objective.population {
        Some(population) => of_population(name, level, population),
        None => of_level(name, level),
    };
    let metric = metrics.entry(name).or_insert_with(empty);
    if let Some(metric) = metric.as_object_mut() {
        let thresholds = metric.entry("thresholds").or_insert_with(|| json!({}));
        if let Some(thresholds) = thresholds.as_object_mut() {
            thresholds.insert(condition, json!({ "ok": met }));
        }
    }
}

fn key_of_rate(subject: Subject) -> &'static str {
    match subject {
        Subject::Achieved => "achieved",
        Subject::Connected => "connected",
        _ => "delivered",
    }
}

/// 0.999 as 99.9.
fn percent(q: f64) -> f64 {
    (q * 1e6).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;

    fn summary() -> Value {
        serde_json::from_str(&render(&synthetic::record())).unwrap()
    }

    #[test]
    fn metrics_have_the_types_and_values_of_k6() {
        let metrics = &summary()["metrics"];
        for (name, kind, keys) in [
            ("publish_time", "trend", vec!["min", "med", "max", "p(90)", "p(95)"]),
            ("publish_time{level:0}", "trend", vec!["avg", "min", "med", "max", "p(90)", "p(95)"]),
            ("sent", "counter", vec!["count", "rate"]),
            ("delivered{level:3}", "rate", vec!["rate", "passes", "fails"]),
            ("vus", "gauge", vec!["value", "min", "max"]),
        ] {
            let metric = &metrics[name];
            assert_eq!(metric["type"], kind, "{name}");
            assert!(metric["contains"].is_string());
            assert!(keys.iter().all(|key| metric["values"][key].is_number()), "{name}: {metric:#}");
        }
        let sent = |name: &str| metrics[name]["values"]["count"].as_u64().unwrap();
        assert_eq!(sent("sent"), (0..6).map(|level| sent(&format!("sent{{level:{level}}}"))).sum::<u64>());
        let times = &metrics["publish_time{level:0}"]["values"];
        let at = |key: &str| times[key].as_f64().unwrap();
        assert!(at("min") <= at("med") && at("med") <= at("p(90)") && at("p(95)") <= at("max"));
        // 0.4 ms / (1 - 1000/4600), in milliseconds.
        assert!((at("avg") - 0.511).abs() < 0.02, "{times:#}");
    }

    #[test]
    fn a_level_in_overload_has_no_mean_and_neither_has_the_run() {
        let mut record = synthetic::record();
        let overload: Vec<bool> =
            plimsoll_analysis::summarize(&record).levels.iter().map(|level| level.overload).collect();
        assert!(overload.contains(&true) && overload.contains(&false), "{overload:?}");
        let told = |record: &RunRecord| {
            let summary: Value = serde_json::from_str(&render(record)).unwrap();
            move |name: &str| summary["metrics"][name]["values"]["avg"].is_number()
        };
        let mean = told(&record);
        for (level, overload) in overload.iter().enumerate() {
            assert_eq!(mean(&format!("publish_time{{level:{level}}}")), !overload, "level {level}");
        }
        assert!(!mean("publish_time"));
        record.levels.truncate(2);
        assert!(told(&record)("publish_time"), "all levels are steady");
    }

    #[test]
    fn objectives_are_thresholds_of_each_level() {
        let metrics = &summary()["metrics"];
        let ok =
            |name: &str, condition: &str| metrics[name]["thresholds"][condition]["ok"].as_bool().unwrap();
        assert!(ok("publish_time{level:0}", "p(99)<50") && ok("delivered{level:0}", "rate>=0.999"));
        assert!(!ok("publish_time{level:4}", "p(99)<50") && !ok("delivered{level:4}", "rate>=0.999"));
        assert!(!ok("publish_time{level:5}", "p(99)<50"), "the generator was late there");
    }
}
