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

/// A batch of such records, each with its key and its value, none longer than 63 bytes.
fn filled(packing: Packing, codec: u8, records: &[(Option<&[u8]>, &[u8])]) -> Vec<u8> {
    // Numbers have their sign in the lowest bit, so that 1 is -1: no key.
    let of_key = |key: Option<&[u8]>| key.map_or(1, |key| 2 * key.len() as u8);
    let record = |(key, value): &(Option<&[u8]>, &[u8])| {
        let length = 2 * value.len() as u8;
        let head = [0, 0, 0, of_key(*key)];
        let record = [&head[..], key.unwrap_or_default(), &[length], value, &[0]].concat();
        [&[2 * record.len() as u8][..], &record].concat()
    };
    let content: Vec<u8> = records.iter().flat_map(record).collect();
    let packed = pack(packing, &content).unwrap();
    let mut batch = [0; 61];
    batch[8..12].copy_from_slice(&(packed.len() as u32 + 49).to_be_bytes());
    (batch[16], batch[22], batch[60]) = (2, codec, records.len() as u8);
    [&batch[..], &packed].concat()
}

/// A request to fetch, of that broker; a consumer is none.
fn fetch(correlation: u32, broker: i32) -> Vec<u8> {
    request(1, 4, correlation, &[&broker.to_be_bytes()[..], &[0; 13], &[0, 0, 0, 0]].concat())
}

fn fetched(correlation: u32, records: &[u8]) -> Vec<u8> {
    let head = [&b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0"[..], &[0; 16], &[0; 4]].concat();
    response(correlation, &[head, sized(records)].concat())
}

#[test]
fn each_record_is_told_with_its_topic_its_key_and_its_size() {
    let records: [(Option<&[u8]>, &[u8]); 2] = [(Some(b"city/7/t"), b"abc"), (None, b"defgh")];
    let plain = filled(Packing::None, 0, &records);
    let [gzip, zstd] =
        [(Packing::Gzip, 1), (Packing::Zstd, 4)].map(|(packing, codec)| filled(packing, codec, &records));
    let mut control = filled(Packing::None, 0, &records);
    control[22] = 0x20;
    let actions = kafka(&[
        (C, produce(1, 1, &plain)),
        (C, produce_flexible(2, -1, &gzip)),
        (C, produce(3, 0, &[zstd, control].concat())),
        (C, fetch(4, -1)),
        (S, fetched(4, &[plain.clone(), gzip].concat())),
        // A broker that follows another one is no client of the platform.
        (C, fetch(5, 2)),
        (S, fetched(5, &plain)),
    ])
    .actions();
    let sent = |qos: u8| {
        [format!("publish PRODUCE t: city/7/t q{qos} 3 B"), format!("publish PRODUCE t:  q{qos} 5 B")]
    };
    let mut expected = [sent(1), sent(2), sent(0)].concat();
    expected.push("subscribe # q1".into());
    expected.extend(vec!["receive".to_owned(); 4]);
    assert_eq!(actions, expected);
}

#[test]
fn messages_of_old_are_told_one_by_one() {
    for (magic, times) in [(0_u8, 0), (1, 8)] {
        let message = |attributes: u8, key: Option<&[u8]>, value: &[u8]| {
            let key = key.map_or(b"\xff\xff\xff\xff".to_vec(), sized);
            let message =
                [&[0, 0, 0, 0, magic, attributes][..], &vec![0; times], &key, &sized(value)].concat();
            [&[0; 8][..], &sized(&message)].concat()
        };
        let two = [message(0, Some(b"k"), b"one"), message(0, None, b"three")].concat();
        let packed = message(1, None, &pack(Packing::Gzip, &two).unwrap());
        let actions = kafka(&[(C, produce(1, 1, &[two, packed].concat()))]).actions();
        let told = ["publish PRODUCE t: k q1 3 B", "publish PRODUCE t:  q1 5 B"];
        assert_eq!(actions, [told, told].concat(), "{magic}");
    }
}

/// A request of millions of records is a bomb, and not what a client sends.
#[test]
fn no_more_records_of_a_message_are_told_than_may_be() {
    let records = vec![(None, &b""[..]); 60];
    let batches = filled(Packing::None, 0, &records).repeat(1_200);
    let (asked, parts) = (produce(1, 1, &batches), 1460);
    assert_eq!(once(Carrier::Stream, 9092, &[(C, &asked)], parts).actions().len(), 1 << 16);
}
