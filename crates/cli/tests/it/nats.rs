//! NATS: a real server, and a client on another library that counts.

use crate::harness::{Bench, Finished, STORE, count};
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_store::RunReader;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Without a warm-up, whose messages another client would count, too.
const LOAD: &str = "\
load: { arrivals: constant, levels: [200], hold: 2s, samples: 4, warm_up: 0s, drain: 2s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

/// A server of our own, at ports that it knows.
struct Server {
    child: Child,
    port: u16,
    mqtt: u16,
    http: u16,
}

impl Server {
    fn begin(bench: &Bench, more: &str) -> Server {
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, mqtt, http] = free.each_ref().map(|listener| listener.local_addr().unwrap().port());
        drop(free);
        let folder = bench.path("jetstream");
        let text = format!(
            "server_name: test\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{http}\"\n\
             mqtt {{ host: \"127.0.0.1\", port: {mqtt} }}\njetstream {{ store_dir: \"{}\" }}\n{more}\n",
            folder.display()
        );
        bench.write("nats.conf", &text);
        let child = Server::start(bench);
        let begin = Instant::now();
        while [port, mqtt, http].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(begin.elapsed() < Duration::from_secs(10), "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Server { child, port, mqtt, http }
    }

    fn start(bench: &Bench) -> Child {
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(bench.path("nats.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("nats-server is installed by scripts/peers")
    }

    /// Kills it without a warning, and starts it again.
    fn restart(&mut self, bench: &Bench) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = Server::start(bench);
    }

    /// What its monitoring says at a path.
    fn monitored(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sent = acknowledged where that is done, and each subscriber has everything.
#[track_caller]
fn assert_adds_up(run: &Finished, is_acknowledged: bool, copies: u64) -> u64 {
    let level = run.level(0);
    let sent = count(level, "sent");
    assert!((350..=440).contains(&sent), "{level:#}");
    match is_acknowledged {
        true => assert_eq!(count(level, "acknowledged"), sent, "{level:#}"),
        false => assert!(level["acknowledged"].is_null(), "{level:#}"),
    }
    assert_eq!(count(level, "delivered"), sent * copies, "{level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 6], "{level:#}");
    sent
}

#[test]
fn each_message_comes_to_each_subscriber_and_to_one_of_a_group() {
    let run = Bench::beside_others().run(&format!(
        "name: core\nplatform: nats\npopulation: {{ devices: 20, subscribers: 3 }}\n\
         message: {{ target: 'city.{{run}}.{{device}}', size: 40 }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), false, 3);
    let run = Bench::beside_others().run(&format!(
        "name: group\nplatform: nats\nnats: {{ create_stream: file }}\n\
         population: {{ devices: 20, subscribers: {{ count: 3, share: workers }} }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), true, 1);
}

#[test]
fn it_is_the_same_over_tls_and_over_mqtt_on_tls_and_on_websocket() {
    let mappings = [
        ("tls", "nats: { create_stream: memory }"),
        ("mqtt-tls", "mqtt: { qos: 1 }"),
        ("mqtt-websocket", "mqtt: { qos: 1 }"),
    ];
    for (mapping, keys) in mappings {
        let run = Bench::beside_others().run(&format!(
            "name: layered\nplatform: {{ profile: nats, mapping: {mapping} }}\n\
             population: {{ devices: 20, subscribers: 2 }}\n{keys}\n{LOAD}"
        ));
        let run = run.judged();
        assert_adds_up(&run, true, 2);
        let handshakes = if mapping.contains("tls") { 22 } else { 0 };
        assert_eq!(count(&run.summary["wire"], "handshakes"), handshakes, "{mapping}");
    }
}

#[test]
fn another_client_counts_the_same_and_the_stream_goes_with_the_run() {
    let bench = Bench::beside_others();
    let server = Server::begin(&bench, "");
    let witness = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/nats_witness.py");
    let address = format!("nats://127.0.0.1:{}", server.port);
    let mut witness = Command::new("brokers-python")
        .arg(witness)
        .args([&address, "plimsoll.>"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("brokers-python is installed by scripts/peers");
    let mut output = BufReader::new(witness.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready=1\n");
    let run = bench.run(&format!(
        "name: kept\nplatform: {{ profile: existing, address: '{address}' }}\nnats: {{ create_stream: memory }}\n\
         population: {{ devices: 20, subscribers: 2 }}\nmessage: {{ size: 40 }}\n{LOAD}"
    ));
    let run = run.judged();
    assert_adds_up(&run, true, 2);
    kill_process(Pid::from_child(&witness), Signal::TERM).unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    witness.wait().unwrap();
    let counted: u64 = line.split_once("came=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    let published = server.monitored("/varz")["in_msgs"].as_u64().unwrap();
    let sent = count(run.level(0), "sent");
    assert_eq!(counted, sent);
    assert!(published > counted * 3, "with the acknowledgements of two consumers: {published} of {counted}");
    assert_eq!(server.monitored("/jsz")["streams"], 0, "nothing is left behind");
}

#[test]
fn what_comes_in_over_mqtt_goes_out_over_nats() {
    let bench = Bench::beside_others();
    let server = Server::begin(&bench, "");
    let run = bench.run(&format!(
        "name: both\nplatform: {{ profile: existing, address: 'mqtt://127.0.0.1:{}' }}\n\
         population: {{ devices: 10 }}\n\
         subscribers: {{ count: 2, platform: {{ address: 'nats://127.0.0.1:{}' }} }}\n\
         message: {{ target: 'city/{{run}}/{{device}}' }}\n{LOAD}",
        server.mqtt, server.port
    ));
    assert_adds_up(&run.judged(), true, 2);
}

#[test]
fn who_is_not_let_in_and_a_stream_that_is_missing_are_told() {
    let bench = Bench::beside_others();
    let server = Server::begin(&bench, "authorization { user: u, password: right }");
    let scenario = |more: &str| {
        format!(
            "name: wrong\nplatform: {{ profile: existing, address: 'nats://127.0.0.1:{}' }}\n\
             population: {{ devices: 2, subscribers: 1 }}\n{more}\n{LOAD}",
            server.port
        )
    };
    bench.run(&scenario("")).says("Authorization Violation").says("write `nats.username`");
    let wrong = scenario("nats: { username: u, password: { env: NATS_PASSWORD } }");
    let run = bench.start(bench.run_command(&wrong).env("NATS_PASSWORD", "wrong-word")).finish();
    let run = run.says("Authorization Violation");
    assert!(!run.said().contains("wrong-word"), "{}", run.said());
    let missing = scenario("nats: { username: u, password: { env: NATS_PASSWORD }, stream: ORDERS }");
    let run = bench.start(bench.run_command(&missing).env("NATS_PASSWORD", "right")).finish();
    run.says("stream not found").says("nats.create_stream");
}

#[test]
fn a_server_that_comes_back_is_connected_to_again() {
    let bench = Bench::beside_others();
    let mut server = Server::begin(&bench, "");
    let scenario = format!(
        "name: back\nplatform: {{ profile: existing, address: 'nats://127.0.0.1:{}' }}\n\
         population: {{ devices: 10, subscribers: 1 }}\nconnection: {{ reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ levels: [200], hold: 6s, samples: 6, warm_up: 0s, drain: 3s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n",
        server.port
    );
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    server.restart(&bench);
    let run = run.finish();
    let level = run.level(0);
    assert_eq!(["disconnected", "reconnects"].map(|name| count(level, name)), [11; 2], "{level:#}");
    assert_eq!(["unsent", "duplicated", "foreign"].map(|name| count(level, name)), [0; 3], "{level:#}");
    assert!(count(level, "delivered") > 800, "what was due without a connection waited: {level:#}");
}

/// The server is killed in the middle of a level: its stream in a file keeps what it acknowledged, and a new consumer brings what the
/// subscriber missed.
#[test]
fn what_a_stream_has_acknowledged_survives_an_unclean_restart() {
    let bench = Bench::beside_others();
    let mut server = Server::begin(&bench, "");
    let scenario = format!(
        "name: kept\nplatform: {{ profile: existing, address: 'nats://127.0.0.1:{}' }}\nnats: {{ create_stream: file }}\n\
         population: {{ devices: 10, subscribers: 1 }}\nconnection: {{ reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ levels: [200], hold: 6s, samples: 6, warm_up: 200ms, drain: 5s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n",
        server.port
    );
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    server.restart(&bench);
    let run = run.finish();
    let level = run.level(0);
    assert!(count(level, "reconnects") >= 11, "{level:#}");
    assert!(count(level, "acknowledged") > 800, "{level:#}");
    assert_eq!(count(level, "lost_acknowledged"), 0, "{level:#}");
    assert_eq!(count(level, "duplicated"), 0, "{level:#}");
}

/// A stream in memory is gone with its server. The first device makes it again, and a subscriber has all that it takes from then on,
/// whenever it is back itself.
#[test]
fn a_stream_that_is_made_again_is_read_from_its_beginning() {
    let bench = Bench::beside_others();
    let mut server = Server::begin(&bench, "");
    let scenario = format!(
        "name: made-again\nplatform: {{ profile: existing, address: 'nats://127.0.0.1:{}' }}\n\
         nats: {{ create_stream: memory }}\npopulation: {{ devices: 10, subscribers: 1 }}\nrecord: {{ messages: true }}\n\
         connection: {{ reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ levels: [200], hold: 6s, samples: 6, warm_up: 0s, drain: 5s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n",
        server.port
    );
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_level(0);
    server.restart(&bench);
    // What the old server has said has come by now, and the new one does not listen yet.
    let now = clock_gettime(ClockId::Monotonic);
    let restarted = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    let run = run.finish();
    let reader = RunReader::open(&bench.path(STORE)).unwrap();
    let record = reader.run("last").unwrap();
    let epoch = record.provenance.clock_epoch.unwrap();
    let (mut kept, mut lost) = (0, Vec::new());
    let mut look = |message: MessageRecord| {
        if message.done.is_some_and(|done| done.0 + epoch > restarted) && message.fate != Fate::Refused {
            kept += 1;
            lost.extend((message.missing > 0).then_some(message));
        }
    };
    reader.messages(&record.id, &mut look).unwrap();
    assert!(kept > 500, "{kept}: {:#}", run.level(0));
    assert!(lost.is_empty(), "{lost:?}");
}

/// What another client publishes again after the server was killed counts as duplicates, each of it, and the report says that they
/// are allowed.
#[test]
fn duplicates_after_an_unclean_restart_are_counted_and_called_legal() {
    const COPIES: u64 = 7;
    let bench = Bench::beside_others();
    let mut server = Server::begin(&bench, "");
    let address = format!("nats://127.0.0.1:{}", server.port);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/nats_repeater.py");
    let mut repeater = Command::new("brokers-python")
        .arg(script)
        .args([&address, "plimsoll.>", &COPIES.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("brokers-python is installed by scripts/peers");
    let mut output = BufReader::new(repeater.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready=1\n");
    let run = bench.start(&mut bench.run_command(&format!(
        "name: again\nplatform: {{ profile: existing, address: '{address}' }}\nnats: {{ create_stream: file }}\n\
         population: {{ devices: 10, subscribers: 1 }}\nconnection: {{ reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ levels: [200], hold: 8s, samples: 8, warm_up: 200ms, drain: 5s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }}\n"
    )));
    bench.await_level(0);
    // So many messages of the hold have come by now.
    std::thread::sleep(Duration::from_secs(2));
    server.restart(&bench);
    // The client comes back within that time, and hears of the hold alone.
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_child(&repeater), Signal::USR1).unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    repeater.wait().unwrap();
    assert_eq!(line, format!("again={COPIES}\n"));
    let run = run.finish();
    let level = run.level(0);
    assert_eq!(count(level, "duplicated"), COPIES, "{level:#}");
    assert!(level["duplicates_legal"].as_str().is_some_and(|why| why.contains("at least once")), "{level:#}");
    assert_eq!(count(level, "lost_acknowledged"), 0, "{level:#}");
}
