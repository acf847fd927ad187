//! Load balancers of others before the replicas of a component.

use crate::harm::{assert_nothing_left, temporary};
use crate::harness::{Bench, Finished, count, number};
use serde_json::Value;

/// A station that takes 1 ms for a message.
const STATION: &str = r#"
name: behind
title: a station
description: A station with four workers
limits: { all: its workers }
components:
  - name: station
    command: ["{plimsoll}", target, station, --protocol, PROTOCOL, --port, "{port:PROTOCOL}", --workers, "4",
              --service, "deterministic:1ms"]
    ready_port: PROTOCOL
    PROTOCOL_port: PROTOCOL
"#;

const OVER_HTTP: &str = r#"device: { speaks: http, request: { path: /, body: "{message}", expect: [204] } }
"#;

const REPLICAS: [&str; 3] = ["station 1", "station 2", "station 3"];

fn scenario(balancer: &str) -> String {
    format!(
        "name: balanced\n\
         platform: {{ profile: behind.yaml, replicas: {{ station: 3 }}, balancers: {{ station: {balancer} }} }}\n\
         population: {{ devices: 30 }}\n\
         load: {{ levels: [200], arrivals: constant, warm_up: 1s, hold: 3s, samples: 3, drain: 3s, again: 0s }}\n\
         objectives: {{ achieved: null, publish_p99: null }}\n"
    )
}

/// Runs stations behind a balancer to the end of the run, after which nothing of them is left.
fn run(bench: &Bench, profile: &str, balancer: &str) -> Finished {
    bench.write("behind.yaml", profile);
    let temporary = temporary(bench);
    let mut command = bench.run_command(&scenario(balancer));
    command.env("TMPDIR", &temporary);
    let run = bench.start(&mut command).finish().judged();
    assert_nothing_left(bench, &temporary, "after the run");
    run
}

/// Each message was acknowledged, and the balancer is a component beside the replicas, with processor time of its own.
#[track_caller]
fn assert_balanced(run: &Finished, balancer: &str) {
    let level = run.level(0);
    assert_eq!(count(level, "acknowledged"), count(level, "due"), "{level:#}");
    let components = run.summary["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names[..1], [balancer], "{names:?}");
    assert_eq!(names[1..], REPLICAS, "{names:?}");
    assert!(number(&components[0], &["cpu_mean"]) > 0.0, "{:#}", components[0]);
}

/// The connections of a component in the level.
fn established(run: &Finished, component: &str) -> f64 {
    let gauges = run.summary["gauges"].as_array().unwrap();
    let is_own = |it: &&Value| it["subject"] == *component && it["quantity"] == "established";
    // What was zero all the time is not kept.
    gauges.iter().find(is_own).map_or(0.0, |own| number(&own["levels"][0], &["mean"]))
}

#[test]
fn haproxy_gives_connections_of_mqtt_to_each_replica_in_turn() {
    let bench = Bench::beside_others();
    let run = run(&bench, &STATION.replace("PROTOCOL", "mqtt"), "haproxy");
    assert_balanced(&run, "balancer before station (mqtt)");
    for replica in REPLICAS {
        assert_eq!(established(&run, replica), 10.0, "{replica}");
    }
    let facts = &run.summary["provenance"]["platform"];
    assert_eq!(facts["balancer before station"], "haproxy, round_robin, tcp");
    assert!(facts["balancer before station version"].as_str().unwrap().contains("HAProxy"), "{facts:#}");
    assert_eq!(
        facts["limit of haproxy: connections"],
        "half of the files that this host lets a process open"
    );
}

#[test]
fn nginx_gives_requests_of_http_to_all_replicas() {
    let bench = Bench::beside_others();
    let profile = STATION.replace("PROTOCOL", "http") + OVER_HTTP;
    let run = run(&bench, &profile, "{ by: nginx, policy: least_connections }");
    assert_balanced(&run, "balancer before station (http)");
    for replica in REPLICAS {
        assert!(established(&run, replica) > 0.0, "{replica}");
    }
    let facts = &run.summary["provenance"]["platform"];
    assert_eq!(facts["balancer before station"], "nginx, least_connections, http");
    assert!(facts["balancer before station version"].as_str().unwrap().contains("nginx/"), "{facts:#}");
}

#[test]
fn nginx_gives_connections_of_mqtt_to_the_replica_of_their_source_address() {
    let bench = Bench::beside_others();
    let profile = STATION.replace("PROTOCOL", "mqtt");
    let run = run(&bench, &profile, "{ by: nginx, policy: source_address }");
    assert_balanced(&run, "balancer before station (mqtt)");
    // All devices have the same address.
    let mut connections = REPLICAS.map(|replica| established(&run, replica));
    connections.sort_by(f64::total_cmp);
    assert_eq!(connections, [0.0, 0.0, 30.0]);
}

/// A balancer of the user's own, which no host has.
const MISSING: &str = r#"
name: mine
title: a balancer
command: [no-such-balancer, "{dir}/mine.conf"]
files: { mine.conf: "{mode} {policy} {listen} {server}" }
policies: { round_robin: turn }
modes: { tcp: connections }
install: ask its author
"#;

#[test]
fn a_balancer_that_is_missing_is_named_with_how_to_install_it() {
    let bench = Bench::beside_others();
    bench.write("behind.yaml", &STATION.replace("PROTOCOL", "mqtt"));
    bench.write("mine.yaml", MISSING);
    let run = bench.run(&scenario("mine.yaml")).exits(1);
    run.says("balancer before station (mqtt): the command no-such-balancer is not installed")
        .says("install it with: ask its author");
}
