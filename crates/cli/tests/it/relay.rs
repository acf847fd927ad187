//! A relay as a component of a platform.

use crate::harness::{Bench, count, number};

/// A broker that devices reach through another component.
const PROFILE: &str = r#"
name: two
title: a broker, and what calls it
description: The embedded broker, and a relay of the user's own in front of it
limits: { all: high and stated }
components:
  - name: broker
    command: ["{plimsoll}", target, broker, --port, "{port:broker}"]
    ready_port: broker
  - name: front
    command: ["{plimsoll}", target, relay, --to, "127.0.0.1:{port:broker}", --port, "{port:mqtt}"]
    ready_port: mqtt
    mqtt_port: mqtt
"#;

const SCENARIO: &str = "name: far
platform: { profile: two.yaml, relays: { broker: { delay: 20ms } } }
population: { devices: 5, subscribers: 1 }
load: { levels: [50], warm_up: 500ms, hold: 2s, samples: 4, drain: 3s }
objectives: { publish_p99: null, achieved: null }
";

#[test]
fn a_component_behind_a_relay_is_as_far_away_from_all_others_as_the_relay_says() {
    let bench = Bench::beside_others();
    bench.write("two.yaml", PROFILE);
    let run = bench.run(SCENARIO);
    let level = run.level(0);
    assert_eq!(count(level, "delivered"), count(level, "due"), "{level:#}");
    for time in ["publish_time", "subscribe_time"] {
        assert!(number(level, &[time, "p50"]) >= 0.04, "{time}: {:#}", level[time]);
    }
    let names: Vec<&str> =
        run.summary["components"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broker", "front", "relay before broker"]);
}
