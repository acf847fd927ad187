//! Servers on the libraries of Node that most others use, as peers: what they counted is what the ledger says.

use crate::harness::{Bench, count, sent};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

/// A server that runs until it is dropped.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    port: u64,
}

impl Server {
    fn start(bench: &Bench, program: &str, options: &[&str]) -> Server {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins");
        let mut command = bench.in_folder("socket-io-node");
        let command = command.arg(folder.join(program)).args(options).stdout(Stdio::piped());
        let mut child = command.spawn().expect("socket-io-node is installed by scripts/peers");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let port = numbers(&mut output)["websocket"];
        Server { child, output, port }
    }

    /// What it counted, with which it ends.
    fn counted(&mut self) -> BTreeMap<String, u64> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        numbers(&mut self.output)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next line's numbers, by their names.
fn numbers(output: &mut BufReader<ChildStdout>) -> BTreeMap<String, u64> {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let number =
        |part: &str| part.split_once('=').map(|(name, number)| (name.to_owned(), number.parse().unwrap()));
    line.split_whitespace().filter_map(number).collect()
}

const LOAD: &str = "\
message: { size: 40 }
load: { arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 1s, again: 0s }
objectives: { publish_p99: null, achieved: null, delivered: null, publish_p50: \"< 10 s\" }
";

#[test]
fn a_server_on_ws_gets_each_message_once() {
    let bench = Bench::beside_others();
    let mut server = Server::start(&bench, "ws.js", &[]);
    let address = format!("ws://127.0.0.1:{}", server.port);
    let platform = format!("{{ profile: existing, address: \"{address}\", protocol: websocket }}");
    let finished =
        bench.run(&format!("name: ws\nplatform: {platform}\npopulation: {{ devices: 10 }}\n{LOAD}")).judged();
    let level = finished.level(0);
    let sent = sent(level, 198..=200);
    assert_eq!((count(level, "acknowledged"), server.counted()["came"]), (sent, sent), "{level:#}");
}

#[test]
fn a_server_on_ws_reads_what_is_compressed_and_is_read() {
    let bench = Bench::beside_others();
    let mut server = Server::start(&bench, "ws.js", &["compressed"]);
    bench.write(
        "compressed.yaml",
        "name: compressed\ntitle: a server on ws\ndescription: it compresses\nlimits: { all: none }\n\
         device: { speaks: websocket, marker: ascii, payload: '{\"text\":\"{message:json}\"}', websocket: { compression: true } }\n\
         components: []\n",
    );
    let platform = format!("{{ profile: ./compressed.yaml, address: \"ws://127.0.0.1:{}\" }}", server.port);
    let load = LOAD.replace("size: 40", "template: '{marker} {{\"filled\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}'");
    let finished =
        bench.run(&format!("name: ws\nplatform: {platform}\npopulation: {{ devices: 10 }}\n{load}")).judged();
    let level = finished.level(0);
    let (sent, counted) = (sent(level, 198..=200), server.counted());
    assert_eq!((count(level, "acknowledged"), counted["came"]), (sent, sent), "{level:#}");
}

const PROFILE: &str = r#"
name: rooms
title: a server on socket.io
description: events to rooms
limits: { all: none }
device:
  speaks: websocket
  marker: ascii
  payload: '["message",{"device":"{device}","text":"{message:json}"}]'
  websocket: { framing: socket_io, auth: '{"name":"{NAME}"}' }
subscriber:
  websocket:
    framing: socket_io
    auth: '{"name":"subscriber {subscriber}"}'
    opening:
      - message: '["subscribe","{device}"]'
        answer: { type: /0, types: [subscribed] }
  delivery: every
components: []
"#;

/// The scenario, with a profile whose devices have that name.
fn rooms(bench: &Bench, server: &Server, name: &str) -> String {
    bench.write("rooms.yaml", &PROFILE.replace("{NAME}", name));
    let platform = format!("{{ profile: ./rooms.yaml, address: \"ws://127.0.0.1:{}\" }}", server.port);
    format!("name: rooms\nplatform: {platform}\npopulation: {{ devices: 10, subscribers: 2 }}\n{LOAD}")
}

#[test]
fn a_server_on_socket_io_acknowledges_each_message_and_loses_those_that_it_counts() {
    let bench = Bench::beside_others();
    let mut server = Server::start(&bench, "socket_io.js", &[]);
    let finished = bench.run(&rooms(&bench, &server, "device {device}")).judged();
    let level = finished.level(0);
    let (sent, counted) = (sent(level, 198..=200), server.counted());
    let seen =
        ["acknowledged", "delivered", "lost", "duplicated", "disconnected"].map(|name| count(level, name));
    assert_eq!((counted["came"], counted["came"]), (sent, seen[0]), "{counted:?} {level:#}");
    assert_eq!(
        [counted["pushed"], 2 * counted["lost"], 0, 0],
        [seen[1] + count(level, "late"), seen[2], seen[3], seen[4]],
        "{counted:?} {level:#}"
    );
}

#[test]
fn a_server_on_socket_io_that_lets_nobody_in_says_why() {
    let bench = Bench::beside_others();
    let server = Server::start(&bench, "socket_io.js", &[]);
    let finished = bench.run(&rooms(&bench, &server, ""));
    assert!(finished.said().contains("nobody without a name"), "{}", finished.said());
}
