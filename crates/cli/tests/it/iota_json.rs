//! The profile of an agent for JSON: devices, a real Mosquitto, an agent on FIWARE's real library (installed by
//! `scripts/test`), the NGSIv2 target, and notifications back.

use crate::harness::{Bench, count, sent};

/// A rate that a single thread of Node.js carries on a busy machine. An entity is there when the first message of its device has come
/// through, which the warm-up leaves time for: queries for it fail before.
const OPEN: &str =
    "load: { arrivals: constant, levels: [60], hold: 3s, samples: 3, warm_up: 3s, drain: 10s }";
const CLOSED: &str =
    "load: { model: closed, in_flight: [1, 3], hold: 2s, samples: 2, warm_up: 3s, drain: 10s }";

/// What is published is acknowledged by Mosquitto; the agent hears of it at QoS 0.
#[test]
fn an_agent_has_an_exact_ledger_over_mqtt() {
    exact("{ profile: iota-json-target, clean_up: true }", OPEN);
}

#[test]
#[ignore = "acceptance: peers"]
fn an_agent_has_an_exact_ledger_over_mqtt_where_attributes_are_named() {
    exact("{ profile: iota-json-target, mapping: mqtt-named }", OPEN);
}

/// The agent answers when the context broker has answered it.
#[test]
#[ignore = "acceptance: peers"]
fn an_agent_has_an_exact_ledger_over_http() {
    exact("{ profile: iota-json-target, mapping: http, clean_up: true }", CLOSED);
}

#[track_caller]
fn exact(platform: &str, load: &str) {
    let bench = Bench::beside_others();
    let finished = bench.run(&format!(
        "name: agent\nplatform: {platform}\n{load}\n\
         population: {{ devices: 12, subscribers: 2 }}\n\
         message: {{ template: '{{\"speed\":{{random:1..90}},\"m\":\"{{marker}}\"}}' }}\n\
         northbound: {{ rate: 10/s }}\n\
         objectives: {{ publish_p99: null, achieved: null }}\n"
    ));
    // How fast the agent is, and whether this machine was busy, is no matter here.
    let judged = [0, 3, 99].map(Some);
    assert!(judged.contains(&finished.code), "{:?}\n{}\n{}", finished.code, finished.stdout, finished.stderr);
    assert!(!finished.levels().is_empty());
    for level in finished.levels() {
        let sent = sent(level, 11..);
        assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
        assert_eq!(count(level, "expected_deliveries"), 2 * sent);
        let late = count(level, "late") + count(level, "superseded");
        assert_eq!(count(level, "delivered") + late, 2 * sent, "{level:#}");
        for nothing in ["lost", "duplicated", "foreign", "refused", "queries_failed"] {
            assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
        }
        assert!(count(level, "queries_answered") > 0, "{level:#}");
    }
}
