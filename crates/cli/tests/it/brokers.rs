//! MQTT brokers that `scripts/brokers` fetches, each by its profile: the ledger adds up.

use crate::harness::{Bench, count};
use serde_json::Value;

/// Devices and subscribers of a broker at a QoS in a version of MQTT: sent = acknowledged, and each subscriber has everything.
#[track_caller]
fn assert_adds_up(profile: &str, qos: u8, version: &str) {
    assert_adds_up_over(profile, "", qos, version);
}

/// The same with a mapping of the profile, over TLS or WebSocket.
#[track_caller]
fn assert_adds_up_over(profile: &str, mapping: &str, qos: u8, version: &str) {
    let mapping = if mapping.is_empty() { String::new() } else { format!(", mapping: {mapping}") };
    // What a broker in Java does right after its start is no matter here.
    let run = Bench::new().run(&format!(
        "name: {profile}\nplatform: {{ profile: {profile}{mapping} }}\nconnection: {{ timeout: 20s }}\n\
         population: {{ devices: 20, subscribers: 2 }}\nmqtt: {{ qos: {qos}, version: \"{version}\" }}\n\
         message: {{ size: 40 }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 4, warm_up: 3s, drain: 5s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n"
    ));
    let run = run.judged();
    let level = run.level(0);
    let sent = count(level, "sent");
    assert!((170..=220).contains(&sent), "{profile}: {level:#}");
    if qos > 0 {
        assert_eq!(count(level, "acknowledged"), sent, "{profile} at QoS {qos}: {level:#}");
    }
    assert_eq!(count(level, "delivered"), sent * 2, "{profile} at QoS {qos}: {level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 6], "{profile} at QoS {qos}: {level:#}");
    assert_says_of_itself(profile, &run.summary["gauges"]);
}

/// Each metric of the profile was read in the hold, and who counts connections counts those of the run. Who reads topics is one more.
#[track_caller]
fn assert_says_of_itself(profile: &str, gauges: &Value) {
    let metrics = gauges.as_array().unwrap().iter().filter(|gauge| gauge["sampler"] == "metrics");
    let metrics: Vec<(&str, &Value)> =
        metrics.map(|gauge| (gauge["quantity"].as_str().unwrap(), &gauge["levels"][0])).collect();
    assert!(!metrics.is_empty(), "{profile} says nothing of itself");
    for (name, level) in metrics {
        assert!(level["readings"].as_u64() >= Some(1), "{profile}, {name}: {level:#}");
        if ["clients", "connections"].contains(&name) {
            let clients = level["max"].as_f64().unwrap();
            assert!([22.0, 23.0].contains(&clients), "{profile}, {name}: {level:#}");
        }
    }
}

#[test]
#[ignore = "acceptance: brokers"]
fn artemis_delivers_everything_once() {
    assert_adds_up("artemis", 1, "3.1.1");
    assert_adds_up("artemis", 2, "5");
    assert_adds_up_over("artemis", "mqtt-tls", 1, "3.1.1");
    assert_adds_up_over("artemis", "mqtt-websocket", 1, "3.1.1");
}

/// A copy for each subscriber, and one for a group.
#[test]
#[ignore = "acceptance: brokers"]
fn artemis_delivers_everything_once_over_amqp_1_0() {
    for (subscribers, copies) in [("2", 2), ("{ count: 2, share: workers }", 1)] {
        let run = Bench::new().run(&format!(
            "name: amqp\nplatform: {{ profile: artemis, mapping: amqp1 }}\nconnection: {{ timeout: 20s }}\n\
             population: {{ devices: 20, subscribers: {subscribers} }}\namqp1: {{ capabilities: [topic] }}\n\
             message: {{ target: 'city.{{run}}.{{device}}', size: 40 }}\n\
             load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 4, warm_up: 3s, drain: 5s }}\n\
             objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n"
        ));
        let run = run.judged();
        let level = run.level(0);
        let sent = count(level, "sent");
        assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
        assert_eq!(count(level, "delivered"), sent * copies, "{level:#}");
        let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
        assert_eq!(other.map(|name| count(level, name)), [0; 6], "{level:#}");
    }
}

#[test]
#[ignore = "acceptance: brokers"]
fn hivemq_delivers_everything_once() {
    assert_adds_up("hivemq", 1, "3.1.1");
    assert_adds_up("hivemq", 2, "5");
    assert_adds_up_over("hivemq", "tls", 1, "3.1.1");
    assert_adds_up_over("hivemq", "websocket", 1, "3.1.1");
}

#[test]
#[ignore = "acceptance: brokers"]
fn mochi_delivers_everything_once() {
    assert_adds_up("mochi", 1, "3.1.1");
    assert_adds_up("mochi", 2, "5");
    assert_adds_up_over("mochi", "tls", 1, "3.1.1");
    assert_adds_up_over("mochi", "websocket", 1, "3.1.1");
}

#[test]
#[ignore = "acceptance: brokers"]
fn moquette_delivers_everything_once() {
    assert_adds_up("moquette", 1, "3.1.1");
    assert_adds_up("moquette", 2, "3.1.1");
    assert_adds_up_over("moquette", "tls", 1, "3.1.1");
    assert_adds_up_over("moquette", "websocket", 1, "3.1.1");
}

#[test]
#[ignore = "acceptance: brokers"]
fn aedes_delivers_everything_once() {
    assert_adds_up("aedes", 1, "3.1.1");
    assert_adds_up("aedes", 2, "3.1.1");
    assert_adds_up_over("aedes", "tls", 1, "3.1.1");
    assert_adds_up_over("aedes", "websocket", 1, "3.1.1");
}

#[test]
#[ignore = "acceptance: brokers"]
fn amqtt_delivers_everything_once() {
    assert_adds_up("amqtt", 0, "3.1.1");
    assert_adds_up("amqtt", 1, "3.1.1");
    assert_adds_up_over("amqtt", "tls", 1, "3.1.1");
    assert_adds_up_over("amqtt", "websocket", 1, "3.1.1");
}
