//! A run that other programs watch while it goes on.

use crate::harness::{Bench, Finished, await_calm, count};
use regex_lite::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const SCENARIO: &str = "name: watched
platform: embedded
population: { devices: 5, subscribers: 1 }
load: { arrivals: constant, levels: [100, 200], warm_up: 200ms, hold: 2s, samples: 4, drain: 1s }
objectives: { publish_p99: null, publish_p50: \"< 10 s\" }
";

fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.ends_with("# EOF\n"), "{answer}");
    Some(body.to_owned())
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

fn metric_name() -> Regex {
    Regex::new("plimsoll_[a-z_]+").unwrap()
}

fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// What a run served while it went on.
struct Served {
    last: String,
    /// The names of all metrics that were served at any time: some exist only while a level is held.
    names: BTreeSet<String>,
    run: Finished,
}

/// Runs the scenario until what is served of it contains a text. It is run again where its levels were invalid on a busy
/// machine: of those, no verdict is served.
fn run_until_served(bench: &Bench, wanted: &str) -> Served {
    let name = metric_name();
    let mut attempt = 0;
    loop {
        let address = free();
        let run = bench.start(bench.run_command(SCENARIO).args(["--metrics", &address]));
        let begun = Instant::now();
        let (mut before, mut last, mut names) = (0.0, String::new(), BTreeSet::new());
        // As long as it is served, and before it begins to be.
        while let Some(shown) = scrape(&address).or_else(|| last.is_empty().then(String::new)) {
            assert!(begun.elapsed() < Duration::from_secs(40), "{last}\n{}", run.told_so_far());
            if shown.contains("plimsoll_run_info") {
                let sent = value(&shown, "plimsoll_messages_sent_total");
                assert!(sent >= before, "{sent} after {before}");
                let series = shown.lines().filter(|line| !line.starts_with('#'));
                names.extend(series.filter_map(|line| Some(name.find(line)?.as_str().to_owned())));
                (before, last) = (sent, shown);
            }
            if last.contains(wanted) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let run = run.finish().judged();
        assert!(TcpStream::connect(&address).is_err(), "nothing listens after the run");
        if last.contains(wanted) {
            return Served { last, names, run };
        }
        attempt += 1;
        assert!(attempt < 4 && run.levels().iter().any(|level| level["validity"] != "valid"), "{last}");
        await_calm(attempt);
    }
}

#[test]
fn metrics_are_served_while_the_run_goes_on_and_end_with_it() {
    let bench = Bench::beside_others();
    let Served { last, run, .. } = run_until_served(&bench, "plimsoll_level_met{level=\"1\"");
    // All of the first level is in it, the warm-up too.
    let sent = value(&last, "plimsoll_messages_sent_total");
    assert!(sent >= count(run.level(0), "sent") as f64, "{last}");
    assert!(value(&last, "plimsoll_publish_time_seconds_count") > 0.0);
    assert!(last.contains(&format!("run=\"{}\"", run.summary["run"].as_str().unwrap())), "{last}");
}

#[test]
fn a_file_says_what_the_run_does_now_and_that_it_is_over() {
    let bench = Bench::beside_others();
    let read = || {
        let text = std::fs::read(bench.path("now.json")).unwrap_or_default();
        serde_json::from_slice::<Value>(&text).unwrap_or_default()
    };
    let run = bench.start(bench.run_command(SCENARIO).args(["--now", "now.json"]));
    let begun = Instant::now();
    while read()["level"]["number"] != 1 {
        assert!(begun.elapsed() < Duration::from_secs(40), "{}", read());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(read()["process"].is_string() && read()["is_over"] == false, "{}", read());
    let run = run.finish().judged();
    let now = read();
    assert_eq!((&now["is_over"], &now["run"]), (&Value::from(true), &run.summary["run"]), "{now}");
    assert!(now["counts"]["sent"].as_u64() >= Some(count(run.level(0), "sent")), "{now}");
    let ended = now["ended"].as_array().unwrap();
    assert_eq!(ended.len(), run.levels().len(), "{now}");
    assert_eq!(ended[0]["verdict"], run.level(0)["verdict"]);
    let mode = std::fs::metadata(bench.path("now.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let same = ["run", "scenario.yaml", "--now", "scenario.yaml"];
    bench.call(same).exits(104).says("same file");
}

#[test]
fn an_address_that_is_taken_and_a_receiver_that_is_gone_are_told() {
    let bench = Bench::beside_others();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = bench.start(bench.run_command(SCENARIO).args(["--metrics", &address])).finish();
    refused.exits(1).says(&format!("cannot serve metrics at {address}"));
    assert_eq!(bench.files(), ["scenario.yaml"], "nothing was begun");
    let receiver = format!("http://user:secret@{}/write?key=hidden", free());
    let mut command = bench.run_command(SCENARIO);
    let run = bench.start(command.args(["--remote-write", &receiver, "--set", "load.levels=[100]"])).finish();
    let run = run.judged().says("did not take the metrics");
    assert!(!run.said().contains("secret") && !run.said().contains("hidden"), "{}", run.said());
    for wrong in [["--metrics", "9464"], ["--otlp", "127.0.0.1:4318"]] {
        bench.start(bench.run_command(SCENARIO).args(wrong)).finish().exits(104);
    }
}

/// Each query of the dashboard is about a metric that docs/watching.md names or that is a time.
#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/grafana/plimsoll.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let bench = Bench::beside_others();
    let Served { last, names, .. } = run_until_served(&bench, "plimsoll_level_met{");
    let name = metric_name();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(panel["title"].is_string() && panel["gridPos"]["w"].is_u64(), "{panel:#}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            for wanted in name.find_iter(query) {
                asked += 1;
                assert!(names.contains(wanted.as_str()), "{query}\n{last}");
            }
        }
    }
    assert!(asked >= 15, "{asked}");
}
