//! A relay as a component of a platform.

use crate::harness::{Bench, count, number};

/// As docs/targets.md shows it.
const PROFILE: &str = r#"
name: far-broker
title: a broker behind a network
description: The embedded broker, 20 ms away
limits: { all: high and stated }
components:
  - name: broker
    command: ["{plimsoll}", target, broker, --port, "{port:broker}"]
    ready_port: broker
  - name: network
    command: ["{plimsoll}", target, relay, --to, "127.0.0.1:{port:broker}", --port, "{port:mqtt}", --delay, 20ms]
    ready_port: mqtt
    mqtt_port: mqtt
"#;

const SCENARIO: &str = "name: far
platform: far-broker.yaml
population: { devices: 5, subscribers: 1 }
load: { levels: [50], warm_up: 500ms, hold: 2s, samples: 4, drain: 3s }
objectives: { publish_p99: null, achieved: null }
";

#[test]
fn a_broker_behind_a_relay_is_as_far_away_as_the_relay_says() {
    let bench = Bench::beside_others();
    bench.write("far-broker.yaml", PROFILE);
    let run = bench.run(SCENARIO);
    let level = run.level(0);
    assert_eq!(count(level, "delivered"), count(level, "due"), "{level:#}");
    for time in ["publish_time", "subscribe_time"] {
        assert!(number(level, &[time, "p50"]) >= 0.04, "{time}: {:#}", level[time]);
    }
}
