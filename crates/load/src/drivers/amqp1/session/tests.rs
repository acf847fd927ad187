//! The session against single frames: no socket, no clock.

use super::*;
use crate::drivers::messaging::{Session as _, hostile};
use plimsoll_codec::amqp1::types::{put_bool, put_list, put_null, put_text, put_uint};
use plimsoll_scenario::{Environment, SourceFile, load};

fn settings(more: &str) -> Arc<Settings> {
    let text = format!(
        "name: t\nplatform: {{ profile: existing, address: \"amqp1://h:1\" }}\n\
         population: {{ devices: 4, subscribers: {{ count: 2, share: g }} }}\n\
         message: {{ target: \"a/{{device}}\" }}\nload: {{ levels: [1/s] }}\n{more}"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| Some("hidden".to_owned()) };
    let plan =
        load(&SourceFile { name: "t".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Settings::new(&plan, RunId::from_bits(7)))
}

fn session(client: Client, more: &str) -> Session {
    let mut session = Session::new(client, (b"a/1", &["a/+/#".to_owned()]), &settings(more));
    let mut out = Vec::new();
    session.begin(&mut out);
    assert_eq!(out, amqp1::SASL_HEADER);
    session
}

/// A frame with a list of that kind and these fields, and what lies behind it.
fn frame(kind: u8, count: u32, fields: impl FnOnce(&mut Vec<u8>), payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    put_list(kind, count, &mut body, fields);
    body.extend_from_slice(payload);
    [&(body.len() as u32 + 8).to_be_bytes()[..], &[2, 0, 0, 0], &body].concat()
}

/// The kinds of what a client says: of headers the number of the protocol, below 0x10.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(length) = amqp1::length(bytes).unwrap().filter(|_| !bytes.is_empty()) {
        let (frame, rest) = bytes.split_at(length);
        all.push(match amqp1::decode(frame).unwrap() {
            Frame::Header(protocol, _) => protocol,
            Frame::Performative(number, ..) => number as u8,
            Frame::Empty => 0xff,
        });
        bytes = rest;
    }
    all
}

fn receive(session: &mut Session, bytes: &[u8]) -> (Result<String, Failure>, Vec<u8>) {
    assert_eq!(session.frame(bytes), Ok(Some(bytes.len())));
    let mut out = Vec::new();
    let happened = session.receive(bytes, &mut out).map(|happened| format!("{happened:?}"));
    (happened, kinds(&out))
}

fn went(outcome: &str, said: &[u8]) -> (Result<String, Failure>, Vec<u8>) {
    (Ok(outcome.to_owned()), said.to_vec())
}

fn mechanisms(names: &str) -> Vec<u8> {
    frame(0x40, 1, |out| plimsoll_codec::amqp1::types::put_symbol(names, out), b"")
}

/// A link that the platform knows by that number, and counts from 7 on.
fn attach(handle: u32, is_receiver: bool, has_end: bool) -> Vec<u8> {
    let end = |kind, out: &mut Vec<u8>| match has_end {
        true => put_list(kind, 1, out, |out| put_text("x", out)),
        false => put_null(out),
    };
    let fields = |out: &mut Vec<u8>| {
        put_text("n", out);
        put_uint(handle, out);
        put_bool(is_receiver, out);
        put_null(out);
        put_null(out);
        end(0x28, out);
        end(0x29, out);
        put_null(out);
        put_null(out);
        put_uint(7, out);
    };
    frame(0x12, 10, fields, b"")
}

fn flow(next_incoming: u32, window: u32, credit: Option<(u32, u32)>) -> Vec<u8> {
    flow_and_drain(next_incoming, window, credit, false)
}

fn flow_and_drain(next_incoming: u32, window: u32, credit: Option<(u32, u32)>, drain: bool) -> Vec<u8> {
    let fields = |out: &mut Vec<u8>| {
        put_uint(next_incoming, out);
        put_uint(window, out);
        put_uint(0, out);
        put_uint(0, out);
        if let Some((counted, credit)) = credit {
            put_uint(0, out);
            put_uint(counted, out);
            put_uint(credit, out);
            put_null(out);
            put_bool(drain, out);
        }
    };
    frame(0x13, if credit.is_some() { 9 } else { 4 }, fields, b"")
}

/// A message or a part of one, as the platform delivers it.
fn transfer(delivery: Option<u32>, more: bool, payload: &[u8]) -> Vec<u8> {
    let fields = |out: &mut Vec<u8>| {
        put_uint(0, out);
        match delivery {
            Some(delivery) => put_uint(delivery, out),
            None => put_null(out),
        }
        put_null(out);
        put_null(out);
        put_bool(false, out);
        put_bool(more, out);
    };
    frame(0x14, 6, fields, payload)
}

/// Opens everything with a platform that takes frames of 512 bytes.
fn open(session: &mut Session) {
    assert_eq!(receive(session, amqp1::SASL_HEADER), went("Nothing", &[]));
    assert_eq!(receive(session, &mechanisms("ANONYMOUS")), went("Nothing", &[0x41]));
    let welcome = frame(0x44, 1, |out| out.extend([0x50, 0]), b"");
    assert_eq!(receive(session, &welcome), went("Nothing", &[0, 0x10, 0x11, 0x12]));
    assert_eq!(receive(session, amqp1::HEADER), went("Nothing", &[]));
    let opened = frame(
        0x10,
        5,
        |out| {
            put_text("broker", out);
            put_null(out);
            put_uint(512, out);
            put_null(out);
            put_uint(20_000, out);
        },
        b"",
    );
    assert_eq!(receive(session, &opened), went("Accepted", &[]));
    assert_eq!(session.keep_alive(), Nanos::from_secs(10));
    let begun = frame(
        0x11,
        3,
        |out| {
            put_null(out);
            put_uint(0, out);
            put_uint(100, out);
        },
        b"",
    );
    assert_eq!(receive(session, &begun), went("Nothing", &[]));
}

fn publish(session: &mut Session, sequence: u32, size: usize) -> Vec<u8> {
    let (content, mut out) = (vec![7; size], Vec::new());
    let message = Outgoing { sequence, topic: &mut b"a/1".to_vec(), content: &content };
    session.publish(message, &mut out).unwrap();
    kinds(&out)
}

/// That the platform received these, and what became of them.
fn disposition(first: u32, last: u32, outcome: u8) -> Vec<u8> {
    let fields = |out: &mut Vec<u8>| {
        put_bool(true, out);
        put_uint(first, out);
        put_uint(last, out);
        put_bool(true, out);
        put_list(outcome, 0, out, |_| {});
    };
    frame(0x15, 5, fields, b"")
}

#[test]
fn a_device_sends_as_much_as_there_is_credit_for() {
    let mut device = session(Client::Device(1), "amqp1: { prefix: /topic/ }\n");
    assert_eq!(device.address, "/topic/a.1");
    open(&mut device);
    assert_eq!(receive(&mut device, &attach(0, true, true)), went("Ready", &[]));
    assert!(!device.may_publish());
    assert_eq!(receive(&mut device, &flow(0, 100, Some((0, 3)))), went("Nothing", &[]));
    assert_eq!(publish(&mut device, 4, 5), [0x14]);
    assert_eq!(publish(&mut device, 5, 1200), [0x14; 3], "in frames as large as the platform takes");
    assert_eq!(publish(&mut device, 6, 5), [0x14]);
    assert!(!device.may_publish());
    assert_eq!(receive(&mut device, &disposition(0, 1, 0x24)), went("AcknowledgedTogether([4, 5])", &[]));
    let (rejected, _) = receive(&mut device, &disposition(2, 2, 0x25));
    assert!(rejected.unwrap().starts_with("RefusedTogether([6]"));
    assert_eq!(receive(&mut device, &disposition(2, 2, 0x24)), went("UnknownAck", &[]));
    assert!(device.held_back().is_some_and(|by| by.contains("credit")));
    // Five frames went, of which the platform has seen three: it takes two more than are under way.
    receive(&mut device, &flow(3, 4, Some((2, 3)))).0.unwrap();
    assert_eq!((device.window, device.credit), (2, 2));
    assert_eq!(device.held_back(), None);
    receive(&mut device, &flow(5, 0, Some((3, 9)))).0.unwrap();
    assert!(device.held_back().is_some_and(|by| by.contains("window")));
}

#[test]
fn a_device_whose_own_window_is_full_is_not_held_back_by_the_platform() {
    let mut device = session(Client::Device(1), "amqp1: { in_flight: 1 }\n");
    open(&mut device);
    receive(&mut device, &attach(0, true, true)).0.unwrap();
    receive(&mut device, &flow(0, 100, Some((0, 1)))).0.unwrap();
    publish(&mut device, 0, 5);
    assert_eq!((device.may_publish(), device.held_back()), (false, None));
}

#[test]
fn credit_that_is_drained_is_used_up_after_what_waits() {
    let mut device = session(Client::Device(1), "");
    open(&mut device);
    receive(&mut device, &attach(0, true, true)).0.unwrap();
    let mut out = Vec::new();
    device.all_sent(false, &mut out);
    assert!(out.is_empty(), "nobody drains");
    assert_eq!(receive(&mut device, &flow_and_drain(0, 100, Some((0, 10)), true)), went("Nothing", &[]));
    device.all_sent(true, &mut out);
    assert!(out.is_empty(), "a message waits, and has credit");
    publish(&mut device, 0, 5);
    device.all_sent(false, &mut out);
    let Frame::Performative(number, fields, payload) = amqp1::decode(&out).unwrap() else {
        panic!("{out:?}")
    };
    let Performative::Flow(said) = performatives::read(number, fields, payload).unwrap() else {
        panic!("{out:?}")
    };
    assert_eq!((said.credit, said.drain), (Some((0, 10, 0)), true));
    assert_eq!((device.credit, device.may_publish()), (0, false));
    out.clear();
    device.all_sent(false, &mut out);
    assert!(out.is_empty(), "once");
    // Numbers of deliveries go on, whatever counts as gone.
    receive(&mut device, &flow(1, 100, Some((10, 1)))).0.unwrap();
    publish(&mut device, 1, 5);
    assert_eq!(receive(&mut device, &disposition(0, 1, 0x24)), went("AcknowledgedTogether([0, 1])", &[]));
}

#[test]
fn a_subscriber_wants_more_before_all_has_come() {
    let mut subscriber = session(Client::Subscriber(0), "");
    assert_eq!(subscriber.address, "a.*.#");
    open(&mut subscriber);
    assert_eq!(receive(&mut subscriber, &attach(0, false, true)), went("Ready", &[0x13]));
    let mut message = Vec::new();
    message::put(b"hello", false, &mut message);
    let delivered = format!("Delivered({:?})", b"hello");
    assert_eq!(receive(&mut subscriber, &transfer(Some(0), false, &message)), went(&delivered, &[0x15]));
    let (head, rest) = message.split_at(4);
    assert_eq!(receive(&mut subscriber, &transfer(Some(1), true, head)), went("Part(4)", &[]));
    assert_eq!(receive(&mut subscriber, &transfer(None, false, rest)), went(&delivered, &[0x15]));
    assert_eq!(
        (subscriber.counted, subscriber.credit),
        (7 + 2, CREDIT - 2),
        "from where the platform counts"
    );
    subscriber.credit = CREDIT / 2 + 1;
    assert_eq!(
        receive(&mut subscriber, &transfer(Some(2), false, &message)),
        went(&delivered, &[0x13, 0x15])
    );
    // Frames are used up before credit is.
    subscriber.unflowed = WINDOW / 2 - 1;
    assert_eq!(
        receive(&mut subscriber, &transfer(Some(3), false, &message)),
        went(&delivered, &[0x13, 0x15])
    );
    assert_eq!(subscriber.unflowed, 0);
    let lost = receive(&mut subscriber, &transfer(None, false, &message)).0.unwrap_err();
    assert!(!lost.lasting && lost.reason.contains("no number"), "{lost:?}");
}

#[test]
fn a_link_that_is_refused_says_why() {
    let mut device = session(Client::Device(1), "");
    open(&mut device);
    assert_eq!(receive(&mut device, &attach(0, true, false)), went("Nothing", &[]));
    let fields = |out: &mut Vec<u8>| {
        put_uint(0, out);
        put_bool(true, out);
        put_list(0x1d, 2, out, |out| {
            plimsoll_codec::amqp1::types::put_symbol("amqp:not-found", out);
            put_text("no such address", out);
        });
    };
    let told = receive(&mut device, &frame(0x16, 3, fields, b"")).0.unwrap_err();
    assert_eq!(told, Failure::lasting("the platform closed the link: no such address (amqp:not-found)"));
}

#[test]
fn who_is_not_let_in_and_another_amqp_are_told() {
    let with = "amqp1: { username: me, password: { env: SECRET } }\n";
    let mut device = session(Client::Device(1), with);
    receive(&mut device, amqp1::SASL_HEADER).0.unwrap();
    let told = receive(&mut device, &mechanisms("ANONYMOUS")).0.unwrap_err();
    assert!(told.lasting && told.reason.contains("offers ANONYMOUS"), "{told:?}");
    let mut device = session(Client::Device(1), with);
    receive(&mut device, amqp1::SASL_HEADER).0.unwrap();
    receive(&mut device, &mechanisms("PLAIN")).0.unwrap();
    let told = receive(&mut device, &frame(0x44, 1, |out| out.extend([0x50, 1]), b"")).0.unwrap_err();
    assert!(told.lasting && told.reason.contains("does not let the user in"), "{told:?}");
    let mut device = session(Client::Device(1), "");
    let told = receive(&mut device, b"AMQP\0\0\x09\x01").0.unwrap_err();
    assert!(told.lasting && told.reason.contains("version 0.9.1"), "{told:?}");
}

#[test]
fn a_ping_is_a_link_that_is_answered_in_turn() {
    let mut device = session(Client::Device(1), "");
    open(&mut device);
    receive(&mut device, &attach(3, true, true)).0.unwrap();
    let mut out = Vec::new();
    device.ping(&mut out);
    device.ping(&mut out);
    assert_eq!(kinds(&out), [0x12], "one after the other");
    // Credit for the link of the ping is none for messages.
    receive(&mut device, &flow(0, 9, Some((0, 50)))).0.unwrap();
    assert_eq!((device.window, device.credit), (9, 0));
    assert_eq!(receive(&mut device, &attach(4, true, true)), went("Pong", &[0x16]));
    let detached = |handle| frame(0x16, 1, move |out: &mut Vec<u8>| put_uint(handle, out), b"");
    assert_eq!(receive(&mut device, &detached(4)), went("Nothing", &[0x12]));
    assert_eq!(receive(&mut device, &attach(4, true, true)), went("Pong", &[0x16]));
    assert_eq!(receive(&mut device, &detached(4)), went("Nothing", &[]));
    let gone = receive(&mut device, &detached(3)).0.unwrap_err();
    assert_eq!(gone, Failure::passing("the platform closed the link: without a reason"));
    assert_eq!(receive(&mut device, &[0, 0, 0, 8, 2, 0, 0, 0]), went("Nothing", &[]));
}

#[test]
fn what_was_not_sent_takes_no_number() {
    for more in ["", "amqp1: { acknowledged: false }\nobjectives: { publish_p99: null }\n"] {
        let mut device = session(Client::Device(1), more);
        open(&mut device);
        receive(&mut device, &attach(0, true, true)).0.unwrap();
        receive(&mut device, &flow(0, 100, Some((0, 10)))).0.unwrap();
        publish(&mut device, 0, 5);
        let before = (device.next_outgoing, device.window, device.counted, device.credit);
        publish(&mut device, 1, 1200);
        device.withdraw(1);
        assert_eq!((device.next_outgoing, device.window, device.counted, device.credit), before);
        publish(&mut device, 2, 5);
        if more.is_empty() {
            let outcome = receive(&mut device, &disposition(1, 1, 0x24));
            assert_eq!(outcome, went("AcknowledgedTogether([2])", &[]));
            assert_eq!(device.abandon(), [0]);
        }
    }
}

#[test]
fn what_needs_more_frames_than_there_are_is_refused_or_waits() {
    let mut device = session(Client::Device(1), "");
    open(&mut device);
    receive(&mut device, &attach(0, true, true)).0.unwrap();
    receive(&mut device, &flow(0, 2, Some((0, 10)))).0.unwrap();
    assert!(device.may_publish());
    let (content, mut out) = (vec![7; 1200], Vec::new());
    let message = Outgoing { sequence: 0, topic: &mut b"a/1".to_vec(), content: &content };
    let refused = device.publish(message, &mut out).unwrap_err();
    assert_eq!(
        (refused.as_str(), out.len()),
        ("the message needs 3 frames, and the platform takes 2 at once", 0)
    );
}

#[test]
fn a_message_of_which_nothing_is_said_may_be_there_or_not() {
    let mut device = session(Client::Device(1), "");
    open(&mut device);
    receive(&mut device, &attach(0, true, true)).0.unwrap();
    receive(&mut device, &flow(0, 100, Some((0, 10)))).0.unwrap();
    publish(&mut device, 0, 5);
    let said = |settled: bool| {
        let fields = move |out: &mut Vec<u8>| {
            put_bool(true, out);
            put_uint(0, out);
            put_uint(0, out);
            put_bool(settled, out);
        };
        frame(0x15, 4, fields, b"")
    };
    assert_eq!(receive(&mut device, &said(false)), went("Nothing", &[]));
    let (outcome, _) = receive(&mut device, &said(true));
    assert!(outcome.unwrap().starts_with("DoubtfulTogether([0]"));
    assert!(receive(&mut device, &frame(0x14, 0, |_| {}, b"")).0.is_err(), "a device receives nothing");
}

#[test]
fn whatever_a_platform_says_nothing_panics() {
    let opened = frame(
        0x10,
        3,
        |out| {
            put_text("broker", out);
            put_null(out);
            put_uint(512, out);
        },
        b"",
    );
    let begun = frame(
        0x11,
        3,
        |out| {
            put_null(out);
            put_uint(u32::MAX - 3, out);
            put_uint(100, out);
        },
        b"",
    );
    let mut message = Vec::new();
    message::put(b"hello", false, &mut message);
    let said = [
        amqp1::SASL_HEADER.to_vec(),
        mechanisms("ANONYMOUS"),
        frame(0x44, 1, |out| out.extend([0x50, 0]), b""),
        amqp1::HEADER.to_vec(),
        opened,
        begun,
        attach(0, true, true),
        flow(0, 100, Some((0, 50))),
        flow(u32::MAX, u32::MAX, Some((u32::MAX, u32::MAX))),
        flow_and_drain(0, 3, Some((2, 7)), true),
        flow(7, 0, None),
        transfer(Some(1), false, &message),
        transfer(Some(1), true, &message),
        disposition(0, 0, 0x24),
        disposition(1, u32::MAX, 0x25),
        disposition(0, 9, 0x26),
        attach(4, true, true),
        frame(0x16, 1, |out| put_uint(4, out), b""),
        frame(0x17, 0, |_| {}, b""),
        vec![0, 0, 0, 8, 2, 0, 0, 0],
    ];
    for more in ["", "amqp1: { in_flight: 3 }\n"] {
        let settings = settings(more);
        let say = |_: &Session, place: usize| said[place].clone();
        for client in [Client::Device(1), Client::Subscriber(0)] {
            let make = || Session::new(client, (b"a/1", &["a/#".to_owned()]), &settings);
            hostile::endure(make, said.len(), say);
        }
    }
}
