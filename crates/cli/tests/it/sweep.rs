//! `plimsoll sweep`: a scenario in which something varies, as a user meets it.

use crate::harness::{Bench, STORE};
use crate::mosquitto::Mosquitto;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Two by two combinations of the embedded broker, all short.
const SCENARIO: &str = "
name: two by two
platform: embedded
population: { devices: 2, subscribers: 0 }
load: { levels: [20], warm_up: 100ms, hold: 500ms, samples: 5, drain: 1s }
matrix:
  message.size: [16, 64]
  mqtt: { qos: [0, 1] }
quick:
  matrix.mqtt.qos: [1]
";

fn json(bench: &Bench, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(bench.path(name)).unwrap()).unwrap()
}

fn runs(sweep: &Value) -> Vec<String> {
    let cells = sweep["cells"].as_array().unwrap().iter();
    let runs = cells.flat_map(|cell| cell["runs"].as_array().unwrap());
    runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_combination_is_run_in_each_turn_and_told_in_every_form() {
    let bench = Bench::beside_others();
    bench.write("sweep.yaml", SCENARIO);
    let outputs = ["--json", "a.json", "--csv", "a.csv", "--markdown", "a.md", "--report", "a.html"];
    let swept =
        bench.call(["sweep", "sweep.yaml", "--repeat", "2", "--store", STORE].into_iter().chain(outputs));
    // A busy machine may leave a combination without a valid run.
    assert!([0, 3].map(Some).contains(&swept.code), "{:?} {}", swept.code, swept.stderr);
    assert!(swept.stdout.contains("[8/8] "), "{}", swept.stdout);
    let sweep = json(&bench, "a.json");
    assert_eq!(sweep["axes"][1]["key"], "mqtt.qos");
    let positions: Vec<String> =
        sweep["cells"].as_array().unwrap().iter().map(|cell| cell["position"].to_string()).collect();
    assert_eq!(positions, ["[0,0]", "[0,1]", "[1,0]", "[1,1]"]);
    let first = runs(&sweep);
    assert_eq!(first.len(), 8);
    let shown = bench.call(["show", &first[0], "--store", STORE]).exits(0);
    assert!(shown.stdout.contains("two by two"));
    for (file, expected) in [
        ("a.csv", "message.size,mqtt.qos,quantity,unit,runs,at_least,mean,"),
        ("a.md", "**throughput (operations/s)**, by size"),
        ("a.html", "<h1>two by two</h1>"),
        ("a.html", "platform embedded · hold 500 ms · warm-up 100 ms · Plimsoll "),
    ] {
        let text = fs::read_to_string(bench.path(file)).unwrap();
        assert!(text.contains(expected), "{file}");
    }
    // The same once more costs no run, and one turn more costs one turn.
    let again = bench.call([
        "sweep",
        "sweep.yaml",
        "--repeat",
        "3",
        "--resume",
        "--store",
        STORE,
        "--json",
        "b.json",
    ]);
    let valid = sweep["cells"].as_array().unwrap().iter().flat_map(|cell| cell["runs"].as_array().unwrap());
    let valid = valid.filter(|run| run["validity"] == "valid").count();
    assert_eq!(again.stdout.matches("(stored)").count(), valid, "{}", again.stdout);
    assert!(again.stdout.lines().all(|line| line.chars().count() <= 80), "{}", again.stdout);
    assert_eq!(runs(&json(&bench, "b.json")).len(), 12);
    assert!(bench.path("sweep.sweep.html").exists(), "the report stands beside the scenario by default");
}

#[test]
fn an_address_is_swept_without_a_file() {
    let bench = Bench::beside_others();
    let broker = Mosquitto::start(&bench, "allow_anonymous true\n");
    let address = format!("mqtt://localhost:{}", broker.port());
    let load =
        ["--devices", "2", "--subscribers", "1", "--rate", "20", "--hold", "500ms", "--warm-up", "100ms"];
    let varies = ["--samples", "5", "--set", "matrix.mqtt.qos=[0, 1]", "--json", "a.json", "--store", STORE];
    let swept = bench.call(["sweep", address.as_str()].into_iter().chain(load).chain(varies));
    assert!([0, 3].map(Some).contains(&swept.code), "{:?} {}", swept.code, swept.stderr);
    assert_eq!(runs(&json(&bench, "a.json")).len(), 2);
    assert!(bench.path("plimsoll.sweep.html").exists(), "{:?}", bench.files());
}

#[test]
fn what_varies_is_changed_from_the_command_line() {
    let bench = Bench::beside_others();
    bench.write("sweep.yaml", SCENARIO);
    let checked =
        bench.call(["check", "sweep.yaml", "--quick", "--set", "matrix.message.size=[16]"]).exits(0);
    assert!(checked.stdout.starts_with("1 run, which `plimsoll sweep` makes"), "{}", checked.stdout);
    bench.call(["check", "sweep.yaml"]).exits(0);
    let one = bench.call(["check", "sweep.yaml", "--set", "matrix=null"]).exits(0);
    assert!(!one.stdout.contains("sweep"), "{}", one.stdout);
}

#[test]
fn what_is_no_sweep_is_refused() {
    let bench = Bench::beside_others();
    bench.write("sweep.yaml", SCENARIO);
    bench.call(["run", "sweep.yaml"]).exits(104).says("it is 4 runs").says("plimsoll sweep");
    bench.call(["sweep", "sweep.yaml", "--set", "matrix=null"]).exits(104).says("nothing varies");
    let address = ["sweep", "mqtt://localhost:1", "--devices", "1", "--rate", "1"];
    bench.call(address).exits(104).says("nothing varies").says("--set 'matrix.");
    let nowhere = ["sweep", "sweep.yaml", "--json", "no/such/folder.json"];
    bench.call(nowhere).exits(1).says("no/such/folder.json");
    let scheduled = ["sweep", "sweep.yaml", "--set", "schedule={every: 1h, times: 2}"];
    bench.call(scheduled).exits(104).says("a sweep has no `schedule`");
    bench.call(["check", "sweep.yaml", "--probe"]).exits(104).says("it is 4 runs");
    bench.call(["run", "mqtt://localhost:1", "--quick"]).exits(104).says("--quick goes with");
    bench
        .call(["check", "sweep.yaml", "--set", "matrix.population.devices=[0]"])
        .exits(104)
        .says("population.devices");
}

/// A scenario can be read once alone, and a file that is edited meanwhile changes nothing.
#[test]
fn everything_is_read_before_the_first_run() {
    let bench = Bench::beside_others();
    let feed = "{ template: \"{marker} {feed:v}\", feed: { file: feed.csv } }";
    let text = SCENARIO.replace("population:", &format!("message: {feed}\npopulation:"));
    let text = text.replace("  message.size: [16, 64]\n", "  population.devices: [2, 3]\n");
    bench.write("sweep.yaml", &text.replace("feed.csv", bench.path("feed.csv").to_str().unwrap()));
    bench.write("feed.csv", "v\n1\n");
    let outputs = ["--json", "a.json", "--report", "a.html", "--store", STORE, "--repeat", "2"];
    let piped = bench.plimsoll(["sweep", "/dev/stdin", "--quick"].into_iter().chain(outputs));
    let sweep = bench.start(&mut bench.behind_shell("cat sweep.yaml | \"$@\"", &piped));
    let begun = Instant::now();
    while !sweep.said_so_far().contains("[1/4]") && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.write("feed.csv", "v\n");
    let swept = sweep.finish();
    assert!([0, 3].map(Some).contains(&swept.code), "{:?} {}", swept.code, swept.stderr);
    assert_eq!(runs(&json(&bench, "a.json")).len(), 4);
}

/// The store may be damaged, and an id may be the word that means the newest run.
#[test]
fn a_stored_run_that_cannot_be_read_is_made_anew() {
    let bench = Bench::beside_others();
    bench.write("sweep.yaml", SCENARIO);
    let sweep = |json: &'static str| {
        let arguments = ["sweep", "sweep.yaml", "--quick", "--resume", "--store", STORE, "--json", json];
        let swept = bench.call(arguments);
        assert!([0, 3].map(Some).contains(&swept.code), "{:?} {}", swept.code, swept.stderr);
        swept
    };
    sweep("a.json");
    let first = json(&bench, "a.json");
    let [renamed, damaged] = runs(&first).try_into().unwrap();
    let change = format!(
        "import sqlite3\n\
         store = sqlite3.connect('{STORE}')\n\
         store.execute(\"update level set start = 'x' where run = '{damaged}'\")\n\
         store.execute(\"update run set id = 'last' where id = '{renamed}'\")\n\
         for table in ['level', 'part', 'thread', 'component']:\n\
         \x20   store.execute(f\"update {{table}} set run = 'last' where run = '{renamed}'\")\n\
         store.commit()"
    );
    let python = bench.start(bench.in_folder("python3").args(["-c", &change])).finish();
    python.exits(0);
    let again = sweep("b.json");
    let second = json(&bench, "b.json");
    let notes = second["notes"].to_string();
    assert!(notes.contains("1 of the store's runs could not be read") && notes.contains(&damaged), "{notes}");
    let valid = |cell: usize| first["cells"][cell]["runs"][0]["validity"] == "valid";
    assert_eq!(again.stdout.matches("(stored)").count(), usize::from(valid(0)), "{}", again.stdout);
    assert_eq!(runs(&second)[0] == "last", valid(0));
}

/// A thousand combinations need no more memory than one.
#[test]
fn combinations_share_what_they_have_in_common() {
    let bench = Bench::beside_others();
    bench.write("feed.csv", &format!("v\n{}", "1\n".repeat(50_000)));
    let values = |count: usize| (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    bench.write(
        "sweep.yaml",
        &format!(
            "name: many\nplatform: embedded\npopulation: {{ devices: 1 }}\nload: {{ levels: [10] }}\n\
             message: {{ template: \"{{marker}} {{feed:v}}\", feed: {{ file: feed.csv }} }}\n\
             matrix: {{ population.devices: [{}], mqtt.in_flight: [{}] }}\n",
            values(20),
            values(10)
        ),
    );
    let checked = bench.call(["check", "sweep.yaml"]).exits(0).says("200 runs");
    assert!(checked.peak_memory < 200 << 20, "{} bytes", checked.peak_memory);
}

#[test]
fn outputs_overwrite_nothing_that_is_read_or_written_beside_them() {
    let bench = Bench::beside_others();
    let scenario = bench.write("sweep.yaml", SCENARIO);
    std::os::unix::fs::symlink(&scenario, bench.path("link.yaml")).unwrap();
    for (outputs, expected) in [
        (&["--json", "sweep.yaml"][..], "--json and a file that is read are the same file"),
        (&["--csv", "link.yaml"], "--csv and a file that is read are the same file"),
        (&["--markdown", STORE], "--markdown and --store are the same file"),
        (&["--csv", "x", "--json", "./x"], "--csv and --json are the same file"),
        (&["--json", "sweep.sweep.html"], "--json and --report are the same file"),
    ] {
        let arguments = ["sweep", "sweep.yaml", "--store", STORE].iter().chain(outputs);
        bench.call(arguments).exits(104).says(expected);
    }
    assert_eq!(fs::read_to_string(scenario).unwrap(), SCENARIO);
    assert_eq!(bench.files(), ["link.yaml", "sweep.yaml"], "nothing was begun");
}

#[test]
fn what_is_too_large_for_a_scenario_is_refused() {
    let bench = Bench::beside_others();
    let text = SCENARIO.replace("  message.size: [16, 64]\n", "");
    bench.write("sweep.yaml", &text);
    let feed = "message={ template: \"{marker}\", feed: { file: /dev/zero } }";
    let checked = bench.call(["check", "sweep.yaml", "--set", feed]).exits(104);
    checked.says("cannot read the feed `/dev/zero`: it is larger than the 64 MiB");
    let long = format!("matrix.name=[{}, b]", "a".repeat(70_000));
    bench.call(["check", "sweep.yaml", "--set", &long]).exits(104).says("longer than 200 characters");
}

/// A combination that cannot be run does not take the others with it.
#[test]
fn a_combination_that_fails_is_told_and_the_others_are_run() {
    let bench = Bench::beside_others();
    let text = SCENARIO.replace(
        "  mqtt: { qos: [0, 1] }\n",
        "  platform:\n    - embedded\n    - { profile: existing, address: \"mqtt://127.0.0.1:1\" }\n",
    );
    bench.write("sweep.yaml", &text.replace("  matrix.mqtt.qos: [1]\n", "  load.samples: 5\n"));
    let swept = bench.call(["sweep", "sweep.yaml", "--store", STORE, "--json", "a.json"]).exits(1);
    assert_eq!(swept.stderr.matches("failed: ").count(), 2, "{}", swept.stderr);
    let sweep = json(&bench, "a.json");
    assert_eq!(runs(&sweep).len(), 2);
    let notes = sweep["notes"].to_string();
    assert!(notes.contains("2 of 4 runs could not be done; the first: "), "{notes}");
}

/// The six test cases of work E in their quick form, with so few events that no gateway is above what it bears.
#[test]
#[ignore = "acceptance: gateway"]
fn the_test_cases_of_work_e_run_in_their_quick_form() {
    let bench = Bench::beside_others();
    for case in ["1-devices", "2-delay", "3-cpu", "4-cpu-one-core", "5-io", "6-io-one-core"] {
        let scenario = format!("{}/../../examples/work-e-{case}.yaml", env!("CARGO_MANIFEST_DIR"));
        let light = ["--set", "load.calibrate=null", "--set", "load.levels=[100]"];
        let outputs = ["--store", STORE, "--json", "e.json", "--report", "e.html"];
        let swept = bench.call(["sweep", &scenario, "--quick"].into_iter().chain(light).chain(outputs));
        assert!([0, 3].map(Some).contains(&swept.code), "{case}: {:?} {}", swept.code, swept.stderr);
        let sweep = json(&bench, "e.json");
        let cells = sweep["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 18, "{case}: nine models at two points");
        for cell in cells {
            let run = &cell["runs"][0];
            assert_ne!(run["verdict"], "failed", "{case}: {cell:#}");
            let level =
                run["level"].as_u64().unwrap_or_else(|| panic!("{case}: nothing was measured: {cell:#}"));
            assert_eq!(level, 0);
        }
        let valid: Vec<&Value> = cells.iter().filter(|cell| cell["runs"][0]["validity"] == "valid").collect();
        let has = |cell: &Value, name: &str| {
            cell["quantities"].as_array().unwrap().iter().any(|one| one["quantity"] == name)
        };
        assert!(valid.iter().all(|cell| has(cell, "throughput") && has(cell, "done")), "{case}");
        // A serial gateway with much delay has too few events in a second for a median.
        let lives =
            valid.iter().filter(|cell| has(cell, "wait_time") && has(cell, "processing_time")).count();
        assert!(2 * lives >= valid.len(), "{case}: {lives} of {}", valid.len());
    }
}
