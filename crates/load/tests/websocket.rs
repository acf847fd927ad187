//! The WebSocket driver against a scripted platform: what clients say at first, answers by name and by type, and subscribers.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_codec::websocket::{Event as Frame, Opcode, Reader, accept_of, encode_frame};
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::{BoxedPart, DriverContext, driver_of, receivers};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Protocol;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A test that waits longer than this hangs.
const LONGEST: Nanos = Nanos::from_secs(20);

/// Names answers, as DeviceHive does.
const NAMED: &str = r#"
name: scripted
title: a platform that names its answers
description: each answer repeats the name of its request
limits: { all: none }
device:
  speaks: websocket
  marker: ascii
  payload: '{"action":"insert","requestId":"{run}-{device}-{sequence}","text":"{message:json}"}'
  answer: { id: /requestId, is: "{run}-{device}-{sequence}", status: /status, expect: [success] }
  websocket:
    subprotocol: words
    headers: { X-Origin: "C{device}" }
    opening:
      - message: '{"action":"authenticate","requestId":"in-{device}"}'
        answer: { id: /requestId, is: "in-{device}", status: /status, expect: [success] }
subscriber:
  websocket:
    path: /out
    opening:
      - message: '{"action":"authenticate","requestId":"sub"}'
        answer: { id: /requestId, is: sub, status: /status, expect: [success] }
      - message: '{"action":"subscribe","requestId":"of-{device}","deviceId":"{device}"}'
        answer: { id: /requestId, is: "of-{device}", status: /status, expect: [success] }
  delivery: every
querier:
  says:
    message: '{"action":"get","requestId":"{run}-{sequence}","deviceId":"{device}"}'
    answer: { id: /requestId, is: "{run}-{sequence}", status: /status, expect: [success] }
  websocket:
    path: /north
    opening:
      - message: '{"action":"authenticate","requestId":"in"}'
        answer: { id: /requestId, is: in, status: /status, expect: [success] }
components: []
"#;

/// Types its messages and answers none, as Meshblu does.
const TYPED: &str = r#"
name: scripted
title: a platform that types its messages
description: messages are not answered, and refusals do not say what they refuse
limits: { all: none }
device:
  speaks: websocket
  marker: ascii
  payload: '["message",{"payload":"{message:json}"}]'
  answer: { type: /0, refusals: [error] }
  websocket:
    answered: false
    opening:
      - message: '["identity",{"uuid":"{device}"}]'
        answer: { type: /0, types: [ready], refusals: [notReady] }
subscriber:
  websocket:
    opening: [{ message: '["subscribe",{"uuid":"{device}"}]' }]
  delivery: every
components: []
"#;

/// Speaks Socket.IO, and acknowledges its messages.
const SOCKET_IO: &str = r#"
name: scripted
title: a platform that speaks Socket.IO
description: events, which are acknowledged
limits: { all: none }
device:
  speaks: websocket
  marker: ascii
  payload: '["message",{"text":"{message:json}"}]'
  websocket:
    framing: socket_io
    auth: '{"uuid":"{device}"}'
subscriber:
  websocket:
    framing: socket_io
    opening: [{ message: '["subscribe",{"uuid":"{device}"}]' }]
  delivery: every
components: []
"#;

struct Rig {
    driver: BoxedPart,
    clock: Clock,
    events: Vec<Event>,
    listener: TcpListener,
}

/// The platform's side of a connection.
struct Side {
    socket: TcpStream,
    bytes: Vec<u8>,
    reader: Reader,
    content: Vec<u8>,
    /// What the client asked for.
    request: String,
}

impl Rig {
    fn of(profile: &str, population: &str, client: impl FnOnce(&DriverContext) -> BoxedPart) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!(
            "name: scripted\nplatform: {{ profile: ./scripted.yaml, address: \"ws://{address}/in\" }}\n\
             connection: {{ timeout: 400ms, reconnect: {{ from: 10ms, to: 20ms }} }}\nload: {{ levels: [1] }}\n\
             population: {population}\n"
        );
        let context = context_of(text, Some(profile), address);
        Rig { driver: client(&context), clock: context.clock, events: Vec::new(), listener }
    }

    fn device(profile: &str) -> Rig {
        let mut rig = Rig::of(profile, "{ devices: 1 }", |context| {
            (driver_of(Protocol::WebSocket).unwrap().devices)(context).unwrap()
        });
        assert!(rig.driver.connect(Client::Device(0)));
        rig
    }

    /// A subscriber that follows two devices.
    fn subscriber(profile: &str) -> Rig {
        let mut rig = Rig::of(profile, "{ devices: 2, subscribers: 1 }", |context| {
            receivers(context, context.plan.platform.roles.receives.as_ref().unwrap()).unwrap()
        });
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

    /// The next connection, with its WebSocket open.
    fn accept(&mut self) -> Side {
        let end = self.clock.now() + LONGEST;
        let mut side = loop {
            self.turn();
            assert!(self.clock.now() < end, "nobody connects: {:?}", self.events);
            if let Ok((socket, _)) = self.listener.accept() {
                socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                let (bytes, content) = (Vec::new(), Vec::new());
                break Side { socket, bytes, reader: Reader::of_client(), content, request: String::new() };
            }
        };
        while !side.bytes.ends_with(b"\r\n\r\n") {
            self.turn();
            assert!(side.read());
        }
        side.request = String::from_utf8(std::mem::take(&mut side.bytes)).unwrap();
        let field = |name: &str| {
            let line = side.request.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.strip_prefix(": ")).map(str::to_owned)
        };
        let accept = accept_of(field("Sec-WebSocket-Key").unwrap().as_bytes());
        let chosen = field("Sec-WebSocket-Protocol");
        let chosen = chosen.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n")).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n{chosen}\r\n"
        );
        side.socket.write_all(answer.as_bytes()).unwrap();
        side
    }

    /// The next message that comes to the platform.
    fn next(&mut self, side: &mut Side) -> Value {
        serde_json::from_str(&self.next_text(side)).unwrap()
    }

    /// The same as a text.
    fn next_text(&mut self, side: &mut Side) -> String {
        let end = self.clock.now() + LONGEST;
        loop {
            if let Some(came) = side.cut() {
                return came;
            }
            self.turn();
            assert!(side.read(), "the connection was closed: {:?}", self.events);
            assert!(self.clock.now() < end, "nothing came: {:?}", self.events);
        }
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }
}

impl Side {
    fn read(&mut self) -> bool {
        let mut room = [0; 4096];
        match self.socket.read(&mut room) {
            Ok(0) => false,
            Ok(length) => {
                self.bytes.extend_from_slice(&room[..length]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn cut(&mut self) -> Option<String> {
        loop {
            let (taken, event) = self.reader.read(&self.bytes, &mut self.content).unwrap();
            let is_message = matches!(event, Some(Frame::Message(_)));
            self.bytes.drain(..taken);
            if is_message {
                return Some(String::from_utf8(std::mem::take(&mut self.content)).unwrap());
            }
            if taken == 0 {
                return None;
            }
        }
    }

    fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string());
    }

    fn say_text(&mut self, text: &str) {
        let mut out = Vec::new();
        encode_frame(Opcode::Text, true, None, text.as_bytes(), &mut out);
        self.socket.write_all(&out).unwrap();
    }
}

fn is_ready(event: &Event) -> bool {
    matches!(event, Event::Ready { .. })
}

#[test]
fn a_device_is_ready_when_it_was_let_in_and_its_messages_are_answered_by_name() {
    let mut rig = Rig::device(NAMED);
    let mut side = rig.accept();
    assert!(side.request.starts_with("GET /in HTTP/1.1\r\n"), "{}", side.request);
    assert!(side.request.contains("\r\nX-Origin: C0\r\n"), "{}", side.request);
    assert!(side.request.contains("\r\nSec-WebSocket-Protocol: words\r\n"), "{}", side.request);
    let asked = rig.next(&mut side);
    assert_eq!(asked, json!({ "action": "authenticate", "requestId": "in-0" }));
    side.say(&json!({ "hello": "from the platform" }));
    (0..20).for_each(|_| rig.turn());
    assert_eq!(rig.count(is_ready), 0, "a greeting lets nobody in");
    side.say(&json!({ "requestId": "in-0", "status": "success" }));
    rig.until(|rig| rig.count(is_ready) == 1);
    for sequence in 0..3 {
        rig.driver.submit(0, sequence);
    }
    let asked = [rig.next(&mut side), rig.next(&mut side), rig.next(&mut side)];
    // In another order, one of them refused.
    side.say(&json!({ "requestId": asked[2]["requestId"], "status": "success" }));
    side.say(&json!({ "requestId": asked[0]["requestId"], "status": "error", "code": 403 }));
    side.say(&json!({ "requestId": asked[1]["requestId"], "status": "success" }));
    rig.until(|rig| rig.count(|event| matches!(event, Event::Acknowledged { .. })) == 2);
    let of =
        |wanted: &dyn Fn(&Event) -> Option<u32>| rig.events.iter().filter_map(wanted).collect::<Vec<_>>();
    let acknowledged = of(&|event| match event {
        Event::Acknowledged { sequence, .. } => Some(*sequence),
        _ => None,
    });
    let refused = of(&|event| match event {
        Event::Refused { sequence, reason, .. } => reason.contains("error").then_some(*sequence),
        _ => None,
    });
    assert_eq!((acknowledged, refused), (vec![2, 1], vec![0]));
}

/// Lets the device in that has connected.
fn let_in(rig: &mut Rig) -> Side {
    let ready = rig.count(is_ready);
    let mut side = rig.accept();
    rig.next(&mut side);
    side.say(&json!({ "requestId": "in-0", "status": "success" }));
    rig.until(|rig| rig.count(is_ready) == ready + 1);
    side
}

/// A message that is too large for the platform (1009), or an error inside (1011), ends a connection.
#[test]
fn a_platform_that_closes_says_why_and_the_device_comes_again() {
    for (code, said) in [(1009_u16, "too big"), (1011, "broken inside")] {
        let mut rig = Rig::device(NAMED);
        let mut side = let_in(&mut rig);
        rig.driver.submit(0, 0);
        rig.next(&mut side);
        let (content, mut bytes) = ([&code.to_be_bytes()[..], said.as_bytes()].concat(), Vec::new());
        encode_frame(Opcode::Close, true, None, &content, &mut bytes);
        side.socket.write_all(&bytes).unwrap();
        let told = format!("with code {code} ({said})");
        let is_told =
            |event: &Event| matches!(event, Event::Disconnected { reason, .. } if reason.contains(&told));
        rig.until(|rig| rig.count(is_told) == 1);
        let is_given_up = |event: &Event| matches!(event, Event::Abandoned { sequence: 0, .. });
        assert_eq!(rig.count(is_given_up), 1, "{:?}", rig.events);
        let_in(&mut rig);
    }
}

#[test]
fn answers_that_lie_about_their_names_acknowledge_nothing() {
    let mut rig = Rig::device(NAMED);
    let mut side = let_in(&mut rig);
    rig.driver.submit(0, 0);
    let name = rig.next(&mut side)["requestId"].clone();
    let run = name.as_str().unwrap().strip_suffix("-0-0").unwrap().to_owned();
    for lie in [
        json!(format!("{run}-1-0")),
        json!(format!("{run}-0-7")),
        json!(format!("{run}-0-99999999999999999999")),
        json!(format!("{run}-0-")),
        json!("00000000-0-0"),
        json!(0),
        json!([name]),
        Value::Null,
    ] {
        side.say(&json!({ "requestId": lie, "status": "success" }));
    }
    side.say_text("{\"requestId\":");
    (0..50).for_each(|_| rig.turn());
    let is_end = |event: &Event| matches!(event, Event::Acknowledged { .. } | Event::Refused { .. });
    assert_eq!(rig.count(is_end), 0, "{:?}", rig.events);
    let is_told =
        |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("not awaited"));
    assert_eq!(rig.count(is_told), 7, "null is no name: {:?}", rig.events);
    for _ in 0..2 {
        side.say(&json!({ "requestId": name, "status": "success" }));
    }
    rig.until(|rig| rig.count(is_end) == 1);
    (0..50).for_each(|_| rig.turn());
    assert_eq!(rig.count(is_end), 1, "a second answer answers nothing: {:?}", rig.events);
    assert_eq!(rig.count(is_told), 8, "{:?}", rig.events);
}

#[test]
fn queriers_connect_by_themselves_and_their_answers_repeat_the_number_of_the_query() {
    let more = "{ devices: 9 }\nnorthbound: { rate: 1, queriers: 2 }";
    let mut rig = Rig::of(NAMED, more, |context| {
        (driver_of(Protocol::WebSocket).unwrap().queriers.unwrap())(context, 2).unwrap()
    });
    (0..4).for_each(|query| rig.driver.submit(query + 4, query));
    let mut asked = Vec::new();
    for _ in 0..2 {
        let mut side = rig.accept();
        assert!(side.request.starts_with("GET /in/north HTTP/1.1\r\n"), "{}", side.request);
        assert_eq!(rig.next(&mut side)["requestId"], "in");
        side.say(&json!({ "requestId": "in", "status": "success" }));
        let both = [rig.next(&mut side), rig.next(&mut side)];
        asked.extend(both.iter().map(|query| query["deviceId"].as_str().unwrap().to_owned()));
        // In another order, and the second is refused.
        side.say(&json!({ "requestId": both[1]["requestId"], "status": "error" }));
        side.say(&json!({ "requestId": both[0]["requestId"], "status": "success" }));
        let is_end = |event: &Event| matches!(event, Event::Acknowledged { .. } | Event::Refused { .. });
        let before = asked.len();
        rig.until(|rig| rig.count(is_end) == before);
    }
    asked.sort();
    assert_eq!(asked, ["4", "5", "6", "7"]);
    let numbers = |wanted: fn(&Event) -> Option<u32>| {
        let mut numbers: Vec<u32> = rig.events.iter().filter_map(wanted).collect();
        numbers.sort_unstable();
        numbers
    };
    let answered = numbers(|event| match event {
        Event::Acknowledged { sequence, .. } => Some(*sequence),
        _ => None,
    });
    let refused = numbers(|event| match event {
        Event::Refused { sequence, .. } => Some(*sequence),
        _ => None,
    });
    assert_eq!((answered, refused), (vec![0, 1], vec![2, 3]));
}

#[test]
fn who_is_not_let_in_says_why() {
    for (profile, answer) in [
        (NAMED, json!({ "requestId": "in-0", "status": "error" })),
        (TYPED, json!(["notReady", { "status": 401 }])),
    ] {
        let mut rig = Rig::device(profile);
        let mut side = rig.accept();
        rig.next(&mut side);
        side.say(&answer);
        let is_it = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains("the client was not let in: the platform answered"));
        rig.until(|rig| rig.count(is_it) == 1);
    }
    let mut rig = Rig::device(NAMED);
    let mut side = rig.accept();
    rig.next(&mut side);
    let is_late = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains("to be let in was not answered within 400 ms"));
    rig.until(|rig| rig.count(is_late) == 1);
}

#[test]
fn a_message_that_nobody_answers_is_sent_and_a_refusal_is_told() {
    let mut rig = Rig::device(TYPED);
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side), json!(["identity", { "uuid": "0" }]));
    side.say(&json!(["ready", {}]));
    rig.until(|rig| rig.count(is_ready) == 1);
    rig.driver.submit(0, 0);
    let said = rig.next(&mut side);
    assert_eq!(said[0], "message");
    side.say(&json!(["error", { "status": 429 }]));
    let is_told = |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("429"));
    rig.until(|rig| rig.count(is_told) == 1);
    assert_eq!(rig.count(|event| matches!(event, Event::Sent { .. })), 1);
    let is_end = |event: &Event| matches!(event, Event::Acknowledged { .. } | Event::Refused { .. });
    assert_eq!(rig.count(is_end), 0, "{:?}", rig.events);
}

#[test]
fn a_subscriber_says_what_it_wants_of_each_device_and_gets_what_comes() {
    let mut rig = Rig::subscriber(NAMED);
    let mut side = rig.accept();
    assert!(side.request.starts_with("GET /in/out HTTP/1.1\r\n"), "{}", side.request);
    assert_eq!(rig.next(&mut side)["requestId"], "sub");
    side.say(&json!({ "requestId": "sub", "status": "success" }));
    for device in ["0", "1"] {
        assert_eq!(rig.count(is_ready), 0);
        assert_eq!(rig.next(&mut side)["deviceId"], device);
        side.say(&json!({ "requestId": format!("of-{device}"), "status": "success", "subscriptionId": 7 }));
    }
    rig.until(|rig| rig.count(is_ready) == 1);
    side.say(&json!({ "subscriptionId": 7, "notification": { "text": marker_of(1, 4) } }));
    let is_it = |event: &Event| matches!(event, Event::Received { subscriber: 0, marker: Some(marker), .. } if (marker.device, marker.sequence) == (1, 4));
    rig.until(|rig| rig.count(is_it) == 1);
    assert_eq!(rig.count(|event| matches!(event, Event::Received { .. })), 1, "answers are no deliveries");
    // A connection that is lost is made again, and everything is said anew.
    drop(side);
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side)["requestId"], "sub");
}

#[test]
fn a_subscriber_that_is_refused_says_why() {
    let mut rig = Rig::subscriber(TYPED);
    let mut side = rig.accept();
    rig.until(|rig| rig.count(is_ready) == 1);
    side.say(&json!(["status", { "online": true }]));
    side.say(&json!(["error", { "message": "Rate limit exceeded.", "status": 429 }]));
    let is_told = |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("Rate limit exceeded."));
    rig.until(|rig| rig.count(is_told) == 1);
    let is_foreign = |event: &Event| matches!(event, Event::Received { marker: None, .. });
    assert_eq!(rig.count(is_foreign), 1, "{:?}", rig.events);
}

fn marker_of(device: u32, sequence: u32) -> String {
    let mut text = Vec::new();
    plimsoll_codec::marker::Marker { run: RunId::from_bits(7).tag(), device, sequence }
        .write_ascii(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn over_socket_io_a_device_is_let_in_and_each_message_is_acknowledged() {
    let mut rig = Rig::device(SOCKET_IO);
    let mut side = rig.accept();
    assert!(
        side.request.starts_with("GET /in/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n"),
        "{}",
        side.request
    );
    side.say_text(r#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#);
    assert_eq!(rig.next_text(&mut side), r#"40{"uuid":"0"}"#);
    side.say_text("2");
    assert_eq!(rig.next_text(&mut side), "3", "the platform looks whether the client is alive");
    assert_eq!(rig.count(is_ready), 0);
    side.say_text(r#"40{"sid":"b"}"#);
    rig.until(|rig| rig.count(is_ready) == 1);
    (0..2).for_each(|sequence| rig.driver.submit(0, sequence));
    for sequence in 0..2 {
        let said = rig.next_text(&mut side);
        assert!(said.starts_with(&format!("42{sequence}[\"message\",{{\"text\":\"")), "{said}");
    }
    // In another order, with one that belongs to nothing.
    for text in ["431[]", r#"430["ok"]"#, "439[]", r#"42["message",{"text":"a push"}]"#] {
        side.say_text(text);
    }
    rig.until(|rig| rig.count(|event| matches!(event, Event::Received { marker: None, .. })) == 2);
    let acknowledged = rig.events.iter().filter_map(|event| match event {
        Event::Acknowledged { sequence, .. } => Some(*sequence),
        _ => None,
    });
    assert_eq!(acknowledged.collect::<Vec<_>>(), [1, 0]);
    side.say_text("41");
    let is_end =
        |event: &Event| matches!(event, Event::Disconnected { reason, .. } if reason.contains("Socket.IO"));
    rig.until(|rig| rig.count(is_end) == 1);
}

#[test]
fn over_socket_io_who_is_not_let_in_says_why() {
    for (said, reason) in [
        (
            Some(r#"44{"message":"no such device"}"#),
            "the client was not let in: {\"message\":\"no such device\"}",
        ),
        (None, "Socket.IO was not within 400 ms"),
    ] {
        let mut rig = Rig::device(SOCKET_IO);
        let mut side = rig.accept();
        side.say_text("0{}");
        rig.next_text(&mut side);
        said.into_iter().for_each(|said| side.say_text(said));
        let is_it = |event: &Event| matches!(event, Event::ConnectFailed { reason: told, .. } if told.contains(reason));
        rig.until(|rig| rig.count(is_it) == 1);
    }
}

#[test]
fn over_socket_io_a_subscriber_says_what_it_wants_and_gets_events() {
    let mut rig = Rig::subscriber(SOCKET_IO);
    let mut side = rig.accept();
    side.say_text("0{}");
    assert_eq!(rig.next_text(&mut side), "40");
    side.say_text("40{}");
    for device in 0..2 {
        assert_eq!(rig.next_text(&mut side), format!("42[\"subscribe\",{{\"uuid\":\"{device}\"}}]"));
    }
    rig.until(|rig| rig.count(is_ready) == 1);
    side.say_text(&format!("42[\"message\",{{\"text\":\"{}\"}}]", marker_of(1, 4)));
    let is_it = |event: &Event| matches!(event, Event::Received { marker: Some(marker), .. } if (marker.device, marker.sequence) == (1, 4));
    rig.until(|rig| rig.count(is_it) == 1);
}
