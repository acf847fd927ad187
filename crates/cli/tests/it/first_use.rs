//! What a new user meets first: a bare address, the short result, and what other programs read of it.

use crate::harness::{Bench, count, until_valid};
use crate::mosquitto::Mosquitto;
use crate::tls;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A service that takes messages below `/in` and knows no other path.
struct Service {
    address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, paths) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&paths);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(connection, &seen));
            }
        });
        Service { address, paths }
    }

    /// The paths asked for since the last call, each once.
    fn paths(&self) -> Vec<String> {
        let mut paths = std::mem::take(&mut *self.paths.lock().unwrap());
        paths.sort();
        paths.dedup();
        paths
    }
}

/// Answers requests until the connection ends.
fn serve(mut connection: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let status = if path.starts_with("/in") { "200 OK" } else { "404 Not Found" };
        seen.lock().unwrap().push(path);
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        if connection.write_all(answer.as_bytes()).is_err() {
            return;
        }
        line.clear();
    }
}

const LOAD: [&str; 14] = [
    "--devices",
    "2",
    "--rate",
    "50",
    "--hold",
    "1s",
    "--warm-up",
    "0s",
    "--samples",
    "5",
    "--set",
    "load.again=0s",
    "--set",
    "objectives.publish_p99=null",
];

fn run(bench: &Bench, address: &str, more: &[&str]) -> crate::harness::Finished {
    let arguments = ["run", address, "--no-report", "--summary-json", "summary.json"];
    bench.call(arguments.iter().chain(&LOAD).chain(more))
}

#[test]
fn messages_go_to_the_path_of_a_bare_address() {
    let (bench, service) = (Bench::beside_others(), Service::start());
    let base = format!("http://{}", service.address);
    for (path, more, seen) in [
        ("/in", &[][..], &["/in"][..]),
        ("/in/?q=1", &[], &["/in/?q=1"]),
        ("/in/{device}/x", &[], &["/in/0/x", "/in/1/x"]),
        ("/in", &["--set", "mqtt.topic=t/{device}"], &["/in/t/0", "/in/t/1"]),
    ] {
        let finished = run(&bench, &format!("{base}{path}"), more);
        assert_eq!(service.paths(), seen, "{path} {more:?}: {finished:?}");
        assert_eq!(count(finished.level(0), "refused"), 0);
    }
    bench
        .call(["check", &format!("{base}/in?q=1"), "--devices", "1", "--rate", "1"])
        .exits(0)
        .says("POST /in?q=1");
}

#[test]
fn a_refusal_names_its_url_and_comes_first() {
    let (bench, service) = (Bench::beside_others(), Service::start());
    let address = format!("http://{}/out", service.address);
    let finished = run(&bench, &address, &[]).not_met();
    let reasons = finished.level(0)["reasons"].as_array().unwrap();
    let first = reasons[0].as_str().unwrap();
    assert!(first.contains(&format!("POST {address}")) && first.contains("404 Not Found"), "{reasons:#?}");
    assert_eq!(finished.level(0)["blame"]["culprit"], "platform");
    assert!(finished.said().contains("messages were refused"), "{}", finished.stdout);
}

#[test]
fn a_probe_of_an_address_needs_no_load() {
    let (bench, service) = (Bench::beside_others(), Service::start());
    let probe = |path: &str| bench.call(["check", &format!("http://{}{path}", service.address), "--probe"]);
    probe("/in").exits(0).says("the platform takes messages");
    probe("/out").exits(1).says("refused by the platform");
    let broker = Mosquitto::start(&bench, "allow_anonymous true\n");
    bench.call(["check", &broker.url(), "--probe"]).exits(0).says("survives");
}

#[test]
fn the_short_result_is_verdict_table_and_cause() {
    let (bench, service) = (Bench::beside_others(), Service::start());
    let address = format!("http://{}/out", service.address);
    let short = until_valid(|| run(&bench, &address, &[])).exits(99).stdout;
    let lines: Vec<&str> = short.lines().collect();
    assert!(lines[0].starts_with("MISSED  no load line; at 50/s "), "{short}");
    assert!(
        short.contains("offered") && short.contains("50/s missed: ") && short.contains("more: plimsoll show")
    );
    assert!(!short.contains("ledger") && !short.contains("generator  "), "{short}");
    let long = until_valid(|| run(&bench, &address, &["-v"])).exits(99).stdout;
    assert!(long.contains("ledger") && long.contains("generator  "), "{long}");
    let line = until_valid(|| run(&bench, &address, &["-q"])).exits(99);
    assert!(line.stdout.lines().count() == 1 && line.stdout.starts_with("MISSED  "), "{line:?}");
    assert!(line.stderr.is_empty(), "{line:?}");
    bench.call(["run", "x.yaml", "-q", "-v"]).exits(104);
}

#[test]
fn servers_of_continuous_integration_read_the_result() {
    let (bench, service) = (Bench::beside_others(), Service::start());
    let run = |path: &str| {
        let address = format!("http://{}{path}", service.address);
        let written = ["--summary-json", "summary.json", "--junit", "j.xml", "--format", "github"];
        let arguments = ["run", &address, "--no-report", "-q"].into_iter().chain(written);
        let finished = until_valid(|| {
            let steps = bench.write("steps.md", "before\n");
            let mut command = bench.plimsoll(arguments.clone().chain(LOAD));
            bench.start(command.env("GITHUB_STEP_SUMMARY", &steps)).finish()
        });
        (finished, fs::read_to_string(bench.path("j.xml")).unwrap())
    };
    let (missed, junit) = run("/out");
    let missed = missed.exits(99);
    assert!(missed.stdout.contains("\n::error title=Plimsoll::MISSED  no load line"), "{missed:?}");
    assert!(junit.contains("tests=\"2\" failures=\"2\" errors=\"0\""), "{junit}");
    let summary = fs::read_to_string(bench.path("steps.md")).unwrap();
    assert!(summary.starts_with("before\n### MISSED") && summary.contains("| 50/s |"), "{summary}");
    // Another program agrees that it is XML.
    let python =
        "import sys, xml.etree.ElementTree as t; print(t.parse('j.xml').getroot().attrib['failures'])";
    let mut parse = bench.in_folder("python3");
    bench.start(parse.args(["-c", python])).finish().exits(0).says("2");
    bench.call(["run", "x.yaml", "--junit", "a", "--summary-json", "a"]).exits(104);
}

#[test]
fn an_address_over_tls_takes_its_files_as_options() {
    let (bench, _) = tls::bench();
    let broker = tls::secured(&bench, "server", "require_certificate false\n");
    let address = format!("mqtts://localhost:{}", broker.port());
    run(&bench, &address, &["--ca", "ca.pem", "--cert", "device.pem", "--key", "device.key"]).judged();
    run(&bench, &address, &["--insecure"]).judged();
    run(&bench, &address, &[]).exits(1).says("--ca");
    run(&bench, &address, &["--insecure", "--ca", "ca.pem"]).exits(104);
    bench.write("file.yaml", "name: x\n");
    bench.call(["run", "file.yaml", "--insecure"]).exits(104).says("--insecure goes with an address");
}

/// Tests that measure.
mod alone {
    use super::*;

    /// `script` (of every Debian) gives the program a terminal to write to.
    #[test]
    fn a_run_on_a_terminal_shows_its_figures_as_they_come() {
        let bench = Bench::new();
        let text = "name: live\nplatform: embedded\npopulation: { devices: 5, subscribers: 1 }\n\
                load: { levels: [500], warm_up: 0s, hold: 4s, samples: 8, drain: 1s, again: 0s }\n";
        bench.write("live.yaml", text);
        let run = format!("{} run live.yaml --no-report", env!("CARGO_BIN_EXE_plimsoll"));
        let mut terminal = bench.in_folder("script");
        terminal.args(["--quiet", "--return", "--command", &run, "/dev/null"]);
        let said = bench.start(&mut terminal).finish().said();
        for figure in ["/s, pub p50", "pub p99", "0 errors", "s left"] {
            assert!(said.contains(figure), "no {figure:?} in {said}");
        }
    }

    #[test]
    fn where_a_broker_says_nothing_of_what_is_behind_it_subscribe_time_leads() {
        let bench = Bench::new();
        let text = "name: behind\nplatform: chain\npopulation: { devices: 2, subscribers: 1 }\n\
                load: { levels: [20], warm_up: 0s, hold: 1s, samples: 4, drain: 2s, again: 0s }\n\
                message: { marker: ascii }\n";
        bench.write("behind.yaml", text);
        let arguments = ["run", "behind.yaml", "--no-report", "--summary-json", "summary.json"];
        let finished = bench.call(arguments);
        assert!(finished.said().contains("delivered sub p50 sub p99 pub p99"), "{}", finished.stdout);
        let summary: Value =
            serde_json::from_str(&fs::read_to_string(bench.path("summary.json")).unwrap()).unwrap();
        assert_eq!(summary["leading_time"], "subscribe_time");
    }
}
