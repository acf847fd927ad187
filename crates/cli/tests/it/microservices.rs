//! Brokers made of microservices, as stand-ins in Python (`stand_ins/`): whoever wrote these had not seen the profiles. What they
//! recorded is what the ledger says.

use crate::harness::{Bench, count, sent};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// A stand-in that runs until it is dropped.
struct StandIn {
    child: Child,
    ports: BTreeMap<String, u16>,
}

impl StandIn {
    fn start(bench: &Bench, program: &str, options: &[&str]) -> StandIn {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins");
        let mut command = bench.in_folder("websockets-python");
        command.arg(folder.join(program)).args(["--record", "record.csv"]).args(options);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        // Where the server for MQTT is.
        let agents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms/agents/microservices");
        command.env("PYTHONPATH", agents);
        let mut child =
            command.stdout(Stdio::piped()).spawn().expect("websockets-python is installed by scripts/peers");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told = line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("{line}"));
        let port =
            |part: &str| part.split_once('=').map(|(name, port)| (name.to_owned(), port.parse().unwrap()));
        StandIn { child, ports: told.split(' ').filter_map(port).collect() }
    }

    fn port(&self, name: &str) -> u16 {
        self.ports[name]
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often each thing stands in the record.
fn recorded(bench: &Bench) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for line in fs::read_to_string(bench.path("record.csv")).unwrap().lines().skip(1) {
        *lines.entry(line.split(',').nth(1).unwrap().to_owned()).or_default() += 1;
    }
    lines
}

/// Ten devices and two subscribers, at 100 messages a second.
fn scenario(platform: &str) -> String {
    format!(
        "name: microservices\nplatform: {platform}\npopulation: {{ devices: 10, subscribers: 2 }}\n\
         message: {{ size: 40 }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 3s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n"
    )
}

/// Nothing of the level is refused or foreign, and no connection ends; what was sent.
#[track_caller]
fn all_sent(level: &Value) -> u64 {
    let sent = sent(level, 198..=200);
    assert_eq!(count(level, "expected_deliveries"), 2 * sent, "{level:#}");
    for nothing in ["refused", "foreign", "disconnected"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
    sent
}

/// What was sent was acknowledged and came to the platform; all that the platform says it gave to subscribers came to them once, and
/// what it says it lost is lost.
#[track_caller]
fn is_exact(bench: &Bench, level: &Value, given: &str) {
    let (sent, lines) = (all_sent(level), recorded(bench));
    assert_eq!(
        (count(level, "acknowledged"), lines["inserted"], lines[given]),
        (sent, sent, count(level, "delivered") + count(level, "late")),
        "{lines:?} {level:#}"
    );
    assert_eq!(
        (count(level, "lost"), count(level, "duplicated")),
        (2 * lines["lost"], 0),
        "{lines:?} {level:#}"
    );
}

/// Nobody is answered, and some broadcasts come twice.
#[track_caller]
fn is_exact_with_duplicates(bench: &Bench, level: &Value) {
    let (sent, lines) = (all_sent(level), recorded(bench));
    let came = ["delivered", "late", "duplicated"].map(|name| count(level, name)).into_iter().sum::<u64>();
    assert_eq!(
        (lines["inserted"], lines["pushed"], 2 * lines["lost"]),
        (sent, came, count(level, "lost")),
        "{lines:?} {level:#}"
    );
    assert!(count(level, "duplicated") >= 20, "{level:#}");
}

#[test]
fn devicehive_answers_each_notification_and_pushes_it() {
    let bench = Bench::beside_others();
    let platform = StandIn::start(&bench, "devicehive.py", &["--lose-every", "20"]);
    let [websocket, rest, auth] = ["websocket", "rest", "auth"].map(|name| platform.port(name));
    let finished = bench
        .run(&scenario(&format!(
            "{{ profile: devicehive, clean_up: true, address: \"ws://127.0.0.1:{websocket}\", \
             ports: {{ rest: {rest}, auth: {auth} }} }}"
        )))
        .judged();
    is_exact(&bench, finished.level(0), "pushed");
}

/// Devices post over REST, or insert over WebSocket; subscribers poll.
#[test]
fn devicehive_gives_each_notification_to_those_who_poll() {
    for mapping in ["rest", "poll"] {
        let bench = Bench::beside_others();
        let platform = StandIn::start(&bench, "devicehive.py", &["--lose-every", "20"]);
        let [websocket, rest, auth] = ["websocket", "rest", "auth"].map(|name| platform.port(name));
        let address = match mapping {
            "rest" => format!("http://127.0.0.1:{rest}"),
            _ => format!("ws://127.0.0.1:{websocket}"),
        };
        let finished = bench
            .run(&(scenario(&format!(
                "{{ profile: devicehive, mapping: {mapping}, address: \"{address}\", ports: {{ rest: {rest}, auth: {auth} }} }}"
            )) + QUERIES))
            .judged();
        is_exact(&bench, finished.level(0), "polled");
        are_answered(finished.level(0));
    }
}

/// Devices speak MQTT: each message is acknowledged and pushed, unless the platform loses it.
#[track_caller]
fn takes_messages_over_mqtt(program: &str, profile: &str, ports: &[(&str, &str)]) {
    let bench = Bench::beside_others();
    let platform = StandIn::start(&bench, program, &["--lose-every", "20"]);
    let ports: Vec<String> =
        ports.iter().map(|(name, own)| format!("{name}: {}", platform.port(own))).collect();
    let finished = bench
        .run(&scenario(&format!(
            "{{ profile: {profile}, mapping: mqtt, address: \"mqtt://127.0.0.1:{}\", ports: {{ {} }} }}",
            platform.port("mqtt"),
            ports.join(", ")
        )))
        .judged();
    is_exact(&bench, finished.level(0), "pushed");
}

#[test]
fn devicehive_answers_and_pushes_over_mqtt() {
    takes_messages_over_mqtt("devicehive.py", "devicehive", &[]);
}

const QUERIES: &str = "northbound: { rate: 100, arrivals: constant, queriers: 3 }\n";

/// Each query of a level of 2 s was answered.
#[track_caller]
fn are_answered(level: &Value) {
    assert!(count(level, "queries") >= 190, "{level:#}");
    assert_eq!(count(level, "queries_answered"), count(level, "queries"), "{level:#}");
}

/// Queries go over WebSocket or MQTT, beside the messages.
#[test]
fn devicehive_answers_queries_that_are_messages() {
    for (mapping, port, more) in
        [("websocket", "websocket", "ports: { auth: AUTH }"), ("mqtt", "mqtt", "clean_up: true")]
    {
        let bench = Bench::beside_others();
        let platform = StandIn::start(&bench, "devicehive.py", &["--lose-every", "20"]);
        let more = more.replace("AUTH", &platform.port("auth").to_string());
        let address = format!("{port}://127.0.0.1:{}", platform.port(port)).replace("websocket:", "ws:");
        let text = scenario(&format!(
            "{{ profile: devicehive, mapping: {mapping}, address: \"{address}\", {more} }}"
        ));
        let finished = bench.run(&(text + QUERIES)).judged();
        let level = finished.level(0);
        is_exact(&bench, level, "pushed");
        are_answered(level);
    }
}

/// A step that the platform refuses over its WebSocket ends the run before it begins, and says what the platform said.
#[test]
fn what_devicehive_refuses_in_the_set_up_is_told() {
    let bench = Bench::beside_others();
    let platform = StandIn::start(&bench, "devicehive.py", &[]);
    let (websocket, auth) = (platform.port("websocket"), platform.port("auth"));
    let platform = format!(
        "{{ profile: devicehive, with: {{ id: \"not an id\" }}, address: \"ws://127.0.0.1:{websocket}\", ports: {{ auth: {auth} }} }}"
    );
    let refused = bench.run(&scenario(&platform));
    refused.exits(1).says("make the devices").says("was refused").says("letters, digits and dashes");
}

/// Each device is a user of its own, and MQTT acknowledges what Meshblu loses.
#[test]
fn meshblu_takes_messages_over_mqtt() {
    takes_messages_over_mqtt("meshblu.py", "meshblu", &[("http", "http"), ("socket", "websocket")]);
}

/// Devices post over HTTP, or say their messages over WebSocket; subscribers read streams.
#[test]
fn meshblu_streams_broadcasts_some_of_them_twice() {
    for mapping in ["http", "stream"] {
        let bench = Bench::beside_others();
        let planted = ["--lose-every", "20", "--duplicate-every", "15"];
        let platform = StandIn::start(&bench, "meshblu.py", &planted);
        let [websocket, http] = ["websocket", "http"].map(|name| platform.port(name));
        let address = match mapping {
            "http" => format!("http://127.0.0.1:{http}"),
            _ => format!("ws://127.0.0.1:{websocket}"),
        };
        let finished = bench
            .run(&(scenario(&format!(
                "{{ profile: meshblu, mapping: {mapping}, address: \"{address}\", ports: {{ http: {http}, stream: {http} }} }}"
            )) + QUERIES))
            .judged();
        is_exact_with_duplicates(&bench, finished.level(0));
        are_answered(finished.level(0));
    }
}

#[test]
fn meshblu_answers_nothing_and_some_broadcasts_come_twice() {
    let bench = Bench::beside_others();
    let platform = StandIn::start(&bench, "meshblu.py", &["--lose-every", "20", "--duplicate-every", "15"]);
    let [websocket, http] = ["websocket", "http"].map(|name| platform.port(name));
    let finished = bench
        .run(&scenario(&format!(
            "{{ profile: meshblu, clean_up: true, address: \"ws://127.0.0.1:{websocket}\", ports: {{ http: {http} }} }}"
        )))
        .judged();
    // What nobody answers is done when it is sent.
    let level = finished.level(0);
    assert!(level["achieved"].as_f64().unwrap() > 50.0, "{level:#}");
    is_exact_with_duplicates(&bench, finished.level(0));
}

/// A refusal does not say what it refuses, and the connection ends with it.
#[test]
fn meshblu_that_refuses_too_many_messages_is_told() {
    let bench = Bench::beside_others();
    let platform = StandIn::start(&bench, "meshblu.py", &["--rate", "5"]);
    let [websocket, http] = ["websocket", "http"].map(|name| platform.port(name));
    let finished = bench.run(&scenario(&format!(
        "{{ profile: meshblu, address: \"ws://127.0.0.1:{websocket}\", ports: {{ http: {http} }} }}"
    )));
    let level = finished.level(0);
    assert!(count(level, "disconnected") > 0, "{level:#}");
    let incident = level["incident"].as_str().unwrap_or_default();
    assert!(
        incident.contains("status 429: [") || incident.contains("code 1008 (Too Many Requests)"),
        "{incident}"
    );
}
