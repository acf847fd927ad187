//! The scenarios in `examples/` run as they stand, but for the length of their levels: each in the acceptance, three
//! ways of loading with every change. All are read with every change (`commands`).

use crate::harness::{Bench, RESULTS, count};
use std::fs;
use std::path::{Path, PathBuf};

/// Too short to judge times by, so what is asserted is what holds at any speed: the ledger.
const SHORT: [&str; 10] = [
    "--set",
    "load.hold=1s",
    "--set",
    "load.warm_up=200ms",
    "--set",
    "load.samples=5",
    "--set",
    "load.drain=3s",
    "--set",
    "population.devices=50",
];

#[test]
#[ignore = "acceptance: examples"]
fn every_example_runs_and_its_ledger_adds_up() {
    let folder = folder();
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    // What has a matrix is run by the tests of `sweep`.
    let varies = |name: &str| fs::read_to_string(folder.join(name)).unwrap().contains("\nmatrix:\n");
    names.retain(|name| name.ends_with(".yaml") && !varies(name));
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    run_all(&names.iter().map(String::as_str).collect::<Vec<_>>());
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[track_caller]
fn run_all(names: &[&str]) {
    let bench = Bench::beside_others();
    for name in names {
        let scenario = folder().join(name).canonicalize().unwrap();
        let mut command = bench.plimsoll(["run"]);
        command.arg(&scenario).args(RESULTS);
        // Of several populations each has its own devices and messages, and the scenario says what is quick.
        let several = name.starts_with("mixed");
        command.args(if several { &["--quick"][..] } else { &SHORT });
        if several {
            command.args(["--set", "load.again=0s"]);
        } else if name.starts_with("search") {
            command.args(["--set", "load.search={from: 50, to: 200, time: 12s}"]);
        } else if name.starts_with("devices") {
            command.args(["--set", "load.devices=[20, 50]", "--set", "load.rate_per_device=2"]);
        } else if name.starts_with("storm") {
            command.args(["--set", "load.hold=4s", "--set", "load.storm={after: 1s, down: 500ms}"]);
        } else if name.starts_with("faults") {
            // One short fault; the others are in the tests of `faults`.
            let fault = "faults=[{kind: pause, at: 1s, for: 500ms}]";
            command.args(["--set", fault, "--set", "load.hold=4s", "--set", "load.samples=20"]);
        } else if name.starts_with("day") {
            command.args(["--set", "load.hold=4s"]);
        } else if name.starts_with("spike") {
            let spike = "load.spike={from: 50, to: 200, at: 1s, for: 500ms}";
            command.args(["--set", spike, "--set", "load.hold=4s", "--set", "load.samples=20"]);
        } else if name.starts_with("work-b") {
            command.args(["--set", "load.in_flight=[1, 5]"]);
            if name.ends_with("through-the-day.yaml") {
                command.args(["--set", "schedule={every: 1s, times: 2}"]);
            }
        } else if name.starts_with("work-e") {
            command.args(["--set", "load.calibrate={from: 1k, attempts: 3}"]);
        } else if !name.starts_with("closed") {
            command.args(["--set", "load.levels=[50, 200]"]);
        }
        let finished = bench.start(&mut command).finish();
        let judged = [0, 3, 99].map(Some);
        assert!(judged.contains(&finished.code), "{name}: {:?}\n{}", finished.code, finished.stderr);
        for level in finished.levels() {
            assert_eq!(level["finished"], true, "{name}: {level:#}");
            assert!(count(level, "sent") > 0, "{name}: {level:#}");
            assert_eq!(count(level, "due"), count(level, "sent") + count(level, "unsent"), "{name}");
            // What was in flight when the broker was killed is lost, and what the chain's worker drops.
            let loses = name.starts_with("storm") || name.starts_with("chain");
            assert!(count(level, "lost") == 0 || loses, "{name}: {level:#}");
            assert_eq!(count(level, "foreign"), 0, "{name}: {level:#}");
        }
    }
}

#[test]
fn an_open_a_closed_and_a_searching_example_run_and_their_ledgers_add_up() {
    run_all(&["closed-loop.yaml", "quickstart.yaml", "search.yaml"]);
}
