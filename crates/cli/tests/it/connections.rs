//! Levels that connect devices: the load line in devices, or in connections per second.

use crate::harness::{Bench, Finished, count, on_a_calm_host};
use crate::scripted_broker::{Script, ScriptedBroker};

fn run(script: &Script, devices: u32, load: &str, objectives: &str) -> Finished {
    on_a_calm_host(|| {
        let broker = ScriptedBroker::start(script.clone());
        Bench::new().run(&format!(
            "name: connections
platform: {}
population: {{ devices: {devices} }}
load: {{ {load}, connect_rate: 200, warm_up: 200ms, hold: 1s, samples: 5, drain: 500ms }}
objectives: {{ {objectives} }}
",
            broker.platform()
        ))
    })
}

fn of_each(run: &Finished, name: &str) -> Vec<u64> {
    run.levels().iter().map(|level| count(level, name)).collect()
}

/// Tests that measure.
mod alone {
    use super::*;

    /// The broker refuses the 31st client and all after it. A refusal counts against its level and fails no run.
    #[test]
    fn devices_are_connected_level_by_level_until_some_are_refused() {
        let script = Script { refuse_from: Some((31, 3)), ..Script::default() };
        let run = run(&script, 60, "devices: [10, 30, 60, 20]", "connected: \">= 99.9 %\"").exits(0);
        // Falling to 20 closes ten of the thirty; the refused ones are not tried again before a level wants them.
        assert_eq!(of_each(&run, "connected"), [10, 30, 30, 20], "{}", run.stdout);
        assert_eq!(of_each(&run, "connects"), [10, 20, 30, 0], "{}", run.stdout);
        assert_eq!(of_each(&run, "connect_failed"), [0, 0, 30, 0], "{}", run.stdout);
        let verdicts: Vec<&str> =
            run.levels().iter().map(|level| level["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["met", "met", "missed", "met"], "{}", run.stdout);
        let line = &run.summary["load_line"];
        assert_eq!((line["devices"].as_u64(), line["rate"].as_f64()), (Some(30), None), "{line:#}");
        assert_eq!(line["at_least"], false);
        assert_eq!(count(run.level(0), "due"), 0, "the devices are idle");
        let run = run.says("load line: 30 devices").says("connected 50 % (objective connected >= 99.9 %)");
        assert_eq!(run.level(1)["connect_time"]["n"], 20);
    }

    #[test]
    fn devices_that_send_have_the_usual_metrics() {
        let load = "devices: [5, 20], rate_per_device: 10";
        let objectives = "achieved: \">= 80 %\", publish_p99: null, publish_p50: \"< 1 s\"";
        let run = run(&Script::default(), 20, load, objectives).exits(0);
        assert_eq!(of_each(&run, "connected"), [5, 20]);
        let offered: Vec<f64> = run.levels().iter().map(|level| level["offered"].as_f64().unwrap()).collect();
        assert_eq!(offered, [50.0, 200.0]);
        assert!(count(run.level(1), "acknowledged") > 100, "{}", run.stdout);
        let line = &run.summary["load_line"];
        assert_eq!((line["devices"].as_u64(), line["rate"].as_f64()), (Some(20), Some(200.0)), "{line:#}");
    }

    #[test]
    fn the_whole_population_is_connected_anew_at_each_rate() {
        let objectives = "connect_p90: \"< 5 s\"";
        let run = run(&Script::default(), 120, "connect_rates: [100, 400]", objectives).exits(0);
        assert_eq!(of_each(&run, "connected"), [120, 120], "{}", run.stdout);
        assert_eq!(of_each(&run, "connects"), [120, 120], "{}", run.stdout);
        assert!(run.levels().iter().all(|level| level["connect_time"]["n"] == 120), "{}", run.stdout);
        let line = &run.summary["load_line"];
        assert_eq!(
            (line["connect_rate"].as_f64(), line["devices"].as_u64()),
            (Some(400.0), None),
            "{line:#}"
        );
        run.says("load line: at least 400 connections/s");
    }
}
