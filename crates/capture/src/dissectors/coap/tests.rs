use crate::dissect::Carrier;
use crate::script::{once, play, survives};
use crate::side::Side;
use plimsoll_model::Nanos;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn datagrams(parts: &[(Side, &[u8])]) -> Vec<String> {
    play(Carrier::Datagrams, 5683, parts).lines
}

#[test]
fn responses_come_with_the_acknowledgement_or_apart() {
    let parts: [(Side, &[u8]); 8] = [
        // Piggybacked.
        (C, b"\x42\x01\x00\x01aa\xb4echo"),
        (S, b"\x62\x45\x00\x01aa\xffplm1:d:1;"),
        // Apart: the acknowledgement is a sign of life.
        (C, b"\x42\x02\x00\x02bb\xb4echo\xffplm1:d:2;"),
        (S, b"\x60\x00\x00\x02"),
        (S, b"\x42\x84\x77\x01bb"),
        (C, b"\x60\x00\x77\x01"),
        // Not confirmable.
        (C, b"\x52\x03\x00\x03cc\xb4echo"),
        (S, b"\x52\x44\x77\x02cc"),
    ];
    let transcript = play(Carrier::Datagrams, 5683, &parts);
    assert_eq!(transcript.lines, ["GET -> 2.05", "POST -> 4.04", "! ACK", "! ACK", "PUT -> 2.04"]);
    assert_eq!(transcript.markers, [(S, 1), (C, 2)]);
    let apart = transcript.observations.exchanges[1];
    assert_eq!((apart.outcome.name(), apart.interim), ("failed", Some(Nanos::from_millis(4))));
}

#[test]
fn what_is_sent_again_is_counted_once() {
    let ask: &[u8] = b"\x42\x01\x00\x01aa\xb4echo";
    let answer: &[u8] = b"\x62\x45\x00\x01aa";
    let lines = datagrams(&[(C, ask), (C, ask), (S, answer), (C, ask), (S, answer)]);
    assert_eq!(lines, ["GET -> 2.05", "! retransmission", "! retransmission", "! retransmission"]);
    assert_eq!(datagrams(&[(C, ask), (C, ask)]), ["GET unanswered", "! retransmission"]);
}

#[test]
fn a_reset_ends_a_request_and_answers_a_ping() {
    let lines = datagrams(&[
        (C, b"\x42\x01\x00\x01aa\xb4echo"),
        (S, b"\x70\x00\x00\x01"),
        (C, b"\x40\x00\x00\x02"),
        (S, b"\x70\x00\x00\x02"),
    ]);
    assert_eq!(lines, ["GET -> RST", "! PING", "! RST"]);
}

#[test]
fn notifications_follow_the_first_response() {
    let lines = datagrams(&[
        (C, b"\x42\x01\x00\x01aa\x60\x53obs"),
        (S, b"\x62\x45\x00\x01aa\x60\xffx"),
        (S, b"\x52\x45\x77\x01aa\x61\x01\xffy"),
        (S, b"\x42\x45\x77\x02aa\x61\x02\xffz"),
        (C, b"\x70\x00\x77\x02"),
    ]);
    assert_eq!(lines, ["GET -> 2.05", "! notification", "! notification", "! RST"]);
}

#[test]
fn the_first_block_stands_for_its_transfer() {
    let lines = datagrams(&[
        (C, b"\x41\x01\x00\x01a\xb3big"),
        (S, b"\x61\x45\x00\x01a\xd1\x0a\x0e\xffxxx"),
        (C, b"\x41\x01\x00\x02b\xb3big\xc1\x16"),
        (S, b"\x61\x45\x00\x02b\xd1\x0a\x16\xffxxx"),
        (C, b"\x41\x03\x00\x03c\xb3big\xd1\x03\x0e\xffxxx"),
        (S, b"\x61\x5f\x00\x03c"),
        (C, b"\x41\x03\x00\x04d\xb3big\xd1\x03\x16\xffxxx"),
        (S, b"\x61\x44\x00\x04d"),
    ]);
    assert_eq!(lines, ["GET -> 2.05", "GET block -> 2.05", "PUT -> 2.31", "PUT block -> 2.04"]);
}

#[test]
fn who_wants_no_response_gets_none() {
    assert_eq!(datagrams(&[(C, b"\x52\x02\x00\x01aa\xb4echo\xd1\xea\x1a")]), ["POST one-way"]);
}

#[test]
fn a_server_may_ask_too() {
    let parts: [(Side, &[u8]); 4] = [
        (C, b"\x42\x01\x00\x01aa\xb4echo"),
        (S, b"\x62\x45\x00\x01aa"),
        (S, b"\x42\x01\x00\x01aa\xb4echo"),
        (C, b"\x62\x45\x00\x01aa"),
    ];
    let transcript = play(Carrier::Datagrams, 5683, &parts);
    let asks: Vec<_> = transcript.observations.exchanges.iter().map(|exchange| exchange.requester).collect();
    assert_eq!((transcript.lines.len(), asks), (2, vec![C, S]));
}

#[test]
fn hostile_datagrams_are_called_what_they_are() {
    for (bytes, wanted) in [
        (&b"\x49\x01\x00\x01aaaaaaaaa"[..], "breach: a token that is too long"),
        (b"\x48\x01\x00\x01aaa", "breach: a token that is longer than its message"),
        (b"\x42\x01\x00\x01aa\xb9echo", "breach: an option that is longer than its message"),
        (b"\x40\x00\x00\x01\x01", "breach: an empty message with something in it"),
        (b"\x42\xff\x00\x01aa", "breach: a code that does not exist"),
        (b"\x82\x01\x00\x01aa", "breach: a version that is not 1"),
    ] {
        let ask: &[u8] = b"\x42\x01\x00\x01aa\xb4echo";
        assert_eq!(datagrams(&[(C, ask), (C, bytes)]), ["GET unanswered", wanted]);
    }
}

const SETTINGS: &[u8] = b"\x50\xe1\x23\x10\x00\x00\x20";

#[test]
fn over_tcp_there_are_signals() {
    let lines = play(
        Carrier::Stream,
        5683,
        &[
            (C, SETTINGS),
            (C, b"\x52\x01aa\xb4echo\x52\x01bb\xb4echo"),
            (S, SETTINGS),
            (S, b"\x02\x44bb\x32\x45aa\xffok"),
            (C, b"\x01\xe2x"),
            (S, b"\x01\xe3x"),
            (S, b"\x00\x00"),
        ],
    )
    .lines;
    assert_eq!(lines, ["! CSM", "GET -> 2.04", "GET -> 2.05", "! CSM", "! PING", "! PONG"]);
}

#[test]
fn long_payloads_are_passed_and_searched() {
    let mut long = b"\xf2\x00\x00\x10\x00\x02aa\xb4echo\xff".to_vec();
    long.resize(8 + 65_805 + 4096 - 9, b'.');
    long.extend_from_slice(b"plm1:d:7;");
    let mut parts: Vec<(Side, &[u8])> = vec![(C, SETTINGS)];
    parts.extend(long.chunks(1400).map(|piece| (C, piece)));
    parts.push((S, b"\x02\x44aa"));
    let transcript = once(Carrier::Stream, 5683, &parts, usize::MAX);
    assert_eq!(transcript.lines, ["! CSM", "POST -> 2.04"]);
    assert_eq!(transcript.markers, [(C, 7)]);
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let streams: [(Side, &[u8]); 4] = [
        (C, SETTINGS),
        (C, b"\x52\x01aa\xb4echo\x52\x01bb\xb4echo"),
        (S, SETTINGS),
        (S, b"\x02\x44bb\x32\x45aa\xffok"),
    ];
    survives(Carrier::Stream, 5683, &streams);
    let datagrams: [(Side, &[u8]); 4] = [
        (C, b"\x41\x03\x00\x03c\xb3big\xd1\x03\x0e\xffxxx"),
        (S, b"\x61\x5f\x00\x03c"),
        (C, b"\x42\x01\x00\x01aa\x60\x53obs"),
        (S, b"\x62\x45\x00\x01aa\x60\xffx"),
    ];
    survives(Carrier::Datagrams, 5683, &datagrams);
}

#[test]
fn what_a_resource_holds_is_read_and_what_it_becomes_is_pushed() {
    let get: &[u8] = b"\x42\x01\x00\x01aa\x60\x54echo";
    let transcript = play(
        Carrier::Datagrams,
        5683,
        &[
            (C, get),
            (S, b"\x62\x45\x00\x01aa\x61\x01\xffplm1:d:1;"),
            (S, b"\x52\x45\x77\x02aa\x61\x02\xffplm1:d:2;"),
        ],
    );
    assert_eq!(transcript.manners(), [(1, "answered"), (2, "handed")], "{:?}", transcript.lines);
}

#[test]
fn what_a_client_sends_is_told_with_its_path_and_size() {
    let parts: [(Side, &[u8]); 5] = [
        (C, b"\x42\x02\x00\x01aa\xb1a\x01b\x43k=1\xffpay"),
        // Sent again.
        (C, b"\x42\x02\x00\x01aa\xb1a\x01b\x43k=1\xffpay"),
        (C, b"\x52\x03\x00\x02bb\xb1a"),
        // Two blocks of 16 bytes, the second one short: Block1 numbers 0 (more) and 1.
        (C, b"\x42\x03\x00\x03cc\xb1a\xd1\x03\x08\xff0123456789abcdef"),
        (C, b"\x42\x03\x00\x04dd\xb1a\xd1\x03\x10\xffxy"),
    ];
    assert_eq!(
        play(Carrier::Datagrams, 5683, &parts).actions(),
        ["publish POST /a/b?k=1 q1 3 B", "publish PUT /a q0 0 B", "publish PUT /a q1 18 B"]
    );
}

#[test]
fn over_tcp_the_same_is_told() {
    // CSM, then a POST of 5 + 3 bytes without a token.
    let parts: [(Side, &[u8]); 2] = [(C, b"\0\xe1"), (C, b"\x80\x02\xb3abc\xffpay")];
    assert_eq!(play(Carrier::Stream, 5683, &parts).actions(), ["publish POST /abc q1 3 B"]);
}
