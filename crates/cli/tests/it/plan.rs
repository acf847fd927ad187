//! `plimsoll plan`: what stored runs say of configurations that nobody ran, as a user meets it.

use crate::harness::{Bench, STORE};
use serde_json::Value;

/// A store that needs 4 ms for a message behind a front that needs 1 ms, in simulated time.
const SCENARIO: &str = "
name: chain
platform: ./chain.yaml
population: { devices: 50, subscribers: 0 }
load: { search: { from: 50, to: 4000, tolerance: 2 %, time: 10m }, warm_up: 1s, hold: 10s, samples: 20, again: 0s }
objectives: { publish_p99: \"< 100 ms\" }
";

/// The same platform with so many workers of the store.
fn platform(workers: u8) -> String {
    format!(
        "name: chain
title: simulated
components: []
simulated:
  stations: [{{ name: front, service: 1ms }}, {{ name: store, service: 4ms, workers: {workers} }}]
  acknowledged_by: store
"
    )
}

#[test]
fn what_three_runs_predict_is_what_a_run_of_it_finds() {
    let bench = Bench::beside_others();
    bench.write("chain.yaml", &platform(1));
    let run = |seed: &str| {
        let arguments = ["run", "scenario.yaml", "--store", STORE, "--quiet", "--set", seed];
        bench.call(arguments).exits(0);
    };
    bench.write("scenario.yaml", SCENARIO);
    let listed = || {
        let listed = bench.call(["runs", "--json", "--store", STORE]).exits(0);
        let runs: Value = serde_json::from_str(&listed.stdout).unwrap();
        let runs = runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned());
        runs.collect::<Vec<_>>()
    };
    ["seed=1", "seed=2", "seed=3"].into_iter().for_each(run);
    let first = listed();
    bench.write("chain.yaml", &platform(2));
    run("seed=4");
    let second = listed().into_iter().find(|id| !first.contains(id)).unwrap();
    let mut call: Vec<&str> = vec!["plan"];
    call.extend(first.iter().map(String::as_str));
    call.extend(["--store", STORE]);
    let check = ["--times", "store=2", "--check", &second];
    let planned = bench.call(call.iter().chain(&check)).exits(0);
    assert!(planned.stdout.contains("store x 2"), "{}", planned.stdout);
    assert!(
        planned.stdout.contains("as predicted") && !planned.stdout.contains("other than"),
        "{}",
        planned.stdout
    );
    assert!(planned.stdout.lines().all(|line| line.chars().count() <= 80), "{}", planned.stdout);
    let json = bench.call(call.iter().chain(&["--demand", "900", "--json"])).exits(0);
    let plan: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(plan["limited_by"], "store");
    assert!(plan["enough"]["load_line"]["least"].as_f64().unwrap() >= 900.0, "{plan:#}");
    assert_eq!(plan["configurations"].as_array().unwrap().len(), 3);
    for (wrong, said) in [
        (["--times", "stroe=2"], "saw no component `stroe`; they saw: front, store"),
        (["--times", "store=none"], "as in store=2,4"),
        (["--demand", "-3"], "operations per second"),
    ] {
        let refused = bench.call(call.iter().chain(&wrong));
        let told = refused.stderr.replace('\n', " ");
        assert!(refused.code == Some(104) && told.contains(said), "{:?} {told}", refused.code);
    }
}
