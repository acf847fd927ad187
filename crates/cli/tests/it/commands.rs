//! Every command, on one run.

use crate::harness::{Bench, STORE, count};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::fs;

const SCENARIO: &str = "name: small
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100, 200], warm_up: 0s, hold: 1s, samples: 5, drain: 10s, again: 0s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

#[test]
fn check_says_what_would_happen_and_touches_nothing() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let checked = bench.call(["check", "scenario.yaml"]).exits(0).says("small").says("embedded");
    assert!(checked.stderr.is_empty());
    assert_eq!(bench.files(), ["scenario.yaml"]);
    bench.call(["check", "scenario.yaml", "--set", "population.devices=4711"]).exits(0).says("4,711");
}

#[test]
fn check_reads_every_example_and_the_quick_form() {
    let bench = Bench::beside_others();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut read = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            bench.call(["check", path.to_str().unwrap()]).exits(0);
            read += 1;
        }
    }
    assert!(read > 0, "there are examples in {examples}");
    let quick =
        ["check", "mqtt://broker.example", "--devices", "1000", "--rate", "100..1500/100", "--hold", "30s"];
    bench.call(quick).exits(0).says("broker.example").says("1,500");
}

#[test]
fn platforms_lists_the_profiles_and_shows_one() {
    let bench = Bench::beside_others();
    let listed = bench.call(["platforms"]).exits(0).says("embedded").says("existing").says("mosquitto");
    assert!(listed.stdout.lines().all(|line| line.len() <= 80), "{}", listed.stdout);
    let shown = bench.call(["platforms", "mosquitto"]).exits(0);
    let profile =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/mosquitto.yaml")).unwrap();
    assert_eq!(shown.stdout, profile);
}

/// The bar that shows progress takes away its own lines alone.
#[test]
fn a_terminal_keeps_all_that_is_said_of_a_result() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", &SCENARIO.replace("embedded", "simulated"));
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    let line = format!("{plimsoll} run scenario.yaml --store {STORE}");
    let run = bench.start(bench.in_folder("script").args(["-qec", &line, "/dev/null"])).finish();
    let shown = run.stdout.split("more: plimsoll show").nth(1).unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(run.stdout.contains("level 1"), "progress was shown: {}", run.stdout);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn help_and_version_are_no_errors() {
    let bench = Bench::beside_others();
    let help = bench.call(["--help"]).exits(0);
    let commands =
        ["run", "check", "doctor", "platforms", "runs", "show", "report", "export", "target", "city"];
    assert!(commands.iter().all(|command| help.stdout.contains(command)), "{}", help.stdout);
    bench.call(["--version"]).exits(0).says(env!("CARGO_PKG_VERSION"));
    for command in commands {
        let help = bench.call([command, "--help"]).exits(0);
        assert!(help.stdout.contains("Example"), "{command} --help has an example");
    }
}

#[test]
fn a_stored_run_is_listed_shown_reported_and_exported() {
    let bench = Bench::beside_others();
    let run = bench.run(SCENARIO).judged();
    assert_eq!(
        bench.files(),
        [STORE, "scenario.yaml", "summary.json"],
        "one file is the store, and no report"
    );

    let version = run.summary["provenance"]["platform"].to_string();
    assert!(version.contains("version\":\"plimsoll "), "{version}");
    let id = run.summary["run"].as_str().unwrap().to_owned();
    let listed = bench.call(["runs", "--store", STORE]).exits(0).says(&id).says("small");
    assert_eq!(listed.stdout.lines().count(), 2, "a head and a run");

    // All of the id, its beginning, `last`, and the scenario's name are the same run, as the run itself printed it.
    for name in [id.as_str(), &id[..4], "last", "small"] {
        let shown = bench.call(["show", name, "--store", STORE, "-v"]).exits(0);
        assert_eq!(shown.stdout, run.stdout);
    }
    let none = bench.call(["runs", "nosuch", "--store", STORE]).exits(0);
    assert_eq!(none.stdout, format!("no run is named nosuch in {STORE}\n"));
    let none = bench.call(["runs", "nosuch", "--json", "--store", STORE]).exits(0);
    assert_eq!(none.stdout, "[]\n");
    let json = bench.call(["show", "--json", "--store", STORE]).exits(0);
    assert_eq!(json.stdout, fs::read_to_string(bench.path("summary.json")).unwrap());
    bench.call(["show", "zzzzzzzz", "--store", STORE]).exits(104).says("no run zzzzzzzz");

    bench.call(["report", "--store", STORE, "--output", "report.html"]).exits(0).says("report: report.html");
    let report = fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(report.contains("<html") && report.contains("small"));

    let levels = bench.call(["export", "--store", STORE, "--rows", "levels"]).exits(0).stdout;
    let rows: Vec<Vec<&str>> = levels.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 2);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let cell = |row: usize, name: &str| rows[row][rows[0].iter().position(|head| *head == name).unwrap()];
    for (row, level) in (1..).zip(run.levels()) {
        for name in ["due", "sent", "acknowledged", "delivered", "lost"] {
            assert_eq!(cell(row, name), count(level, name).to_string());
        }
    }
    let started = run.summary["provenance"]["started"].as_str().unwrap();
    for (row, level) in [(1, "1"), (2, "2")] {
        let told = ["run", "name", "started", "level"].map(|name| cell(row, name));
        assert_eq!(told, [id.as_str(), "small", started, level], "as in the terminal");
    }
    assert_eq!((cell(1, "offered"), cell(2, "offered"), cell(1, "due")), ("100", "200", "99"));

    let samples =
        bench.call(["export", "--store", STORE, "--format", "csv", "--rows", "samples"]).exits(0).stdout;
    let rows: Vec<Vec<&str>> = samples.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 2 * 5);
    let due = rows[0].iter().position(|head| *head == "due").unwrap();
    assert_eq!(rows[0][..5], ["run", "name", "started", "level", "sample"]);
    assert_eq!((&rows[1][..5], rows[6][3]), (&[id.as_str(), "small", started, "1", "0"][..], "2"));
    let sum: u64 = rows[1..=5].iter().map(|row| row[due].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 99, "the samples of a level add up to it");
}

#[test]
fn the_report_stands_beside_the_scenario_unless_another_place_is_named() {
    let bench = Bench::beside_others();
    bench.write("small.yaml", &SCENARIO.replace("[100, 200]", "[100]"));
    bench.call(["run", "small.yaml"]).judged().says("report: small.report.html");
    assert_eq!(bench.files(), ["plimsoll.db", "small.report.html", "small.yaml"]);
    bench.call(["run", "small.yaml", "--report", "elsewhere.html", "--quiet"]).judged();
    assert!(bench.path("elsewhere.html").exists());
}

#[test]
fn set_overrides_any_key_and_the_store_may_come_from_the_environment() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", SCENARIO);
    let set = ["--set", "load.levels.1=300", "--set", "load.samples=4", "--set", "name=other"];
    let mut command =
        bench.plimsoll(["run", "scenario.yaml", "--no-report", "--summary-json", "summary.json"]);
    command.args(set).env("PLIMSOLL_STORE", "there.db");
    let run = bench.start(&mut command).finish().judged();
    assert_eq!((&run.summary["name"], &run.level(1)["offered"]), (&"other".into(), &300.0.into()));
    assert_eq!(run.level(0)["achieved_samples"].as_array().unwrap().len(), 4);
    assert!(bench.path("there.db").exists());
}

#[test]
fn the_quick_form_needs_no_file() {
    let broker = ScriptedBroker::start(Script::default());
    let bench = Bench::beside_others();
    let url = broker.url();
    let mut arguments =
        vec!["run", &url, "--devices", "3", "--rate", "100..200/100", "--hold", "1s", "--warm-up", "0s"];
    arguments.extend([
        "--samples",
        "5",
        "--drain",
        "10s",
        "--qos",
        "0",
        "--size",
        "100",
        "--subscribers",
        "2",
    ]);
    arguments.extend([
        "--arrivals",
        "constant",
        "--seed",
        "3",
        "--mqtt",
        "5",
        "--objective",
        "subscribe_p50 < 10 s",
    ]);
    arguments.extend(["--set", "objectives.subscribe_p99=null", "--set", "load.again=0s"]);
    arguments.extend(crate::harness::RESULTS);
    let run = bench.call(arguments).judged();
    assert_eq!(run.levels().len(), 2);
    let level = run.level(0);
    assert_eq!(
        (count(level, "due"), count(level, "expected_deliveries"), count(level, "delivered")),
        (99, 198, 198)
    );
    assert!(level["acknowledged"].is_null(), "QoS 0");
    assert_eq!((&level["marshalled_size"], &run.summary["provenance"]["seed"]), (&100.0.into(), &3.into()));
    let objectives = run.summary["objectives"].to_string();
    assert!(objectives.contains("subscribe_p50"), "{objectives}");
}

#[test]
fn output_that_is_no_terminal_is_plain_narrow_and_without_progress() {
    let bench = Bench::beside_others();
    let mut command = bench.run_command(&SCENARIO.replace("[100, 200]", "[100]"));
    command.env("NO_COLOR", "1");
    let run = bench.start(&mut command).finish().judged();
    assert!(!run.stdout.contains('\x1b'), "no colour");
    assert!(run.stderr.is_empty(), "no progress: {}", run.stderr);
    let long: Vec<&str> = run.stdout.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "wider than 80 columns: {long:?}");
}

/// `script` (of every Debian) gives the program a terminal to write to.
#[test]
fn a_terminal_gets_colour_unless_no_color_is_set() {
    let bench = Bench::beside_others();
    bench.run(&SCENARIO.replace("embedded", "simulated")).exits(0);
    let shown = |no_color: &str| {
        let show = format!("{} show --store {STORE}", env!("CARGO_BIN_EXE_plimsoll"));
        let mut terminal = bench.in_folder("script");
        terminal.args(["--quiet", "--return", "--command", &show, "/dev/null"]).env("NO_COLOR", no_color);
        bench.start(&mut terminal).finish().exits(0).says("MET").stdout
    };
    assert!(shown("").contains("\x1b[1;32mMET\x1b[0m"), "an empty NO_COLOR does not count (no-color.org)");
    assert!(!shown("1").contains('\x1b'));
}
