//! The oneM2M profile against a real service entity: ACME, installed by `scripts/test`.

use crate::harness::{Bench, count, sent};

/// Behind the platform.
const SCENARIO: &str = "\
    population: { devices: 8, subscribers: 2 }\n\
    message:\n\
    \x20 feed: { city: { segments: 8 } }\n\
    \x20 template: '{\"last_hour_average\":{feed:last_hour_average},\"edge_id\":{feed:edge_id},\"m\":\"{marker}\"}'\n\
    load: { model: closed, in_flight: [1, 3], hold: 3s, samples: 3, warm_up: 500ms, drain: 10s }\n\
    objectives: { publish_p99: null }\n";

#[test]
fn a_real_service_entity_has_an_exact_ledger_over_http() {
    exact("{ profile: acme, mapping: http, clean_up: true }");
}

/// Answers come as messages, notifications over HTTP.
#[test]
#[ignore = "acceptance: peers"]
fn a_real_service_entity_has_an_exact_ledger_over_mqtt() {
    exact("{ profile: acme-mqtt, clean_up: true }");
}

/// Answers and notifications come as messages, and each notification is answered: unanswered, the entity would not even
/// grant the subscription.
#[test]
#[ignore = "acceptance: peers"]
fn a_real_service_entity_has_an_exact_ledger_where_it_notifies_over_mqtt() {
    exact("{ profile: acme-mqtt, mapping: mqtt-notified, clean_up: true }");
}

/// Filled beforehand, and each subscriber follows six of the eight devices: four of them have two subscribers.
#[test]
#[ignore = "acceptance: peers"]
fn subscribers_may_follow_some_devices_and_overlap() {
    let some = SCENARIO.replace("subscribers: 2", "subscribers: { count: 2, devices: 6 }");
    let bench = Bench::beside_others();
    let platform = "{ profile: acme, mapping: http, preload: 20 }";
    let finished = bench.run(&format!("name: some\nplatform: {platform}\n{some}"));
    assert_eq!(finished.summary["provenance"]["platform"]["preloaded"], "20 items", "{}", finished.stderr);
    for level in finished.levels() {
        let (sent, expected) = (count(level, "sent"), count(level, "expected_deliveries"));
        assert!(sent > 10 && expected > sent && expected < 2 * sent, "{level:#}");
        assert_eq!(count(level, "delivered"), expected, "{level:#}");
        assert_eq!(count(level, "foreign"), 0, "nobody is told of what he does not follow: {level:#}");
    }
}

fn exact(platform: &str) {
    let bench = Bench::beside_others();
    let finished = bench.run(&format!("name: onem2m\nplatform: {platform}\n{SCENARIO}"));
    // How fast the entity is, and whether this machine was busy, is no matter here.
    let judged = [0, 3, 99].map(Some);
    assert!(judged.contains(&finished.code), "{:?}\n{}\n{}", finished.code, finished.stdout, finished.stderr);
    assert_eq!(finished.levels().len(), 2);
    for level in finished.levels() {
        let sent = sent(level, 11..);
        assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
        assert_eq!(count(level, "expected_deliveries"), 2 * sent);
        assert_eq!(count(level, "delivered"), 2 * sent, "{level:#}");
        for nothing in ["lost", "late", "superseded", "duplicated", "foreign", "refused"] {
            assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
        }
    }
}
