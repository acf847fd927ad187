//! CoAP servers that a profile starts: libcoap's (Debian), one on Eclipse Californium and one on aiocoap (installed by `scripts/test`).
//! Devices put messages to resources, and subscribers observe these.

use crate::harness::{Bench, Finished, count, sent};

fn run(platform: &str, (devices, rate): (u32, u32), more: &str) -> Finished {
    let bench = Bench::beside_others();
    let scenario = format!(
        "name: coap\nplatform: {platform}\npopulation: {{ devices: {devices}, subscribers: 2 }}\n\
         load: {{ arrivals: constant, levels: [{rate}], hold: 2s, samples: 2, warm_up: 0s, drain: 3s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: \">= 1 %\" }}\n{more}\n"
    );
    bench.run(&scenario).judged()
}

/// Each message was acknowledged, and reached both subscribers unless a newer one of its device did.
#[track_caller]
fn exact(finished: &Finished, (devices, least): (u64, u64)) {
    let level = finished.level(0);
    let sent = sent(level, least..);
    for (what, expected) in [("acknowledged", sent), ("expected_deliveries", 2 * sent)] {
        assert_eq!(count(level, what), expected, "{what}: {level:#}");
    }
    let delivered = count(level, "delivered");
    // The newest of each device reaches both.
    assert!(delivered >= 2 * devices, "{level:#}");
    assert_eq!(delivered + count(level, "superseded") + count(level, "late"), 2 * sent, "{level:#}");
    for nothing in ["lost", "duplicated", "foreign", "refused"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
}

#[test]
fn libcoap_notifies_observers_of_what_devices_put() {
    exact(&run("libcoap", (40, 80), ""), (40, 158));
}

#[test]
fn californium_notifies_observers_of_what_devices_put() {
    exact(&run("{ profile: californium, with: { heap: 256m } }", (40, 80), ""), (40, 158));
}

#[test]
fn libcoap_notifies_observers_over_tcp() {
    exact(&run("{ profile: libcoap, mapping: tcp }", (40, 80), ""), (40, 158));
}

#[test]
fn californium_says_nothing_of_itself_over_tcp_and_is_asked_for_nothing() {
    let platform = "{ profile: californium, mapping: tcp, with: { heap: 256m } }";
    exact(&run(platform, (40, 80), "coap: { csm: false }"), (40, 158));
}

#[test]
fn aiocoap_notifies_observers_over_one_connection_for_all_devices() {
    exact(&run("aiocoap", (40, 80), "coap: { sockets: 1, outstanding: 4 }"), (40, 158));
}

#[test]
#[ignore = "acceptance: peers"]
fn libcoap_has_as_many_resources_as_the_scenario_asks_for() {
    exact(&run("{ profile: libcoap, with: { resources: \"500\" } }", (500, 1000), ""), (500, 1990));
}

#[test]
#[ignore = "acceptance: peers"]
fn californium_takes_and_notifies_messages_in_blocks() {
    let platform = "{ profile: californium, with: { heap: 256m } }";
    exact(&run(platform, (10, 20), "message: { size: 4000 }\ncoap: { block_size: 1024 }"), (10, 38));
}
