//! A quota of processor time for a component of a platform.

use crate::harness::{Bench, number};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests need 2 ms of processor time each, so half of a processor serves 250 a second.
const PROFILE: &str = r#"
name: spinner
title: a station that works
description: A station whose one worker uses a processor
limits: { all: its one worker }
components:
  - name: station
    command: ["{plimsoll}", target, station, --protocol, http, --port, "{port:http}",
              --work, spin, --service, "deterministic:2ms"]
    ready_port: http
    http_port: http
device:
  speaks: http
  request: { path: /, body: "{message}", expect: [204] }
"#;

const SCENARIO: &str = "name: limited
platform: { profile: spinner.yaml, quotas: { station: 0.5 } }
population: { devices: 20 }
load: { levels: [100, 400], warm_up: 500ms, hold: 3s, samples: 3, drain: 2s, again: 0s }
objectives: { achieved: null, publish_p99: null, publish_p50: < 10 s }
";

/// The groups of all platforms that Plimsoll has started and not taken down.
fn groups() -> Vec<String> {
    let folders = ["cpu", "cpu,cpuacct", "memory", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("plimsoll-"))
        .collect()
}

/// Fails unless all groups are gone soon.
#[track_caller]
fn assert_no_group_stays() {
    let begin = Instant::now();
    while !groups().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?} stay", groups());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_group_goes_with_plimsoll_also_where_it_is_killed() {
    let bench = Bench::beside_others();
    bench.write("spinner.yaml", PROFILE);
    let run = bench.start(&mut bench.run_command(SCENARIO));
    bench.await_count(0, "acknowledged");
    assert!(!groups().is_empty());
    run.signal(Signal::KILL);
    run.finish();
    assert_no_group_stays();
}

#[test]
fn a_component_that_needs_more_memory_than_its_limit_dies_and_the_limit_is_named() {
    let bench = Bench::beside_others();
    // `tail` keeps what has no end of line.
    let hog = r#"  - name: hog
    command: [sh, -c, "sleep 8; head -c 300000000 /dev/zero | tail"]
"#;
    bench.write("spinner.yaml", &PROFILE.replace("device:\n", &format!("{hog}device:\n")));
    let limited = SCENARIO.replace("{ station: 0.5 }", "{ hog: { memory: 64 MiB } }");
    let run = bench.run(&limited.replace("hold: 3s", "hold: 20s"));
    let run = run.says("hog").says("it needed more than 64 MiB of memory, its limit (platform.quotas)");
    assert_eq!(run.summary["levels"][0]["death"]["component"], "hog", "{:#}", run.summary["levels"][0]);
    assert_no_group_stays();
}

#[test]
fn what_a_component_has_started_and_left_is_its_own() {
    let bench = Bench::beside_others();
    // The subshell ends, and leaves what spins to the guard.
    let spins = "(setsid sh -c 'while :; do :; done' &); exec sleep 100";
    let left = format!("  - name: left\n    command: [sh, -c, \"{spins}\"]\n");
    bench.write("spinner.yaml", &PROFILE.replace("device:\n", &format!("{left}device:\n")));
    let run = bench.run(&SCENARIO.replace("{ station: 0.5 }", "{ left: 0.3 }"));
    let components = run.summary["components"].as_array().unwrap();
    let left = components.iter().find(|component| component["name"] == "left").unwrap();
    let used = number(left, &["cpu_mean"]);
    // Others use this machine meanwhile; one that sleeps uses nothing.
    assert!((0.005..0.5).contains(&used), "{left:#}");
    assert_no_group_stays();
}

mod alone {
    use super::*;

    #[test]
    fn a_component_uses_its_quota_and_no_more_and_the_laws_know_it() {
        let bench = Bench::new();
        bench.write("spinner.yaml", PROFILE);
        let run = bench.run(SCENARIO);
        let mean = |quantity: &str, level: usize| {
            let gauges = run.summary["gauges"].as_array().unwrap();
            let gauge = gauges.iter().find(|it| it["quantity"] == quantity && it["subject"] == "station");
            number(&gauge.unwrap_or_else(|| panic!("no {quantity}"))["levels"][level], &["mean"])
        };
        assert_eq!(mean("quota", 0), 0.5);
        let used = number(&run.summary["laws"][0]["levels"][1], &["used"]);
        assert!((used - 0.5).abs() < 0.05, "{used}");
        assert!(mean("throttled", 1) > 0.1, "{}", mean("throttled", 1));
        let achieved = number(run.level(1), &["achieved"]);
        assert!(achieved < 260.0, "{achieved}/s");
        assert_eq!(run.summary["laws"][0]["servers"], 0.5, "{:#}", run.summary["laws"]);
        assert_no_group_stays();
    }
}
