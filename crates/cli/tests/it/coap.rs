//! CoAP against real servers: libcoap's, which also notifies observers, and a oneM2M CSE.

use crate::harness::{Bench, count, sent};
use crate::libcoap::Libcoap;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

pub const PROFILE: &str = "\
name: resources
title: resources that are put and observed
device:
  speaks: coap
  marker: ascii
  request:
    method: PUT
    path: /d{device}?by={run}
    options: { 12: 0 }
    body: 'say {message}'
    expect: [201, 204]
subscriber:
  observes: { path: '/d{device}' }
  delivery: latest
components: []
";

fn scenario(port: u16, more: &str) -> String {
    format!(
        "name: resources\nplatform: {{ profile: ./resources.yaml, address: \"coap://127.0.0.1:{port}\" }}\n{more}"
    )
}

#[test]
fn libcoap_takes_requests_and_blocks_and_notifies_observers() {
    let bench = Bench::beside_others();
    bench.write("resources.yaml", PROFILE);
    let server = Libcoap::start();
    (0..4).for_each(|device| server.put(&format!("d{device}")));
    let finished = bench.run(&scenario(
        server.port(),
        "population: { devices: 4, subscribers: 2 }\n\
             load: { arrivals: constant, levels: [40], hold: 2s, samples: 2, warm_up: 0s, drain: 2s }\n\
             objectives: { delivered: \">= 1 %\" }\n",
    ));
    // Whether the machine was calm enough for a verdict is not asked: the ledger is exact all the same.
    let level = finished.level(0);
    let sent = sent(level, 78..=80);
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    assert_eq!(count(level, "expected_deliveries"), 2 * sent);
    let (delivered, superseded) = (count(level, "delivered"), count(level, "superseded"));
    // The newest of each device reaches both; what lies between may be skipped.
    assert!(delivered >= 8, "{finished:?}");
    assert_eq!(delivered + superseded + count(level, "late"), 2 * sent, "{finished:?}");
    for nothing in ["lost", "duplicated", "reordered", "foreign", "refused"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    assert!(level["wire"]["request_rtt"]["n"].as_u64().unwrap() > 0);

    let blocks = bench.run(&scenario(
        server.port(),
        "population: { devices: 4 }\nmessage: { size: 500 }\n\
             coap: { block_size: 64, sockets: 1, outstanding: 2 }\n\
             load: { model: closed, in_flight: [4], hold: 1s, samples: 2, warm_up: 0s }\n",
    ));
    let level = blocks.level(0);
    assert_eq!(count(level, "refused"), 0, "{blocks:?}");
    assert!(count(level, "acknowledged") > 50, "{blocks:?}");
    assert_eq!(count(level, "acknowledged"), count(level, "sent"));
}

/// What is handed to the kernel together would be captured as one datagram.
#[test]
fn a_capture_holds_each_request_over_a_shared_socket() {
    let bench = Bench::beside_others();
    bench.write("resources.yaml", PROFILE);
    let server = Libcoap::start();
    let text = "population: { devices: 10 }\ncoap: { sockets: 1, outstanding: 20 }\n\
        load: { arrivals: constant, levels: [400], precision: 20ms, hold: 1s, samples: 2, warm_up: 0s, drain: 5s, again: 0s }\n\
        objectives: { publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }\n";
    bench.write("shared.yaml", &scenario(server.port(), text));
    let arguments = ["run", "shared.yaml", "--capture", "--summary-json", "summary.json", "-q"];
    let finished = bench.call(arguments);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(bench.path("summary.json")).unwrap()).unwrap();
    let sent = count(&summary["levels"][0], "sent");
    assert!(sent > 300, "{finished:?}");
    let coap = &summary["dissection"]["protocols"]["coap"];
    assert_eq!((count(coap, "requests"), count(coap, "responses")), (sent, sent), "{summary:#}");
}

#[test]
fn where_nobody_listens_the_run_fails_and_says_so() {
    let bench = Bench::beside_others();
    bench.write("resources.yaml", PROFILE);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let load = "population: { devices: 2 }\nload: { levels: [10], hold: 1s, samples: 2, warm_up: 0s }\n";
    let finished = bench.run(&scenario(free, load)).exits(1);
    finished.says("nobody listens at the platform's UDP port");
}

#[test]
fn a_onem2m_cse_is_spoken_to_over_coap() {
    let bench = Bench::beside_others();
    let scenario = "name: onem2m\nplatform: { profile: acme, mapping: coap }\n\
        population: { devices: 3, subscribers: 2 }\n\
        load: { arrivals: constant, levels: [15], hold: 2s, samples: 2, warm_up: 0s, drain: 5s }\n\
        objectives: { delivered: \">= 99 %\" }\n";
    let mut command = bench.run_command(scenario);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/acme/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", own.display()));
    let finished = bench.start(&mut command).finish();
    let level = finished.level(0);
    let sent = sent(level, 28..=30);
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    let deliveries = (count(level, "expected_deliveries"), count(level, "delivered"));
    assert_eq!(deliveries, (2 * sent, 2 * sent), "{finished:?}");
    for nothing in ["lost", "duplicated", "reordered", "foreign", "refused", "late"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
}

/// The controller makes a resource for each device over CoAP, queriers ask for them, and nothing of it stays.
#[test]
fn controller_and_queriers_speak_coap() {
    let (server, bench) = (Libcoap::start(), Bench::beside_others());
    bench.write(
        "things.yaml",
        "name: things
title: a server that has resources
controller:
  speaks: coap
  set_up:
    - { name: make the things, each: device, request: { method: PUT, path: '/t{device}', body: made, expect: [201] } }
  clean_up:
    - { name: delete the things, each: device, request: { method: DELETE, path: '/t{device}', expect: [202] } }
device: { speaks: coap, marker: ascii, request: { method: PUT, path: '/t{device}', body: '{message}' } }
querier: { speaks: coap, request: { method: GET, path: '/t{device}', expect: [205] } }
components: []
",
    );
    let address = format!("coap://127.0.0.1:{}", server.port());
    let finished = bench.run(&format!(
        "name: things
platform: {{ profile: ./things.yaml, address: \"{address}\", clean_up: true }}
population: {{ devices: 20 }}
load: {{ arrivals: constant, levels: [50], hold: 2s, samples: 2, warm_up: 0s, drain: 1s, again: 0s }}
northbound: {{ rate: 50, arrivals: constant, queriers: 2 }}
objectives: {{ publish_p99: null, achieved: null, query_p99: \"< 30 s\" }}
"
    ));
    let finished = finished.judged();
    let level = finished.level(0);
    assert!(count(level, "queries") >= 98, "{level:#}");
    assert_eq!(count(level, "queries_answered"), count(level, "queries"), "{level:#}");
    assert_eq!(finished.summary["notes"], serde_json::json!([]), "{:#}", finished.summary["notes"]);
    assert!((0..20).all(|device| !server.has(&format!("t{device}"))), "what was set up is taken away");
}
