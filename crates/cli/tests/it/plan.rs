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
    let searched = &plan["searched"];
    assert!(searched["by"] == "additions" && searched["is_certain"] == true, "{searched}");
    // What was checked is kept, and says nothing of the platform itself.
    assert_eq!((&plan["platform"], &plan["model_error"]["residuals"]), (&"chain".into(), &0.into()));
    let of = |more: &[&str]| -> Value {
        let planned = bench.call(call.iter().chain(more).chain(&["--json"])).exits(0);
        serde_json::from_str(&planned.stdout).unwrap()
    };
    let least = |plan: &Value| plan["load_line"]["least"].as_f64().unwrap();
    let stricter = of(&["--objective", "publish_p99 < 70 ms"]);
    assert!(least(&stricter) < least(&plan), "{stricter:#}");
    assert_eq!(stricter["objectives"][1], "publish_p99 < 70.0 ms", "{:#}", stricter["objectives"]);
    let faster = of(&["--faster", "store=1.5"]);
    assert!(faster["configurations"][0]["load_line"]["least"].as_f64().unwrap() > least(&plan), "{faster:#}");
    let many = of(&["--devices", "1M", "--every", "1000s"]);
    assert!(many["enough"].is_null() && many["needed"]["load_line"]["least"].is_null(), "{many:#}");
    assert!(many["demand"] == 1000.0 && many["configurations"][0]["is_enough"] != true, "{many:#}");
    for (wrong, said) in [
        (["--times", "stroe=2"], "saw no component `stroe`; they saw: front, store"),
        (["--times", "store=none"], "as in store=2,4"),
        (["--demand", "none"], "operations per second"),
        (["--faster", "store"], "as in store=1.3"),
        (["--objective", "subscribe_p99 < 1 s"], "no subscribe time was recorded"),
        (["--objective", "publish_p99 < 1 ms"], "with publish_p99 < 1 ms: run"),
        (["--mix", "sensors=1,cameras=2"], "has no populations"),
    ] {
        let refused = bench.call(call.iter().chain(&wrong));
        let told = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(refused.code == Some(104) && told.contains(said), "{:?} {told}", refused.code);
    }
}

mod alone {
    use super::*;
    use crate::harness::until_valid;

    /// A server that sleeps for 20 ms, so that one does 50 messages per second, and two do 100.
    const PROFILE: &str = r#"
name: slow
title: servers that wait, behind a front
components:
  - name: server
    command: ["{plimsoll}", target, station, --port, "{port:server}", --service, "deterministic:20ms"]
    ready_port: server
  - name: front
    command: ["{plimsoll}", target, relay, --to, "127.0.0.1:{port:server}", --port, "{port:mqtt}"]
    ready_port: mqtt
    mqtt_port: mqtt
"#;

    #[test]
    fn a_configuration_is_run_by_the_plan_that_predicts_it() {
        let bench = Bench::new();
        bench.write("slow.yaml", PROFILE);
        let scenario = "name: slow
platform: slow.yaml
population: { devices: 10, subscribers: 0 }
load: { levels: [20, 70, 150], warm_up: 300ms, hold: 2s, samples: 8, drain: 500ms, again: 0s }
objectives: { publish_p50: \"< 100 ms\", publish_p99: null, achieved: null }
";
        let run = until_valid(|| bench.run(scenario)).exits(0);
        assert_eq!(run.summary["load_line"]["below"], 70.0);
        let id = run.summary["run"].as_str().unwrap();
        let call = ["plan", id, "--limit", "server", "--times", "server=2", "--store", STORE];
        let planned = bench.call(call.into_iter().chain(["--run"])).exits(0);
        assert!(planned.stdout.contains("server x 2 was measured: "), "{}", planned.stdout);
        // The run is in the store like any other, with the replicas that were predicted.
        let shown = bench.call(["show", "last", "--store", STORE, "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        let names = shown["components"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap());
        assert_eq!(names.filter(|name| name.starts_with("server ")).count(), 2, "{:#}", shown["components"]);
        for (times, said) in [("server=1.5", "1.5 replicas"), ("broker=2", "saw no component `broker`")] {
            let call = ["plan", id, "--limit", "server", "--times", times, "--store", STORE, "--run"];
            let refused = bench.call(call);
            let told = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(refused.code == Some(104) && told.contains(said), "{:?} {told}", refused.code);
        }
    }
}
