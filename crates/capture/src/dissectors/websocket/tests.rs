use crate::conversation::{Conversation, DissectionContext, Opening};
use crate::dissect::Carrier;
use crate::marker::{Form, Search};
use crate::observations::{ConversationId, Observations};
use crate::script::{Transcript, once, play, survives};
use crate::side::Side;
use crate::tls::keys::Keys;
use flate2::{Compress, Compression, FlushCompress};
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Outcome, SharedId, WireProtocol};

const C: Side = Side::Client;
const S: Side = Side::Server;
const ASK: &[u8] = b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const MASK: [u8; 4] = [0x12, 0xF3, 0x56, 0x07];

/// A frame with that first byte, masked where the client says it.
fn frame(side: Side, first: u8, content: &[u8]) -> Vec<u8> {
    let masked = if side == C { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match content.len() {
        0..126 => bytes.push(masked | content.len() as u8),
        126..65536 => {
            bytes.push(masked | 126);
            bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
        }
        _ => {
            bytes.push(masked | 127);
            bytes.extend_from_slice(&(content.len() as u64).to_be_bytes());
        }
    }
    if side == C {
        bytes.extend_from_slice(&MASK);
        bytes.extend(content.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    } else {
        bytes.extend_from_slice(content);
    }
    bytes
}

fn transcript_of(frames: &[(Side, u8, &[u8])]) -> Transcript {
    let frames: Vec<_> =
        frames.iter().map(|&(side, first, content)| (side, frame(side, first, content))).collect();
    let opening = [(C, ASK), (S, SWITCH)];
    let parts: Vec<_> =
        opening.into_iter().chain(frames.iter().map(|(side, bytes)| (*side, bytes.as_slice()))).collect();
    play(Carrier::Stream, 8080, &parts)
}

/// What stays when the handshake is taken away.
fn lines(transcript: &Transcript) -> Vec<&str> {
    assert_eq!(transcript.lines[0], "GET -> 101");
    transcript.lines[1..].iter().map(String::as_str).collect()
}

/// Some applications answer in any order, and not all: what both messages carry tells which belong together.
#[test]
fn responses_find_their_requests_by_an_id_that_both_carry() {
    let search = Search::new(vec![Form::Shared(SharedId::parse("\"id\":\"{id}\"").unwrap())]);
    let said: [(Side, i64, &[u8]); 6] = [
        (C, 1, b"{\"id\":\"a\",\"do\":1}"),
        (C, 2, b"{\"id\":\"b\",\"do\":2}"),
        (C, 3, b"{\"id\":\"c\",\"do\":3}"),
        (S, 10, b"{\"ok\":3,\"id\":\"c\"}"),
        (S, 21, b"{\"ok\":1,\"id\":\"a\"}"),
        (S, 30, b"{\"event\":7}"),
    ];
    // Whole, and in pieces of three bytes.
    for size in [usize::MAX, 3] {
        let mut observations = Observations::default();
        let mut context =
            DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
        let mut conversation =
            Conversation::new(ConversationId(0), Carrier::Stream, [50_000, 8080], Opening::Seen(0));
        conversation.data(0, Nanos(0), ASK, &mut context);
        conversation.data(1, Nanos(0), SWITCH, &mut context);
        for (side, at, content) in said {
            let bytes = frame(side, 0x81, content);
            for piece in bytes.chunks(size.min(bytes.len())) {
                conversation.data(side.index(), Nanos::from_millis(at), piece, &mut context);
            }
        }
        conversation.end(&mut context);
        let found: Vec<(Outcome, i64)> = observations.exchanges[1..]
            .iter()
            .map(|one| {
                (
                    one.outcome,
                    one.response.map_or(0, |response| (response.last - one.request.last).0 / 1_000_000),
                )
            })
            .collect();
        assert_eq!(
            found,
            [(Outcome::Answered, 7), (Outcome::Answered, 20), (Outcome::Unanswered, 0)],
            "{size}"
        );
        assert_eq!(observations.notices.iter().filter(|notice| notice.unexpected).count(), 1, "the event");
        assert!(observations.sightings.is_empty(), "ids are nobody's messages");
    }
}

#[test]
fn messages_answer_in_order_where_none_has_a_marker() {
    let transcript = transcript_of(&[
        (C, 0x81, b"one"),
        (C, 0x82, b"two"),
        (S, 0x81, b"first"),
        (S, 0x82, &[7; 70_000]),
        (C, 0x81, b""),
        (C, 0x88, b"\x03\xe8"),
        (S, 0x88, b"\x03\xe8"),
    ]);
    assert_eq!(
        lines(&transcript),
        ["TEXT -> TEXT", "BINARY -> BINARY", "TEXT unanswered", "! CLOSE", "! CLOSE"]
    );
    assert_eq!(transcript.protocol, WireProtocol::WebSocket);
}

#[test]
fn messages_with_markers_are_answered_by_them() {
    let transcript = transcript_of(&[
        (C, 0x81, b"a plm1:d:1; x"),
        (C, 0x81, b"b plm1:d:2; x"),
        (C, 0x81, b"nothing"),
        (S, 0x81, b"re plm1:d:2;"),
        (S, 0x81, b"re plm1:d:2; again"),
        (S, 0x81, b"something"),
    ]);
    assert_eq!(lines(&transcript), ["TEXT unanswered", "TEXT -> TEXT", "TEXT -> TEXT", "? TEXT"]);
    assert_eq!(transcript.markers, [(C, 1), (C, 2), (S, 2), (S, 2)]);
}

#[test]
fn fragments_are_one_message_and_control_frames_stand_between() {
    let transcript = transcript_of(&[
        (C, 0x01, b"here is plm1"),
        (C, 0x89, b"hi"),
        (C, 0x00, b":d:4"),
        (C, 0x80, b"2;"),
        (S, 0x01, b"answer to plm1:"),
        (S, 0x8A, b"hi"),
        (S, 0x80, b"d:42; it is"),
    ]);
    assert_eq!(lines(&transcript), ["TEXT -> TEXT", "! PING", "! PONG"]);
    assert_eq!(transcript.markers, [(C, 42), (S, 42)]);
    let exchange = transcript.observations.exchanges.last().unwrap();
    assert_eq!((exchange.request.bytes, exchange.response.unwrap().bytes), (18 + 10 + 8, 17 + 13));
}

#[test]
fn compressed_messages_are_opened_with_their_common_window() {
    let mut compress = Compress::new(Compression::best(), false);
    let mut packed = |text: &str| {
        let mut bytes = Vec::with_capacity(1000);
        compress.compress_vec(text.as_bytes(), &mut bytes, FlushCompress::Sync).unwrap();
        bytes.truncate(bytes.len() - 4);
        bytes
    };
    let messages =
        [packed("a long text with plm1:dev:1; inside"), packed("a long text with plm1:dev:2; inside")];
    assert!(messages[1].len() < messages[0].len() / 2, "the second refers to the first");
    let transcript =
        transcript_of(&[(C, 0xC1, &messages[0]), (S, 0xC1, &messages[0]), (S, 0xC1, &messages[1])]);
    assert_eq!(lines(&transcript), ["TEXT -> TEXT", "? TEXT"]);
    assert_eq!(transcript.markers, [(C, 1), (S, 1), (S, 2)]);
}

const CONNECT: &[u8] = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd";

#[test]
fn mqtt_inside_is_read_across_frames() {
    let long = [b"\x32\xBC\x02\0\x03a/b\0\x07plm1:d:5;".as_slice(), &[b'.'; 300]].concat();
    let transcript = transcript_of(&[
        (C, 0x82, CONNECT),
        (S, 0x82, b"\x20\x02\0\0"),
        (C, 0x02, b"\x30\x07\0\x03a/bxy\x32\x09\0\x03a/b\0\x06"),
        (C, 0x80, b"xy"),
        (C, 0x82, &long[..20]),
        (C, 0x82, &long[20..]),
        (S, 0x82, b"\x40\x02\0\x06\x40\x02\0\x07"),
    ]);
    assert_eq!(
        lines(&transcript),
        ["CONNECT -> CONNACK", "PUBLISH one-way", "PUBLISH -> PUBACK", "PUBLISH -> PUBACK"]
    );
    assert_eq!(transcript.protocol, WireProtocol::Mqtt);
    assert_eq!(transcript.markers, [(C, 5)]);
}

#[test]
fn a_stream_is_taken_up_in_its_middle() {
    let (ask, answer) = (frame(C, 0x81, b"a question"), frame(S, 0x81, b"an answer"));
    let parts: [(Side, &[u8]); 4] = [(S, b"and so on"), (C, b"rest"), (C, &ask), (S, &answer)];
    let transcript = once(Carrier::Stream, 8080, &parts, usize::MAX);
    assert_eq!(transcript.lines, ["TEXT -> TEXT"]);
}

#[test]
fn hostile_bytes_are_called_what_they_are() {
    let reserved = frame(C, 0xB1, b"abc");
    let continued = frame(C, 0x80, b"abc");
    let interrupted = [frame(C, 0x01, b"abc"), frame(C, 0x81, b"abc")].concat();
    let broken = [frame(C, 0x82, CONNECT), frame(C, 0x82, b"\x36\0")].concat();
    for (bytes, wanted) in [
        (reserved, "breach: a frame with reserved bits"),
        (continued, "breach: a message without a beginning"),
        (interrupted, "breach: a message before the end of another"),
        (frame(S, 0x81, b"abc"), "breach: a frame whose mask is missing or should not be there"),
        (broken, "breach: a packet with a type or flags that do not exist"),
    ] {
        let parts = [(C, ASK), (S, SWITCH), (C, bytes.as_slice())];
        let lines = once(Carrier::Stream, 8080, &parts, usize::MAX).lines;
        assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:?}");
    }
    // A length that nobody can keep is passed, not kept.
    let mut endless = vec![0x82, 0xFF, 0x7F];
    endless.extend_from_slice(&[0xFF; 7 + 4]);
    endless.extend_from_slice(&[9; 100]);
    let parts = [(C, ASK), (S, SWITCH), (C, endless.as_slice())];
    assert_eq!(play(Carrier::Stream, 8080, &parts).lines, ["GET -> 101"]);
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let frames: Vec<_> = [
        (C, 0x82, CONNECT),
        (S, 0x82, b"\x20\x02\0\0"),
        (C, 0x02, b"\x30\x07\0\x03a/bxy\x32\x09\0\x03a/b\0\x06"),
        (C, 0x89, b"p"),
        (C, 0x80, b"xy"),
        (S, 0x82, b"\x40\x02\0\x06"),
    ]
    .into_iter()
    .map(|(side, first, content): (Side, u8, &[u8])| (side, frame(side, first, content)))
    .collect();
    let opening = [(C, ASK), (S, SWITCH)];
    let good: Vec<_> =
        opening.into_iter().chain(frames.iter().map(|(side, bytes)| (*side, bytes.as_slice()))).collect();
    survives(Carrier::Stream, 8080, &good);
    let texts = [(C, frame(C, 0xC1, &[0x4b, 0x4c, 4, 0])), (S, frame(S, 0x81, b"text"))];
    let good: Vec<_> =
        opening.into_iter().chain(texts.iter().map(|(side, bytes)| (*side, bytes.as_slice()))).collect();
    survives(Carrier::Stream, 8080, &good);
}

#[test]
fn what_a_server_says_is_pushed_unless_it_answers() {
    let transcript =
        transcript_of(&[(C, 0x81, b"plm1:d:1;"), (S, 0x81, b"plm1:d:1;"), (S, 0x81, b"plm1:d:2;")]);
    assert_eq!(transcript.manners(), [(1, "handed"), (1, "echoed"), (2, "handed")]);
}
