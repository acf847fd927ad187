//! CoAP against real servers: libcoap's, which also notifies observers, and a oneM2M CSE.

use crate::harness::{Bench, count};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// libcoap's server, with resources that a PUT makes. Dropped, it is killed.
pub struct Libcoap {
    child: Child,
    pub port: u16,
}

impl Libcoap {
    /// Starts one on a free port.
    pub fn start() -> Libcoap {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("coap-server-notls");
        command.args(["-A", "127.0.0.1", "-p", &port.to_string(), "-d", "100"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("coap-server-notls of libcoap3-bin: {error}"));
        let server = Libcoap { child, port };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        let began = Instant::now();
        loop {
            // A ping is answered with a reset.
            let _ = socket.send(&[0x40, 0, 0, 1]);
            if socket.recv(&mut [0; 16]).is_ok_and(|length| length == 4) {
                return server;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "libcoap's server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes a resource.
    pub fn put(&self, name: &str) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut request = vec![0x40, 3, 0, 7, 0xb0 | name.len() as u8];
        request.extend(name.as_bytes());
        request.extend(b"\xffx");
        socket.send_to(&request, ("127.0.0.1", self.port)).unwrap();
        assert!(socket.recv(&mut [0; 64]).is_ok(), "{name} was not made");
    }
}

impl Drop for Libcoap {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROFILE: &str = "\
name: resources
title: resources that are put and observed
device:
  speaks: coap
  marker: ascii
  request:
    method: PUT
    path: /d{device}?by={run}
    options: { 12: 0 }
    body: 'say {message}'
    expect: [201, 204]
subscriber:
  observes: { path: '/d{device}' }
  delivery: latest
components: []
";

fn scenario(port: u16, more: &str) -> String {
    format!(
        "name: resources\nplatform: {{ profile: ./resources.yaml, address: \"coap://127.0.0.1:{port}\" }}\n{more}"
    )
}

#[test]
fn libcoap_takes_requests_and_blocks_and_notifies_observers() {
    let bench = Bench::new();
    bench.write("resources.yaml", PROFILE);
    let server = Libcoap::start();
    (0..4).for_each(|device| server.put(&format!("d{device}")));
    let finished = bench.run(&scenario(
        server.port,
        "population: { devices: 4, subscribers: 2 }\n\
             load: { arrivals: constant, levels: [40], hold: 2s, samples: 2, warm_up: 0s, drain: 2s }\n\
             objectives: { delivered: \">= 1 %\" }\n",
    ));
    // Whether the machine was calm enough for a verdict is not asked: the ledger is exact all the same.
    let level = finished.level(0);
    let sent = count(level, "due");
    assert!((78..=80).contains(&sent), "{finished:?}");
    assert_eq!((count(level, "sent"), count(level, "acknowledged")), (sent, sent), "{finished:?}");
    assert_eq!(count(level, "expected_deliveries"), 2 * sent);
    let (delivered, superseded) = (count(level, "delivered"), count(level, "superseded"));
    // The newest of each device reaches both; what lies between may be skipped.
    assert!(delivered >= 8, "{finished:?}");
    assert_eq!(delivered + superseded + count(level, "late"), 2 * sent, "{finished:?}");
    for nothing in ["lost", "duplicated", "reordered", "foreign", "refused", "unsent"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
    assert!(level["wire"]["request_rtt"]["n"].as_u64().unwrap() > 0);

    let blocks = bench.run(&scenario(
        server.port,
        "population: { devices: 4 }\nmessage: { size: 500 }\n\
             coap: { block_size: 64, sockets: 1, outstanding: 2 }\n\
             load: { model: closed, in_flight: [4], hold: 1s, samples: 2, warm_up: 0s }\n",
    ));
    let level = blocks.level(0);
    assert_eq!(count(level, "refused"), 0, "{blocks:?}");
    assert!(count(level, "acknowledged") > 50, "{blocks:?}");
    assert_eq!(count(level, "acknowledged"), count(level, "sent"));
}

#[test]
fn where_nobody_listens_the_run_fails_at_once() {
    let bench = Bench::new();
    bench.write("resources.yaml", PROFILE);
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let load = "population: { devices: 2 }\nload: { levels: [10], hold: 1s, samples: 2, warm_up: 0s }\n";
    let finished = bench.run(&scenario(free, load)).exits(1);
    finished.says("nobody listens at the platform's UDP port");
}

#[test]
fn a_onem2m_cse_is_spoken_to_over_coap() {
    let bench = Bench::new();
    let scenario = "name: onem2m\nplatform: { profile: acme, mapping: coap }\n\
        population: { devices: 3, subscribers: 2 }\n\
        load: { arrivals: constant, levels: [15], hold: 2s, samples: 2, warm_up: 0s, drain: 5s }\n\
        objectives: { delivered: \">= 99 %\" }\n";
    let mut command = bench.run_command(scenario);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/acme/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", own.display()));
    let finished = bench.start(&mut command).finish();
    let level = finished.level(0);
    let sent = count(level, "due");
    assert!((28..=30).contains(&sent), "{finished:?}");
    assert_eq!((count(level, "sent"), count(level, "acknowledged")), (sent, sent), "{finished:?}");
    let deliveries = (count(level, "expected_deliveries"), count(level, "delivered"));
    assert_eq!(deliveries, (2 * sent, 2 * sent), "{finished:?}");
    for nothing in ["lost", "duplicated", "reordered", "foreign", "refused", "unsent", "late"] {
        assert_eq!(count(level, nothing), 0, "{nothing}: {finished:?}");
    }
}
