use super::{BODY, HEADER, HEARTBEAT, METHOD};
use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = (payload.len() as u32).to_be_bytes();
    [&[kind], &channel.to_be_bytes()[..], &size, payload, &[0xce]].concat()
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(METHOD, channel, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

/// Header and body frames.
fn content(channel: u16, bodies: &[&str]) -> Vec<u8> {
    let size = bodies.iter().map(|body| body.len() as u64).sum::<u64>();
    let header = [&[0, 60, 0, 0][..], &size.to_be_bytes(), &[0, 0]].concat();
    let bodies = bodies.iter().flat_map(|body| frame(BODY, channel, body.as_bytes()));
    frame(HEADER, channel, &header).into_iter().chain(bodies).collect()
}

fn publish(channel: u16, body: &str) -> Vec<u8> {
    [method(channel, 60, 40, b"\0\0\0\x01q\0"), content(channel, &[body])].concat()
}

/// `basic.ack` (80) or `basic.nack` (120).
fn settle(channel: u16, number: u16, tag: u64, several: bool) -> Vec<u8> {
    method(channel, 60, number, &[&tag.to_be_bytes()[..], &[u8::from(several)]].concat())
}

fn amqp(parts: &[(Side, Vec<u8>)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    play(Carrier::Stream, 5672, &parts)
}

#[test]
fn a_connection_is_opened_and_closed_by_questions_of_both_sides() {
    let transcript = amqp(&[
        (C, b"AMQP\0\0\x09\x01".to_vec()),
        (S, method(0, 10, 10, b"\0\x09")),
        (C, method(0, 10, 11, b"")),
        (S, method(0, 10, 30, &[0; 8])),
        (C, [method(0, 10, 31, &[0; 8]), method(0, 10, 40, b"\x01/\0\0")].concat()),
        (S, [method(0, 10, 41, b"\0"), frame(HEARTBEAT, 0, b"")].concat()),
        (C, method(1, 20, 10, b"\0")),
        (S, method(1, 20, 11, &[0; 4])),
        (C, method(0, 10, 50, b"\0\xc8\0\0\0\0\0")),
        (S, method(0, 10, 51, b"")),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "! AMQP",
            "connection.start -> connection.start-ok",
            "connection.tune -> connection.tune-ok",
            "connection.open -> connection.open-ok",
            "! heartbeat",
            "channel.open -> channel.open-ok",
            "connection.close -> connection.close-ok"
        ]
    );
}

#[test]
fn methods_are_answered_in_the_order_of_their_channel() {
    let declare = b"\0\0\x01q\0\0\0\0\0";
    let silent = b"\0\0\x01q\x10\0\0\0\0";
    let transcript = amqp(&[
        (
            C,
            [
                method(1, 50, 10, declare),
                method(2, 60, 10, &[0; 7]),
                method(1, 50, 10, silent),
                method(1, 60, 70, b"\0\0\x01q\0"),
            ]
            .concat(),
        ),
        (
            S,
            [
                method(2, 60, 11, b""),
                method(1, 50, 11, b"\x01q"),
                method(1, 60, 71, &[0; 13]),
                content(1, &["plm1:d0:5;"]),
            ]
            .concat(),
        ),
        (C, method(1, 60, 70, b"\0\0\x01q\0")),
        (S, method(1, 60, 72, b"\0")),
        (S, method(1, 60, 11, b"")),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "queue.declare one-way",
            "basic.qos -> basic.qos-ok",
            "queue.declare -> queue.declare-ok",
            "basic.get -> basic.get-ok",
            "basic.get -> basic.get-empty",
            "? basic.qos-ok"
        ]
    );
    assert_eq!(transcript.markers, [(S, 5)]);
}

#[test]
fn publishing_is_one_way_until_confirms_are_asked_for() {
    let transcript = amqp(&[
        (C, [publish(1, "plm1:d0:1;"), method(1, 85, 10, b"\0")].concat()),
        (S, method(1, 85, 11, b"")),
        (C, (0..5).flat_map(|_| publish(1, "x")).collect()),
        (S, [settle(1, 80, 2, false), settle(1, 80, 3, true), settle(1, 120, 4, false)].concat()),
        (S, settle(1, 80, 5, false)),
        (C, settle(1, 80, 1, false)),
    ]);
    let expected = [
        "basic.publish one-way",
        "confirm.select -> confirm.select-ok",
        "basic.publish -> basic.ack",
        "basic.publish -> basic.ack",
        "basic.publish -> basic.ack",
        "basic.publish -> basic.nack",
        "basic.publish -> basic.ack",
        "! basic.ack",
    ];
    assert_eq!(transcript.lines, expected);
}

#[test]
fn confirms_are_found_out_where_the_beginning_is_missing() {
    let transcript = amqp(&[
        (C, publish(1, "before")),
        (S, settle(1, 80, 71, false)),
        (C, publish(1, "one")),
        (S, settle(1, 80, 72, false)),
        (C, [publish(1, "two"), publish(1, "three")].concat()),
        (S, settle(1, 80, 74, true)),
        // One that was not seen: from here on, the numbers are not known.
        (C, [publish(1, "four"), publish(1, "five")].concat()),
        (S, settle(1, 80, 78, false)),
        (C, publish(1, "six")),
        (S, settle(1, 80, 79, false)),
    ]);
    let (way, ack) = ("basic.publish one-way", "basic.publish -> basic.ack");
    assert_eq!(transcript.lines, [way, "! basic.ack", ack, ack, ack, way, way, "! basic.ack", ack]);
}

#[test]
fn what_is_delivered_or_returned_is_a_notice() {
    let deliver = [method(1, 60, 60, &[0; 12]), content(1, &["plm1:d0:", "1;", ""])].concat();
    let transcript = amqp(&[
        (S, [deliver, method(1, 60, 50, &[0; 6]), content(1, &[])].concat()),
        (C, settle(1, 80, 1, false)),
        (C, method(1, 60, 90, &[0; 9])),
    ]);
    // An empty body ends a content that has ended already: it is worth nothing.
    assert_eq!(transcript.lines, ["! basic.deliver", "! basic.return", "! basic.ack", "! basic.reject"]);
}

#[test]
fn a_channel_closed_by_the_server_fails_the_question() {
    let transcript = amqp(&[
        (C, method(1, 50, 10, b"\0\0\x01q\x01\0\0\0\0")),
        (S, method(1, 20, 40, b"\x01\x94\0\0\x32\0\x0a")),
        (C, method(1, 20, 41, b"")),
    ]);
    assert_eq!(transcript.lines, ["queue.declare -> 404", "channel.close -> channel.close-ok"]);
}

#[test]
fn publishings_of_several_channels_interleave() {
    let transcript = amqp(&[(
        C,
        [
            method(1, 60, 40, b"\0\0\0\0\0"),
            method(2, 60, 40, b"\0\0\0\0\0"),
            content(2, &["two"]),
            content(1, &["one", "more"]),
        ]
        .concat(),
    )]);
    assert_eq!(transcript.lines, ["basic.publish one-way", "basic.publish one-way"]);
}

#[test]
fn a_large_body_is_passed_and_its_marker_found() {
    let body = format!("{}plm1:d0:1;", "x".repeat(100_000));
    let said = [method(1, 60, 40, b"\0\0\0\0\0"), content(1, &[&body, &body, &body])].concat();
    let transcript = once(Carrier::Stream, 5672, &[(C, &said)], 1460);
    assert_eq!(transcript.lines, ["basic.publish one-way"]);
    assert_eq!(transcript.markers, [(C, 1)]);
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    for (bytes, reason) in [
        (b"\x01\0\x01\xff\xff\xff\xff".to_vec(), "a frame of no known type or of a size that none has"),
        (b"\x07\0\x01\0\0\0\x01".to_vec(), "a frame of no known type or of a size that none has"),
        (b"\x08\0\0\0\0\0\0\0".to_vec(), "a frame that does not end where its size says"),
        (b"\x03\0\0\0\0\0\x01x\0".to_vec(), "a frame that does not end where its size says"),
        (frame(METHOD, 1, b"\0"), "a method without its number"),
        (method(1, 99, 1, b""), "a method that is not known"),
        (frame(HEADER, 1, b"\0\x3c"), "a header without a size"),
        (b"AMQQ\0\0\0\0".to_vec(), "neither a frame nor the name of the protocol"),
    ] {
        let transcript = amqp(&[(C, frame(HEARTBEAT, 0, b"")), (C, bytes.clone())]);
        assert_eq!(transcript.lines, ["! heartbeat".into(), format!("breach: {reason}")], "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(5672, &[(C, &frame(HEARTBEAT, 0, b"")), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..150, byte in any::<u8>(), cut in 0_usize..60) {
        let mut told = [method(1, 85, 10, b"\0"), publish(1, "hello"), publish(2, ""), settle(1, 80, 3, true)].concat();
        if let Some(place) = told.get_mut(at) {
            *place = byte;
        }
        told.truncate(told.len() - cut.min(told.len()));
        survive(5672, &[(C, &told), (S, &settle(1, 80, 7, true)), (S, &told)]);
    }
}

#[test]
fn messages_are_got_and_delivered() {
    let got =
        [method(1, 60, 71, &[&[0; 9][..], b"\0\0\0\0\0\0"].concat()), content(1, &["plm1:d0:5;"])].concat();
    let transcript = amqp(&[(C, method(1, 60, 70, b"\0\0\x01q\0")), (S, got)]);
    assert_eq!(transcript.manners(), [(5, "taken")], "{:?}", transcript.lines);
    let deliver =
        [method(1, 60, 60, b"\x01c\0\0\0\0\0\0\0\x01\0\0\x01q"), content(1, &["plm1:d0:5;"])].concat();
    let transcript = amqp(&[(C, publish(1, "plm1:d0:5;")), (S, deliver)]);
    assert_eq!(transcript.manners(), [(5, "handed"), (5, "handed")], "{:?}", transcript.lines);
}

#[test]
fn what_a_client_publishes_is_told_with_its_routing_key() {
    let routed =
        [method(1, 60, 40, b"\0\0\x09amq.topic\x0acity.7.tmp\0"), content(1, &["four", "five!"])].concat();
    let bind = method(1, 50, 20, b"\0\0\x01q\x09amq.topic\x06city.#\0\0\0\0\0");
    let deliver = [method(1, 60, 60, b"\x01c\0\0\0\0\0\0\0\x01\0\0\x01q"), content(1, &["x"])].concat();
    let actions = amqp(&[(C, b"AMQP\0\0\x09\x01".to_vec()), (C, bind), (C, routed), (S, deliver)]).actions();
    assert_eq!(actions, ["subscribe city.# q0", "publish PUBLISH city.7.tmp q0 9 B", "receive"]);
}
