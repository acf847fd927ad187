//! Input that is wrong, and hosts that do not allow the run: exit code 104 (or 1 for the run store) and a message that
//! says what to do.

use crate::harness::{Bench, STORE};

const SCENARIO: &str = "name: small
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100], warm_up: 0s, hold: 1s, samples: 5, drain: 1s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

#[test]
fn unknown_keys_are_all_told_at_once_with_their_near_misses() {
    let bench = Bench::beside_others();
    let scenario = SCENARIO.replace("hold:", "hodl:").replace("devices:", "devises:");
    let run = bench.run(&scenario).exits(104).says("hodl").says("hold").says("devises").says("devices");
    let run = run.says("scenario.yaml:3").says("scenario.yaml:4");
    assert!(run.summary.is_null());
    assert_eq!(bench.files(), ["scenario.yaml"], "nothing was made");
}

#[test]
fn impossible_combinations_are_told() {
    let combinations = [
        (
            "objectives:",
            "mqtt: { qos: 0 }\nobjectives:",
            "publish_p99: null",
            "publish_p99: \"< 5 ms\"",
            "publish_p99",
        ),
        ("levels: [100]", "model: closed, levels: [100]", "", "", "belongs to the open model"),
        ("hold: 1s", "hold: 20ms", "", "", "shorter than 10 ms"),
        ("embedded", "existing", "", "", "needs an address"),
        ("embedded", "embeded", "", "", "embedded"),
        ("devices: 5", "devices: 0", "", "", "devices"),
    ];
    let bench = Bench::beside_others();
    for (from, to, and, then, told) in combinations {
        let mut scenario = SCENARIO.replace(from, to);
        if !and.is_empty() {
            scenario = scenario.replace(and, then);
        }
        bench.run(&scenario).exits(104).says(told);
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    for (arguments, told) in [
        (&["run"][..], "required"),
        (&["run", "no-such.yaml"], "cannot read no-such.yaml"),
        (&["run", "scenario.yaml", "--devices", "5"], "--devices goes with an address"),
        (&["run", "scenario.yaml", "--set", "load.hodl=1s"], "hold"),
        (&["run", "mqtt://localhost", "--devices", "5", "--rate", "100..50/10"], "above"),
        (
            &["run", "mqtt://me:secret-4711@localhost", "--rate", "100"],
            "password does not belong in an address",
        ),
        (&["sail"], "sail"),
        (&["export", "--format", "pdf"], "pdf"),
        (&["platforms", "no-such-platform"], "mosquitto"),
    ] {
        let run = bench.call(arguments).exits(104).says(told);
        assert!(!run.said().contains("secret-4711"), "a password is not repeated");
        assert!(run.stdout.is_empty(), "errors go to standard error: {}", run.stdout);
    }
    assert_eq!(bench.files(), ["scenario.yaml"], "nothing was made");
}

#[test]
fn too_few_open_files_are_told_with_the_number_and_the_command_that_raises_it() {
    let bench = Bench::beside_others();
    let run = bench.run_command(&SCENARIO.replace("devices: 5", "devices: 200"));
    let mut limited = bench.behind_shell("ulimit -n 100 && exec \"$@\"", &run);
    let run = bench.start(&mut limited).finish().exits(104);
    // 200 devices, one subscriber, and what the program itself needs.
    let run = run.says("201 connections need").says("may have 100").says("ulimit -n ");
    let raised: u64 =
        run.said().split("ulimit -n ").nth(1).unwrap().split('`').next().unwrap().parse().unwrap();
    assert!(raised > 201);
}

#[test]
fn a_store_that_cannot_be_made_fails_the_run_before_anything_starts() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    for store in ["no-such-folder/runs.db", "/dev/full", "."] {
        let run = bench.call(["run", "scenario.yaml", "--no-report", "--store", store]).exits(1);
        run.says(store).says("--store FILE");
    }
}

/// The file size that a process may write ends the store's growth as a full disk does. 400 blocks of 512 bytes
/// are enough for the tables and not for a run.
#[test]
fn a_store_that_is_full_in_mid_run_ends_the_run_and_keeps_what_it_had() {
    let bench = Bench::beside_others();
    let run =
        bench.run_command(&SCENARIO.replace("samples: 5", "samples: 200").replace("hold: 1s", "hold: 20s"));
    // A process that ignores the signal gets an error from write(2) instead (setrlimit(2), RLIMIT_FSIZE).
    let run = bench.start(&mut bench.behind_shell("trap '' XFSZ; exec \"$@\"", &run));
    bench.await_level(0);
    // What is written to the store goes to its log first: from here on it may grow by a few samples.
    let log = std::fs::metadata(bench.path(&format!("{STORE}-wal"))).unwrap().len();
    run.limit_file_size(log + 100_000);
    let run = run.finish().exits(1);
    run.says("cannot write to the run store").says("`ulimit -f`");
    bench.call(["show", "--store", STORE]).exits(0).says("100/s");
}

#[test]
fn results_that_cannot_be_written_are_told_by_name_before_the_run() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let missing = "no-such-folder/summary.json";
    let arguments = ["run", "scenario.yaml", "--no-report", "--store", STORE, "--summary-json", missing];
    bench.call(arguments).exits(1).says(missing);
    assert_eq!(bench.files(), ["scenario.yaml"], "nothing was begun");
}

#[test]
fn results_that_fail_only_when_they_are_written_are_no_success_and_the_run_is_in_the_store() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let arguments = ["run", "scenario.yaml", "--no-report", "--store", STORE, "--summary-json", "/dev/full"];
    bench.call(arguments).unwritten().says("cannot write /dev/full");
    bench.call(["show", "--store", STORE]).exits(0).says("100/s");
}

#[test]
fn outputs_that_would_overwrite_each_other_or_the_scenario_are_refused() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let run = |outputs: &[&str]| {
        let arguments = ["run", "scenario.yaml"].iter().chain(outputs);
        bench.call(arguments).exits(104).says("are the same file");
    };
    run(&["--report", "scenario.yaml"]);
    run(&["--store", "x", "--summary-json", "./x", "--no-report"]);
    run(&["--summary-json", "y", "--report", "y"]);
    bench.write("feed.csv", "value\n1\n");
    bench.write("fed.yaml", &format!("{SCENARIO}message: {{ feed: {{ file: feed.csv }} }}\n"));
    let compare = ["compare", "scenario.yaml", "fed.yaml", "--markdown", "feed.csv"];
    bench.call(compare).exits(104).says("are the same file");
    assert_eq!(bench.files(), ["fed.yaml", "feed.csv", "scenario.yaml"]);
}

#[test]
fn an_address_without_its_protocol_is_told_what_is_missing() {
    let bench = Bench::beside_others();
    let run = bench.call(["run", "localhost:1883", "--devices", "1", "--rate", "1"]);
    run.exits(104).says("mqtt://localhost:1883");
    bench.call(["check", "localhost:1883"]).exits(104).says("mqtt://localhost:1883");
    bench.call(["check", "no-such-file.yaml"]).exits(104).says("cannot read no-such-file.yaml");
}
