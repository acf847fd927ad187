//! The profiles `http` and `coap`: services that nobody has written a profile for.

use crate::harness::{Bench, Finished, count, on_a_calm_host, sent};
use crate::libcoap::Libcoap;
use crate::truth::listening_address;

const LOAD: &str = "load: { arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 2s }\n\
    objectives: { publish_p99: null, achieved: null }\n";

#[track_caller]
fn all_acknowledged(finished: &Finished) -> u64 {
    let level = finished.level(0);
    let sent = sent(level, 199..=200);
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    sent
}

#[test]
fn a_service_over_http_takes_messages_at_a_path() {
    let bench = Bench::beside_others();
    let station = bench.start(&mut bench.plimsoll(["target", "station", "--protocol", "http"]));
    let address = listening_address(&station);
    for mapping in ["post", "put"] {
        let scenario = format!(
            "name: any\nplatform: {{ profile: http, address: \"{address}\", mapping: {mapping}, \
             with: {{ path: \"/in/{{device}}\" }} }}\npopulation: {{ devices: 4 }}\n{LOAD}"
        );
        all_acknowledged(&on_a_calm_host(|| bench.run(&scenario)));
    }
}

/// What a service wants to be told, and how it is asked to notify, are two texts of the scenario.
#[test]
fn a_service_over_http_notifies_subscribers() {
    let bench = Bench::beside_others();
    let target = bench.start(&mut bench.plimsoll(["target", "ngsi", "--token", "sesame"]));
    let address = listening_address(&target);
    let platform = |authorization: &str| {
        format!(
            "name: any\nplatform:\n  profile: ./guarded.yaml\n  address: \"{address}\"\n  mapping: notified\n  with:\n\
             \x20   path: /v2/entities?options=upsert\n    content_type: application/json\n\
             \x20   body: '{{\"id\":\"e{{device}}\",\"type\":\"T\",\"m\":{{\"type\":\"TextUnrestricted\",\"value\":\"{{message:json}}\"}}}}'\n\
             \x20   subscribe_path: /v2/subscriptions\n    authorization: \"{authorization}\"\n\
             \x20   subscription: '{{\"subject\":{{\"entities\":[{{\"idPattern\":\".*\"}}],\"condition\":{{\"attrs\":[\"m\"]}}}},\
             \"notification\":{{\"http\":{{\"url\":\"{{listener}}\"}}}}}}'\n\
             population: {{ devices: 4, subscribers: 2 }}\n{LOAD}"
        )
    };
    // The target looks for its token in another header than most.
    let profile = include_str!("../../../../platforms/http.yaml").replace("Authorization:", "X-Auth-Token:");
    bench.write("guarded.yaml", &profile);
    let finished = bench.run(&platform("sesame"));
    let due = all_acknowledged(&finished);
    let level = finished.level(0);
    assert_eq!(count(level, "delivered") + count(level, "late"), 2 * due, "{finished:?}");
    for nothing in ["lost", "duplicated", "foreign"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    // A field without a value is left out.
    bench.run(&platform("")).exits(1).says("was answered 401");
}

#[test]
fn a_service_over_coap_takes_messages_and_is_observed() {
    let bench = Bench::beside_others();
    let server = Libcoap::start();
    (0..4).for_each(|device| server.put(&format!("t{device}")));
    for (mapping, subscribers) in [("put", 0), ("observed", 2)] {
        let finished = bench.run(&format!(
            "name: any\nplatform: {{ profile: coap, address: \"coap://127.0.0.1:{}\", mapping: {mapping}, \
             with: {{ path: \"/t{{device}}\" }} }}\n\
             population: {{ devices: 4, subscribers: {subscribers} }}\n{LOAD}",
            server.port()
        ));
        let due = all_acknowledged(&finished);
        let level = finished.level(0);
        let told = count(level, "delivered") + count(level, "superseded") + count(level, "late");
        assert_eq!((told, count(level, "lost")), (subscribers * due, 0), "{finished:?}");
    }
}
