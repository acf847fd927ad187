use super::frame::PREFACE;
use crate::dissect::Carrier;
use crate::script::{once, play, survives};
use crate::side::Side;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;

const C: Side = Side::Client;
const S: Side = Side::Server;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// END_HEADERS, END_STREAM.
const FIELDS: u8 = 4;
const LAST: u8 = 1;

const GET: &[u8] = b"\x82\x86\x84";
const POST: &[u8] = b"\x83\x86\x84";
const CALL: &[u8] = b"\x83\x86\x44\x0d/pkg.Svc/Call\x5f\x10application/grpc";
const OK: &[u8] = b"\x88";
const TRAILERS: &[u8] = b"\x40\x0bgrpc-status\x010";

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// A conversation, its beginning put before it.
fn begun(frames: &[(Side, Vec<u8>)]) -> Vec<(Side, Vec<u8>)> {
    let mut parts = vec![
        (C, [PREFACE.as_slice(), &frame(SETTINGS, 0, 0, b"\0\x04\0\0\xff\xff")].concat()),
        (S, frame(SETTINGS, 0, 0, b"")),
    ];
    parts.extend_from_slice(frames);
    parts
}

fn borrowed(parts: &[(Side, Vec<u8>)]) -> Vec<(Side, &[u8])> {
    parts.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect()
}

fn lines_of(frames: &[(Side, Vec<u8>)]) -> Vec<String> {
    let transcript = play(Carrier::Stream, 8080, &borrowed(&begun(frames)));
    assert_eq!(transcript.protocol, WireProtocol::Http2);
    assert_eq!(transcript.lines[..2], ["! SETTINGS", "! SETTINGS"]);
    transcript.lines[2..].to_vec()
}

#[test]
fn streams_are_answered_in_any_order() {
    let lines = lines_of(&[
        (C, frame(HEADERS, FIELDS | LAST, 1, GET)),
        (C, frame(HEADERS, FIELDS, 3, POST)),
        (C, frame(DATA, LAST, 3, b"content")),
        (S, frame(HEADERS, FIELDS, 3, b"\x8d")),
        (S, frame(DATA, LAST, 3, b"no")),
        (S, frame(HEADERS, FIELDS, 1, OK)),
        (S, frame(DATA, 0, 1, b"some")),
        (S, frame(DATA, LAST, 1, b"")),
        (C, frame(HEADERS, FIELDS | LAST, 5, GET)),
    ]);
    assert_eq!(lines, ["GET -> 200", "POST -> 404", "GET unanswered"]);
}

#[test]
fn parts_of_messages_stand_between_those_of_others() {
    let parts = begun(&[
        (C, frame(HEADERS, FIELDS, 1, POST)),
        (C, frame(HEADERS, FIELDS, 3, POST)),
        (C, frame(DATA, 0, 1, b"plm1:d:1;")),
        (C, frame(DATA, LAST, 3, b"plm1:d:3;")),
        (C, frame(DATA, LAST, 1, b"end")),
        (S, frame(HEADERS, FIELDS, 1, OK)),
        (S, frame(HEADERS, FIELDS, 3, OK)),
        (S, frame(DATA, LAST, 3, b"three")),
        (S, frame(DATA, LAST, 1, b"one")),
    ]);
    let transcript = play(Carrier::Stream, 8080, &borrowed(&parts));
    let millis = Nanos::from_millis;
    let [three, one] = transcript.observations.exchanges[..] else { panic!("{:?}", transcript.lines) };
    assert_eq!(
        (one.request.first, one.request.last, one.request.bytes),
        (millis(3), millis(7), 12 + 18 + 12)
    );
    assert_eq!((one.interim, one.response.map(|span| span.last)), (Some(millis(8)), Some(millis(11))));
    assert_eq!((three.request.first, three.request.bytes), (millis(4), 12 + 18));
    assert_eq!(three.response.map(|span| (span.first, span.bytes)), Some((millis(9), 10 + 14)));
    assert_eq!(
        [one, three].map(|exchange| exchange.marker.map(|marker| marker.sequence)),
        [Some(1), Some(3)]
    );
}

#[test]
fn calls_of_grpc_have_their_own_names_and_statuses() {
    let lines = lines_of(&[
        (C, frame(HEADERS, FIELDS, 1, CALL)),
        (C, frame(DATA, LAST, 1, b"\0\0\0\0\x01x")),
        (S, frame(HEADERS, FIELDS, 1, OK)),
        (S, frame(DATA, 0, 1, b"\0\0\0\0\x01y")),
        (S, frame(HEADERS, FIELDS | LAST, 1, TRAILERS)),
        // Names and values out of the tables.
        (C, frame(HEADERS, FIELDS | LAST, 3, b"\x83\x86\xbf\xbe")),
        (S, frame(HEADERS, FIELDS | LAST, 3, b"\x88\x0f\x2f\x0214")),
    ]);
    assert_eq!(lines, ["Call -> OK", "Call -> UNAVAILABLE"]);
}

#[test]
fn what_a_client_sends_is_told_with_its_path_and_size() {
    const TO_7: &[u8] = b"\x83\x86\x44\x05/in/7";
    let parts = begun(&[
        (C, frame(HEADERS, FIELDS, 1, TO_7)),
        // The path out of the table, and a method that is written out.
        (C, frame(HEADERS, FIELDS, 3, b"\x02\x03PUT\x86\xbe")),
        (C, frame(DATA, 0, 1, b"abc")),
        // Two bytes of padding and the one that says so.
        (C, frame(DATA, LAST | 8, 3, b"\x02abcde\0\0")),
        (C, frame(DATA, LAST, 1, &[0; 5_000])),
        (C, frame(HEADERS, FIELDS | LAST, 5, GET)),
        (C, frame(HEADERS, FIELDS, 7, CALL)),
        (C, frame(DATA, LAST, 7, b"\0\0\0\0\x01x")),
        (C, frame(HEADERS, FIELDS, 9, b"\x83\x86\x84")),
        (C, frame(RST_STREAM, 0, 9, &[0, 0, 0, 8])),
    ]);
    let actions = play(Carrier::Stream, 8080, &borrowed(&parts)).actions();
    assert_eq!(actions, ["publish PUT /in/7 q1 5 B", "publish POST /in/7 q1 5003 B"]);
}

#[test]
fn a_stream_may_be_answered_before_its_request_ends() {
    let lines = lines_of(&[
        (C, frame(HEADERS, FIELDS, 1, POST)),
        (C, frame(DATA, 0, 1, b"some")),
        (S, frame(HEADERS, FIELDS | LAST, 1, b"\x8e")),
        (C, frame(DATA, LAST, 1, b"more")),
        (C, frame(HEADERS, FIELDS, 3, POST)),
        (S, frame(RST_STREAM, 0, 3, &[0, 0, 0, 2])),
        (C, frame(HEADERS, FIELDS | LAST, 5, GET)),
        (C, frame(RST_STREAM, 0, 5, &[0, 0, 0, 8])),
    ]);
    assert_eq!(lines, ["POST -> 500", "POST -> RST_STREAM", "GET unanswered", "! RST_STREAM"]);
}

#[test]
fn fields_go_on_in_other_frames_and_may_be_padded() {
    let lines = lines_of(&[
        (C, frame(HEADERS, LAST, 1, &CALL[..5])),
        (C, frame(CONTINUATION, 0, 1, &CALL[5..9])),
        (C, frame(CONTINUATION, FIELDS, 1, &CALL[9..])),
        (S, frame(HEADERS, FIELDS, 1, b"\x48\x03100")),
        (S, frame(HEADERS, FIELDS | LAST | 8 | 0x20, 1, b"\x02\0\0\0\0\x10\x88\0\0")),
    ]);
    assert_eq!(lines, ["Call -> 200", "! 100"]);
}

#[test]
fn a_stream_is_taken_up_in_its_middle() {
    let parts = [
        (S, b"rest of something".to_vec()),
        (C, frame(HEADERS, FIELDS | LAST, 7, b"\x82\xbe\xc0")),
        (S, frame(HEADERS, FIELDS | LAST, 7, b"\x88\xc1")),
        (C, frame(HEADERS, FIELDS | LAST, 9, b"\x86\xbe\xc0")),
        (S, frame(HEADERS, FIELDS | LAST, 9, b"\xbe")),
    ];
    let transcript = once(Carrier::Stream, 9999, &borrowed(&parts), usize::MAX);
    assert_eq!(transcript.lines, ["GET -> 200", "? -> ?"]);
    let call = [(C, frame(DATA, 0, 7, b"\0\0\0\0\x05hello"))];
    assert_eq!(once(Carrier::Stream, 9999, &borrowed(&call), usize::MAX).protocol, WireProtocol::Http2);
}

#[test]
fn hostile_bytes_are_called_what_they_are() {
    for (bytes, wanted) in [
        (frame(HEADERS, FIELDS, 0, GET), "breach: a frame on a stream on which it cannot be"),
        (frame(RST_STREAM, 0, 1, b"abc"), "breach: a frame of a wrong length"),
        (frame(CONTINUATION, FIELDS, 1, GET), "breach: fields that do not go on where they must"),
        (frame(HEADERS, FIELDS | 8, 1, b"\xff\x82"), "breach: a frame that is too short"),
        (frame(HEADERS, FIELDS, 1, b"\xff\xff\xff\x7f"), "breach: a field that is not in the table"),
        (frame(HEADERS, FIELDS, 1, b"\x3f\xff\xff\xff\x7f"), "breach: a table of fields that is too large"),
        (frame(HEADERS, FIELDS, 1, b"\x41\x7fabc"), "breach: a text that is longer than its block"),
    ] {
        let parts = begun(&[(C, bytes)]);
        let lines = once(Carrier::Stream, 8080, &borrowed(&parts), usize::MAX).lines;
        assert_eq!(lines[2..], [wanted]);
    }
    // Of fields without end, no more is kept than can be meant.
    let mut parts = begun(&[(C, frame(HEADERS, 0, 1, GET))]);
    parts.extend((0..20).map(|_| (C, frame(CONTINUATION, 0, 1, &[0x82; 16_000]))));
    let lines = once(Carrier::Stream, 8080, &borrowed(&parts), usize::MAX).lines;
    assert_eq!(lines[2], "breach: fields that go on elsewhere, or without end");
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let good = begun(&[
        (C, frame(HEADERS, FIELDS, 1, CALL)),
        (C, frame(DATA, LAST, 1, b"\0\0\0\0\x01x")),
        (S, frame(HEADERS, FIELDS, 1, OK)),
        (C, frame(HEADERS, 0, 3, b"\x83\x86")),
        (C, frame(CONTINUATION, FIELDS, 3, b"\xbe\xbf")),
        (S, frame(HEADERS, FIELDS | LAST, 1, TRAILERS)),
        (S, frame(RST_STREAM, 0, 3, &[0; 4])),
    ]);
    survives(Carrier::Stream, 8080, &borrowed(&good));
}
