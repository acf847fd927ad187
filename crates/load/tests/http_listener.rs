//! Subscribers that listen over HTTP, against a scripted platform.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::marker::Marker;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Driver, Event};
use plimsoll_load::drivers::DriverContext;
use plimsoll_load::drivers::http::HttpListenerDriver;
use plimsoll_load::roles::listening::Listening;
use plimsoll_load::share::Share;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{Plan, Protocol};
use plimsoll_scenario::{Environment, SourceFile, load};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

fn plan(address: SocketAddr) -> Plan {
    let profile = "name: scripted\ntitle: scripted\ndevice: { speaks: http, marker: ascii, request: { path: / } }\n\
                   subscriber: { listens: http }\ncomponents: []\n";
    let text = format!(
        "name: scripted\nplatform: {{ profile: ./scripted.yaml, address: \"http://{address}\" }}\n\
         population: {{ devices: 2, subscribers: 1 }}\nload: {{ levels: [1] }}\n"
    );
    let profile = |_: &str| Ok(profile.to_owned());
    let environment = Environment { profile: &profile, variable: &|_| None };
    load(&SourceFile { name: "test".into(), text }, &[], &environment)
        .unwrap_or_else(|found| panic!("{found}"))
}

/// A platform that opens a connection for each notification, and a generator that stalls: a delivery counts from when its bytes
/// came, not from when its connection was accepted.
#[test]
fn a_delivery_on_a_new_connection_has_the_stamp_of_its_bytes() {
    const STALL: Duration = Duration::from_millis(400);
    let platform = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = plan(platform);
    let role = plan.platform.roles.listener.clone().unwrap();
    let listening = Listening::bind(Protocol::Http, platform, 1, 0).unwrap();
    let (here, socket) = (listening.addresses()[0], listening.socket(0).unwrap());
    let (run, clock) = (RunId::from_bits(7), Clock::start());
    let (plan, share, run_context) = (Arc::new(plan), Share::WHOLE, Arc::default());
    let subscribers = (share, plan.subscribers.count);
    let context = DriverContext {
        plan,
        run,
        address: platform,
        bootstrap: None,
        share,
        subscribers,
        clock,
        run_context,
        service: None,
    };
    let mut driver = HttpListenerDriver::new(&context, &role, socket.into()).unwrap();
    let mut events = Vec::new();
    for _ in 0..3 {
        driver.poll(clock.now() + Nanos::from_millis(1), &mut events);
    }
    // More connections than one look holds, each with a notification.
    let notify = |sequence: u32| {
        let mut body = Vec::new();
        Marker { run: run.tag(), device: 0, sequence }.write_ascii(&mut body);
        let mut connection = TcpStream::connect(here).unwrap();
        let head = format!("POST /0 HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        connection
    };
    let begun = clock.now();
    let connections: Vec<TcpStream> = (0..300).map(notify).collect();
    let sent = clock.now();
    std::thread::sleep(STALL);
    while events.len() < connections.len() && clock.now() - sent < Nanos::from_secs(20) {
        driver.poll(clock.now() + Nanos::from_millis(1), &mut events);
    }
    let stamps: Vec<Nanos> = events
        .iter()
        .filter_map(|event| match event {
            Event::Received { marker: Some(_), at, .. } => Some(*at),
            _ => None,
        })
        .collect();
    assert_eq!(stamps.len(), connections.len());
    // The wall clock, by which the kernel stamps, may be set meanwhile by some milliseconds.
    let slack = Nanos::from_millis(20);
    let latest = stamps.iter().max().copied().unwrap();
    assert!(
        stamps.iter().all(|&at| at >= begun - slack && at <= sent + slack),
        "{} of {}",
        latest - begun,
        sent - begun
    );
}
