//! The CoAP driver over TCP against a scripted platform that answers in pieces, in another order, too late, or with something else.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../context/mod.rs"]
mod context;
mod roles;

use context::context_of;
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::{BoxedPart, DriverContext, driver_of};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Protocol;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A test that waits longer than this hangs.
const LONGEST: Nanos = Nanos::from_secs(20);
const MOST: usize = 1 << 24;

/// A message that came, owned.
#[derive(Clone, Debug, PartialEq)]
struct Came {
    code: u8,
    token: Vec<u8>,
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl Came {
    fn message(&self) -> Message<'_> {
        let Came { code, token, options, payload } = self;
        Message { kind: Kind::NonConfirmable, code: *code, id: 0, token, options, payload }
    }
}

/// Clients, and a platform that the tests speak for.
struct Rig {
    driver: BoxedPart,
    clock: Clock,
    events: Vec<Event>,
    listener: TcpListener,
}

/// The platform's end of a connection.
struct Side {
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Rig {
    /// Devices.
    fn new(devices: u32, more: &str) -> Rig {
        let mut rig = Rig::of(None, &format!("population: {{ devices: {devices} }}\n{more}"), |context| {
            (driver_of(Protocol::CoapTcp).unwrap().devices)(context).unwrap()
        });
        (0..devices).for_each(|device| assert!(rig.driver.connect(Client::Device(device))));
        rig
    }

    /// Clients of a profile; without one, of `existing`.
    fn of(profile: Option<&str>, more: &str, client: impl FnOnce(&DriverContext) -> BoxedPart) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let name = if profile.is_some() { "./scripted.yaml" } else { "existing" };
        let path = if profile.is_some() { "" } else { "/in/{device}" };
        let connection = match more.contains("connection:") {
            true => "",
            false => "connection: { timeout: 400ms, reconnect: { from: 10ms, to: 20ms } }\n",
        };
        let text = format!(
            "name: scripted\nplatform: {{ profile: {name}, address: \"coap+tcp://{address}{path}\" }}\n\
             {connection}load: {{ levels: [1] }}\n{more}\n"
        );
        let context = context_of(text, profile, address);
        Rig { driver: client(&context), clock: context.clock, events: Vec::new(), listener }
    }

    /// Devices whose one connection is ready.
    fn ready(devices: u32, more: &str, settings: &[(u16, u32)]) -> (Rig, Side) {
        let mut rig = Rig::new(devices, more);
        let mut side = rig.accept();
        assert_eq!(rig.next(&mut side).code, signal::CSM);
        side.say(signal::CSM, b"", settings, b"");
        rig.until(|rig| rig.count(is_ready) == devices as usize);
        rig.events.clear();
        (rig, side)
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
    fn accept(&mut self) -> Side {
        let end = self.clock.now() + LONGEST;
        loop {
            self.turn();
            if let Ok((socket, _)) = self.listener.accept() {
                socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                socket.set_nodelay(true).unwrap();
                return Side { socket, bytes: Vec::new() };
            }
            assert!(self.clock.now() < end, "nobody connects: {:?}", self.events);
        }
    }

    /// The next message that comes to the platform.
    fn next(&mut self, side: &mut Side) -> Came {
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

    /// Why connecting failed, or a connection was lost.
    fn reason(&mut self) -> String {
        let reason = |event: &Event| match event {
            Event::ConnectFailed { reason, .. } | Event::Disconnected { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        self.until(|rig| rig.events.iter().any(|event| reason(event).is_some()));
        self.events.iter().find_map(reason).unwrap()
    }
}

impl Side {
    /// Reads what is there; whether the connection still is.
    fn read(&mut self) -> bool {
        let mut room = [0; 65_536];
        match self.socket.read(&mut room) {
            Ok(0) => false,
            Ok(length) => {
                self.bytes.extend_from_slice(&room[..length]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn cut(&mut self) -> Option<Came> {
        let Frame::Message(message, length) = stream::decode(&self.bytes, MOST).unwrap() else { return None };
        let came = Came {
            code: message.code,
            token: message.token.to_vec(),
            options: message.options.to_vec(),
            payload: message.payload.to_vec(),
        };
        self.bytes.drain(..length);
        Some(came)
    }

    /// Asks the client.
    fn ask(&mut self, code: u8, token: &[u8], path: &str, observe: Option<u32>) {
        let (mut list, mut options, mut out) = (OptionList::new(), Vec::new(), Vec::new());
        list.add_target(path.as_bytes());
        observe.iter().for_each(|number| list.add_number(option::OBSERVE, *number));
        list.encode(&mut options);
        let kind = Kind::NonConfirmable;
        stream::encode(&Message { kind, code, id: 0, token, options: &options, payload: &[] }, &mut out);
        self.socket.write_all(&out).unwrap();
    }

    fn say(&mut self, code: u8, token: &[u8], numbers: &[(u16, u32)], payload: &[u8]) {
        self.socket.write_all(&bytes(code, token, numbers, payload)).unwrap();
    }
}

fn bytes(code: u8, token: &[u8], numbers: &[(u16, u32)], payload: &[u8]) -> Vec<u8> {
    let (mut list, mut options, mut out) = (OptionList::new(), Vec::new(), Vec::new());
    numbers.iter().for_each(|(number, value)| list.add_number(*number, *value));
    list.encode(&mut options);
    let kind = Kind::NonConfirmable;
    stream::encode(&Message { kind, code, id: 0, token, options: &options, payload }, &mut out);
    out
}

fn is_ready(event: &Event) -> bool {
    matches!(event, Event::Ready { .. })
}

fn is_acknowledged(event: &Event) -> bool {
    matches!(event, Event::Acknowledged { .. })
}

fn is_abandoned(event: &Event) -> bool {
    matches!(event, Event::Abandoned { .. })
}

fn is_sent(event: &Event) -> bool {
    matches!(event, Event::Sent { .. })
}

const TAKES_BLOCKS: (u16, u32) = (signal::BLOCK_WISE_TRANSFER, 0);

#[test]
fn both_sides_say_what_they_take_and_a_message_is_answered() {
    let mut rig = Rig::new(1, "");
    let mut side = rig.accept();
    let csm = rig.next(&mut side);
    assert_eq!(csm.code, signal::CSM);
    assert!(csm.message().number(signal::MAX_MESSAGE_SIZE).unwrap() > 1 << 20);
    assert!(csm.message().option(signal::BLOCK_WISE_TRANSFER).is_some());
    assert_eq!(rig.count(is_ready), 0, "the platform has not said what it takes");
    side.say(signal::CSM, b"tmptoken", &[], b"");
    rig.until(|rig| rig.count(is_ready) == 1);
    rig.events.clear();
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    assert_eq!((request.code, request.message().path().as_str()), (code::POST, "/in/0"));
    assert_eq!((request.payload.len(), request.token.len()), (64, 6));
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    let whole = stream::length(&request.message()) as u32;
    let [Event::Sent { at, content: 64, packet, .. }, Event::Acknowledged { at: done, .. }] = &rig.events[..]
    else {
        panic!("{:?}", rig.events)
    };
    assert!(*packet == whole && done > at, "{:?}", rig.events);
}

#[test]
fn a_platform_that_says_nothing_of_itself_is_asked_for_nothing() {
    let mut rig = Rig::new(1, "coap: { csm: false }");
    let mut side = rig.accept();
    rig.until(|rig| rig.count(is_ready) == 1);
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    assert_eq!(request.code, code::POST);
    side.say(code::CREATED, &request.token, &[], b"made");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
}

#[test]
fn what_is_no_csm_and_a_csm_that_never_comes_are_reasons() {
    let mut rig = Rig::new(1, "");
    let _silent = rig.accept();
    let reason = rig.reason();
    assert!(reason.contains("no CSM came") && reason.contains("coap.csm: false"), "{reason}");
    for (first, expected) in [
        (bytes(code::CONTENT, b"", &[], b""), "the first message of the platform is 2.05 and no CSM"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "HTTP answers at this port, not CoAP over TCP"),
        (b"\xff\xff\xff\xff\xff\xff\xff".to_vec(), "what is no CoAP message over TCP: it begins with ff ff"),
        (
            b"\xf6\xff\xff\xff\xff\xff\xff".to_vec(),
            "announced a message of 4295033112 bytes, more than the 2097152",
        ),
        (bytes(signal::CSM, b"", &[(9, 1)], b""), "option 9, which must not be ignored"),
        (bytes(signal::ABORT, b"", &[], b"full"), "the platform aborted the connection: full"),
    ] {
        let mut rig = Rig::new(1, "");
        let mut side = rig.accept();
        side.socket.write_all(&first).unwrap();
        let reason = rig.reason();
        assert!(reason.contains(expected), "{reason}");
        assert!(matches!(rig.events[..], [Event::ConnectFailed { .. }]), "{:?}", rig.events);
    }
}

#[test]
fn many_requests_share_a_connection_and_are_answered_in_any_order_and_in_pieces() {
    let (mut rig, mut side) = Rig::ready(20, "coap: { sockets: 1, outstanding: 5 }", &[]);
    for sequence in 0..5 {
        (0..20).for_each(|device| rig.driver.submit(device, sequence));
    }
    let mut came: Vec<Came> = (0..100).map(|_| rig.next(&mut side)).collect();
    let tokens: BTreeSet<_> = came.iter().map(|request| request.token.clone()).collect();
    assert_eq!((tokens.len(), rig.count(is_sent)), (100, 100));
    came.reverse();
    let answers: Vec<u8> =
        came.iter().flat_map(|request| bytes(code::CHANGED, &request.token, &[], b"yes")).collect();
    for piece in answers.chunks(7) {
        side.socket.write_all(piece).unwrap();
        rig.turn();
    }
    rig.until(|rig| rig.count(is_acknowledged) == 100);
    let own = |event: &Event| match event {
        Event::Acknowledged { device, sequence, .. } => Some((*device, *sequence)),
        _ => None,
    };
    assert_eq!(rig.events.iter().filter_map(own).collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn no_more_requests_are_under_way_than_a_device_may_have() {
    let (mut rig, mut side) = Rig::ready(1, "coap: { outstanding: 2 }", &[]);
    (0..3).for_each(|sequence| rig.driver.submit(0, sequence));
    let first = rig.next(&mut side);
    rig.next(&mut side);
    (0..20).for_each(|_| rig.turn());
    side.read();
    assert_eq!(side.cut(), None, "the third one waits");
    side.say(code::CHANGED, &first.token, &[], b"");
    rig.next(&mut side);
}

#[test]
fn pings_are_answered_and_what_nobody_asked_for_is_counted() {
    let (mut rig, mut side) = Rig::ready(1, "", &[]);
    side.say(signal::PING, b"abc", &[], b"");
    let pong = rig.next(&mut side);
    assert_eq!((pong.code, pong.token.as_slice()), (signal::PONG, &b"abc"[..]));
    side.say(code::EMPTY, b"", &[], b"");
    side.say(0xff, b"", &[], b"");
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    side.say(code::CHANGED, b"other!", &[], b"");
    side.say(code::GET, b"g", &[], b"");
    let refused = rig.next(&mut side);
    assert_eq!((refused.code, refused.token.as_slice()), (code::NOT_FOUND, &b"g"[..]));
    side.say(code::CHANGED, &request.token, &[], b"");
    // The answer once more, to a token that has had its own.
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    (0..20).for_each(|_| rig.turn());
    let strays = rig.count(|event| matches!(event, Event::Stray));
    assert_eq!((strays, rig.count(is_acknowledged)), (3, 1), "{:?}", rig.events);
    let twice = "the platform sent an answer once more";
    assert_eq!(rig.count(|event| matches!(event, Event::Incident { reason } if reason == twice)), 1);
}

#[test]
fn a_connection_that_is_cut_in_a_message_is_made_again() {
    let (mut rig, mut side) = Rig::ready(1, "coap: { outstanding: 2 }", &[]);
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    let answer = bytes(code::CHANGED, &request.token, &[], b"a long answer");
    side.socket.write_all(&answer[..answer.len() - 3]).unwrap();
    (0..5).for_each(|_| rig.turn());
    drop(side);
    rig.until(|rig| rig.count(is_abandoned) == 1);
    assert_eq!(
        rig.reason(),
        "the platform closed the connection in the middle of a message",
        "{:?}",
        rig.events
    );
    rig.driver.submit(0, 1);
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side).code, signal::CSM);
    side.say(signal::CSM, b"", &[], b"");
    let request = rig.next(&mut side);
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    assert_eq!((rig.count(is_abandoned), rig.count(is_sent)), (1, 2), "{:?}", rig.events);
    assert!(rig.events.iter().any(|event| matches!(event, Event::Ready { again: true, .. })));
}

#[test]
fn a_platform_that_aborts_says_why() {
    let (mut rig, mut side) = Rig::ready(1, "", &[]);
    rig.driver.submit(0, 0);
    rig.next(&mut side);
    side.say(signal::ABORT, b"", &[], b"too much of it");
    let reason = rig.reason();
    assert_eq!(reason, "the platform aborted the connection: too much of it");
    assert_eq!((rig.count(is_sent), rig.count(is_abandoned)), (1, 1), "{:?}", rig.events);
}

/// Only an answer shows that a platform is there again.
#[test]
fn a_platform_that_greets_and_aborts_is_tried_again_after_growing_pauses() {
    let (mut rig, mut side) = Rig::ready(1, "connection: { reconnect: { from: 20ms, to: 2s } }", &[]);
    let begin = Instant::now();
    for _ in 0..4 {
        side.say(signal::ABORT, b"", &[], b"");
        side = rig.accept();
        assert_eq!(rig.next(&mut side).code, signal::CSM);
        side.say(signal::CSM, b"", &[], b"");
    }
    // At least a half of 20, 40, 80 and 160 ms.
    assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
}

#[test]
fn a_released_connection_ends_with_what_is_under_way() {
    let (mut rig, mut side) = Rig::ready(1, "coap: { outstanding: 2 }", &[]);
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    side.say(signal::RELEASE, b"", &[], b"");
    (0..5).for_each(|_| rig.turn());
    rig.driver.submit(0, 1);
    (0..10).for_each(|_| rig.turn());
    side.read();
    assert_eq!(side.cut(), None, "nothing more goes over it");
    side.say(code::CHANGED, &request.token, &[], b"");
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side).code, signal::CSM);
    side.say(signal::CSM, b"", &[], b"");
    let request = rig.next(&mut side);
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 2);
    assert_eq!(rig.count(is_abandoned), 0, "{:?}", rig.events);
}

/// The last exchange of a released connection may end without an answer.
#[test]
fn a_released_connection_ends_although_the_platform_owes_an_answer() {
    let (mut rig, mut side) = Rig::ready(1, "coap: { timeout: 100ms }", &[]);
    rig.driver.submit(0, 0);
    rig.next(&mut side);
    side.say(signal::RELEASE, b"", &[], b"");
    rig.until(|rig| rig.count(is_abandoned) == 1);
    rig.driver.submit(0, 1);
    let mut side = rig.accept();
    assert_eq!(rig.next(&mut side).code, signal::CSM);
}

/// What is written and not taken says as little as a ping that is not answered.
#[test]
fn a_platform_that_takes_nothing_any_more_is_gone() {
    let (mut rig, mut side) = Rig::ready(
        1,
        "coap: { ping: 200ms, outstanding: 64 }\nmessage: { size: 1000000 }",
        &[(signal::MAX_MESSAGE_SIZE, 1 << 21)],
    );
    for sequence in 0..64 {
        rig.driver.submit(0, sequence);
    }
    side.read();
    let reason = rig.reason();
    assert!(reason.contains("took nothing and sent nothing for 200 ms"), "{reason}");
}

#[test]
fn what_is_larger_than_the_platform_takes_goes_in_blocks() {
    let (mut rig, mut side) = Rig::ready(1, "message: { size: 3000 }", &[TAKES_BLOCKS]);
    rig.driver.submit(0, 0);
    let mut body: Vec<u8> = Vec::new();
    for number in 0..3 {
        let request = rig.next(&mut side);
        let block = request.message().block(option::BLOCK1).unwrap();
        assert_eq!((block.number, block.more, block.size()), (number, number < 2, 1_024));
        body.extend(&request.payload);
        let answer = if block.more { code::CONTINUE } else { code::CHANGED };
        side.say(answer, &request.token, &[(option::BLOCK1, block.to_number())], b"");
    }
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    assert_eq!((body.len(), rig.count(is_sent)), (3_000, 1));
}

/// BERT: 4,000 bytes have room for three blocks beside the options.
#[test]
fn many_blocks_go_in_one_message_where_the_platform_takes_them() {
    let settings = [TAKES_BLOCKS, (signal::MAX_MESSAGE_SIZE, 4_000)];
    let (mut rig, mut side) = Rig::ready(1, "message: { size: 10000 }", &settings);
    rig.driver.submit(0, 0);
    let (mut body, mut total) = (Vec::<u8>::new(), 0);
    for number in [0, 3, 6, 9] {
        let request = rig.next(&mut side);
        let block = request.message().block_of_stream(option::BLOCK1).unwrap();
        assert_eq!(block, Block::many(number, number < 9));
        total += stream::length(&request.message()) as u32;
        assert!(stream::length(&request.message()) <= 4_000);
        body.extend(&request.payload);
        let answer = if block.more { code::CONTINUE } else { code::CHANGED };
        side.say(answer, &request.token, &[(option::BLOCK1, block.to_number())], b"");
    }
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    assert_eq!(body.len(), 10_000);
    let Event::Sent { packet, .. } = &rig.events[0] else { panic!("{:?}", rig.events) };
    // Lengths of four requests differ by a byte where a length or a number needs it.
    assert!(packet.abs_diff(total) <= 4, "{packet} {total}");
    let (mut rig, mut side) =
        Rig::ready(1, "message: { size: 10000 }", &[(signal::MAX_MESSAGE_SIZE, 20_000)]);
    rig.driver.submit(0, 0);
    assert_eq!(rig.next(&mut side).payload.len(), 10_000, "it has room as a whole");
}

#[test]
fn an_answer_in_many_blocks_is_read_to_its_end() {
    let (mut rig, mut side) = Rig::ready(1, "", &[TAKES_BLOCKS, (signal::MAX_MESSAGE_SIZE, 10_000)]);
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    let first = Block::many(0, true).to_number();
    side.say(code::CONTENT, &request.token, &[(option::BLOCK2, first)], &[7; 2_048]);
    let request = rig.next(&mut side);
    assert_eq!(request.message().block_of_stream(option::BLOCK2), Some(Block::many(2, false)));
    assert_eq!(rig.count(is_acknowledged), 0);
    let last = Block::many(2, false).to_number();
    side.say(code::CONTENT, &request.token, &[(option::BLOCK2, last)], b"end");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
}

/// What has begun to go counts as sent when its level is closed, and the rest of it goes: the stream stays one of messages.
#[test]
fn a_platform_that_does_not_read_gets_whole_messages_when_it_does() {
    let settings = [(signal::MAX_MESSAGE_SIZE, 1 << 21)];
    let (mut rig, mut side) =
        Rig::ready(1, "message: { size: 900 KiB }\ncoap: { outstanding: 50 }", &settings);
    (0..50).for_each(|sequence| rig.driver.submit(0, sequence));
    (0..50).for_each(|_| rig.turn());
    let before = rig.count(is_sent);
    assert!(before < 50, "the kernel has room for all of them");
    let mut events = std::mem::take(&mut rig.events);
    rig.driver.withdraw(&mut events);
    let [sent, abandoned] =
        [is_sent, is_abandoned].map(|wanted| events.iter().filter(|event| wanted(event)).count());
    assert!(sent == abandoned && sent <= before + 1, "{sent} {abandoned} {before}");
    rig.driver.submit(0, 50);
    let mut whole = 0;
    while rig.count(is_acknowledged) == 0 {
        let request = rig.next(&mut side);
        assert_eq!(request.payload.len(), 900 * 1024);
        whole += 1;
        side.say(code::CHANGED, &request.token, &[], b"");
        rig.turn();
    }
    assert_eq!(whole, sent + 1);
}

#[test]
fn a_request_that_is_not_answered_is_given_up_and_its_late_answer_is_nobodys() {
    let (mut rig, mut side) = Rig::ready(1, "coap: { timeout: 50ms }", &[]);
    rig.driver.submit(0, 0);
    let late = rig.next(&mut side);
    rig.until(|rig| rig.count(is_abandoned) == 1);
    rig.driver.submit(0, 1);
    let request = rig.next(&mut side);
    side.say(code::CHANGED, &late.token, &[], b"");
    (0..10).for_each(|_| rig.turn());
    assert_eq!(rig.count(is_acknowledged), 0, "{:?}", rig.events);
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 1 || rig.count(is_abandoned) == 2);
}

/// The place of a message that was given up may serve another connection when the answer comes.
#[test]
fn a_late_answer_is_nobodys_although_another_connection_has_its_place() {
    let mut rig = Rig::new(2, "");
    let mut sides: Vec<Side> = (0..2).map(|_| rig.accept()).collect();
    for side in &mut sides {
        assert_eq!(rig.next(side).code, signal::CSM);
        side.say(signal::CSM, b"", &[], b"");
    }
    rig.until(|rig| rig.count(is_ready) == 2);
    let requests: Vec<Came> = (0..2)
        .map(|device| {
            rig.driver.submit(device, 0);
            rig.until(|rig| rig.count(is_sent) == device as usize + 1);
            // Which of the two connections is that device's is not known.
            sides.iter_mut().find_map(|side| {
                side.read();
                side.cut()
            })
        })
        .map(|came| came.unwrap())
        .collect();
    rig.driver.withdraw(&mut rig.events);
    assert_eq!(rig.count(is_abandoned), 2);
    // Their places are taken in another order, each for the other connection.
    for (device, sequence) in [(1, 1), (0, 1)] {
        rig.driver.submit(device, sequence);
    }
    rig.until(|rig| rig.count(is_sent) == 4);
    rig.events.clear();
    for request in &requests {
        sides.iter_mut().for_each(|side| side.say(code::CHANGED, &request.token, &[], b""));
    }
    let end = rig.clock.now() + Nanos::from_millis(50);
    rig.until(|rig| rig.clock.now() > end);
    assert_eq!(
        rig.count(|event| matches!(event, Event::Stray | Event::Acknowledged { .. })),
        0,
        "{:?}",
        rig.events
    );
}

/// What a message has beside its body counts, too.
#[test]
fn blocks_are_as_small_as_the_platform_needs_them() {
    let more = format!("message: {{ target: \"/{}\", size: 300 }}", "x".repeat(100));
    let (mut rig, mut side) = Rig::ready(1, &more, &[(signal::MAX_MESSAGE_SIZE, 256)]);
    rig.driver.submit(0, 0);
    let mut body = 0;
    loop {
        let came = rig.next(&mut side);
        assert!(stream::length(&came.message()) <= 256, "{came:?}");
        let block = came.message().block(option::BLOCK1).unwrap();
        assert_eq!(block.size(), 128, "the largest that fits");
        body += came.payload.len();
        let code = if block.more { code::CONTINUE } else { code::CHANGED };
        side.say(code, &came.token, &[(option::BLOCK1, block.to_number())], b"");
        if !block.more {
            break;
        }
    }
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    assert_eq!(body, 300);
}

/// A platform that does not know blocks has a part of the message, and says that it has it.
#[test]
fn a_part_that_is_taken_is_no_message_that_was_taken() {
    for echoes in [false, true] {
        let (mut rig, mut side) = Rig::ready(1, "message: { size: 3000 }", &[]);
        rig.driver.submit(0, 0);
        let came = rig.next(&mut side);
        let block = came.message().block(option::BLOCK1).unwrap();
        let told = (option::BLOCK1, block.at(block.number, false).to_number());
        side.say(code::CHANGED, &came.token, if echoes { std::slice::from_ref(&told) } else { &[] }, b"");
        if echoes {
            // It acts on each block by itself (RFC 7959 section 2.3).
            let next = rig.next(&mut side);
            assert_eq!(next.message().block(option::BLOCK1).unwrap().number, 1);
            continue;
        }
        let is_refused = |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("2.04 to the first 1024 of 3000 bytes"));
        rig.until(|rig| rig.count(is_refused) == 1);
        assert_eq!(rig.count(is_acknowledged), 0);
    }
}

#[test]
fn an_answer_that_refuses_says_what() {
    let (mut rig, mut side) = Rig::ready(1, "", &[]);
    rig.driver.submit(0, 0);
    let request = rig.next(&mut side);
    side.say(code::BAD_REQUEST, &request.token, &[], b"no such thing");
    let refused = |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("4.00: no such thing"));
    rig.until(|rig| rig.count(refused) == 1);
}

#[test]
fn what_a_device_that_is_let_go_wrote_does_not_go() {
    let more = "coap: { sockets: 1, outstanding: 1000 }\nmessage: { size: 30000 }";
    let (mut rig, mut side) = Rig::ready(2, more, &[(signal::MAX_MESSAGE_SIZE, 1 << 20)]);
    // More than the kernel takes for a platform that does not read.
    for sequence in 0..600 {
        rig.driver.submit(0, sequence);
        rig.turn();
    }
    let sent = rig.count(is_sent);
    assert!(sent < 590, "{sent}");
    assert!(rig.driver.release(Client::Device(0)));
    rig.driver.submit(1, 0);
    let mut paths = Vec::new();
    while paths.last().is_none_or(|path| path != "/in/1") {
        rig.turn();
        assert!(side.read());
        paths.extend(std::iter::from_fn(|| side.cut()).map(|came| came.message().path()));
    }
    // One more had begun to go.
    assert_eq!(paths.len() - 1, sent + 1);
}

#[test]
fn a_device_that_is_let_go_leaves_the_others_their_connection() {
    let (mut rig, mut side) = Rig::ready(2, "coap: { sockets: 1 }", &[]);
    rig.driver.submit(0, 0);
    rig.next(&mut side);
    assert!(rig.driver.release(Client::Device(0)));
    rig.driver.submit(1, 0);
    let request = rig.next(&mut side);
    side.say(code::CHANGED, &request.token, &[], b"");
    rig.until(|rig| rig.count(is_acknowledged) == 1);
    assert!(rig.driver.release(Client::Device(1)));
    assert_eq!(rig.next(&mut side).code, signal::RELEASE);
}
