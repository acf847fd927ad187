use crate::dissect::{Carrier, KEPT};
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use plimsoll_codec::packing::{Packing, pack};
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn sized(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes()[..], content].concat()
}

/// A request of a client called `me`.
fn request(key: u16, version: u16, correlation: u32, content: &[u8]) -> Vec<u8> {
    let head =
        [&key.to_be_bytes()[..], &version.to_be_bytes(), &correlation.to_be_bytes(), b"\0\x02me"].concat();
    sized(&[&head, content].concat())
}

fn response(correlation: u32, content: &[u8]) -> Vec<u8> {
    sized(&[&correlation.to_be_bytes()[..], content].concat())
}

/// A batch of the present format.
fn batch(packing: Packing, codec: u8, content: &str) -> Vec<u8> {
    let records = pack(packing, content.as_bytes()).unwrap();
    let mut batch = [0; 61];
    batch[8..12].copy_from_slice(&(records.len() as u32 + 49).to_be_bytes());
    (batch[16], batch[22]) = (2, codec);
    [&batch[..], &records].concat()
}

/// A request to produce, version 3.
fn produce(correlation: u32, acks: i16, records: &[u8]) -> Vec<u8> {
    let topic = [&b"\0\x01t\0\0\0\x01\0\0\0\0"[..], &sized(records)].concat();
    let head = [&b"\xff\xff"[..], &acks.to_be_bytes(), &[0, 0, 0, 9, 0, 0, 0, 1]].concat();
    request(0, 3, correlation, &[head, topic].concat())
}

/// The same, flexible, version 9.
fn produce_flexible(correlation: u32, acks: i16, records: &[u8]) -> Vec<u8> {
    let length = records.len() as u32 + 1;
    let varint = [length as u8 & 0x7f | 0x80, (length >> 7) as u8 & 0x7f | 0x80, (length >> 14) as u8];
    let topic = [&b"\x02\x02t\x02\0\0\0\0"[..], &varint, records, b"\0\0\0"].concat();
    request(0, 9, correlation, &[&b"\0\0"[..], &acks.to_be_bytes(), &[0, 0, 0, 9], &topic].concat())
}

fn kafka(parts: &[(Side, Vec<u8>)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    play(Carrier::Stream, 9092, &parts)
}

#[test]
fn responses_carry_the_number_of_their_request() {
    let metadata = |correlation| request(3, 1, correlation, b"\0\0\0\0");
    let transcript = kafka(&[
        (C, [request(18, 0, 1, b""), metadata(2), metadata(3), request(44, 1, 4, b"x")].concat()),
        (
            S,
            [
                response(3, b"whatever"),
                response(1, b"\0\0\0\0\0\0"),
                response(2, b"whatever"),
                response(9, b""),
            ]
            .concat(),
        ),
        (C, [request(12, 3, 5, b"x"), request(17, 1, 6, b"x")].concat()),
        (S, [response(5, b"\0\0\0\0\0\x1b"), response(6, b"\xff\xff\0\0\0\0")].concat()),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "Metadata v1 -> ",
            "ApiVersions v0 -> 0",
            "Metadata v1 -> ",
            "IncrementalAlterConfigs unanswered",
            "? ",
            "Heartbeat v3 -> 27",
            "SaslHandshake v1 -> -1"
        ]
    );
}

#[test]
fn what_nobody_acknowledges_is_one_way() {
    let records = batch(Packing::None, 0, "plm1:d0:1;");
    let transcript = kafka(&[(
        C,
        [
            produce(1, 0, &records),
            produce(2, 1, &records),
            produce_flexible(3, 0, &records),
            produce_flexible(4, -1, &records),
        ]
        .concat(),
    )]);
    let mut lines = transcript.lines;
    lines.sort();
    assert_eq!(
        lines,
        ["Produce v3 one-way", "Produce v3 unanswered", "Produce v9 one-way", "Produce v9 unanswered"]
    );
    assert_eq!(transcript.markers, [(C, 1); 4]);
}

#[test]
fn errors_of_partitions_fail_a_response() {
    let records = batch(Packing::None, 0, "x");
    let partition = |error: u8| [&[0, 0, 0, 0, 0, error][..], &[0; 16]].concat();
    let produced = [&b"\0\0\0\x01\0\x01t\0\0\0\x02"[..], &partition(0), &partition(3), &[0; 4]].concat();
    let fetched = |error: u8, records: &[u8]| {
        let head =
            [&b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0"[..], &[error], &[0; 16], b"\0\0\0\0"].concat();
        [head, sized(records)].concat()
    };
    let listed = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let transcript = kafka(&[
        (
            C,
            [produce(1, 1, &records), request(1, 4, 2, b"x"), request(1, 4, 3, b"x"), request(2, 1, 4, b"x")]
                .concat(),
        ),
        (
            S,
            [response(1, &produced), response(2, &fetched(0, &records)), response(3, &fetched(1, b""))]
                .concat(),
        ),
        (S, response(4, listed)),
    ]);
    assert_eq!(
        transcript.lines,
        ["Produce v3 -> 3", "Fetch v4 -> 0", "Fetch v4 -> 1", "ListOffsets v1 -> 6"]
    );
}

#[test]
fn compressed_batches_are_opened_both_ways() {
    let text = format!("{}plm1:d0:7;{}", "x".repeat(200), "y".repeat(200));
    let codecs = [(1, Packing::Gzip), (2, Packing::Snappy), (3, Packing::Lz4), (4, Packing::Zstd)];
    for (codec, packing) in codecs {
        let records = batch(packing, codec, &text).repeat(2);
        let topic =
            [&b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0"[..], &[0; 16], &[0; 4], &sized(&records)]
                .concat();
        let transcript = kafka(&[
            (C, produce_flexible(1, 0, &records)),
            (C, request(1, 4, 2, b"x")),
            (S, response(2, &topic)),
        ]);
        assert_eq!(transcript.lines, ["Produce v9 one-way", "Fetch v4 -> 0"], "{packing:?}");
        // Two batches, each with that message, in one request: the same marker twice in a row is one.
        assert_eq!(transcript.markers, [(C, 7), (S, 7)], "{packing:?}");
    }
}

#[test]
fn message_sets_of_old_are_opened() {
    for (magic, times) in [(0_u8, 0), (1, 8)] {
        let value = pack(Packing::Gzip, format!("{}plm1:d0:8;", "x".repeat(200)).as_bytes()).unwrap();
        let message =
            [&[0, 0, 0, 0, magic, 1][..], &vec![0; times], b"\xff\xff\xff\xff", &sized(&value)].concat();
        let records = [&[0; 8][..], &sized(&message)].concat();
        let transcript = kafka(&[(C, produce(1, 0, &records))]);
        assert_eq!(
            (transcript.lines, transcript.markers),
            (vec!["Produce v3 one-way".into()], vec![(C, 8)]),
            "{magic}"
        );
    }
}

#[test]
fn batches_of_a_response_that_is_too_long_to_be_kept_are_opened_one_by_one() {
    let mut seed = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + (seed >> 33) as u8 % 90)
    })
    .take(400_000)
    .collect();
    let batches: Vec<u8> =
        (0..8).flat_map(|n| batch(Packing::Snappy, 2, &format!("{noise}plm1:d0:{n};"))).collect();
    assert!(batches.len() > 2 * KEPT);
    let long = batch(Packing::None, 2, &"z".repeat(2 * KEPT));
    let topic = [
        &b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0"[..],
        &[0; 16],
        &[0; 4],
        &sized(&[batches, long].concat()),
    ]
    .concat();
    let (asked, told) = (request(1, 4, 2, b"x"), response(2, &topic));
    for size in [1460, 100_000, usize::MAX] {
        let transcript = once(Carrier::Stream, 9092, &[(C, &asked), (S, &told)], size);
        assert_eq!(transcript.lines, ["Fetch v4 -> 0"]);
        assert_eq!(transcript.markers, (0..8).map(|n| (S, n)).collect::<Vec<_>>());
    }
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    for (bytes, reason) in [
        (b"\0\0\0\x07abcdefg".to_vec(), "a size that no message has"),
        (b"\xff\xff\xff\xff\0\0\0\0".to_vec(), "a size that no message has"),
        (request(999, 0, 1, b""), "a request that is not known"),
        (request(0, 99, 1, b""), "a request that is not known"),
    ] {
        let transcript = kafka(&[(C, request(3, 1, 1, b"")), (C, bytes.clone())]);
        assert_eq!(
            transcript.lines,
            ["Metadata v1 unknown".into(), format!("breach: {reason}")],
            "{bytes:?}"
        );
    }
}

#[test]
fn a_message_that_is_built_in_another_way_is_passed() {
    let records = batch(Packing::None, 0, "x");
    let mut spoilt = produce(1, 0, &records);
    // More topics than there are bytes.
    let topics = spoilt.len() - records.len() - 15 - 4;
    spoilt[topics..topics + 4].copy_from_slice(&[0x7f; 4]);
    let transcript = kafka(&[(C, [request(3, 1, 2, b""), spoilt, request(3, 1, 3, b"")].concat())]);
    let mut lines = transcript.lines;
    lines.sort();
    assert_eq!(lines, ["Metadata v1 unanswered", "Metadata v1 unanswered", "Produce v3 one-way"]);
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(9092, &[(C, &request(1, 4, 1, b"")), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..250, byte in any::<u8>(), cut in 0_usize..60) {
        let records = batch(Packing::Gzip, 1, "plm1:d0:1;");
        let mut asked = [produce_flexible(1, 0, &records), produce(2, 1, &records)].concat();
        if let Some(place) = asked.get_mut(at) {
            *place = byte;
        }
        asked.truncate(asked.len() - cut.min(asked.len()));
        survive(9092, &[(C, &asked), (C, &asked), (S, &response(2, b"\0\0\0\x01\0\x01t\0\0\0\x02"))]);
    }

    #[test]
    fn responses_of_any_content_are_read(
        content in prop::collection::vec(any::<u8>(), 0..120), key in 0_u16..40, version in 0_u16..16,
    ) {
        survive(9092, &[(C, &request(key, version, 1, b"")), (S, &response(1, &content)), (S, &response(2, b""))]);
    }
}

#[test]
fn what_is_fetched_is_taken() {
    let told = response(8, b"whatever plm1:d0:6; it is");
    for (key, manner) in [(1, "taken"), (3, "answered")] {
        let transcript = kafka(&[(C, request(key, 4, 8, &[0; 40])), (S, told.clone())]);
        assert_eq!(transcript.manners(), [(6, manner)], "{:?}", transcript.lines);
    }
}
