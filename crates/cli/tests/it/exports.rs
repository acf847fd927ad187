//! A stored run for other tools: HdrHistogram's log, JMeter's result file, k6's summary.

use crate::harness::{Bench, STORE, count};
use serde_json::Value;

const SCENARIO: &str = "name: exported
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100, 200], warm_up: 200ms, hold: 1s, samples: 5, drain: 10s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

#[test]
fn a_run_is_exported_to_the_formats_of_its_peers() {
    let bench = Bench::beside_others();
    let run = bench.run(&SCENARIO.replace("load:", "record: { messages: true }\nload:")).judged();
    let export = |format: &str| bench.call(["export", "--store", STORE, "--format", format]).exits(0).stdout;

    let hlog = export("hlog");
    let intervals = hlog.lines().filter(|line| line.starts_with("Tag=publish_time,"));
    assert_eq!(intervals.count(), 2 * 5, "{hlog}");
    assert!(hlog.contains("#[Histogram log format version 1.3]") && hlog.contains("HISTFAAA"), "{hlog}");

    let jtl = export("jtl");
    let mut lines = jtl.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let column = |name: &str| head.iter().position(|head| *head == name).unwrap();
    let of_level = |label: &str| rows.iter().filter(|row| row[column("label")] == label).count() as u64;
    assert_eq!(of_level("100/s"), count(run.level(0), "sent"));
    assert_eq!(of_level("200/s"), count(run.level(1), "sent"));
    assert!(of_level("100/s warm-up") > 0);
    assert!(rows.iter().all(|row| row.len() == head.len() && row[column("success")] == "true"), "{jtl}");
    let started: i64 = run.summary["provenance"]["wall_epoch_ns"].as_i64().unwrap() / 1_000_000;
    let ages = rows.iter().map(|row| row[column("timeStamp")].parse::<i64>().unwrap() - started);
    assert!(ages.clone().all(|age| (0..60_000).contains(&age)), "milliseconds of this run: {jtl}");

    let k6: Value = serde_json::from_str(&export("k6-summary")).unwrap();
    let sent = k6["metrics"]["sent"]["values"]["count"].as_u64().unwrap();
    assert_eq!(sent, count(run.level(0), "sent") + count(run.level(1), "sent"));
    let threshold = &k6["metrics"]["publish_time{level:1}"]["thresholds"]["p(50)<10000"];
    assert_eq!(threshold["ok"], true, "{k6:#}");

    for format in ["hlog", "jtl", "k6-summary", "messages"] {
        let wrong = bench.call(["export", "--store", STORE, "--format", format, "--rows", "levels"]);
        wrong.exits(104).says("--rows belongs to --format csv");
    }
}

#[test]
fn a_run_without_a_message_log_says_how_to_get_one() {
    let bench = Bench::beside_others();
    bench.run(&SCENARIO.replace("[100, 200]", "[100]")).judged();
    let refused = bench.call(["export", "--store", STORE, "--format", "jtl"]).exits(1);
    assert!(refused.stdout.is_empty(), "half a file would be taken for a whole one");
    refused.says("has no message log").says("--set record.messages=true");
}
