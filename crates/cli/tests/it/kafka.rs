//! Kafka: a real broker, and clients on another library that count and that pass messages on.

use crate::harness::{Bench, Finished, STORE, count, number};
use crate::kafka_broker::{KafkaBroker, Ports};
use crate::mosquitto::Mosquitto;
use plimsoll_model::message::Fate;
use plimsoll_store::RunReader;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Without a warm-up, whose messages another client would count, too.
const LOAD: &str = "\
load: { arrivals: constant, levels: [200], hold: 2s, samples: 4, warm_up: 0s, drain: 3s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";

/// Sent = acknowledged, and each subscriber has everything.
#[track_caller]
fn assert_adds_up(run: &Finished, copies: u64) -> u64 {
    let level = run.level(0);
    let sent = count(level, "sent");
    assert!((350..=440).contains(&sent), "{level:#}");
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    assert_eq!(count(level, "delivered"), sent * copies, "{level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "foreign", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 6], "{level:#}");
    sent
}

/// A client on another library.
struct Other {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn begin(arguments: &[&str]) -> Other {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stand_ins/kafka_witness.py");
        let mut process = Command::new("brokers-python")
            .arg(script)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("brokers-python is installed by scripts/peers");
        let mut other = Other { output: BufReader::new(process.stdout.take().unwrap()), process };
        assert_eq!(other.line(), "ready=1\n");
        other
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Ends it; what it says last.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let said = self.line();
        self.process.wait().unwrap();
        said
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn each_message_comes_to_each_subscriber_and_to_one_of_a_group() {
    let run = Bench::beside_others().run(&format!(
        "name: kafka\nplatform: {{ profile: kafka, with: {{ heap: 256m }} }}\nconnection: {{ timeout: 30s }}\n\
         populations:\n\
         \x20 - {{ name: plain, devices: 10, subscribers: 2, message: {{ size: 40 }} }}\n\
         \x20 - {{ name: grouped, devices: 10, subscribers: {{ count: 2, share: workers }}, \
             message: {{ target: 'city/{{run}}/{{device}}', size: 40 }} }}\n{LOAD}"
    ));
    let run = run.judged();
    let level = run.level(0);
    let sent = count(level, "sent");
    assert_eq!(count(level, "acknowledged"), sent, "{level:#}");
    let other = ["lost", "late", "duplicated", "reordered", "reconnects"];
    assert_eq!(other.map(|name| count(level, name)), [0; 5], "{level:#}");
    let expected = count(level, "expected_deliveries");
    assert!(expected > sent && expected < sent * 2, "two copies of some, one of others: {level:#}");
    assert_eq!(count(level, "delivered"), expected, "{level:#}");
}

#[test]
#[ignore = "acceptance: kafka-clients"]
fn everything_comes_once_over_tls() {
    let run = Bench::new().run(&format!(
        "name: tls\nplatform: {{ profile: kafka, with: {{ heap: 256m }}, mapping: tls }}\n\
         connection: {{ timeout: 30s }}\npopulation: {{ devices: 20, subscribers: 2 }}\nmessage: {{ size: 40 }}\n{LOAD}"
    ));
    let run = run.judged();
    assert_adds_up(&run, 2);
    let wire = &run.summary["wire"];
    assert!(count(wire, "handshakes") >= 22, "each client has one: {wire:#}");
}

/// One broker for all of this: it takes long to start.
#[test]
fn other_clients_count_the_same_and_pass_on_what_came_over_mqtt() {
    let bench = Bench::beside_others();
    let ports = Ports::free();
    let _broker = KafkaBroker::start(&bench, ports);
    let broker = ports.address();

    let witness = Other::begin(&["count", &broker, "counted"]);
    let run = bench.run(&format!(
        "name: kept\nplatform: {{ profile: existing, address: 'kafka://{broker}' }}\nkafka: {{ topic: counted }}\n\
         population: {{ devices: 100, subscribers: 2 }}\nmessage: {{ size: 40 }}\n{LOAD}"
    ));
    let sent = assert_adds_up(&run.judged(), 2);
    let said = witness.end();
    let came: u64 = said.split_once("came=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(came, sent, "{said}");
    assert!(said.contains("partitions=4 keyless=0"), "{said}");

    let mosquitto = Mosquitto::start(&bench, "allow_anonymous true\n");
    let port = mosquitto.port();
    let bridge = Other::begin(&["bridge", &broker, "counted", &port.to_string()]);
    let run = bench.run(&format!(
        "name: both\nplatform: {{ profile: existing, address: 'mqtt://127.0.0.1:{port}' }}\n\
         population: {{ devices: 10 }}\n\
         subscribers: {{ count: 2, platform: {{ address: 'kafka://{broker}' }}, kafka: {{ topic: counted }} }}\n\
         message: {{ target: 'city/{{run}}/{{device}}' }}\n{LOAD}"
    ));
    assert_adds_up(&run.judged(), 2);
    bridge.end();

    let missing = bench.run(&format!(
        "name: missing\nplatform: {{ profile: existing, address: 'kafka://{broker}' }}\nkafka: {{ topic: nowhere }}\n\
         population: {{ devices: 2, subscribers: 1 }}\n{LOAD}"
    ));
    missing.says("no topic `nowhere`");
    let large = bench.run(&format!(
        "name: large\nplatform: {{ profile: existing, address: 'kafka://{broker}' }}\n\
         population: {{ devices: 2, subscribers: 1 }}\nmessage: {{ size: 1048576 }}\n\
         load: {{ arrivals: constant, levels: [4], hold: 2s, samples: 4, warm_up: 200ms, drain: 2s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null }}\n"
    ));
    assert_eq!(count(large.level(0), "refused"), count(large.level(0), "sent"), "{:#}", large.level(0));
    large.says("larger than the broker takes");
    let left = Other::begin(&["topics", &broker]).end();
    assert_eq!(left, "counted\n", "what was made for a run goes with it");
}

/// Somebody else joins the group of a run for a while, takes partitions, and leaves: each message comes once.
fn group_is_shared_out_in_mid_level(bench: &Bench, address: &str) {
    let run = bench.start(&mut bench.run_command(&format!(
        "name: rebalance\nplatform: {{ profile: existing, address: 'kafka://{address}' }}\nconnection: {{ timeout: 30s }}\n\
         kafka: {{ topic: shared }}\npopulation: {{ devices: 40, subscribers: {{ count: 2, share: workers }} }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 15s, samples: 5, warm_up: 1s, drain: 15s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 30 s\" }}\n"
    )));
    bench.await_count(0, "acknowledged");
    let mut intruder = Other::begin(&["intrude", address, "shared"]);
    let given: u32 = intruder.line().trim_end().strip_prefix("given=").unwrap().parse().unwrap();
    assert!(given > 0);
    let run = run.finish();
    let level = run.level(0);
    assert!(level["incident"].as_str().unwrap_or_default().contains("rebalance"), "{level:#}");
    assert_eq!(count(level, "delivered"), count(level, "sent"), "{level:#}");
    assert_eq!(["lost", "duplicated"].map(|name| count(level, name)), [0; 2], "{level:#}");
}

/// Messages whose connection was lost, or of which the broker did not say whether it has them.
fn given_up(bench: &Bench) -> u64 {
    let reader = RunReader::open(&bench.path(STORE)).unwrap();
    let record = reader.run("last").unwrap();
    let mut given_up = 0;
    reader.messages(&record.id, |message| given_up += u64::from(message.fate == Fate::Abandoned)).unwrap();
    given_up
}

/// Two brokers share the lead of the partitions. Then one of them is killed in the middle of a level: its partitions have a copy at the
/// other one, to which devices and subscribers turn.
#[test]
#[ignore = "acceptance: kafka-clients"]
fn clients_speak_to_all_brokers_of_a_cluster_and_turn_to_the_one_that_takes_over() {
    let bench = Bench::new();
    let (first, second) = (Ports::free(), Ports::free());
    let _stays = KafkaBroker::start(&bench, first);
    let goes = KafkaBroker::join(&bench, second, first);
    let made = Other::begin(&["make", &first.address(), "shared"]).end();
    assert_eq!(made, "leaders=2\n");
    // Before others: their groups would still be known.
    group_is_shared_out_in_mid_level(&bench, &first.address());
    for (subscribers, copies) in [("2", 2), ("{ count: 3, share: workers }", 1)] {
        let run = bench.run(&format!(
            "name: cluster\nplatform: {{ profile: existing, address: 'kafka://{}' }}\nconnection: {{ timeout: 30s }}\n\
             kafka: {{ topic: shared }}\npopulation: {{ devices: 40, subscribers: {subscribers} }}\nmessage: {{ size: 40 }}\n{LOAD}",
            first.address()
        ));
        assert_adds_up(&run.judged(), copies);
    }
    let scenario = format!(
        "name: moves\nplatform: {{ profile: existing, address: 'kafka://{}' }}\nkafka: {{ partitions: 8, replicas: 2 }}\n\
         population: {{ devices: 40, subscribers: 1 }}\nrecord: {{ messages: true }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 60s, samples: 6, warm_up: 0s, drain: 10s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, publish_p50: \"< 30 s\" }}\n",
        first.address()
    );
    let run = bench.start(&mut bench.run_command(&scenario));
    bench.await_count(0, "acknowledged");
    thread::sleep(Duration::from_secs(5));
    drop(goes);
    let run = run.finish();
    let level = run.level(0);
    let sent = count(level, "sent");
    let ended = ["acknowledged", "refused"].map(|name| count(level, name)).iter().sum::<u64>();
    assert_eq!(ended + given_up(&bench), sent, "each message has one end: {level:#}");
    assert!(count(level, "disconnected") > 5, "whose leader was killed: {level:#}");
    assert!(count(level, "acknowledged") * 10 > sent * 8, "most go to the other one: {level:#}");
    assert_eq!(count(level, "lost_acknowledged"), 0, "the other one has what was acknowledged: {level:#}");
    assert_eq!(count(level, "duplicated"), 0, "{level:#}");
}

/// The broker is killed in the middle of a level, and comes back with what it acknowledged. What another client writes again then counts as
/// duplicates, each of it, and the report says that they are allowed.
#[test]
#[ignore = "acceptance: kafka-clients"]
fn duplicates_after_an_unclean_restart_are_counted_and_called_legal() {
    const COPIES: u64 = 7;
    let bench = Bench::new();
    let ports = Ports::free();
    let broker = KafkaBroker::start(&bench, ports);
    let address = ports.address();
    // It makes the topic.
    Other::begin(&["count", &address, "kept"]).end();
    let run = bench.start(&mut bench.run_command(&format!(
        "name: again\nplatform: {{ profile: existing, address: 'kafka://{address}' }}\nkafka: {{ topic: kept }}\n\
         population: {{ devices: 10, subscribers: 1 }}\n\
         connection: {{ timeout: 30s, reconnect: {{ from: 100ms, to: 500ms }} }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 45s, samples: 5, warm_up: 0s, drain: 10s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 60 s\" }}\n"
    )));
    bench.await_level(0);
    thread::sleep(Duration::from_secs(2));
    drop(broker);
    let _broker = KafkaBroker::start(&bench, ports);
    let mut repeater = Other::begin(&["repeat", &address, "kept", &COPIES.to_string()]);
    assert_eq!(repeater.line(), format!("again={COPIES}\n"));
    let run = run.finish();
    let level = run.level(0);
    assert!(count(level, "reconnects") >= 11, "{level:#}");
    assert_eq!(count(level, "duplicated"), COPIES, "{level:#}");
    assert!(
        level["duplicates_legal"].as_str().is_some_and(|why| why.contains("Kafka delivers at least once"))
    );
    assert_eq!(count(level, "lost_acknowledged"), 0, "{level:#}");
    assert!(count(level, "acknowledged") > 2000, "most went on after it: {level:#}");
}

/// A broker that lets its clients read so few bytes a second gives records late, and says that it does.
#[test]
#[ignore = "acceptance: kafka-clients"]
fn a_quota_that_holds_subscribers_back_is_reported() {
    let bench = Bench::new();
    let ports = Ports::free();
    let _broker = KafkaBroker::start(&bench, ports);
    let address = ports.address();
    let scenario = format!(
        "name: quota\nplatform: {{ profile: existing, address: 'kafka://{address}' }}\nconnection: {{ timeout: 30s }}\n\
         population: {{ devices: 10, subscribers: 1 }}\nmessage: {{ size: 1000 }}\n\
         load: {{ arrivals: constant, levels: [100], hold: 5s, samples: 5, warm_up: 0s, drain: 30s }}\n\
         objectives: {{ publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 60 s\" }}\n"
    );
    let incident = |run: &Finished| run.level(0)["incident"].as_str().unwrap_or_default().to_owned();
    let free = bench.run(&scenario).judged();
    assert!(!incident(&free).contains("quota"), "{:#}", free.level(0));
    ports.limit_readers(20_000);
    let held = bench.run(&scenario).judged();
    assert!(incident(&held).contains("it holds a subscriber back (quota)"), "{:#}", held.level(0));
    let slower = |run: &Finished| number(run.level(0), &["subscribe_time", "p75"]);
    assert!(slower(&held) > slower(&free) + 1.0, "records waited, and that counts: {:#}", held.level(0));
    assert_eq!(count(held.level(0), "duplicated"), 0);
}
