//! Another generator beside the truth. The generator here is a small one of our own that says what it did in the words
//! of a known one, so that nothing depends on what is installed.

use crate::harness::{Bench, Started, assert_end_within};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Sends 30 requests, one after the other, and reports figures that are made up.
const GENERATOR: &str = r#"#!/bin/bash
exec 3<>"/dev/tcp/$1/$2"
for request in $(seq 30); do
    printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' >&3
    # Status, length, empty line, body.
    for line in 1 2 3 4; do read -r _ <&3; done
done
echo '  30 requests in 0.40s, 1KB read'
echo '     50%  777.00us'
"#;

/// A generator that never ends and has started a process of its own; the ids of both.
fn endless(bench: &Bench) -> (Started, Vec<u32>) {
    let script = "sleep 1000 & echo $$ $! > ids.new; mv ids.new ids; wait";
    let mut audit = bench.plimsoll(["audit", "--", "sh", "-c", script]);
    // What a killed one leaves goes with the bench.
    let audit = bench.start(audit.env("TMPDIR", bench.path("")));
    let begin = Instant::now();
    let ids = loop {
        if let Ok(ids) = fs::read_to_string(bench.path("ids")) {
            break ids;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the generator did not start");
        std::thread::sleep(Duration::from_millis(20));
    };
    (audit, ids.split_whitespace().map(|id| id.parse().unwrap()).collect())
}

#[test]
fn an_interrupt_ends_the_generator_and_what_it_started() {
    let bench = Bench::beside_others();
    let (audit, ids) = endless(&bench);
    audit.signal(Signal::INT);
    audit.finish().exits(105).says("audit of: sh -c");
    assert_end_within(Duration::from_secs(2), &ids);
}

#[test]
fn a_kill_takes_the_generator_along_and_what_it_started() {
    let bench = Bench::beside_others();
    let (audit, ids) = endless(&bench);
    audit.signal(Signal::KILL);
    audit.finish();
    assert_end_within(Duration::from_secs(20), &ids);
}

#[test]
fn a_record_that_nobody_asked_for_is_removed() {
    let bench = Bench::beside_others();
    let folder = bench.path("temporary");
    fs::create_dir(&folder).unwrap();
    let mut audit = bench.plimsoll(["audit", "--", "true"]);
    bench.start(audit.env("TMPDIR", &folder)).finish().exits(0).says("0 served");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_generator_that_does_not_exist_is_told() {
    let bench = Bench::beside_others();
    let audit = bench.start(&mut bench.plimsoll(["audit", "--", "no-such-generator"])).finish().exits(104);
    assert!(audit.stderr.contains("cannot run `no-such-generator`"), "{}", audit.stderr);
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn reported_figures_stand_beside_the_truth() {
        let bench = Bench::new();
        let path = bench.path("wrk");
        fs::write(&path, GENERATOR).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let program = path.to_str().unwrap();
        let options = "audit --protocol http --service deterministic:10ms --rate 10 --";
        let further = ["a word that is not asked for", "and another, so that the line is long"];
        let called = [program, "{host}", "{port}"].into_iter().chain(further);
        let arguments: Vec<&str> = options.split(' ').chain(called).collect();
        let audit = bench.start(&mut bench.plimsoll(arguments)).finish().exits(0);
        let row = |name: &str| -> Vec<String> {
            let line = audit.stdout.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name} in {}", audit.stdout))
                .split("  ")
                .map(|s| s.trim().to_owned())
                .filter(|s| !s.is_empty())
                .collect()
        };
        assert_eq!(row("messages"), ["messages", "30", "30", "-"]);
        let p50 = row("p50");
        assert_eq!((p50[1].as_str(), p50[3].as_str()), ("777 µs", "10.0 ms"), "{p50:?}");
        // A sleeping station answers no earlier than its service takes.
        assert!(p50[2].ends_with("ms"), "{p50:?}");
        assert!(audit.stdout.lines().all(|line| line.chars().count() <= 80), "{}", audit.stdout);
        assert!(audit.said().contains("so that the line is long"), "{}", audit.stdout);
    }
}
