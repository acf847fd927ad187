//! Clients of message brokers that receive from several servers: a client is ready when all of its connections are, and lost when one
//! of them is.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::messaging::{Failure, Happened, MessagingDriver, Outgoing, Session};
use plimsoll_model::Nanos;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A protocol whose messages are single letters: `o` lets a client in, `d` delivers.
struct Letters {
    /// Where the client has another connection.
    other: Option<SocketAddr>,
    wants: bool,
}

impl Session for Letters {
    const NAME: &'static str = "letters";

    fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'h');
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        Ok((!bytes.is_empty()).then_some(1))
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], _: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        match (frame, self.other) {
            (b"o", None) => Ok(Happened::Ready),
            (b"o", Some(_)) => {
                self.wants = true;
                Ok(Happened::Accepted)
            }
            _ => Ok(Happened::Delivered(frame)),
        }
    }

    fn take_branches(&mut self) -> Option<Vec<(SocketAddr, Letters)>> {
        let other = self.other.filter(|_| std::mem::take(&mut self.wants))?;
        Some(vec![(other, Letters { other: None, wants: false })])
    }

    fn branches_ready(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        out.push(b'r');
        Happened::Ready
    }

    fn may_publish(&self) -> bool {
        false
    }

    fn publish(&mut self, _: Outgoing<'_>, _: &mut Vec<u8>) -> Result<(), String> {
        Err("nothing is published".to_owned())
    }

    fn withdraw(&mut self, _: u32) {}

    fn abandon(&mut self) -> Vec<u32> {
        Vec::new()
    }

    fn ping(&mut self, _: &mut Vec<u8>) {}

    fn keep_alive(&self) -> Nanos {
        Nanos::from_secs(60)
    }

    fn goodbye(&mut self, _: bool, _: &mut Vec<u8>) {}

    fn awaited(&self) -> &'static str {
        "a letter"
    }
}

/// A server that lets everybody in, and the connections that it has accepted.
fn server() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"o").unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

/// A driver with one subscriber, which begins at `first` and has another connection at `other`.
fn driver(first: SocketAddr, other: SocketAddr) -> (MessagingDriver<Letters>, Clock) {
    let scenario = format!(
        "name: test\nplatform: {{ profile: existing, address: \"nats://{first}\" }}\n\
         population: {{ devices: 1, subscribers: 1 }}\n\
         connection: {{ timeout: 2s, reconnect: {{ from: 10ms, to: 20ms }} }}\nload: {{ levels: [1] }}\n"
    );
    let context = context_of(scenario, None, first);
    let session = |_, _: &[String]| Letters { other: Some(other), wants: false };
    let mut driver = MessagingDriver::new(&context, session).unwrap();
    assert!(driver.connect(Client::Subscriber(0)));
    (driver, context.clock)
}

/// Turns the driver until something happens that is looked for; all that did by then.
fn until(driver: &mut MessagingDriver<Letters>, clock: Clock, found: impl Fn(&Event) -> bool) -> Vec<Event> {
    let (mut all, mut events) = (Vec::new(), Vec::new());
    let end = clock.now() + Nanos::from_secs(5);
    while !all.iter().any(&found) {
        assert!(clock.now() < end, "only {all:?}");
        driver.poll(clock.now() + Nanos::from_millis(10), &mut events);
        all.append(&mut events);
    }
    all
}

fn is_ready(event: &Event) -> bool {
    matches!(event, Event::Ready { client: Client::Subscriber(0), .. })
}

#[test]
fn a_client_is_ready_with_all_of_its_connections_and_lost_with_one_of_them() {
    let ((first, trunks), (other, branches)) = (server(), server());
    let (mut driver, clock) = driver(first, other);
    for round in 0..3 {
        assert_eq!(until(&mut driver, clock, is_ready).len(), 1, "in round {round}");
        let (mut trunk, mut branch) = (trunks.recv().unwrap(), branches.recv().unwrap());
        let mut said = [0];
        trunk.read_exact(&mut said).unwrap();
        assert_eq!(said, *b"r", "what it says when all are ready");
        branch.write_all(b"d").unwrap();
        let received = |event: &Event| matches!(event, Event::Received { subscriber: 0, .. });
        assert_eq!(until(&mut driver, clock, received).len(), 1);
        drop(branch);
        let lost = until(&mut driver, clock, |event| matches!(event, Event::Disconnected { .. }));
        let [Event::Disconnected { client: Client::Subscriber(0), reason, .. }] = &lost[..] else {
            panic!("{lost:?}");
        };
        assert_eq!(reason, "another server of the platform: the platform closed the connection");
        assert_eq!(trunk.read(&mut said).unwrap(), 0, "the trunk ends, too");
    }
}

#[test]
fn a_branch_ends_with_its_trunk_and_with_the_client() {
    let ((first, trunks), (other, branches)) = (server(), server());
    let (mut driver, clock) = driver(first, other);
    until(&mut driver, clock, is_ready);
    drop(trunks.recv().unwrap());
    let mut branch = branches.recv().unwrap();
    until(&mut driver, clock, |event| matches!(event, Event::Disconnected { .. }));
    assert_eq!(branch.read(&mut [0]).unwrap(), 0);
    until(&mut driver, clock, is_ready);
    assert!(driver.release(Client::Subscriber(0)));
    let mut events = Vec::new();
    driver.poll(clock.now() + Nanos::from_millis(10), &mut events);
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(branches.recv().unwrap().read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_client_without_one_of_its_servers_is_not_let_in() {
    let (first, _trunks) = server();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut driver, clock) = driver(first, nobody);
    let failed = until(&mut driver, clock, |event| matches!(event, Event::ConnectFailed { .. }));
    let [Event::ConnectFailed { reason, .. }] = &failed[..] else { panic!("{failed:?}") };
    assert!(reason.starts_with("another server of the platform: "), "{reason}");
}
