//! LwM2M against the target that comes along: the ledger is that of the target's record, also where datagrams are lost.

use crate::harness::{Bench, count};
use plimsoll_codec::marker::Marker;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// A target that runs until it is dropped.
struct Target {
    child: Child,
    address: String,
}

impl Target {
    fn start(bench: &Bench, options: &[&str]) -> Target {
        let arguments = ["target", "lwm2m", "--record", "record.csv"].iter().chain(options);
        let mut child = bench.plimsoll(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Target { child, address }
    }

    /// Ends it as a user would.
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scenario(address: &str, more: &str) -> String {
    format!(
        "name: lwm2m\nplatform: {{ profile: lwm2m, address: \"{address}\" }}\n\
         population: {{ devices: 40 }}\nmessage: {{ size: 20 }}\n\
         load: {{ arrivals: constant, levels: [80], hold: 2s, samples: 2, warm_up: 0s, drain: 5s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }}\n{more}\n"
    )
}

/// How often each kind of line stands in the record, and how often each message was notified.
fn record(path: &Path) -> (BTreeMap<String, u64>, BTreeMap<(u32, u32), u64>) {
    let (mut lines, mut messages) = (BTreeMap::new(), BTreeMap::new());
    for line in fs::read_to_string(path).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        *lines.entry(fields[1].to_owned()).or_default() += 1;
        if fields[1] == "notified" {
            let digits: Vec<u8> = (0..fields[5].len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&fields[5][at..at + 2], 16).unwrap())
                .collect();
            let marker = Marker::read_binary(&digits).unwrap();
            assert_eq!(fields[2], format!("plimsoll-{}", marker.device), "{line}");
            *messages.entry((marker.device, marker.sequence)).or_default() += 1;
        }
    }
    (lines, messages)
}

#[test]
fn what_the_ledger_says_is_what_the_server_recorded() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &[]);
    let finished = bench.run(&scenario(&target.address, ""));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!((158..=160).contains(&sent), "{finished:?}");
    assert_eq!((count(level, "due"), count(level, "acknowledged")), (sent, sent), "{finished:?}");
    for nothing in ["refused", "unsent", "retransmitted", "foreign"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    for (what, expected) in [("registered", 40), ("observed", 40), ("notified", sent), ("deregistered", 40)] {
        assert_eq!(lines.get(what), Some(&expected), "{what}: {lines:?}");
    }
    assert_eq!(messages.len() as u64, sent);
    assert!(messages.values().all(|times| *times == 1));
}

#[test]
fn lost_datagrams_are_repeated_and_each_message_counts_once() {
    let bench = Bench::beside_others();
    let target = Target::start(&bench, &["--lose-every", "7", "--format", "senml-cbor"]);
    let finished = bench.run(&scenario(&target.address, "coap: { ack_timeout: 100ms }"));
    target.end();
    let (lines, messages) = record(&bench.path("record.csv"));
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    assert!(count(level, "retransmitted") > sent / 20, "{finished:?}");
    assert_eq!(messages.len() as u64, sent, "{lines:?}");
    assert!(messages.values().all(|times| *times == 1));
}
