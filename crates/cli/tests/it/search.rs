//! A search finds the load line that listed levels find, and both stop where they should.

use crate::harness::{Bench, Finished, on_a_calm_host};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::time::Duration;

/// The scripted broker answers one message in 5 ms: 200 a second.
const SERVICE: Duration = Duration::from_millis(5);

/// With nine tenths of what was due to be achieved, the broker bears 222/s. The tenth is what a machine that stalls now
/// and then may take from a level without changing the answer, and 2 s are more than any wait here.
fn run(load: &str) -> Finished {
    let broker = ScriptedBroker::start(Script { service: Some(SERVICE), ..Script::default() });
    let bench = Bench::new();
    bench.run(&format!(
        "name: slow broker
platform: {}
population: {{ devices: 4 }}
load: {{ {load}, arrivals: constant, warm_up: 0s, hold: 1500ms, samples: 5, drain: 1s }}
objectives: {{ achieved: \">= 90 %\", publish_p99: null, publish_p90: \"< 2 s\" }}
",
        broker.platform()
    ))
}

fn offered(run: &Finished) -> Vec<f64> {
    run.levels().iter().map(|level| level["offered"].as_f64().unwrap()).collect()
}

#[test]
#[ignore = "acceptance: truth"]
fn a_search_agrees_with_listed_levels() {
    let stepped = on_a_calm_host(|| run("levels: [100, 160, 200, 260, 320]"));
    assert_eq!(stepped.summary["load_line"]["rate"], 200.0, "{}", stepped.stdout);
    assert!(stepped.summary["search"].is_null());
    let found = run("search: { from: 100, to: 10000, tolerance: 10 %, time: 50s }").exits(0);
    let line = &found.summary["load_line"];
    let rate = line["rate"].as_f64().unwrap();
    // 222/s, less the tolerance twice (a stall may turn one level), and no more than the ends of a hold add.
    assert!((222.0 / 1.21..=222.0 * 1.05).contains(&rate), "{rate}\n{}", found.stdout);
    assert_eq!(found.summary["search"]["ended"], "confirmed", "{}", found.stdout);
    // The line is the last level, held anew, and no level was offered more than twice what had been met.
    assert_eq!(line["level"].as_u64().unwrap() as usize, found.levels().len() - 1);
    assert_eq!(offered(&found)[..3], [100.0, 200.0, 400.0], "{}", found.stdout);
    assert!(offered(&found).iter().all(|&rate| rate <= 400.0), "{}", found.stdout);
    let found = found.says("searched in");
    assert!(found.summary["notes"][0].as_str().unwrap().contains("met again by a fresh hold"));
}

/// In simulated time: the platform serves 250 messages a second.
#[test]
fn no_higher_level_is_run_after_so_many_that_missed() {
    let bench = Bench::beside_others();
    let profile = "name: slow\ntitle: slow\ndescription: slow\nlimits: { all: stated }\ncomponents: []\n\
                   simulated: { stations: [{ name: broker, service: 4ms }] }\n";
    bench.write("slow.yaml", profile);
    let run = bench.run(
        "name: slow
platform: ./slow.yaml
population: { devices: 4 }
load: { levels: [100, 400, 500, 600, 700, 150], stop_after_missed: 2, hold: 30s, samples: 10, drain: 200s }
",
    );
    assert_eq!(offered(&run), [100.0, 400.0, 500.0, 150.0], "{}", run.stdout);
    let run = run.says("stopped early, as asked for: 2 levels in a row missed");
    assert!(run.summary["load_line"]["rate"].as_f64() >= Some(100.0), "{}", run.stdout);
}
