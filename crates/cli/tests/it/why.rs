//! `plimsoll why`: which component limits, found by slowing each of them.

use crate::harness::{Bench, assert_end_within, number, started_by};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Two stations in a row: 5 ms of waiting for each message limit the second, and the first has much room.
const PROFILE: &str = r#"
name: row
title: two stations
description: Two stations in a row, of which the second waits longer
limits: { all: one worker each }
components:
  - name: store
    command: ["{plimsoll}", target, station, --port, "{port:store}", --work, wait, --service, "deterministic:2ms"]
    ready_port: store
  - name: front
    command: ["{plimsoll}", target, station, --port, "{port:mqtt}", --work, wait, --service, "deterministic:200us",
              --next, "127.0.0.1:{port:store}"]
    ready_port: mqtt
    mqtt_port: mqtt
"#;

const SCENARIO: &str = "name: row
platform: row.yaml
population: { devices: 50 }
load: { levels: [20], warm_up: 500ms, hold: 2s, samples: 2, drain: 2s, again: 0s, experiment: { within: 100s } }
objectives: { achieved: null, publish_p99: null, publish_p50: < 10 s }
";

fn bench(bench: Bench) -> Bench {
    bench.write("row.yaml", PROFILE);
    bench.write("scenario.yaml", SCENARIO);
    bench
}

/// The state letter of a process.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn limits(summary: &Value) -> Vec<&Value> {
    summary["limits"].as_array().unwrap().iter().collect()
}

/// Plimsoll is killed while a component is stopped: no process stays, stopped or not.
#[test]
fn nothing_stays_stopped_where_plimsoll_is_killed() {
    let bench = bench(Bench::beside_others());
    let run = bench.start(&mut bench.plimsoll(["why", "scenario.yaml", "--no-report"]));
    let begin = Instant::now();
    let started = loop {
        let guards = started_by(run.id());
        let started: Vec<u32> =
            guards.iter().flat_map(|guard| started_by(*guard)).chain(guards.clone()).collect();
        if started.iter().any(|process| state(*process) == Some('T')) {
            break started;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "nothing was stopped");
        std::thread::sleep(Duration::from_millis(5));
    };
    run.signal(Signal::KILL);
    run.finish();
    assert_end_within(Duration::from_secs(20), &started);
    // What was under way is not lost.
    let shown = bench.call(["show", "last"]);
    assert!(
        shown.stdout.contains("killed") && !shown.stdout.contains("never came to their end"),
        "{shown:?}"
    );
}

#[test]
fn a_platform_that_plimsoll_did_not_start_is_left_alone() {
    let bench = Bench::beside_others();
    bench.call(["why", "mqtt://127.0.0.1:9"]).exits(104).says("nothing at an address (mqtt://127.0.0.1:9)");
    bench.call(["run", "--why", "mqtt://127.0.0.1:9"]).exits(104).says("name a scenario");
    let text = SCENARIO.replace("row.yaml", "{ profile: existing, address: \"mqtt://127.0.0.1:9\" }");
    bench.write("scenario.yaml", &text);
    bench.call(["why", "scenario.yaml"]).exits(104).says("Plimsoll never slows what it did not start");
}

/// A component that ends while it is slowed is the headline, and what was measured is kept.
#[test]
fn a_component_that_ends_while_it_is_slowed_is_the_headline() {
    let bench = bench(Bench::beside_others());
    bench.write("scenario.yaml", &SCENARIO.replace("100s", "5m"));
    // It ends some seconds into the first level in which components are slowed.
    let mortal = "  - name: mortal\n    command: [sleep, \"32\"]\n";
    bench.write("row.yaml", &format!("{PROFILE}{mortal}"));
    let run = bench.call(["why", "scenario.yaml", "--no-report", "--summary-json", "summary.json"]);
    let run = run.exits(99).says("mortal died in the experiment while");
    let notes = run.summary["notes"].to_string();
    assert!(notes.contains("mortal ended in a level in which components were slowed"), "{notes}");
}

mod alone {
    use super::*;

    /// The whole: levels first, then the experiment, whose answer stands in the summary, the text and the report.
    #[test]
    fn the_station_that_limits_is_named_and_the_other_is_not() {
        let bench = bench(Bench::new());
        let run = bench.call([
            "run",
            "scenario.yaml",
            "--why",
            "--summary-json",
            "summary.json",
            "--report",
            "out.html",
        ]);
        let run = run.says("what limits the load").says("store limits the load");
        let summary = &run.summary;
        assert_eq!(summary["verdict"], "met", "{:#}", summary["levels"]);
        let [limit] = limits(summary)[..] else { panic!("{:#}", summary["limits"]) };
        assert_eq!(limit["component"], "store", "{limit:#}");
        assert_eq!(limit["kind"], "waiting", "{limit:#}");
        let elasticity = number(limit, &["elasticity", "mean"]);
        assert!((0.75..1.25).contains(&elasticity), "{limit:#}");
        let parts = summary["experiment"]["parts"].as_array().unwrap();
        let front = parts.iter().find(|part| part["components"][0] == "front").unwrap();
        assert!(number(front, &["elasticity", "mean"]) < 0.3, "{front:#}");
        let dose = front["doses"][0].as_f64().unwrap();
        assert!((0.5..0.7).contains(&dose), "{front:#}");
        assert!(fs::read_to_string(bench.path("out.html")).unwrap().contains("What limits the load"));
    }
}
