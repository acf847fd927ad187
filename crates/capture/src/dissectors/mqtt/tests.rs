use crate::dissect::Carrier;
use crate::script::{once, play, survives};
use crate::side::Side;
use plimsoll_model::wire::WireProtocol;

const C: Side = Side::Client;
const S: Side = Side::Server;
const CONNECT: &[u8] = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd";
const CONNECT_5: &[u8] = b"\x10\x11\0\x04MQTT\x05\x02\0\x3c\0\0\x04abcd";

fn lines_of(parts: &[(Side, &[u8])]) -> Vec<String> {
    play(Carrier::Stream, 1883, parts).lines
}

#[test]
fn each_quality_of_service_has_its_own_answer() {
    let lines = lines_of(&[
        (C, CONNECT),
        (S, b"\x20\x02\0\0"),
        (C, b"\x30\x07\0\x03a/bxy"),
        (C, b"\x32\x09\0\x03a/b\0\x07xy"),
        (S, b"\x40\x02\0\x07"),
        (C, b"\x34\x09\0\x03a/b\0\x08xy"),
        (S, b"\x50\x02\0\x08"),
        (C, b"\x62\x02\0\x08"),
        (S, b"\x70\x02\0\x08"),
        (C, b"\xC0\0"),
        (S, b"\xD0\0"),
        (C, b"\xE0\0"),
    ]);
    assert_eq!(
        lines,
        [
            "CONNECT -> CONNACK",
            "PUBLISH one-way",
            "PUBLISH -> PUBACK",
            "PUBLISH -> PUBCOMP",
            "! PUBREC",
            "! PUBREL",
            "PINGREQ -> PINGRESP",
            "! DISCONNECT",
        ]
    );
}

#[test]
fn a_broker_asks_its_subscribers_under_numbers_of_its_own() {
    let parts: [(Side, &[u8]); 7] = [
        (C, CONNECT),
        (S, b"\x20\x02\x01\0"),
        (C, b"\x82\x08\0\x01\0\x03a/b\x02"),
        (S, b"\x32\x09\0\x03a/b\0\x01xy"),
        (S, b"\x90\x03\0\x01\x02"),
        (C, b"\x40\x02\0\x01"),
        (S, b"\x32\x09\0\x03a/b\0\x02xy"),
    ];
    let transcript = play(Carrier::Stream, 1883, &parts);
    assert_eq!(
        transcript.lines,
        ["CONNECT -> CONNACK", "SUBSCRIBE -> SUBACK", "PUBLISH -> PUBACK", "PUBLISH unanswered"]
    );
    let asks: Vec<_> = transcript.observations.exchanges.iter().map(|exchange| exchange.requester).collect();
    assert_eq!(asks, [C, C, S, S]);
}

#[test]
fn errors_have_their_reason_in_the_status() {
    let lines = lines_of(&[
        (C, CONNECT_5),
        (S, b"\x20\x03\0\0\0"),
        (C, b"\xF0\x02\x18\0"),
        (C, b"\x32\x08\0\x03a/b\0\x01\0"),
        (S, b"\x40\x03\0\x01\x10"),
        (C, b"\x34\x08\0\x03a/b\0\x02\0"),
        (S, b"\x50\x03\0\x02\x97"),
        (C, b"\x82\x09\0\x03\0\0\x03a/b\x02"),
        (S, b"\x90\x07\0\x03\x03\x1f\0\0\x87"),
        (S, b"\xE0\x01\x8E"),
    ]);
    assert_eq!(
        lines,
        [
            "CONNECT -> CONNACK",
            "! AUTH 24",
            "PUBLISH -> PUBACK 16",
            "PUBLISH -> PUBREC 151",
            "SUBSCRIBE -> SUBACK 135",
            "! DISCONNECT 142",
        ]
    );
}

#[test]
fn a_refused_connection_failed() {
    let transcript = play(Carrier::Stream, 1883, &[(C, CONNECT), (S, b"\x20\x02\0\x05")]);
    assert_eq!(transcript.lines, ["CONNECT -> CONNACK 5"]);
    assert_eq!(transcript.observations.exchanges[0].outcome.name(), "failed");
}

#[test]
fn repetitions_are_not_asked_twice() {
    let lines = lines_of(&[
        (C, CONNECT),
        (C, b"\x32\x09\0\x03a/b\0\x07xy"),
        (C, b"\x3A\x09\0\x03a/b\0\x07xy"),
        (S, b"\x20\x02\0\0\x40\x02\0\x07"),
        // Of an earlier connection.
        (C, b"\x3A\x09\0\x03a/b\0\x09xy"),
        (C, b"\x62\x02\0\x0a"),
        (S, b"\x40\x02\0\x09\x70\x02\0\x0a"),
    ]);
    assert_eq!(
        lines,
        [
            "CONNECT -> CONNACK",
            "PUBLISH -> PUBACK",
            "! PUBLISH again",
            "PUBLISH -> PUBACK",
            "PUBREL -> PUBCOMP"
        ]
    );
}

#[test]
fn long_content_is_passed_and_searched() {
    let mut publish = b"\x32\xB9\xF0\x04\0\x03a/b\0\x07".to_vec();
    publish.extend_from_slice(&vec![b'.'; 79_000 - 9]);
    publish.extend_from_slice(b"plm1:d:5;");
    publish.resize(4 + (0x39 | 0x70 << 7 | 4 << 14), b'.');
    let mut parts: Vec<(Side, &[u8])> = vec![(C, CONNECT)];
    parts.extend(publish.chunks(1400).map(|piece| (C, piece)));
    let transcript = once(Carrier::Stream, 1883, &parts, usize::MAX);
    assert_eq!(transcript.lines, ["CONNECT unanswered", "PUBLISH unanswered"]);
    assert_eq!(transcript.markers, [(C, 5)]);
}

#[test]
fn a_stream_is_taken_up_in_its_middle() {
    let parts: [(Side, &[u8]); 4] = [
        (S, b"\x40\x02\0\x06"),
        (C, b"rest of some message"),
        (C, b"\x32\x09\0\x03a/b\0\x07xy"),
        (S, b"\x40\x02\0\x07"),
    ];
    let transcript = once(Carrier::Stream, 9999, &parts, usize::MAX);
    assert_eq!(transcript.lines, ["PUBLISH -> PUBACK"]);
    assert_eq!(transcript.protocol, WireProtocol::Mqtt);
}

#[test]
fn hostile_bytes_are_called_what_they_are() {
    for (bytes, wanted) in [
        (&b"\x30\x05\0\x09a/b"[..], "breach: a topic that is longer than its packet"),
        (b"\x36\x05\0\x01abc", "breach: a packet with a type or flags that do not exist"),
        (b"\x20\x02\0\0", "breach: a packet that only the other side sends"),
        (b"\x82\xff\xff\xff\x7f\0", "breach: a packet that is too long for its type"),
        (b"\x30\xff\xff\xff\xff\x01", "breach: a length of more than four bytes"),
    ] {
        let lines = once(Carrier::Stream, 1883, &[(C, CONNECT), (C, bytes)], usize::MAX).lines;
        assert_eq!(lines, ["CONNECT unknown", wanted]);
    }
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let good: [(Side, &[u8]); 5] = [
        (C, CONNECT_5),
        (S, b"\x20\x03\0\0\0"),
        (C, b"\x82\x09\0\x03\0\0\x03a/b\x02\x34\x0a\0\x03a/b\0\x08\0xy"),
        (S, b"\x90\x07\0\x03\x03\x1f\0\0\x87\x50\x02\0\x08"),
        (C, b"\x62\x02\0\x08\xE0\0"),
    ];
    survives(Carrier::Stream, 1883, &good);
}

#[test]
fn publications_are_handed_on_by_either_side() {
    let publish: &[u8] = b"\x32\x10\0\x03a/b\0\x07plm1:d:1;";
    let transcript = play(
        Carrier::Stream,
        1883,
        &[
            (C, CONNECT),
            (S, b"\x20\x02\0\0"),
            (C, publish),
            (S, b"\x40\x02\0\x07"),
            (S, publish),
            (C, b"\x40\x02\0\x07"),
        ],
    );
    assert_eq!(transcript.manners(), [(1, "handed"), (1, "handed")]);
}

#[test]
fn what_a_client_publishes_and_subscribes_to_is_told() {
    let actions = play(
        Carrier::Stream,
        1883,
        &[
            (C, CONNECT),
            (S, b"\x20\x02\0\0"),
            (C, b"\x82\x08\0\x01\0\x03a/#\x01"),
            (C, b"\x31\x07\0\x03a/bxy"),
            (C, b"\x32\x09\0\x03a/b\0\x07xy"),
            // Again, while the first one waits.
            (C, b"\x3A\x09\0\x03a/b\0\x07xy"),
            (S, b"\x30\x07\0\x03a/bxy"),
        ],
    )
    .actions();
    assert_eq!(
        actions,
        [
            "connect abcd 4 60s",
            "subscribe a/# q1",
            "publish PUBLISH a/b q0 2 B retained",
            "publish PUBLISH a/b q1 2 B",
            "receive"
        ]
    );
}

#[test]
fn an_alias_stands_for_its_topic_and_properties_are_no_content() {
    let actions = play(
        Carrier::Stream,
        1883,
        &[
            (C, CONNECT_5),
            // A content type, then alias 5.
            (C, b"\x30\x0E\0\x03a/b\x07\x03\0\x01t\x23\0\x05x"),
            (C, b"\x30\x07\0\0\x03\x23\0\x05y"),
            (C, b"\x30\x07\0\0\x03\x23\0\x06z"),
        ],
    )
    .actions();
    assert_eq!(
        actions,
        [
            "connect abcd 5 60s",
            "publish PUBLISH a/b q0 1 B",
            "publish PUBLISH a/b q0 1 B",
            "publish PUBLISH  q0 1 B"
        ]
    );
}
