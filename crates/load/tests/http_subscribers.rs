//! Subscribers that receive over HTTP against a scripted platform: streams of events and of objects, and polls.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_codec::marker::Marker;
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::{BoxedPart, receivers};
use plimsoll_model::{Nanos, RunId};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

/// A test that waits longer than this hangs.
const LONGEST: Nanos = Nanos::from_secs(20);
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: ";

/// What a subscriber does is left open.
const PROFILE: &str = r#"
name: scripted
title: a platform that answers over HTTP
description: subscribers receive in answers
limits: { all: none }
device:
  speaks: http
  marker: ascii
  request: { path: "/in", body: '{"text":"{message:json}"}' }
subscriber:
  SUBSCRIBER
  delivery: every
components: []
"#;
const EVENTS: &str =
    r#"streams: { request: { method: GET, path: "/events", headers: { Accept: text/event-stream } } }"#;
const OF_EACH: &str = r#"streams: { request: { method: GET, path: "/of/{device}" } }"#;
const SILENT: &str = r#"streams: { request: { method: GET, path: "/silent" }, ready_after: 100ms }"#;
const POLLS: &str = r#"polls: { request: { method: GET, path: "/poll" }, next: { path: "/poll?after={since}", since: /-/at }, within: 20s }"#;

struct Rig {
    driver: BoxedPart,
    clock: Clock,
    events: Vec<Event>,
    listener: TcpListener,
}

impl Rig {
    /// One subscriber of two devices, which connects.
    fn of(subscriber: &str) -> Rig {
        Rig::with_timeout(subscriber, "20s")
    }

    fn with_timeout(subscriber: &str, timeout: &str) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!(
            "name: scripted\nplatform: {{ profile: ./scripted.yaml, address: \"http://{address}/api\" }}\n\
             connection: {{ timeout: {timeout}, reconnect: {{ from: 10ms, to: 20ms }} }}\nload: {{ levels: [1] }}\n\
             population: {{ devices: 2, subscribers: 1 }}\n"
        );
        let context = context_of(text, Some(&PROFILE.replace("SUBSCRIBER", subscriber)), address);
        let driver = receivers(&context, context.plan.platform.roles.receives.as_ref().unwrap()).unwrap();
        let mut rig = Rig { driver, clock: context.clock, events: Vec::new(), listener };
        assert!(rig.driver.connect(Client::Subscriber(0)));
        rig
    }

    fn turn(&mut self) {
        self.driver.poll(self.clock.now() + Nanos::from_millis(1), &mut self.events);
    }

    fn until(&mut self, mut done: impl FnMut(&Rig) -> bool) {
        let end = self.clock.now() + LONGEST;
        while !done(self) {
            assert!(self.clock.now() < end, "it never came: {:?}", self.events);
            self.turn();
        }
    }

    /// The next connection.
    fn accept(&mut self) -> TcpStream {
        let end = self.clock.now() + LONGEST;
        loop {
            self.turn();
            assert!(self.clock.now() < end, "nobody connects: {:?}", self.events);
            if let Ok((socket, _)) = self.listener.accept() {
                socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                return socket;
            }
        }
    }

    /// The next request over a connection: its head.
    fn next(&mut self, socket: &mut TcpStream) -> String {
        let (mut head, end) = (Vec::new(), self.clock.now() + LONGEST);
        while !head.ends_with(b"\r\n\r\n") {
            let mut room = [0; 4096];
            match socket.read(&mut room) {
                Ok(0) => panic!("the connection was closed: {:?}", self.events),
                Ok(length) => head.extend_from_slice(&room[..length]),
                Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)),
            }
            self.turn();
            assert!(self.clock.now() < end, "nothing came: {:?}", self.events);
        }
        String::from_utf8(head).unwrap()
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }

    /// What was received: the device and the number of each message; `None` for what has no marker.
    fn received(&self) -> Vec<Option<(u32, u32)>> {
        let received = self.events.iter().filter_map(|event| match event {
            Event::Received { subscriber: 0, marker, .. } => Some(*marker),
            _ => None,
        });
        received.map(|marker| marker.map(|marker| (marker.device, marker.sequence))).collect()
    }
}

fn marker(device: u32, sequence: u32) -> String {
    let mut text = Vec::new();
    Marker { run: RunId::from_bits(7).tag(), device, sequence }.write_ascii(&mut text);
    String::from_utf8(text).unwrap()
}

fn chunk(content: &str) -> String {
    format!("{:x}\r\n{content}\r\n", content.len())
}

/// A whole answer.
fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn is_ready(event: &Event) -> bool {
    matches!(event, Event::Ready { .. })
}

fn is_lost(reason: &str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Disconnected { reason: told, .. } if told.contains(reason))
}

fn is_failed(reason: &str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::ConnectFailed { reason: told, .. } if told.contains(reason))
}

#[test]
fn events_are_delivered_and_a_lost_stream_goes_on_behind_the_last_one() {
    let mut rig = Rig::of(EVENTS);
    let mut side = rig.accept();
    let asked = rig.next(&mut side);
    assert!(asked.starts_with("GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked}");
    assert!(
        asked.contains("\r\nAccept: text/event-stream\r\n") && !asked.contains("Last-Event-ID"),
        "{asked}"
    );
    (0..20).for_each(|_| rig.turn());
    assert_eq!(rig.count(is_ready), 0, "it is not said that the stream begins");
    side.write_all(format!("{CHUNKED}text/event-stream\r\n\r\n").as_bytes()).unwrap();
    rig.until(|rig| rig.count(is_ready) == 1);
    let event =
        format!(": hello\n\nid: 17\ndata: {{\"text\":\ndata: \"{}\"}}\n\ndata: none\n\n", marker(1, 4));
    for byte in chunk(&event).as_bytes() {
        side.write_all(&[*byte]).unwrap();
        rig.turn();
    }
    rig.until(|rig| rig.received().len() == 2);
    assert_eq!(rig.received(), [Some((1, 4)), None]);
    drop(side);
    rig.until(|rig| rig.count(is_lost("the connection ended within it")) == 1);
    let mut side = rig.accept();
    let asked = rig.next(&mut side);
    assert!(asked.contains("\r\nLast-Event-ID: 17\r\n"), "{asked}");
    // It ends in good order this time, and is a loss all the same.
    side.write_all(format!("{CHUNKED}text/event-stream\r\n\r\n0\r\n\r\n").as_bytes()).unwrap();
    let ended = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains("ended the stream"));
    rig.until(|rig| rig.count(ended) == 1);
}

#[test]
fn a_subscriber_has_a_stream_of_each_device_and_is_ready_with_the_last() {
    let mut rig = Rig::of(OF_EACH);
    let (mut first, mut second) = (rig.accept(), rig.accept());
    let mut paths =
        [rig.next(&mut first), rig.next(&mut second)].map(|asked| asked.lines().next().unwrap().to_owned());
    paths.sort();
    assert_eq!(paths, ["GET /api/of/0 HTTP/1.1", "GET /api/of/1 HTTP/1.1"]);
    for (side, ready) in [(&mut first, 0), (&mut second, 1)] {
        side.write_all(format!("{CHUNKED}application/json\r\n\r\n").as_bytes()).unwrap();
        (0..20).for_each(|_| rig.turn());
        assert_eq!(rig.count(is_ready), ready);
    }
    // Objects over several lines, without anything between them.
    let objects = format!("{{\n \"text\": \"{}\"\n}}{{\n \"text\": \"{}\"\n}}", marker(0, 1), marker(0, 2));
    first.write_all(chunk(&objects).as_bytes()).unwrap();
    rig.until(|rig| rig.received().len() == 2);
    assert_eq!(rig.received(), [Some((0, 1)), Some((0, 2))]);
    drop(second);
    rig.until(|rig| rig.count(is_lost("the connection ended")) == 1);
    let mut second = rig.accept();
    rig.next(&mut second);
    second.write_all(format!("{CHUNKED}application/json\r\n\r\n").as_bytes()).unwrap();
    let is_back = |event: &Event| matches!(event, Event::Ready { again: true, .. });
    rig.until(|rig| rig.count(is_back) == 1);
}

#[test]
fn polls_go_on_where_the_last_answer_ended() {
    let mut rig = Rig::of(POLLS);
    let mut side = rig.accept();
    assert!(rig.next(&mut side).starts_with("GET /api/poll HTTP/1.1\r\n"));
    rig.until(|rig| rig.count(is_ready) == 1);
    let list = format!(
        "[{{\"at\":1,\"text\":\"{}\"}},{{\"at\":\"2026-11-28T12:00:00+01:00\",\"text\":\"{}\"}}]",
        marker(0, 1),
        marker(1, 1)
    );
    let list_at = rig.clock.now();
    side.write_all(answer("200 OK", &list).as_bytes()).unwrap();
    let asked = rig.next(&mut side);
    assert!(
        asked.starts_with("GET /api/poll?after=2026-11-28T12%3A00%3A00%2B01%3A00 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert_eq!(rig.received(), [Some((0, 1)), Some((1, 1))]);
    // An empty answer changes nothing, and a platform that does not wait is not asked at once.
    side.write_all(answer("200 OK", "[]").as_bytes()).unwrap();
    assert_eq!(rig.next(&mut side), asked);
    assert!(rig.clock.now() - list_at >= Nanos::from_millis(100));
    // A platform may close each connection behind its answer.
    let last =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{\"at\":3,\"text\":\"{}\"}}", marker(0, 2));
    side.write_all(last.as_bytes()).unwrap();
    drop(side);
    let mut side = rig.accept();
    assert!(rig.next(&mut side).starts_with("GET /api/poll?after=3 HTTP/1.1\r\n"));
    assert_eq!(rig.received().len(), 3);
    assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), 0, "{:?}", rig.events);
    // A lost one is asked again, and a refused one, too.
    drop(side);
    let mut side = rig.accept();
    side.write_all(answer("403 Forbidden", "not you").as_bytes()).unwrap();
    let refused = is_failed("the platform answered 403 Forbidden: not you (GET http://127.0.0.1:");
    rig.until(|rig| rig.count(&refused) == 1);
    // One whose messages have nothing to go on by would be asked for again and again.
    let mut side = rig.accept();
    side.write_all(answer("200 OK", &marker(0, 3)).as_bytes()).unwrap();
    let aimless = is_failed("an answer with messages has nothing at `/-/at`");
    rig.until(|rig| rig.count(&aimless) == 1);
    assert_eq!(rig.received().len(), 4, "its messages were delivered");
}

/// As one that gives what came at the time that is asked for, too.
#[test]
fn a_platform_that_repeats_its_messages_is_not_asked_at_once() {
    let mut rig = Rig::of(POLLS);
    let mut side = rig.accept();
    let message = answer("200 OK", &format!("{{\"at\":1,\"text\":\"{}\"}}", marker(0, 1)));
    rig.next(&mut side);
    side.write_all(message.as_bytes()).unwrap();
    assert!(rig.next(&mut side).contains("/poll?after=1 "));
    let asked_at = rig.clock.now();
    side.write_all(message.as_bytes()).unwrap();
    rig.next(&mut side);
    assert!(rig.clock.now() - asked_at >= Nanos::from_millis(90));
    let is_told =
        |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("may repeat messages"));
    assert_eq!(rig.count(is_told), 1, "{:?}", rig.events);
    assert_eq!(rig.received().len(), 2);
}

/// Some platforms send the head of their answer with the first message.
#[test]
fn a_stream_may_begin_with_its_first_message() {
    let mut rig = Rig::with_timeout(SILENT, "300ms");
    for connection in 1..=2 {
        let mut side = rig.accept();
        rig.next(&mut side);
        let asked_at = rig.clock.now();
        rig.until(|rig| rig.count(is_ready) == connection);
        // Also when all else would be late.
        rig.until(|rig| rig.clock.now() - asked_at > Nanos::from_millis(400));
        let message = chunk(&format!("{{\"text\":\"{}\"}}\n", marker(0, connection as u32)));
        side.write_all(format!("{CHUNKED}application/json\r\n\r\n{message}").as_bytes()).unwrap();
        rig.until(|rig| rig.received().len() == connection);
        assert_eq!(rig.count(is_lost("")), connection - 1, "{:?}", rig.events);
        drop(side);
        rig.until(|rig| rig.count(is_lost("the connection ended within it")) == connection);
    }
    assert_eq!(rig.received(), [Some((0, 1)), Some((0, 2))]);
    assert_eq!(rig.count(is_ready), 2, "once for each connection");
}

#[test]
fn a_silent_stream_that_is_refused_makes_nobody_ready() {
    let mut rig = Rig::of(SILENT);
    let mut side = rig.accept();
    rig.next(&mut side);
    side.write_all(answer("401 Unauthorized", "who?").as_bytes()).unwrap();
    rig.until(|rig| rig.count(is_failed("the platform answered 401 Unauthorized: who?")) == 1);
    assert_eq!(rig.count(is_ready), 0);
}

#[test]
fn a_silent_stream_that_is_refused_later_is_lost() {
    let mut rig = Rig::with_timeout(SILENT, "300ms");
    let mut side = rig.accept();
    rig.next(&mut side);
    rig.until(|rig| rig.count(is_ready) == 1);
    // The end of the refusal never comes.
    side.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nlater").unwrap();
    rig.until(|rig| rig.count(is_lost("the platform answered 503 Service Unavailable: later")) == 1);
}

#[test]
fn who_cannot_begin_says_why() {
    for (said, reason) in [
        (answer("404 Not Found", "no such stream"), "the platform answered 404 Not Found: no such stream"),
        (
            "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".into(),
            "302 Found to /x, which is not followed",
        ),
        ("+PONG\r\n".into(), "HTTP"),
        (String::new(), "the stream did not begin within 400 ms"),
    ] {
        // Only silence takes its time.
        let mut rig = Rig::with_timeout(EVENTS, if said.is_empty() { "400ms" } else { "20s" });
        let mut side = rig.accept();
        rig.next(&mut side);
        side.write_all(said.as_bytes()).unwrap();
        let is_it = |event: &Event| matches!(event, Event::ConnectFailed { reason: told, .. } if told.contains(reason));
        rig.until(|rig| rig.count(is_it) == 1);
        assert!(rig.driver.connect(Client::Subscriber(0)), "it may be tried again");
    }
}

#[test]
fn a_poll_that_is_refused_at_first_makes_nobody_ready() {
    let mut rig = Rig::of(POLLS);
    let mut side = rig.accept();
    // The end of the refusal never comes.
    side.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 100\r\n\r\nwho?").unwrap();
    side.shutdown(Shutdown::Write).unwrap();
    rig.until(|rig| rig.count(is_failed("the platform answered 401 Unauthorized: who?")) == 1);
    assert_eq!(rig.count(is_ready), 0);
    assert!(rig.driver.connect(Client::Subscriber(0)), "it may be tried again");
}

#[test]
fn a_platform_may_close_a_connection_between_two_polls() {
    let mut rig = Rig::of(POLLS);
    let mut side = rig.accept();
    rig.next(&mut side);
    side.write_all(answer("200 OK", &format!("{{\"at\":1,\"text\":\"{}\"}}", marker(0, 1))).as_bytes())
        .unwrap();
    assert!(rig.next(&mut side).contains("/poll?after=1 "));
    drop(side);
    let mut side = rig.accept();
    assert!(rig.next(&mut side).contains("/poll?after=1 "));
    let is_told = |event: &Event| matches!(event, Event::Disconnected { .. } | Event::ConnectFailed { .. });
    assert_eq!(rig.count(is_told), 0, "{:?}", rig.events);
}

#[test]
fn a_poll_that_is_never_answered_is_given_up() {
    let mut rig = Rig::of(&POLLS.replace("20s", "300ms"));
    let mut side = rig.accept();
    rig.next(&mut side);
    let is_told = |event: &Event| match event {
        Event::Disconnected { reason, .. } | Event::ConnectFailed { reason, .. } => {
            reason.contains("no answer to a poll within 300 ms")
        }
        _ => false,
    };
    rig.until(|rig| rig.count(is_told) == 1);
}

#[test]
fn one_of_several_streams_that_ends_before_the_others_begin_fails_the_attempt() {
    let mut rig = Rig::of(OF_EACH);
    let (mut first, second) = (rig.accept(), rig.accept());
    rig.next(&mut first);
    first.write_all(format!("{CHUNKED}application/json\r\n\r\n").as_bytes()).unwrap();
    (0..20).for_each(|_| rig.turn());
    drop(first);
    rig.until(|rig| rig.count(is_failed("the connection ended within it")) == 1);
    drop(second);
    assert!(rig.driver.connect(Client::Subscriber(0)), "it may be tried again");
}
