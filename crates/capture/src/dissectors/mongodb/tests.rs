use super::{COMPRESSED, DELETE, GET_MORE, INSERT, KILL_CURSORS, MSG, QUERY, REPLY};
use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use plimsoll_codec::packing::{Packing, pack};
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn message(id: u32, answers: u32, operation: u32, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32 + 16;
    [&length.to_le_bytes()[..], &id.to_le_bytes(), &answers.to_le_bytes(), &operation.to_le_bytes(), content]
        .concat()
}

/// A document: names, types and values.
fn document(elements: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let elements: Vec<u8> = elements
        .iter()
        .flat_map(|(name, kind, value)| [&[*kind], name.as_bytes(), b"\0", value].concat())
        .collect();
    [&(elements.len() as u32 + 5).to_le_bytes()[..], &elements, b"\0"].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32 + 1).to_le_bytes()[..], text.as_bytes(), b"\0"].concat()
}

fn content(flags: u32, body: &[u8]) -> Vec<u8> {
    [&flags.to_le_bytes()[..], b"\0", body].concat()
}

fn find(id: u32) -> Vec<u8> {
    message(id, 0, MSG, &content(0, &document(&[("find", 2, &text("plm1:d0:1;"))])))
}

fn reply(answers: u32, elements: &[(&str, u8, &[u8])]) -> Vec<u8> {
    message(900 + answers, answers, MSG, &content(0, &document(elements)))
}

fn ok() -> Vec<u8> {
    1.0_f64.to_le_bytes().to_vec()
}

fn mongodb(parts: &[(Side, Vec<u8>)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    play(Carrier::Stream, 27017, &parts)
}

#[test]
fn responses_carry_the_number_of_their_request() {
    let batch = document(&[("id", 16, &[0; 4])]);
    let cursor = document(&[("firstBatch", 4, &batch), ("id", 18, &[0; 8])]);
    let transcript = mongodb(&[
        (C, [find(1), find(2), find(3), find(4)].concat()),
        (S, reply(2, &[("cursor", 3, &cursor), ("ok", 1, &ok())])),
        (
            S,
            reply(
                1,
                &[
                    ("ok", 1, &[0; 8]),
                    ("code", 16, &59_i32.to_le_bytes()),
                    ("codeName", 2, &text("NoCommand")),
                ],
            ),
        ),
        (S, reply(3, &[("n", 16, &[1, 0, 0, 0]), ("writeErrors", 4, &batch), ("ok", 16, &[1, 0, 0, 0])])),
        (S, reply(7, &[("ok", 8, &[1])])),
    ]);
    assert_eq!(
        transcript.lines,
        ["find -> ok", "find -> NoCommand", "find -> writeErrors", "find unanswered", "? ok"]
    );
    assert_eq!(transcript.markers, [(C, 1); 4]);
}

#[test]
fn documents_in_a_sequence_come_before_or_after_the_body() {
    let body = [b"\0".to_vec(), document(&[("insert", 2, &text("c"))])].concat();
    let documents = [&b"documents\0"[..], &document(&[("x", 2, &text("plm1:d0:2;"))])].concat();
    let sequence = [&[1][..], &(documents.len() as u32 + 4).to_le_bytes(), &documents].concat();
    let checksum = [7; 4];
    let after = [&1_u32.to_le_bytes()[..], &body, &sequence, &checksum].concat();
    let before = [&1_u32.to_le_bytes()[..], &sequence, &body, &checksum].concat();
    let transcript = mongodb(&[(C, [message(1, 0, MSG, &after), message(2, 0, MSG, &before)].concat())]);
    assert_eq!(transcript.lines, ["insert unanswered", "insert unanswered"]);
    assert_eq!(transcript.markers, [(C, 2), (C, 2)]);
}

#[test]
fn more_to_come_asks_for_no_answer_and_promises_more() {
    let insert = content(2, &document(&[("insert", 2, &text("c"))]));
    let hello = content(1 << 16, &document(&[("hello", 16, &[1, 0, 0, 0])]));
    let more =
        |id, answers, flags| message(id, answers, MSG, &content(flags, &document(&[("ok", 1, &ok())])));
    let transcript = mongodb(&[
        (C, [message(1, 0, MSG, &insert), message(2, 0, MSG, &hello)].concat()),
        (S, [more(10, 2, 2), more(11, 10, 2), more(12, 11, 0), more(13, 12, 0)].concat()),
    ]);
    assert_eq!(transcript.lines, ["insert one-way", "hello -> ok", "! OP_MSG", "! OP_MSG", "? ok"]);
}

#[test]
fn messages_of_old_are_known() {
    let query = |name: &str, document: &[u8]| [&[0; 4][..], name.as_bytes(), &[0; 9], document].concat();
    let wrapped = document(&[("$query", 3, &document(&[("isMaster", 16, &[1, 0, 0, 0])]))]);
    let plain = document(&[("ismaster", 16, &[1, 0, 0, 0])]);
    let told =
        |flags: u8, document: &[u8]| [&[flags, 0, 0, 0][..], &[0; 12], &[1, 0, 0, 0], document].concat();
    let transcript = mongodb(&[
        (C, message(1, 0, QUERY, &query("admin.$cmd", &plain))),
        (S, message(9, 1, REPLY, &told(8, &document(&[("ok", 1, &ok())])))),
        (C, message(2, 0, QUERY, &query("admin.$cmd", &wrapped))),
        (S, message(9, 2, REPLY, &told(2, &document(&[("$err", 2, &text("no"))])))),
        (C, message(3, 0, QUERY, &query("db.things", &plain))),
        (C, message(4, 0, GET_MORE, &[&[0; 4][..], b"db.things\0", &[0; 12]].concat())),
        (S, message(9, 4, REPLY, &told(1, &[]))),
        (C, message(5, 0, INSERT, &[&[0; 4][..], b"db.things\0", &plain].concat())),
        (C, message(6, 0, DELETE, &[&[0; 4][..], b"db.things\0", &plain].concat())),
        (C, message(7, 0, KILL_CURSORS, &[0; 16])),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "ismaster -> ok",
            "isMaster -> error",
            "OP_QUERY unanswered",
            "OP_GET_MORE -> CursorNotFound",
            "OP_INSERT one-way",
            "OP_DELETE one-way",
            "OP_KILL_CURSORS one-way"
        ]
    );
}

#[test]
fn compressed_messages_are_opened() {
    let body = content(0, &document(&[("insert", 2, &text(&format!("{}plm1:d0:3;", "x".repeat(500))))]));
    let compressed = |id, compressor: u8, packed: &[u8]| {
        let size = (body.len() as u32).to_le_bytes();
        message(id, 0, COMPRESSED, &[&MSG.to_le_bytes()[..], &size, &[compressor], packed].concat())
    };
    let mut parts = Vec::new();
    for (compressor, packing) in
        [(0, Packing::None), (1, Packing::Snappy), (2, Packing::Zlib), (3, Packing::Zstd)]
    {
        parts.push((C, compressed(u32::from(compressor), compressor, &pack(packing, &body).unwrap())));
    }
    parts.push((C, compressed(7, 2, b"no zlib")));
    let transcript = mongodb(&parts);
    let opened = "insert unanswered";
    assert_eq!(transcript.lines, [opened, opened, opened, opened, "OP_COMPRESSED unanswered"]);
    let mut markers = transcript.markers;
    markers.dedup();
    assert_eq!(markers, [(C, 3)]);
}

#[test]
fn a_long_message_is_passed_and_its_marker_found() {
    let long = format!("{}plm1:d0:1;", "x".repeat(3 << 20));
    let asked =
        message(1, 0, MSG, &content(0, &document(&[("insert", 2, &text("c")), ("x", 2, &text(&long))])));
    let told = reply(1, &[("cursor", 2, &text(&long)), ("ok", 1, &ok())]);
    let transcript = once(Carrier::Stream, 27017, &[(C, &asked), (S, &told)], 1460);
    assert_eq!((transcript.lines, transcript.markers), (vec!["insert -> ok".into()], vec![(C, 1), (S, 1)]));
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    let length = |length: u32| [&length.to_le_bytes()[..], &[0; 8], &MSG.to_le_bytes()].concat();
    for (bytes, reason) in [
        (length(15), "a length that no message has"),
        (length(u32::MAX), "a length that no message has"),
        (message(1, 0, 77, &[0; 8]), "a message of no known type"),
        (message(1, 0, MSG, b"\0"), "a message without flags"),
        (message(1, 0, MSG, &content(4, &document(&[]))), "flags that nobody knows"),
        (message(1, 0, MSG, b"\0\0\0\0\x02\x05\0\0\0\0"), "a section of no known kind"),
        (message(1, 0, MSG, b"\0\0\0\0\0\xff\0\0\0\0"), "a section of a length that it cannot have"),
        (message(1, 0, COMPRESSED, b"\xdd\x07"), "a compressed message without a header"),
        (message(1, 0, COMPRESSED, b"\xdd\x07\0\0\x05\0\0\0\x09"), "a compressor that is not known"),
        (message(1, 0, COMPRESSED, b"\xdc\x07\0\0\x05\0\0\0\x01"), "a compressed message of no known type"),
    ] {
        let transcript = mongodb(&[(C, find(1)), (C, bytes.clone())]);
        assert_eq!(transcript.lines, ["find unknown".into(), format!("breach: {reason}")], "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(27017, &[(C, &find(1)), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..150, byte in any::<u8>(), cut in 0_usize..60) {
        let mut told = [reply(1, &[("n", 16, &[0; 4]), ("ok", 1, &ok())]), reply(2, &[("ok", 1, &ok())])].concat();
        if let Some(place) = told.get_mut(at) {
            *place = byte;
        }
        told.truncate(told.len() - cut.min(told.len()));
        survive(27017, &[(C, &[find(1), find(2)].concat()), (S, &told), (S, &told)]);
    }
}

#[test]
fn documents_are_read_unless_they_are_removed_when_they_are_found() {
    let ask = |elements: &[(&str, u8, &[u8])]| message(7, 0, MSG, &content(0, &document(elements)));
    let told = reply(7, &[("value", 2, &text("plm1:d0:3;")), ("ok", 1, &ok())]);
    let name = text("entities");
    let manners = |asked| mongodb(&[(C, asked), (S, told.clone())]).manners();
    assert_eq!(manners(ask(&[("find", 2, &name)])), [(3, "answered")]);
    assert_eq!(manners(ask(&[("aggregate", 2, &name)])), [(3, "answered")]);
    assert_eq!(manners(ask(&[("findAndModify", 2, &name), ("new", 8, &[1])])), [(3, "answered")]);
    assert_eq!(manners(ask(&[("findAndModify", 2, &name), ("remove", 8, &[1])])), [(3, "taken")]);
    assert_eq!(manners(ask(&[("update", 2, &text("plm1:d0:2;"))])), [(2, "handed"), (3, "answered")]);
}
