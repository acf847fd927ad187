//! What outlives a connection, and what MQTT 5 puts beside a message, against the real Mosquitto.

use crate::harness::{Bench, Finished, count};
use crate::mosquitto::Mosquitto;
use crate::tcp_door::TcpDoor;
use serde_json::Value;
use std::time::Duration;

const UNLIMITED: &str = "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n";

fn scenario(port: u16, subscribers: &str, mqtt: &str, hold: &str) -> String {
    format!(
        "name: sessions
platform: {{ profile: existing, address: \"mqtt://127.0.0.1:{port}\" }}
population: {{ devices: 20, subscribers: {subscribers} }}
mqtt: {{ reconnect: {{ from: 100ms, to: 200ms }}, {mqtt} }}
load: {{ levels: [400], arrivals: constant, warm_up: 200ms, hold: {hold}, samples: 5, drain: 3s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
"
    )
}

/// A run whose level came to its end, whatever a machine that stalls made of its times.
#[track_caller]
fn level(run: &Finished) -> Value {
    assert!([0, 3].map(Some).contains(&run.code), "{:?}\n{}\n{}", run.code, run.stdout, run.stderr);
    let level = run.level(0).clone();
    assert_eq!(count(&level, "due"), count(&level, "sent") + count(&level, "unsent"), "{level:#}");
    level
}

/// Runs through a door. In the middle of the hold clients stop hearing the broker, and then all connections but the
/// first `spared` break.
fn slammed(subscribers: &str, mqtt: &str, spared: usize) -> Value {
    let bench = Bench::beside_others();
    let broker = Mosquitto::start(&bench, UNLIMITED);
    let door = TcpDoor::open(broker.port());
    let started = bench.start(&mut bench.run_command(&scenario(door.port(), subscribers, mqtt, "4s")));
    bench.await_level(0);
    if spared == 0 {
        door.muffle();
        std::thread::sleep(Duration::from_millis(300));
    }
    // The broker's own port was asked once whether it listens, not through the door.
    door.slam(spared);
    level(&started.finish())
}

#[test]
fn persistent_sessions_repeat_what_was_not_acknowledged_and_get_what_was_kept() {
    for mqtt in ["session: persistent, qos: 1", "session: persistent, qos: 2, version: 5, session_expiry: 1m"]
    {
        let level = slammed("1", mqtt, 0);
        assert_eq!((count(&level, "disconnected"), count(&level, "reconnects")), (21, 21), "{level:#}");
        let sent = count(&level, "sent");
        assert_eq!(count(&level, "acknowledged"), sent, "{mqtt}: {level:#}");
        assert_eq!((count(&level, "delivered"), count(&level, "lost")), (sent, 0), "{mqtt}: {level:#}");
        if mqtt.contains("qos: 2") {
            assert_eq!(count(&level, "duplicated"), 0, "{level:#}");
        }
    }
}

/// A message that is sent twice to the broker is delivered twice, whatever QoS its subscriber asked for.
#[test]
#[ignore = "acceptance: faults"]
fn what_persistent_devices_repeat_may_be_delivered_twice() {
    let level = slammed("{ count: 1, qos: 0 }", "session: persistent, qos: 1", 0);
    assert_eq!(count(&level, "acknowledged"), count(&level, "sent"), "{level:#}");
    let why = level["duplicates_legal"].as_str().unwrap();
    assert!(why.contains("persistent sessions repeat at QoS 1"), "{why}");
}

#[test]
fn clean_sessions_lose_what_was_under_way() {
    let level = slammed("1", "session: clean, qos: 1", 0);
    assert_eq!(count(&level, "reconnects"), 21, "{level:#}");
    assert!(count(&level, "acknowledged") < count(&level, "sent"), "{level:#}");
    assert!(count(&level, "lost") > 0, "{level:#}");
}

/// The subscriber connects first: it is spared and hears of the twenty devices that are gone.
#[test]
fn wills_are_counted_apart_from_messages() {
    for mqtt in ["will: { qos: 1 }", "version: 5, will: { payload: \"{device} lost\", retain: true }"] {
        let level = slammed("1", mqtt, 1);
        assert_eq!(count(&level, "disconnected"), 20, "{level:#}");
        assert_eq!((count(&level, "wills"), count(&level, "foreign")), (20, 0), "{mqtt}: {level:#}");
        assert!(count(&level, "delivered") <= count(&level, "sent"));
    }
}

/// A will that waits longer than its device is away is not published.
#[test]
#[ignore = "acceptance: faults"]
fn a_delayed_will_is_not_published_for_a_device_that_comes_back() {
    let level = slammed("1", "version: 5, session: persistent, will: { delay: 30s }", 1);
    assert_eq!((count(&level, "reconnects"), count(&level, "wills")), (20, 0), "{level:#}");
}

#[test]
fn a_group_shares_its_messages_and_expects_each_once() {
    for group in ["{ count: 4, share: crew }", "{ count: 4, filters: [\"$share/crew/plimsoll/{run}/+\"] }"] {
        let bench = Bench::beside_others();
        let broker = Mosquitto::start(&bench, UNLIMITED);
        let run = bench.run(&scenario(broker.port(), group, "version: 5", "1s"));
        let level = level(&run);
        let sent = count(&level, "sent");
        assert!(sent > 300, "{level:#}");
        let found = ["expected_deliveries", "delivered", "lost", "duplicated", "foreign"];
        assert_eq!(found.map(|name| count(&level, name)), [sent, sent, 0, 0, 0], "{group}: {level:#}");
    }
}

/// With an alias a message is shorter than with its topic, which Mosquitto takes back to its full length for subscribers.
#[test]
fn topic_aliases_and_user_properties_reach_the_platform() {
    let bench = Bench::beside_others();
    let broker = Mosquitto::start(&bench, UNLIMITED);
    let size = |mqtt: &str| {
        let run = bench.run(&scenario(broker.port(), "1", mqtt, "1s"));
        let level = level(&run);
        assert_eq!(count(&level, "delivered"), count(&level, "sent"), "{mqtt}: {level:#}");
        level["publication_size"].as_f64().unwrap()
    };
    let plain = size("version: 5");
    // A topic of 19 or 20 bytes is replaced by three of an alias.
    let aliased = size("version: 5, topic_alias: true");
    assert!((plain - aliased - 16.5).abs() < 1.0, "{plain} and {aliased}");
    // Five bytes and the two texts.
    let described = size("version: 5, user_properties: { unit: \"C{run}\" }");
    assert!((described - plain - 18.0).abs() < 1e-6, "{plain} and {described}");
}

/// The broker lets a user write only to a topic of its name, and nobody has two.
#[test]
fn each_client_may_be_a_user_of_its_own() {
    let bench = Bench::beside_others();
    let rights = bench.write("rights", "pattern write of/%u/m\nuser s0\ntopic read of/+/m\n");
    let users = [("d0", "secret 0"), ("d1", "secret 1"), ("s0", "of 0")];
    let broker = Mosquitto::with_users(&bench, &users, &format!("acl_file {}\n", rights.display()));
    bench.write(
        "users.yaml",
        r#"
name: users
title: a broker with users
description: each client is a user
limits: { all: none }
device: { speaks: mqtt, user: { name: "d{device}", password: "secret {device}" }, topic: "of/d{device}/m", marker: ascii }
subscriber: { user: { name: "s{subscriber}", password: "of {subscriber}" }, filters: ["of/+/m"], delivery: every }
components: []
"#,
    );
    let finished = bench
        .run(&format!(
            "name: users\nplatform: {{ profile: ./users.yaml, address: \"mqtt://127.0.0.1:{}\" }}\n\
             population: {{ devices: 2, subscribers: 1 }}\n\
             load: {{ arrivals: constant, levels: [50], hold: 2s, samples: 2, warm_up: 0s, drain: 1s }}\n\
             objectives: {{ publish_p99: null, achieved: null, delivered: null, publish_p50: \"< 10 s\" }}\n",
            broker.port()
        ))
        .judged();
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!(sent >= 98, "{level:#}");
    assert_eq!(
        [count(level, "refused"), count(level, "delivered") + count(level, "late")],
        [0, sent],
        "{level:#}"
    );
}
