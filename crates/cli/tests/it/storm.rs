//! A reconnect storm: the broker is killed within the hold and started again, and all clients come back.

use crate::harness::{Bench, Finished, count, number};
use serde_json::Value;

/// Twenty devices and a subscriber; the broker is down for one second. Nothing is demanded, so that the level is met
/// whatever the storm costs.
fn run(platform: &str, offline: &str, rate: u32) -> Finished {
    Bench::beside_others().run(&format!(
        "name: storm
platform: {platform}
population: {{ devices: 20, subscribers: 1 }}
mqtt: {{ offline: {offline}, reconnect: {{ from: 50ms, to: 200ms }} }}
load:
  levels: [{rate}]
  arrivals: constant
  warm_up: 200ms
  hold: 5s
  samples: 5
  drain: 3s
  storm: {{ after: 1s, down: 1s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
"
    ))
}

/// What holds of every storm; returns the level.
#[track_caller]
fn level(run: &Finished) -> Value {
    // A machine that stalls may spoil the times, but not these.
    assert!([0, 3].map(Some).contains(&run.code), "{:?}\n{}\n{}", run.code, run.stdout, run.stderr);
    let level = run.level(0).clone();
    assert_eq!(level["finished"], true, "{level:#}");
    assert_eq!(count(&level, "due"), count(&level, "sent") + count(&level, "unsent"), "{level:#}");
    let ends = ["delivered", "late", "superseded", "lost"].map(|name| count(&level, name));
    assert_eq!(count(&level, "expected_deliveries"), ends.iter().sum::<u64>(), "{level:#}");
    assert_eq!((count(&level, "disconnected"), count(&level, "reconnects")), (21, 21), "{level:#}");
    assert!(count(&level, "connect_failed") > 0, "nobody listened for a second: {level:#}");
    assert_eq!(level["outage"]["n"], 21);
    let clients = ["clients_lost", "clients_back", "clients_away_before"].map(|name| count(&level, name));
    assert_eq!(clients, [21, 21, 0], "{level:#}");
    // Down for a second, then up to 200 ms of pause; the rest is for starting the broker and a machine that is shared.
    let recovery = number(&level, &["recovery"]);
    assert!((1.0..4.0).contains(&recovery), "{recovery} s");
    let incident = level["incident"].as_str().unwrap();
    assert!(incident.contains("was killed 1.") && incident.contains("was started again 1."), "{incident}");
    level
}

#[test]
fn buffered_messages_are_sent_when_the_broker_is_back() {
    for platform in ["embedded", "mosquitto"] {
        let run = run(platform, "buffer", 200);
        let level = level(&run);
        assert_eq!(count(&level, "unsent"), 0, "{level:#}");
        // What waited through the outage was due up to a second earlier.
        assert!(number(&level, &["publish_time", "max"]) > 0.9, "{level:#}");
        run.says("21 of 21 lost clients came back");
    }
}

#[test]
#[ignore = "acceptance: faults"]
fn dropped_messages_are_counted_unsent() {
    let run = run("mosquitto", "drop", 200);
    let level = level(&run);
    // 200 are due in the second without a broker, and more until the last device is back.
    assert!((190..800).contains(&count(&level, "unsent")), "{level:#}");
    assert_eq!(count(&level, "never_ready"), 0);
}

/// At four a second over twenty devices none has two messages due in an outage, so that each has its newest to keep.
#[test]
#[ignore = "acceptance: faults"]
fn the_newest_message_is_kept() {
    let kept = level(&run("mosquitto", "keep_latest", 4));
    assert_eq!(count(&kept, "unsent"), 0, "{kept:#}");
    let dropped = level(&run("embedded", "drop", 4));
    assert!(count(&dropped, "unsent") >= 3, "{dropped:#}");
    let older = level(&run("embedded", "keep_latest", 200));
    // Of some ten messages of each device all but one.
    assert!((150..780).contains(&count(&older, "unsent")), "{older:#}");
}

/// A broker that keeps its sessions on disk, each change at once: after a kill it still knows every client.
const KEEPING: &str = "{ profile: mosquitto, with: { persistence: 'true' } }";

/// What was under way at the kill is repeated where the session outlived it, and given up where it did not.
#[test]
#[ignore = "acceptance: faults"]
fn persistent_sessions_go_on_where_the_broker_kept_them() {
    let mqtt = "buffer, session: persistent, qos: 1";
    let kept = level(&run(KEEPING, mqtt, 50));
    assert_eq!(count(&kept, "unsent"), 0, "{kept:#}");
    assert_eq!(count(&kept, "acknowledged"), count(&kept, "sent"), "{kept:#}");
    assert!(kept["duplicates_legal"].as_str().unwrap().contains("persistent sessions repeat"), "{kept:#}");
    let forgotten = level(&run("mosquitto", mqtt, 200));
    assert_eq!(count(&forgotten, "unsent"), 0, "{forgotten:#}");
    assert!(count(&forgotten, "acknowledged") <= count(&forgotten, "sent"), "{forgotten:#}");
}
