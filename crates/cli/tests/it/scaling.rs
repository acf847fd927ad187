//! Real components that are scaled: what limits moves the load line as far as was predicted, and what does not limit changes nothing.

use crate::harness::{Bench, STORE};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Servers whose one worker sleeps for a message, so that a host of two processors carries several; and a front that only passes on.
const PROFILE: &str = r#"
name: scaled
title: servers that wait, behind a front
description: Calibrated targets of which each serves one message at a time, and a relay of the user's own in front of them
limits: { queue: any number of messages }
components:
  - name: server
    command: ["{plimsoll}", target, station, --port, "{port:server}", --service, "deterministic:SERVICE"]
    ready_port: server
  - name: front
    command: ["{plimsoll}", target, relay, --to, "127.0.0.1:{port:server}", --port, "{port:mqtt}"]
    ready_port: mqtt
    mqtt_port: mqtt
"#;

const SCENARIO: &str = "name: scaled
platform: { profile: scaled.yaml }
population: { devices: 60, subscribers: 0 }
load: { search: { from: LOW, to: HIGH, tolerance: 5 %, time: 40s }, warm_up: 500ms, hold: 2500ms, samples: 10, drain: 500ms }
objectives: { publish_p90: \"< 100 ms\", publish_p99: null, achieved: null }
prices: { currency: USD, components: { server: 10, front: 3 } }
";

/// Fifteen runs with a search of 40 s each take some eleven minutes.
const LONGEST_SWEEP: Duration = Duration::from_secs(1800);

/// The changes along keys with that ending which a sweep found.
fn changes(sweep: &Value, key: &str) -> Vec<Value> {
    let axes = sweep["axes"].as_array().unwrap();
    let axis = axes.iter().position(|axis| axis["key"].as_str().unwrap().ends_with(key)).unwrap();
    let all = sweep["changes"].as_array().unwrap().iter();
    all.filter(|change| change["axis"] == axis).cloned().collect()
}

fn swept(bench: &Bench, service: u32, matrix: &str, turns: &str) -> Value {
    bench.write("scaled.yaml", &PROFILE.replace("SERVICE", &format!("{service}ms")));
    let most = 1000 / service;
    let scenario = SCENARIO.replace("LOW", &(most / 2).to_string()).replace("HIGH", &(most * 8).to_string());
    bench.write("sweep.yaml", &format!("{scenario}matrix: {{ {matrix} }}\n"));
    let call = ["sweep", "sweep.yaml", "--repeat", turns, "--store", STORE, "--json", "out.json"];
    let swept = bench.start(&mut bench.plimsoll(call)).finish_within(LONGEST_SWEEP);
    println!("{}", swept.stdout);
    assert!([0, 3].map(Some).contains(&swept.code), "{:?} {}", swept.code, swept.stderr);
    serde_json::from_str(&fs::read_to_string(bench.path("out.json")).unwrap()).unwrap()
}

/// Whether the interval of a change meets what was predicted.
fn is_as_predicted(change: &Value) -> bool {
    let number = |value: &Value| value.as_f64();
    let Some([low, high]) = change["predicted"].as_array().map(|ends| [&ends[0], &ends[1]]) else {
        return false;
    };
    let (Some(least), Some(most)) = (number(&change["least"]), number(&change["most"])) else { return false };
    number(low).is_some_and(|low| most >= low) && number(high).is_some_and(|high| least <= high)
}

#[test]
#[ignore = "acceptance: scaling"]
fn replicas_of_what_limits_move_the_load_line_as_predicted() {
    let bench = Bench::new();
    let (mut cases, mut right, mut higher) = (0, 0, 0);
    for service in [6, 7, 8, 9, 10] {
        let sweep = swept(&bench, service, "platform.replicas.server: [1, 2, 3, 4, 5]", "3");
        for change in changes(&sweep, "server") {
            cases += 1;
            right += u32::from(is_as_predicted(&change));
            higher += u32::from(change["effect"] == "higher");
            println!("{service} ms: {change}");
        }
        // Each server costs as much as the first one, and the front stays.
        let best = sweep["worth"]["best"].as_u64().unwrap();
        println!("{service} ms: the most for the money is combination {best}");
    }
    println!("of {cases} changes {right} are as predicted, {higher} are found");
    // The lower tail of the binomial law with 20 trials at 95 % is below 1 % up to 15.
    assert_eq!(cases, 20);
    assert!(right >= 16 && higher >= 16, "{right} {higher}");
}

#[test]
#[ignore = "acceptance: scaling"]
fn replicas_of_what_does_not_limit_change_nothing() {
    let bench = Bench::new();
    let (mut cases, mut nothing) = (0, 0);
    for service in [6, 8, 10] {
        let sweep = swept(&bench, service, "platform.replicas.front: [1, 2, 3]", "3");
        for change in changes(&sweep, "front") {
            cases += 1;
            nothing += u32::from(change["effect"] == "not_distinguishable");
            println!("{service} ms: {change}");
        }
    }
    println!("of {cases} changes {nothing} are not distinguishable");
    assert!(cases == 6 && nothing >= 5, "{nothing} of {cases}");
}
