//! A relay as a component of a platform.

use crate::harness::{Bench, STORE, count, number};
use crate::truth::listening_address;
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

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

/// A station whose worker takes 10 ms for each request: one alone serves 100 a second.
const STATION: &str = r#"
name: several
title: a station
description: A station with one worker
limits: { all: its worker }
components:
  - name: station
    command: ["{plimsoll}", target, station, --protocol, http, --port, "{port:http}", --truth, "{dir}/truth.csv",
              --service, "deterministic:10ms"]
    files: { own.txt: "{port:http}" }
    ready_port: http
    http_port: http
device:
  speaks: http
  request: { path: /, body: "{message}", expect: [204] }
"#;

#[test]
fn a_relay_that_may_lose_no_segments_says_so_and_its_end_is_what_the_run_tells() {
    let bench = Bench::beside_others();
    let scenario = "name: lossy
platform: { profile: embedded, relays: { broker: { loss: 2 % } } }
population: { devices: 3 }
load: { levels: [100], warm_up: 0s, hold: 1s }
";
    bench.write("lossy.yaml", scenario);
    fs::set_permissions(bench.path(""), Permissions::from_mode(0o777)).unwrap();
    let mut command = bench.as_nobody(&["run", "lossy.yaml", "--no-report", "--store", STORE]);
    let run = bench.start(&mut command).finish().exits(1);
    run.says("relay before broker (mqtt) died").says("only root may change the packet filter");
}

#[test]
fn who_loses_datagrams_alone_needs_no_right_to_do_it() {
    let bench = Bench::beside_others();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    let mut command = bench.as_nobody(&["target", "relay", "--to", &to, "--loss", "0.5"]);
    let relay = bench.start(&mut command);
    let address = listening_address(&relay);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..40 {
        client.send_to(b"datagram", &address).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    relay.signal(Signal::TERM);
    relay.finish().exits(0).says("datagrams to the server");
}

#[test]
fn replicas_share_the_connections_and_have_names_and_folders_of_their_own() {
    let bench = Bench::beside_others();
    bench.write("several.yaml", STATION);
    let run = bench.run(
        "name: several\nplatform: { profile: several.yaml, replicas: { station: 3 } }\npopulation: { devices: 30 }\n\
         load: { levels: [240], arrivals: constant, warm_up: 1s, hold: 3s, samples: 3, drain: 2s, again: 0s }\n\
         objectives: { achieved: null, publish_p99: null }\n",
    );
    // Two of them would serve 200 a second.
    assert!(number(run.level(0), &["achieved"]) > 210.0, "{:#}", run.level(0)["achieved"]);
    let names: Vec<&str> =
        run.summary["components"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["relay before station (http)", "station 1", "station 2", "station 3"]);
    let gauges = run.summary["gauges"].as_array().unwrap();
    for name in &names[1..] {
        let is_own = |it: &&serde_json::Value| it["subject"] == **name && it["quantity"] == "established";
        let connections = gauges.iter().find(is_own).unwrap_or_else(|| panic!("{name}: {gauges:#?}"));
        assert_eq!(number(&connections["levels"][0], &["mean"]), 10.0, "{name}");
    }
    assert_eq!(run.summary["provenance"]["platform"]["replicas of station"], "3");
}
