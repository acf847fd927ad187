//! Clients of message brokers against platforms that are none: what they send ends the connection and is told, and nothing panics
//! or waits for ever.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::{DriverContext, amqp, amqp1, kafka, nats};
use plimsoll_model::Nanos;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

type Made = fn(&DriverContext) -> std::io::Result<Box<dyn Driver>>;

/// Each protocol: its scheme, its name for people, and how its driver is made.
const PROTOCOLS: [(&str, &str, Made); 4] = [
    ("nats", "NATS", |context| Ok(Box::new(nats::driver(context)?))),
    ("amqp", "AMQP 0-9-1", |context| Ok(Box::new(amqp::driver(context)?))),
    ("amqp1", "AMQP 1.0", |context| Ok(Box::new(amqp1::driver(context)?))),
    ("kafka", "Kafka", |context| Ok(Box::new(kafka::driver(context)?))),
];

/// A platform that says these bytes to whoever connects, and then closes or says nothing more.
fn platform(said: Vec<u8>, closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            // Who closes with bytes unread resets the connection, and what was said is lost.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&said);
            if !closes {
                open.push(stream);
            }
        }
    });
    address
}

/// What becomes of a device and of a subscriber of a platform: why each was not let in.
fn refusals((scheme, name, made): (&str, &str, Made), address: SocketAddr) -> Vec<String> {
    let scenario = format!(
        "name: test\nplatform: {{ profile: existing, address: \"{scheme}://{address}\" }}\n\
         population: {{ devices: 1, subscribers: 1 }}\nconnection: {{ timeout: 500ms }}\nload: {{ levels: [1] }}\n"
    );
    let context = context_of(scenario, None, address);
    let clock = context.clock;
    let mut driver = made(&context).unwrap();
    let clients = [Client::Device(0), Client::Subscriber(0)];
    clients.iter().for_each(|client| assert!(driver.connect(*client)));
    let (mut told, mut events) = (Vec::new(), Vec::new());
    let end = clock.now() + Nanos::from_secs(5);
    while told.len() < clients.len() {
        assert!(clock.now() < end, "{name}: only {told:?}");
        driver.poll(clock.now() + Nanos::from_millis(50), &mut events);
        for event in events.drain(..) {
            match event {
                Event::ConnectFailed { reason, .. } => told.push(reason),
                Event::Ready { .. } => panic!("{name}: let in by nothing"),
                _ => {}
            }
        }
    }
    told
}

#[test]
fn who_speaks_something_else_is_told() {
    let address = platform(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(), true);
    for protocol in PROTOCOLS {
        for reason in refusals(protocol, address) {
            assert!(reason.contains(protocol.1) && reason.contains("HTTP"), "{reason}");
        }
    }
}

#[test]
fn who_says_nothing_is_told_with_what_was_awaited() {
    let address = platform(Vec::new(), false);
    for protocol in PROTOCOLS {
        for reason in refusals(protocol, address) {
            assert!(reason.contains("did not come within 500 ms"), "{}: {reason}", protocol.1);
            let scheme = format!("another protocol than that of `{}://`", protocol.0);
            assert!(reason.contains(&scheme), "{reason}");
        }
    }
}

#[test]
fn who_closes_at_once_is_told() {
    let address = platform(Vec::new(), true);
    for protocol in PROTOCOLS {
        for reason in refusals(protocol, address) {
            assert!(reason.contains("closed the connection"), "{}: {reason}", protocol.1);
            // A broker of Kafka with SASL does so to whom it does not know.
            assert_eq!(reason.contains("write `kafka.username`"), protocol.0 == "kafka", "{reason}");
        }
    }
}

/// Lengths that cannot be, and the beginnings of messages whose end never comes.
#[test]
fn lengths_that_lie_fill_no_memory() {
    let lies: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        &[0xff; 64],
        &[0; 64],
        &[1, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0],
        b"INFO {\r\nMSG a 1 99999999999\r\n",
    ];
    for lie in lies {
        let address = platform(lie.to_vec(), false);
        for protocol in PROTOCOLS {
            assert_eq!(refusals(protocol, address).len(), 2, "{}", protocol.1);
        }
    }
}

/// Bytes as they fall, with beginnings that look right.
#[test]
fn bytes_without_a_sense_let_nobody_in() {
    let beginnings: [&[u8]; 5] = [
        b"",
        b"INFO {}\r\n",
        b"AMQP\x03\x01\0\0",
        &[1, 0, 0, 0, 0, 0, 30, 0, 10, 0, 10],
        &[0, 0, 0, 30, 0, 0, 0, 0],
    ];
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for round in 0..10 {
        let mut said = beginnings[round % beginnings.len()].to_vec();
        said.extend((0..200).map(|_| next()));
        let address = platform(said, true);
        for protocol in PROTOCOLS {
            assert_eq!(refusals(protocol, address).len(), 2, "{}", protocol.1);
        }
    }
}
