//! A real LwM2M server, on Eclipse Leshan (installed by `scripts/test`): devices register at it, it observes them, and its
//! subscribers are notified of each message. What the server counts is what the ledger says.

use crate::harness::{Bench, Finished, count, sent};
use crate::tls;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A server that runs until it is dropped.
struct Server {
    child: Child,
    coap: u16,
    http: u16,
}

impl Server {
    fn start(bench: &Bench, options: &[&str]) -> Server {
        Server::start_program(bench, "leshan-server", options)
    }

    fn start_program(bench: &Bench, program: &str, options: &[&str]) -> Server {
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let (coap, http) = (free(), free());
        let mut command = bench.in_folder(program);
        command.env("JAVA_OPTS", "-Xmx256m").stdout(Stdio::null());
        command.args(["--coap-port", &coap.to_string(), "--http-port", &http.to_string()]).args(options);
        let server = Server { child: command.spawn().unwrap(), coap, http };
        await_that("the server starts", || TcpStream::connect(("127.0.0.1", http)).is_ok());
        server
    }

    /// What it has counted so far.
    fn counted(&self) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        stream.write_all(b"GET /statistics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Ends it as a user would.
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn scenario(platform: &str, more: &str) -> String {
    format!(
        "name: leshan\nplatform: {platform}\nmessage: {{ size: 40 }}\n\
         load: {{ arrivals: constant, levels: [80], hold: 2s, samples: 2, warm_up: 0s, drain: 10s, again: 0s }}\n\
         objectives: {{ publish_p99: null, achieved: null, publish_p50: \"< 10 s\" }}\n{more}\n"
    )
}

#[track_caller]
fn exact(finished: &Finished) {
    let level = finished.level(0);
    let sent = sent(level, 158..=160);
    for (what, expected) in [("acknowledged", sent), ("expected_deliveries", 2 * sent)] {
        assert_eq!(count(level, what), expected, "{what}: {level:#}");
    }
    assert_eq!(count(level, "delivered") + count(level, "late"), 2 * sent, "{level:#}");
    for nothing in ["lost", "duplicated", "foreign", "refused", "superseded", "queries_failed"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {level:#}");
    }
    assert!(count(level, "queries_answered") > 10, "{level:#}");
}

const POPULATION: &str = "population: { devices: 40, subscribers: 2 }\nnorthbound: { rate: 20/s }";

#[test]
fn each_message_is_delivered_once_and_queries_reach_the_device() {
    let bench = Bench::beside_others();
    let platform = "{ profile: leshan, clean_up: true, with: { heap: 256m } }";
    exact(&bench.run(&scenario(platform, POPULATION)).judged());
}

/// Beside their messages, devices are written to and observed, each query at one of them.
#[test]
#[ignore = "acceptance: peers"]
fn queries_write_to_devices_and_observe_them() {
    for mapping in ["write", "observe"] {
        let bench = Bench::beside_others();
        let platform =
            format!("{{ profile: leshan, mapping: {mapping}, clean_up: true, with: {{ heap: 256m }} }}");
        exact(&bench.run(&scenario(&platform, POPULATION)).judged());
    }
}

#[test]
#[ignore = "acceptance: peers"]
fn each_format_carries_the_messages() {
    for format in ["senml-json", "senml-cbor", "text", "opaque"] {
        let bench = Bench::beside_others();
        let platform = format!("{{ profile: leshan, with: {{ heap: 256m, format: {format} }} }}");
        exact(&bench.run(&scenario(&platform, POPULATION)).judged());
    }
}

#[test]
#[ignore = "acceptance: peers"]
fn a_context_broker_notifies_of_what_the_server_writes() {
    let bench = Bench::beside_others();
    let platform = "{ profile: leshan-ngsi, clean_up: true, with: { heap: 256m } }";
    exact(&bench.run(&scenario(platform, POPULATION)).judged());
}

#[test]
fn what_devices_send_of_themselves_is_delivered() {
    let bench = Bench::beside_others();
    // Otherwise it would observe them, too, and deliver each one twice.
    let platform = "{ profile: leshan, clean_up: true, with: { heap: 256m, resource: 3/0/0 } }";
    let more = format!("{POPULATION}\nlwm2m: {{ version: 1.1, send: true }}");
    exact(&bench.run(&scenario(platform, &more)).judged());
}

/// Twenty devices over DTLS: what was sent is what the server has counted.
#[track_caller]
fn known_over_dtls(bench: &Bench, server: Server, more: &str) {
    let platform = format!("{{ profile: lwm2m, address: \"coaps://127.0.0.1:{}\" }}", server.coap);
    let more = format!("population: {{ devices: 20 }}\n{more}");
    let finished = bench.run(&scenario(&platform, &more)).judged();
    let sent = count(finished.level(0), "sent");
    assert!((158..=160).contains(&sent), "{finished:?}");
    assert_eq!(count(finished.level(0), "acknowledged"), sent, "{finished:?}");
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 20);
    let counted = server.counted();
    assert_eq!(
        (&counted["registrations"], &counted["notifications"]),
        (&20.into(), &sent.into()),
        "{counted}"
    );
    server.end();
}

/// Californium's own DTLS, and a session for each device.
#[test]
fn a_server_with_a_key_is_reached_over_dtls() {
    let bench = Bench::beside_others();
    let key = bench.write("key", "sesame");
    let server = Server::start(&bench, &["--observe", "19/0/0", "--key-file", key.to_str().unwrap()]);
    known_over_dtls(&bench, server, "coap: { dtls: { identity: \"plimsoll-{device}\", key: sesame } }");
}

/// The real bootstrap server beside it sends the devices there.
#[test]
fn a_bootstrap_server_sends_devices_to_the_server() {
    let bench = Bench::beside_others();
    let platform = "{ profile: leshan-bootstrap, clean_up: true, with: { heap: 256m } }";
    exact(&bench.run(&scenario(platform, &format!("{POPULATION}\nlwm2m: {{ bootstrap: true }}"))).judged());
}

/// Twenty devices with a key for the bootstrap server, which gives them what they show to the server.
#[track_caller]
fn bootstrapped_over_dtls(bench: &Bench, server: Server, given: &[&str]) {
    let key = bench.write("first", "open");
    let uri = format!("coaps://127.0.0.1:{}", server.coap);
    let own = ["--server", &uri, "--key-file", key.to_str().unwrap()];
    let bootstrap = Server::start_program(bench, "leshan-bootstrap-server", &[&own, given].concat());
    let platform =
        format!("{{ profile: lwm2m, address: \"{uri}\", ports: {{ bootstrap: {} }} }}", bootstrap.coap);
    let more = "population: { devices: 20 }\nlwm2m: { bootstrap: true }\nconnection: { timeout: 60s }\n\
        coap: { dtls: { identity: \"plimsoll-{device}\", key: open } }";
    let finished = bench.run(&scenario(&platform, more)).judged();
    let sent = count(finished.level(0), "sent");
    assert!((158..=160).contains(&sent), "{finished:?}");
    assert_eq!(count(finished.level(0), "acknowledged"), sent, "{finished:?}");
    assert_eq!(count(&finished.summary["wire"], "handshakes"), 40);
    let (counted, told) = (server.counted(), bootstrap.counted());
    assert_eq!((&told["bootstrapped"], &told["failed"]), (&20.into(), &0.into()), "{told}");
    let expected = (&20.into(), &sent.into());
    assert_eq!((&counted["registrations"], &counted["notifications"]), expected, "{counted}");
    bootstrap.end();
    server.end();
}

#[test]
#[ignore = "acceptance: peers"]
fn a_bootstrap_server_gives_devices_a_key_over_dtls() {
    let bench = Bench::beside_others();
    let key = bench.write("key", "sesame");
    let key = key.to_str().unwrap();
    let server = Server::start(&bench, &["--observe", "19/0/0", "--key-file", key]);
    bootstrapped_over_dtls(&bench, server, &["--server-key-file", key]);
}

#[test]
fn a_bootstrap_server_gives_devices_certificates() {
    let (bench, authority) = tls::bench();
    let server = certified(&bench, &authority, |device| format!("plimsoll-{device}"));
    let (certificate, folder) = (bench.path("harbour.pem"), bench.path("."));
    let files = [certificate.to_str().unwrap(), folder.to_str().unwrap()];
    let given = ["--server-certificate", files[0], "--device-certificates", files[1]];
    bootstrapped_over_dtls(&bench, server, &given);
}

/// The server keeps registrations in memory: all devices register again, and are observed again.
#[test]
#[ignore = "acceptance: faults"]
fn registrations_are_made_again_when_the_server_was_killed() {
    let text = scenario("{ profile: leshan, with: { heap: 256m } }", "population: { devices: 40 }")
        .replace("hold: 2s", "hold: 15s, storm: { after: 1s, down: 500ms }")
        + "coap: { ack_timeout: 100ms, max_retransmit: 2 }\n\
           connection: { reconnect: { from: 100ms, to: 500ms } }\n";
    let finished = Bench::beside_others().run(&text).judged();
    let level = finished.level(0);
    let clients = ["clients_lost", "clients_back"].map(|name| count(level, name));
    assert_eq!(clients, [40, 40], "{level:#}");
    assert_eq!(count(&level["management"], "observed"), 40, "{level:#}");
    // Down for half a second; how long a virtual machine of Java takes to begin is the machine's.
    let recovery = level["recovery"].as_f64().unwrap();
    assert!(recovery > 0.5, "{recovery} s");
    // A server that has just begun may be too slow for a device, which then comes back twice.
    assert!(level["outage"]["n"].as_u64().unwrap() >= 40, "{level:#}");
}

/// A server that asks twenty devices for their certificates, each in a file of that name.
fn certified(bench: &Bench, authority: &tls::Authority, file: impl Fn(u32) -> String) -> Server {
    authority.sign(bench, "127.0.0.1", "harbour", 4000);
    for device in 0..20 {
        authority.sign(bench, &format!("plimsoll-{device}"), &file(device), 4000);
    }
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let (certificate, key, trust) = (path("harbour.pem"), path("harbour.key"), path("ca.pem"));
    let files = ["--certificate", &certificate, "--certificate-key", &key, "--trust", &trust];
    Server::start(bench, &[&["--observe", "19/0/0"], files.as_slice()].concat())
}

/// Leshan knows a device by the name in its certificate, which is that of the endpoint.
#[test]
fn a_server_knows_devices_by_their_certificates() {
    let (bench, authority) = tls::bench();
    let server = certified(&bench, &authority, |device| format!("device-{device}"));
    let own = "certificate: \"device-{device}.pem\", key: \"device-{device}.key\"";
    known_over_dtls(&bench, server, &format!("connection: {{ tls: {{ ca: ca.pem, {own} }} }}"));
}

#[test]
fn the_ledger_is_what_a_server_that_runs_already_counts() {
    let bench = Bench::beside_others();
    let server = Server::start(&bench, &["--observe", "19/0/0"]);
    let platform = format!("{{ profile: lwm2m, address: \"coap://127.0.0.1:{}\" }}", server.coap);
    let finished = bench.run(&scenario(&platform, "population: { devices: 40 }")).judged();
    let level = finished.level(0);
    let sent = count(level, "sent");
    assert!((158..=160).contains(&sent), "{finished:?}");
    assert_eq!(count(level, "acknowledged"), sent, "{finished:?}");
    // Devices do not await the answer to their deregistration.
    await_that("all have deregistered", || server.counted()["registered"] == 0);
    let counted = server.counted();
    for (what, expected) in [
        ("registrations", 40),
        ("observed", 40),
        ("not_observed", 0),
        ("notifications", sent),
        ("unreadable", 0),
        ("deregistrations", 40),
    ] {
        assert_eq!(counted[what], expected, "{what}: {counted}");
    }
    server.end();
}

/// The published example in its quick form: devices that speak LwM2M and MQTT, through a server and an agent to one broker.
#[test]
fn work_a_has_both_protocols_at_once() {
    let bench = Bench::beside_others();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/work-a-lwm2m.yaml");
    let mut command = bench.plimsoll(["run", "--quick", "--no-report", "--summary-json", "summary.json"]);
    command.args(["--set", "platform.with.heap=256m"]).arg(example.canonicalize().unwrap());
    let finished = bench.start(&mut command).finish().judged();
    let level = finished.level(1);
    for population in level["populations"].as_array().unwrap().iter().map(|own| &own["figures"]) {
        let sent = count(population, "sent");
        assert!(sent > 100, "{population}");
        assert_eq!(count(population, "acknowledged"), sent, "{population}");
        assert_eq!(count(population, "delivered") + count(population, "late"), sent, "{population}");
        assert_eq!(count(population, "duplicated") + count(population, "foreign"), 0, "{population}");
    }
    assert!(!level["query_boxplot"].is_null() && count(level, "queries_answered") > 10, "{level:#}");
}
