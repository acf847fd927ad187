//! The wire: captures of the repository dissected by the command, and a run that captures a chain of real servers.

use crate::harness::{Bench, count};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn captures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures"))
}

fn capture(name: &str) -> String {
    captures().join(format!("{name}.zst")).display().to_string()
}

fn json(path: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The makers of the capture wrote down that a worker dropped 30 of 600 messages and slept before each insert.
#[test]
fn a_chain_names_the_worker_that_is_slow_and_loses() {
    let bench = Bench::beside_others();
    let arguments =
        ["dissect", &capture("chain.pcap"), "--marker", "plm1:{device}:{seq};", "--summary-json", "out.json"];
    let names =
        ["--name", "broker=:1883", "--name", "queue=:6379", "--name", "db=:5432", "--name", "notify=:8082"];
    let finished = bench.call(arguments.iter().copied().chain(names)).exits(0);
    let finished = finished.says("30 of 600 marked messages lost");
    assert!(finished.stdout.lines().all(|line| line.chars().count() <= 80), "{}", finished.stdout);
    let summary = json(&bench.path("out.json"));
    let messages = &summary["messages"];
    assert_eq!((&messages["marked"], &messages["lost"]), (&Value::from(600), &Value::from(30)));
    let worker = "127.0.0.1, from queue to db, notify";
    assert_eq!(summary["losses_by_component"], serde_json::json!({ worker: 30 }));
    // 8 ms of sleep, 25 ms for every tenth.
    let hops = summary["phases"][0]["ways"]["hops"].as_array().unwrap();
    assert_eq!(hops[0]["component"], worker);
    let [p50, p99] = ["p50", "p99"].map(|quantile| hops[0]["residence"][quantile].as_f64().unwrap());
    assert!((0.008..0.011).contains(&p50) && (0.025..0.032).contains(&p99), "{p50} {p99}");
    let protocols = &summary["protocols"];
    assert_eq!((&protocols["http"]["requests"], &protocols["http"]["responses"]), (&570.into(), &570.into()));
}

#[test]
fn an_export_that_cannot_be_written_takes_nothing_else_along() {
    let bench = Bench::beside_others();
    let exports = ["--export", "/dev/full", "--export", "all.csv", "--export-form", "csv"];
    let arguments = ["dissect", &capture("chain.pcap"), "-q", "--summary-json", "summary.json"];
    let read = bench.call(arguments.iter().copied().chain(exports)).exits(1).says("/dev/full");
    assert!(read.stdout.contains("postgres"), "{}", read.stdout);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(bench.path("summary.json")).unwrap()).unwrap();
    let rows = csv::Reader::from_path(bench.path("all.csv")).unwrap().records().count();
    assert!(rows >= 570 && summary["packets"].as_u64().unwrap() > 0, "{rows}");
}

#[test]
fn exchanges_are_exported_for_spreadsheets_and_tracing() {
    let bench = Bench::beside_others();
    let arguments = ["dissect", &capture("chain.pcap"), "--marker", "plm1:{device}:{seq};", "-q"];
    let exports = ["--export", "all.csv", "--export", "spans.json", "--export", "all.parquet"];
    bench.call(arguments.iter().copied().chain(exports)).exits(0);
    let parquet = fs::read(bench.path("all.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let mut table = csv::Reader::from_path(bench.path("all.csv")).unwrap();
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    let inserts = rows.iter().filter(|row| &row[4] == "postgres" && !row[17].is_empty()).count();
    assert_eq!(inserts, 570, "each stored message once");
    let spans: Vec<Value> = fs::read_to_string(bench.path("spans.json"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .flat_map(|line| line["resourceSpans"].as_array().unwrap().clone())
        .flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    assert_eq!(spans.len(), rows.len());
    for span in &spans {
        assert_eq!(
            (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
            (32, 16)
        );
        let [start, end] = ["startTimeUnixNano", "endTimeUnixNano"]
            .map(|key| span[key].as_str().unwrap().parse::<u64>().unwrap());
        assert!(start <= end, "{span}");
    }
}

/// What the capture does not hold is no loss of the platform's: whoever passed a message on had it.
#[test]
fn holes_in_a_capture_are_not_taken_for_losses() {
    let bench = Bench::beside_others();
    let packed = fs::read(captures().join("chain.pcap.zst")).unwrap();
    let bytes = zstd::decode_all(packed.as_slice()).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let (mut holed, mut number) = (head.to_vec(), 0);
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(length);
        if number % 97 != 50 {
            holed.extend_from_slice(record);
        }
        (number, rest) = (number + 1, after);
    }
    fs::write(bench.path("holed.pcap"), holed).unwrap();
    let arguments =
        ["dissect", "holed.pcap", "--marker", "plm1:{device}:{seq};", "--summary-json", "out.json"];
    bench.call(arguments).exits(0).says("are not in the capture");
    let summary = json(&bench.path("out.json"));
    let lost = count(&summary["messages"], "lost");
    // 30 were; of the last passages, one in a hundred packets is missing.
    assert!((25..60).contains(&lost), "{summary:#}");
    assert!(count(&summary["messages"], "unseen") > 0);
}

#[test]
fn what_is_no_capture_is_said() {
    let bench = Bench::beside_others();
    bench.write("text.pcap", "hello, this is a text and no capture at all");
    bench.write("empty.pcap", "");
    bench.call(["dissect", "text.pcap"]).exits(1).says("this is no capture").says("text.pcap");
    bench.call(["dissect", "empty.pcap"]).exits(1).says("nothing");
    bench.call(["dissect", "absent.pcap"]).exits(1).says("absent.pcap");
    bench
        .call(["dissect", "text.pcap", "--summary-json", "./text.pcap"])
        .exits(104)
        .says("are the same file");
    bench.call(["dissect", "text.pcap", "--export", "a.csv", "--summary-json", "a.csv"]).exits(104);
    bench.call(["dissect", "x.pcap", "--marker", "plain"]).exits(104).says("{device}");
    bench.call(["dissect", "x.pcap", "--name", "redis"]).exits(104).says("NAME=HOST:PORT");
}

#[test]
fn capture_writes_what_dissect_reads() {
    let bench = Bench::beside_others();
    bench
        .call(["capture", "--interface", "lo", "--filter", "port 9", "--seconds", "0.2", "--out", "c.pcap"])
        .exits(0);
    bench.call(["dissect", "c.pcap"]).exits(0).says("0 packets");
    bench
        .call(["capture", "--interface", "no-such-interface", "--seconds", "0.2"])
        .exits(1)
        .says("no-such-interface");
}

/// Tests that measure.
mod alone {
    use super::*;

    /// A real Mosquitto, Redis and PostgreSQL, with a bridge and a worker between them that is slow and drops messages.
    #[test]
    fn a_run_that_captures_names_the_slow_station_and_counts_the_losses() {
        let bench = Bench::new();
        let scenario = "name: chain\nplatform: chain\npopulation: { devices: 10, subscribers: 1 }\n\
        message: { size: 60, marker: ascii }\n\
        load: { levels: [50], warm_up: 500ms, hold: 4s, samples: 4, drain: 5s }\n\
        objectives: { publish_p99: null, achieved: null }\n";
        bench.write("chain.yaml", scenario);
        let finished = bench.call([
            "run",
            "chain.yaml",
            "--capture",
            "--report",
            "r.html",
            "--summary-json",
            "summary.json",
            "-q",
        ]);
        let summary = json(&bench.path("summary.json"));
        let level = &summary["levels"][0];
        let (lost, of) = (count(level, "lost"), count(level, "expected_deliveries"));
        let finished = finished.exits(99).says(&format!("at 50/s worker lost {lost} of {of} deliveries"));
        let dissection = &summary["dissection"];
        assert_eq!(dissection["notes"], serde_json::json!([]), "{}", finished.stderr);
        let lost = count(&dissection["messages"], "lost");
        assert!(lost >= count(&summary["levels"][0], "lost") && lost > 0, "{dissection:#}");
        assert_eq!(dissection["losses_by_component"], serde_json::json!({ "worker": lost }));
        assert_eq!(count(&dissection["messages"], "unseen"), 0);
        let phases = dissection["phases"].as_array().unwrap();
        let level = phases.iter().find(|phase| phase["measured"] == true).unwrap();
        let hops = level["ways"]["hops"].as_array().unwrap();
        assert_eq!(hops[0]["component"], "worker", "{hops:#?}");
        assert!(hops[0]["residence"]["p50"].as_f64().unwrap() >= 0.004, "the planted pause");
        assert_eq!(level["ways"]["messages"], summary["levels"][0]["sent"]);
        let called: Vec<(&str, &str)> = dissection["services"]
            .as_array()
            .unwrap()
            .iter()
            .map(|service| (service["client"].as_str().unwrap(), service["server"].as_str().unwrap()))
            .collect();
        for pair in [
            ("plimsoll", "mosquitto"),
            ("bridge", "mosquitto"),
            ("bridge", "redis"),
            ("worker", "redis"),
            ("worker", "postgres"),
            ("worker", "plimsoll"),
        ] {
            assert!(called.contains(&pair), "{pair:?} of {called:?}");
        }
        let report = fs::read_to_string(bench.path("r.html")).unwrap();
        assert!(report.contains("Paths of messages") && report.contains("Who calls whom"));
        // The store has it, too.
        bench.call(["show", "last", "-v"]).says("were last seen at worker");
    }
}
