//! Loads that change, at a real broker: each part of a curve has what the curve says, and what is wrong with one has its place.

use crate::harness::{Bench, count};
use serde_json::Value;

/// Five seconds up, five down.
const CURVE: &str = "name: day
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, curve: { file: day.csv }, hold: 10s, samples: 10, warm_up: 1s, drain: 2s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";
const DAY: &str = "# requests of a day\ntime,rate\n00:00,100\n12:00,600\n24:00,100\n";

fn parts(level: &Value) -> &[Value] {
    level["curve"]["parts"].as_array().unwrap()
}

#[test]
fn each_part_of_a_curve_has_what_the_curve_says() {
    let bench = Bench::beside_others();
    bench.write("day.csv", DAY);
    bench.call(["check", "scenario.yaml"]).exits(104);
    let run = bench.run(CURVE).judged();
    let level = run.level(0);
    // Even arrivals: one more or less in each part, and a millionth of all.
    assert!(count(level, "due").abs_diff(3_500) <= 1, "{level:#}");
    for (place, part) in parts(level).iter().enumerate() {
        let middle = place as f64 + 0.5;
        let offered = if middle < 5.0 { 100.0 + 100.0 * middle } else { 600.0 - 100.0 * (middle - 5.0) };
        assert!((part["offered"].as_f64().unwrap() - offered).abs() < 1e-6, "{part:#}");
        assert!((count(part, "due") as f64 - offered).abs() <= 1.0, "{part:#}");
        assert_eq!((count(part, "delivered"), count(part, "lost")), (count(part, "due"), 0));
    }
    assert_eq!(parts(level)[5]["time"], "12:00");
    assert!(run.summary["load_line"].is_null());
    run.says("a curve from 100 to 600/s").says("12:00");
    bench.call(["report", "--store", "runs.db", "--output", "report.html"]).exits(0);
    let page = std::fs::read_to_string(bench.path("report.html")).unwrap();
    assert!(page.contains("Along the curve"));
}

#[test]
fn populations_have_their_parts_of_a_curve() {
    let bench = Bench::beside_others();
    bench.write("day.csv", DAY);
    let populations = "populations:\n- { name: a, devices: 5, load: { share: 1, arrivals: constant } }\n\
                       - { name: b, devices: 5, load: { share: 3, arrivals: constant } }\nsubscribers: 1\n";
    let scenario = CURVE.replace("population: { devices: 5, subscribers: 1 }\n", populations);
    let run = bench.run(&scenario).judged();
    let [a, b] = run.level(0)["populations"].as_array().unwrap().as_slice() else { panic!() };
    for (own, share) in [(a, 0.25), (b, 0.75)] {
        let figures = &own["figures"];
        assert!((count(figures, "due") as f64 - 3_500.0 * share).abs() <= 1.0, "{}", figures["due"]);
        assert_eq!(figures["curve"]["highest"].as_f64().unwrap(), 600.0 * share);
        for part in parts(figures) {
            assert!((count(part, "due") as f64 - part["offered"].as_f64().unwrap()).abs() <= 1.0, "{part:#}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_curve_has_its_file_and_line() {
    let bench = Bench::beside_others();
    bench.write("day.csv", &DAY.replace("12:00,600", "12:00,many"));
    bench.write("scenario.yaml", CURVE);
    let told = "day.csv, line 4: `many` is no rate";
    bench.call(["check", "scenario.yaml"]).exits(104).says(told).says("scenario.yaml:4");
}

/// Twelve messages of three devices in 1.2 s of a file, of which the last 0.4 s are silent.
fn trace_of_a_second(bench: &Bench) {
    let rows: String = (0..12).map(|row| format!("{}.{:02},d{}\n", 7, 7 * row, row % 3)).collect();
    bench.write("trace.csv", &format!("time,device\n{rows}"));
}

const TRACED: &str = "name: traced
platform: embedded
population: { devices: 3, subscribers: 1 }
load: { arrivals: { trace: { file: trace.csv } }, LOAD, warm_up: 1s, samples: 4, drain: 2s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

/// The whole of a trace is due in a hold as long as it, at its own speed and at others, on any number of threads.
#[test]
fn a_trace_is_due_as_often_as_it_says() {
    let bench = Bench::beside_others();
    trace_of_a_second(&bench);
    for (load, due) in [
        // The trace lasts for 0.84 s: eleven gaps of 0.07 s, and one more.
        ("threads: 1", vec![12]),
        ("threads: 2", vec![12]),
        // Twice as fast, 24 messages in its time; then half as fast, and the hold ends within it.
        ("hold: 840ms, levels: [28.5714, 7.14285], threads: 2", vec![24, 6]),
    ] {
        let run = bench.run(&TRACED.replace("LOAD", load)).judged();
        let found: Vec<u64> = run.levels().iter().map(|level| count(level, "due")).collect();
        assert_eq!(found, due, "{load}");
        assert!(run.levels().iter().all(|level| count(level, "delivered") == count(level, "due")), "{load}");
    }
    let three = TRACED.replace("devices: 3", "devices: 9").replace("LOAD", "levels: [42.8571], hold: 840ms");
    assert_eq!(count(bench.run(&three).judged().level(0), "due"), 36, "three copies of each device");
}

#[test]
fn what_is_wrong_with_a_trace_has_its_file_and_line() {
    let bench = Bench::beside_others();
    bench.write("scenario.yaml", &TRACED.replace("LOAD", "threads: 1"));
    bench.call(["check", "scenario.yaml"]).exits(104).says("cannot read the trace `trace.csv`");
    for (text, why) in [
        ("time\n2\n1\n", "trace.csv, line 3: 1 s is earlier than the message before it, 2 s"),
        ("time\n", "trace.csv, line 1: a trace has messages at two times at least"),
        ("time\n1\nNaN\n", "trace.csv, line 3: `NaN` is no time"),
        ("time,device\n1,a\n2,b\n", "the trace has 2 devices, and 3 are not a multiple of that"),
    ] {
        bench.write("trace.csv", text);
        bench.call(["check", "scenario.yaml"]).exits(104).says(why).says("scenario.yaml:4");
    }
}
