//! The machine-readable result and its published schema are the same thing.

use crate::harness::{Bench, Finished};
use crate::scripted_broker::{Script, ScriptedBroker};
use serde_json::Value;
use std::fs;

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/summary.schema.json");

/// Compares a published schema with that of the program, or writes it again.
#[track_caller]
fn assert_published(name: &str, schema: &Value) {
    let path = format!("{}/../../docs/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = format!("{schema:#}\n");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == schema,
        "docs/schema/{name}.schema.json is stale: write it again with\n\
         UPDATE_SCHEMAS=1 cargo test -p plimsoll-cli schema"
    );
}

#[test]
fn the_published_summary_schema_is_that_of_the_program() {
    assert_published("summary", &plimsoll_report::json::schema());
}

#[test]
fn the_published_schema_of_dissections_is_that_of_the_program() {
    assert_published("dissection", &plimsoll_report::dissection::schema());
}

#[test]
fn the_published_schema_of_what_was_learned_is_that_of_the_program() {
    assert_published("learned", &plimsoll_report::learned::schema());
}

#[test]
fn the_published_schema_of_sweeps_is_that_of_the_program() {
    assert_published("sweep", &plimsoll_report::sweep::schema());
}

#[test]
fn the_published_schema_of_plans_is_that_of_the_program() {
    assert_published("plan", &plimsoll_report::capacity_plan::schema());
}

#[track_caller]
fn assert_valid(run: &Finished) {
    let schema: Value = serde_json::from_str(&fs::read_to_string(PUBLISHED).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&run.summary)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// DESIGN's list of keys that scripts may rely on.
#[test]
fn a_summary_validates_and_has_the_keys_that_scripts_rely_on() {
    let bench = Bench::beside_others();
    let run = bench.run(
        "name: summary
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { levels: [1000], warm_up: 200ms, hold: 1500ms, samples: 5, drain: 1s }
",
    );
    assert_valid(&run);
    let has = |value: &Value, keys: &str| {
        for key in keys.split_whitespace() {
            assert!(value.get(key).is_some(), "no key {key} in {value:#}");
        }
    };
    has(&run.summary, "schema verdict load_line levels generator components provenance");
    assert_eq!(run.summary["schema"], 1);
    has(&run.summary["generator"], "lateness cpu");
    if !run.summary["load_line"].is_null() {
        has(&run.summary["load_line"], "rate level at_least limited_by");
    }
    let level = run.level(0);
    has(level, "offered achieved validity due sent unsent acknowledged expected_deliveries delivered late");
    has(level, "superseded lost duplicated reordered foreign");
    for time in ["publish_time", "publish_time_from_send", "subscribe_time", "subscribe_time_from_send"] {
        has(&level[time], "n samples mean ci95 p25 p50 p75 p90 p95 p99 p999 max");
    }
    // 10/(1 - q) observations tell a quantile: about 1,500 do for p99 and not for p999.
    let time = &level["subscribe_time"];
    assert!(time["p99"].is_number() && time["p999"].is_null(), "{time:#}");
}

#[test]
fn summaries_of_failed_runs_and_of_closed_levels_validate() {
    let scripts = [Script { silent: true, ..Script::default() }, Script::default()];
    let loads = ["levels: [100]", "model: closed, in_flight: [1]"];
    for (script, load) in scripts.into_iter().zip(loads) {
        let broker = ScriptedBroker::start(script);
        let bench = Bench::beside_others();
        let run = bench.run(&format!(
            "name: summary
platform: {}
population: {{ devices: 1 }}
mqtt: {{ connect_timeout: 500ms }}
load: {{ {load}, warm_up: 0s, hold: 500ms, samples: 5, drain: 500ms }}
",
            broker.platform()
        ));
        assert_valid(&run);
    }
}
