use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive, survives};
use crate::side::Side;
use plimsoll_model::wire::WireProtocol;
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

const SASL: &[u8] = b"AMQP\x03\x01\0\0";
const PLAIN: &[u8] = b"AMQP\0\x01\0\0";

/// A frame on a channel: a list of the performative with that number, and what lies behind it.
fn frame(kind: u8, channel: u8, number: u8, fields: &[&[u8]], payload: &[u8]) -> Vec<u8> {
    let list = fields.concat();
    let body =
        [&[0, 0x53, number, 0xc0, list.len() as u8 + 1, fields.len() as u8][..], &list, payload].concat();
    [&(body.len() as u32 + 8).to_be_bytes()[..], &[2, kind, 0, channel], &body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[0xa1, text.len() as u8][..], text.as_bytes()].concat()
}

fn number(number: u8) -> [u8; 2] {
    [0x52, number]
}

const NULL: &[u8] = &[0x40];
const YES: &[u8] = &[0x41];
const NO: &[u8] = &[0x42];

/// A source (0x28) or target (0x29) with an address.
fn end(kind: u8, address: &str) -> Vec<u8> {
    let address = text(address);
    [&[0, 0x53, kind, 0xc0, address.len() as u8 + 1, 1][..], &address].concat()
}

fn attach(name: &str, handle: u8, receives: bool, source: &[u8], target: &[u8]) -> Vec<u8> {
    let role = if receives { YES } else { NO };
    let modes = [0x50, 0];
    frame(0, 0, 0x12, &[&text(name), &number(handle), role, &modes, &modes, source, target], b"")
}

fn transfer(handle: u8, id: u8, settled: bool, more: bool, payload: &[u8]) -> Vec<u8> {
    let flag = |is: bool| if is { YES } else { NO };
    let fields: [&[u8]; 6] =
        [&number(handle), &number(id), &[0xa0, 1, id], &number(0), flag(settled), flag(more)];
    frame(0, 0, 0x14, &fields, payload)
}

/// A message: a header, properties with an address, and its data.
fn message(to: &str, content: &[u8]) -> Vec<u8> {
    let header = [0, 0x53, 0x70, 0xc0, 2, 1, 0x41];
    let properties = [NULL, NULL, &text(to)].concat();
    let properties = [&[0, 0x53, 0x73, 0xc0, properties.len() as u8 + 1, 3][..], &properties].concat();
    let data = [&[0, 0x53, 0x75, 0xb0][..], &(content.len() as u32).to_be_bytes(), content].concat();
    [&header[..], &properties, &data].concat()
}

/// A server's word on deliveries: accepted (0x24) or something else.
fn outcome(first: u8, last: u8, outcome: u8) -> Vec<u8> {
    frame(0, 0, 0x15, &[YES, &number(first), &number(last), YES, &[0, 0x53, outcome, 0x45]], b"")
}

fn error(condition: &str) -> Vec<u8> {
    let condition = text(condition);
    [&[0, 0x53, 0x1d, 0xc0, condition.len() as u8 + 1, 1][..], &condition].concat()
}

/// A connection with one session, and a link over which the client sends to that address.
fn opened(address: &str) -> Vec<(Side, Vec<u8>)> {
    vec![
        (C, SASL.to_vec()),
        (S, [SASL, &frame(1, 0, 0x40, &[&text("ANONYMOUS")], b"")].concat()),
        (C, frame(1, 0, 0x41, &[&text("ANONYMOUS")], b"")),
        (S, frame(1, 0, 0x44, &[&[0x50, 0]], b"")),
        (C, [PLAIN, &frame(0, 0, 0x10, &[&text("me"), NULL], b"")].concat()),
        (S, [PLAIN, &frame(0, 0, 0x10, &[&text("broker"), NULL], b"")].concat()),
        (C, frame(0, 0, 0x11, &[NULL, &number(0), &number(9), &number(9)], b"")),
        // The server numbers the session in its own way.
        (S, frame(0, 3, 0x11, &[&number(0), &number(0), &number(9), &number(9)], b"")),
        (C, attach("out", 0, false, NULL, &end(0x29, address))),
    ]
}

fn amqp(parts: &[(Side, Vec<u8>)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    let transcript = play(Carrier::Stream, 5672, &parts);
    assert_eq!(transcript.protocol, WireProtocol::Amqp1);
    transcript
}

/// The same of the server's channel 3.
fn on_its_channel(mut frame: Vec<u8>) -> Vec<u8> {
    frame[7] = 3;
    frame
}

#[test]
fn what_is_opened_is_answered_by_the_same_word() {
    let mut parts = opened("q");
    parts.extend([
        (S, on_its_channel(attach("out", 5, true, NULL, &end(0x29, "q")))),
        (S, on_its_channel(frame(0, 0, 0x13, &[NULL], b""))),
        (C, frame(0, 0, 0x16, &[&number(0), YES], b"")),
        (S, on_its_channel(frame(0, 0, 0x16, &[&number(5), YES, &error("amqp:not-found")], b""))),
        (C, frame(0, 0, 0x17, &[], b"")),
        (S, on_its_channel(frame(0, 0, 0x17, &[], b""))),
        // The server is the first to close.
        (S, frame(0, 0, 0x18, &[&error("amqp:connection:forced")], b"")),
        (C, frame(0, 0, 0x18, &[], b"")),
        (C, vec![0, 0, 0, 8, 2, 0, 0, 0]),
    ]);
    assert_eq!(
        amqp(&parts).lines,
        [
            "! AMQP",
            "! AMQP",
            "! sasl.mechanisms",
            "sasl.init -> 0",
            "open -> open",
            "! AMQP",
            "! AMQP",
            "begin -> begin",
            "attach -> attach",
            "! flow",
            "detach -> amqp:not-found",
            "end -> end",
            "! close",
            "! close",
            "! heartbeat",
        ]
    );
}

#[test]
fn deliveries_are_answered_by_their_numbers() {
    let mut parts = opened("/topic/city.7.temp");
    let content = b"plm1:d:1;";
    parts.extend([
        (
            C,
            [transfer(0, 0, false, false, &message("", content)), transfer(0, 1, false, false, b"")].concat(),
        ),
        (C, transfer(0, 2, false, false, b"")),
        (C, transfer(0, 3, true, false, b"")),
        (C, transfer(0, 4, false, false, b"")),
        (S, on_its_channel(outcome(0, 1, 0x24))),
        (S, on_its_channel(outcome(2, 2, 0x26))),
        (S, on_its_channel(outcome(9, 9, 0x24))),
    ]);
    let transcript = amqp(&parts);
    assert_eq!(
        transcript.lines[9..],
        [
            "transfer -> accepted",
            "transfer -> accepted",
            "transfer -> released",
            "transfer one-way",
            "transfer unanswered",
            "! disposition"
        ]
    );
    assert_eq!(transcript.markers, [(C, 1)]);
}

#[test]
fn what_clients_send_is_told_with_its_address_and_size() {
    let mut parts = opened("/topic/city.7.temp");
    parts.extend([
        (C, attach("in", 1, true, &end(0x28, "/topic/city.*.temp"), NULL)),
        (C, attach("any", 2, false, NULL, &end(0x29, ""))),
        (C, transfer(0, 0, false, false, &message("", b"hello"))),
        (C, transfer(0, 1, true, false, &message("", &[7; 120]))),
        // In two frames, with a message of another link between them.
        (C, transfer(0, 2, false, true, &message("", &[7; 90])[..60])),
        (C, transfer(2, 3, false, false, &message("floor.2", b"to"))),
        (C, transfer(0, 2, false, false, &message("", &[7; 90])[60..])),
        (S, on_its_channel(transfer(8, 0, true, false, &message("", b"x")))),
    ]);
    let actions = amqp(&parts).actions();
    assert_eq!(
        actions,
        [
            "subscribe city.*.temp q1",
            "publish TRANSFER /topic/: city.7.temp q1 5 B",
            "publish TRANSFER /topic/: city.7.temp q0 120 B",
            "publish TRANSFER floor.2 q1 2 B",
            "publish TRANSFER /topic/: city.7.temp q1 90 B",
            "receive",
        ]
    );
}

#[test]
fn a_conversation_is_known_from_its_middle() {
    let parts = [(C, transfer(0, 7, false, false, &message("", b"x"))), (S, outcome(7, 7, 0x24))];
    assert_eq!(amqp(&parts).lines, ["transfer -> accepted"]);
    // The first frame of 0-9-1 is none of 1.0.
    let other = [(C, b"AMQP\0\0\x09\x01".as_slice())];
    assert_eq!(play(Carrier::Stream, 5672, &other).protocol, WireProtocol::Amqp);
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    for (bytes, reason) in [
        (vec![0, 0, 0, 7, 2, 0, 0, 0], "a frame of a size that none has"),
        (vec![0xff, 0, 0, 0, 2, 0, 0, 0], "a frame of a size that none has"),
        (vec![0, 0, 0, 9, 2, 0, 0, 0, 0x40], "a frame without a performative"),
        (vec![0, 0, 0, 8, 1, 0, 0, 0], "a frame without a performative"),
        (b"AMQX\0\0\0\0".to_vec(), "neither a frame nor the name of the protocol"),
    ] {
        let mut parts = opened("q");
        parts.push((C, bytes.clone()));
        let borrowed: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
        let lines = once(Carrier::Stream, 5672, &borrowed, usize::MAX).lines;
        assert!(lines.contains(&format!("breach: {reason}")), "{bytes:?}: {lines:?}");
    }
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let mut parts = opened("q");
    parts.extend([
        (C, transfer(0, 0, false, false, &message("to", b"plm1:d:1;"))),
        (S, on_its_channel(outcome(0, 0, 0x24))),
    ]);
    let borrowed: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    survives(Carrier::Stream, 5672, &borrowed);
}

proptest! {
    #[test]
    fn messages_of_any_bytes_are_read(payload in prop::collection::vec(any::<u8>(), 0..80), id in any::<u8>()) {
        let parts: Vec<(Side, Vec<u8>)> =
            opened("q").into_iter().chain([(C, transfer(0, id, false, false, &payload))]).collect();
        let borrowed: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
        survive(5672, &borrowed);
    }
}
