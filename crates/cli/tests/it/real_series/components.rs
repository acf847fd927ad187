//! Kinds in which a platform has several components, which a capture tells apart.

use super::queue::{self, Process};
use super::{Kind, Said, between};
use crate::fiware_shape::platform::Network;
use crate::fiware_shape::{self, Case, HEALTHY, Start};
use crate::harness::Bench;
use crate::wire_cause::{self, Platform, calls};
use std::process::Command;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "slow database", right: &["postgres"], run: |number| slow("postgres", number) },
    Kind { name: "slow agent", right: &["agent"], run: |number| slow("agent", number) },
    Kind { name: "SIGSTOP 2 s of the store", right: &["store"], run: |_| stopped(0) },
    Kind { name: "SIGSTOP 2 s of the context broker", right: &["context"], run: |_| stopped(1) },
    Kind { name: "SIGSTOP 2 s of the front", right: &["front"], run: |_| stopped(2) },
    Kind { name: "short connections", right: &["context"], run: short_connections },
    Kind { name: "reused ports", right: &["context"], run: reused_ports },
    Kind { name: "reads of stored values", right: &["context"], run: stored_values },
    Kind { name: "slow worker behind a queue", right: &["worker"], run: slow_worker },
    Kind { name: "messages wait in a queue", right: &["queue"], run: waiting_in_queue },
];

/// In FIWARE's shape; each run has another way of being there or another way in.
fn slow(name: &str, number: u64) -> Said {
    let planted = fiware_shape::SLOW.iter().find(|(known, _)| *known == name).unwrap().1;
    let start = if number.is_multiple_of(2) { Start::Profile } else { Start::Before };
    let mapping = if number % 4 < 2 { "http" } else { "mqtt" };
    Said::by_way(&fiware_shape::once(Case { start, mapping, planted, ..HEALTHY }))
}

fn stopped(place: usize) -> Said {
    Said::by_stalls(&wire_cause::stopped_for_two_seconds(place))
}

/// Seconds that the context broker takes for each message.
fn pause(number: u64) -> String {
    format!("{:.4}", between(number, 0.004, 0.010))
}

/// Each notification has a connection of its own.
fn short_connections(number: u64) -> Said {
    let bench = Bench::new();
    let platform = Platform::begin(&bench, &pause(number));
    Said::by_way(&wire_cause::start(&bench, &platform.scenario(true, "5s")).finish())
}

/// A network of its own whose programs have a hundred ports for all of their connections.
const FEW_PORTS: &str = "echo 20000 20099 > /proc/sys/net/ipv4/ip_local_port_range";
/// Somebody who asks the front for something, each time over a new connection.
const STRANGER: &str = "import http.client, sys, time\nprint('ready', flush=True)\nwhile True:\n    \
    asking = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n    asking.request('GET', '/')\n    \
    asking.getresponse().read()\n    asking.close()\n    time.sleep(0.03)\n";

/// The ports of notifications are a stranger's a moment later. What the stranger asked is nobody's of the platform.
fn reused_ports(number: u64) -> Said {
    let bench = Bench::new();
    let network = Network::new();
    let mut limit = Command::new("sh");
    limit.args(["-c", FEW_PORTS]);
    assert!(network.within(&bench, &limit).status().unwrap().success());
    let mut platform = Platform::default();
    for role in ["store", "context", "front"] {
        platform.add(&bench, role, &pause(number), |command| network.within(&bench, &command));
    }
    let mut asking = Command::new("python3");
    asking.args(["-c", STRANGER, &platform.component(2).1.to_string()]);
    let _stranger = Process(wire_cause::started(network.within(&bench, &asking)));
    bench.write("context.yaml", wire_cause::PROFILE);
    let mut run = bench.run_command(&platform.scenario(true, "5s"));
    let finished = bench.start(&mut network.within(&bench, run.arg("--capture"))).finish();
    let mut said = Said::by_way(&finished);
    for client in ["store", "context", "front"] {
        let booked = calls(&finished.summary, client, "front");
        if booked > 0 {
            said.names.push(format!("{client} for {booked} of the stranger's requests"));
        }
    }
    let [own, anonymous] =
        [("context", "plimsoll"), ("127.0.0.1", "plimsoll")].map(|(of, to)| calls(&finished.summary, of, to));
    said.evidence += &format!(", notifications: {own} owned, {anonymous} of unknown owner");
    said
}

/// The store is a real Redis, whose value is read before each is written.
fn stored_values(number: u64) -> Said {
    let bench = Bench::new();
    let mut platform = Platform::default();
    let (redis, port) = queue::redis(&bench);
    platform.put(redis, port);
    for role in ["context", "front"] {
        platform.add(&bench, role, &pause(number), |command| command);
    }
    Said::by_way(&wire_cause::start(&bench, &platform.scenario(true, "5s")).finish())
}

fn slow_worker(number: u64) -> Said {
    Said::by_way(&queue::run(between(number, 0.008, 0.015), 0.0))
}

/// Whoever takes messages looks for them only now and then.
fn waiting_in_queue(number: u64) -> Said {
    Said::by_way(&queue::run(0.0, between(number, 0.1, 0.2)))
}
