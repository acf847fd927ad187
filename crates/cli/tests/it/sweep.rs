//! `plimsoll sweep`: a scenario in which something varies, as a user meets it.

use crate::harness::{Bench, STORE};
use serde_json::Value;
use std::fs;

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
    let bench = Bench::new();
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
        ("a.csv", "message.size,mqtt.qos,quantity,runs,mean,"),
        ("a.md", "**throughput**, by size"),
        ("a.html", "<h1>two by two</h1>"),
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
    assert_eq!(again.stdout.matches("(from the store)").count(), valid, "{}", again.stdout);
    assert_eq!(runs(&json(&bench, "b.json")).len(), 12);
    assert!(bench.path("sweep.sweep.html").exists(), "the report stands beside the scenario by default");
}

#[test]
fn what_varies_is_changed_from_the_command_line() {
    let bench = Bench::new();
    bench.write("sweep.yaml", SCENARIO);
    let checked =
        bench.call(["check", "sweep.yaml", "--quick", "--set", "matrix.message.size=[16]"]).exits(0);
    assert!(checked.stdout.starts_with("1 runs, which `plimsoll sweep` makes"), "{}", checked.stdout);
    bench.call(["check", "sweep.yaml"]).exits(0);
    let one = bench.call(["check", "sweep.yaml", "--set", "matrix=null"]).exits(0);
    assert!(!one.stdout.contains("sweep"), "{}", one.stdout);
}

#[test]
fn what_is_no_sweep_is_refused() {
    let bench = Bench::new();
    bench.write("sweep.yaml", SCENARIO);
    bench.call(["run", "sweep.yaml"]).exits(104).says("it is 4 runs").says("plimsoll sweep");
    bench.call(["sweep", "sweep.yaml", "--set", "matrix=null"]).exits(104).says("has no `matrix`");
    bench.call(["sweep", "mqtt://localhost:1"]).exits(104).says("a scenario file");
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

/// A combination that cannot be run does not take the others with it.
#[test]
fn a_combination_that_fails_is_told_and_the_others_are_run() {
    let bench = Bench::new();
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
fn the_test_cases_of_work_e_run_in_their_quick_form() {
    let bench = Bench::new();
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
