//! What must hold for every packet and for every input.

// Functions beside the tests are tests too.
#![allow(clippy::panic, clippy::unwrap_used)]

use plimsoll_codec::mqtt::{
    Ack, AckKind, Auth, Connack, Connect, Disconnect, Packet, Properties, Property, Publish, QoS,
    RetainHandling, Suback, Subscribe, Subscription, Unsuback, Unsubscribe, Version, Will, packet_length,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A packet that owns what it borrows: texts and numbers from which [`Drawn::packet`] makes one. Most combinations
/// are allowed; those that are not must be refused when written.
#[derive(Debug, Clone)]
struct Drawn {
    kind: usize,
    texts: [String; 4],
    bytes: [Vec<u8>; 2],
    codes: Vec<u8>,
    numbers: [u32; 3],
    id: u16,
    code: u8,
    flags: [bool; 5],
    qos: QoS,
    filters: Vec<String>,
    properties: Vec<usize>,
}

fn version() -> impl Strategy<Value = Version> {
    select(vec![Version::V311, Version::V5])
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let text = || prop_oneof![3 => "[a-z/$]{1,12}", 1 => "\\PC{0,40}"];
    let filter =
        || prop_oneof!["[a-z]{1,3}(/[a-z+]){0,3}(/#)?", Just("$share/g/a/#".to_owned()), "[a-z+#/]{0,6}"];
    let qos = select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
    let code = || prop_oneof![4 => Just(0u8), 1 => Just(0x80), 1 => Just(0x87), 1 => 0..0xa3u8];
    (
        (0..15usize, [text(), text(), text(), text()], [vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..20)]),
        (vec(code(), 0..4), any::<[u32; 3]>(), any::<u16>(), code(), any::<[bool; 5]>(), qos),
        (vec(filter(), 0..4), vec(0..27usize, 0..5)),
    )
        .prop_map(
            |((kind, texts, bytes), (codes, numbers, id, code, flags, qos), (filters, properties))| Drawn {
                kind,
                texts,
                bytes,
                codes,
                numbers,
                id,
                code,
                flags,
                qos,
                filters,
                properties,
            },
        )
}

impl Drawn {
    fn property(&self, which: usize) -> Property<'_> {
        let [one, two, three, _] = &self.texts;
        let [long, short, small] = [self.numbers[0], self.numbers[1], self.numbers[2] % 3];
        let (short, yes) = (short as u16, self.flags[4]);
        match which {
            0 => Property::PayloadFormatIndicator(yes),
            1 => Property::MessageExpiryInterval(long),
            2 => Property::ContentType(one),
            3 => Property::ResponseTopic(two),
            4 => Property::CorrelationData(&self.bytes[1]),
            5 => Property::SubscriptionIdentifier(long >> (short % 32)),
            6 => Property::SessionExpiryInterval(long),
            7 => Property::AssignedClientIdentifier(two),
            8 => Property::ServerKeepAlive(short),
            9 => Property::AuthenticationMethod(one),
            10 => Property::AuthenticationData(&self.bytes[1]),
            11 => Property::RequestProblemInformation(yes),
            12 => Property::WillDelayInterval(long),
            13 => Property::RequestResponseInformation(yes),
            14 => Property::ResponseInformation(one),
            15 => Property::ServerReference(two),
            16 => Property::ReasonString(three),
            17 => Property::ReceiveMaximum(short),
            18 => Property::TopicAliasMaximum(short),
            19 => Property::TopicAlias(short),
            20 => Property::MaximumQoS(small as u8),
            21 => Property::RetainAvailable(yes),
            22 => Property::UserProperty(one, three),
            23 => Property::MaximumPacketSize(long),
            24 => Property::WildcardSubscriptionAvailable(yes),
            25 => Property::SubscriptionIdentifierAvailable(yes),
            _ => Property::SharedSubscriptionAvailable(yes),
        }
    }

    fn packet<'a>(&'a self, version: Version, list: &'a [Property<'a>]) -> Packet<'a> {
        let [name, topic, third, fourth] = &self.texts;
        let [payload, secret] = &self.bytes;
        let [one, two, three, four, five] = self.flags;
        let properties = Properties::List(list);
        let packet_id = self.id;
        match self.kind {
            0 => Packet::Connect(Connect {
                version,
                client_id: name,
                clean_start: one,
                keep_alive: packet_id,
                username: two.then_some(third),
                password: three.then_some(secret),
                will: four.then_some(Will {
                    qos: self.qos,
                    retain: five,
                    topic,
                    payload,
                    properties: Properties::default(),
                }),
                properties,
            }),
            1 => Packet::Connack(Connack { session_present: one, code: self.code, properties }),
            2 | 14 => {
                let packet_id = (self.qos != QoS::AtMostOnce).then_some(packet_id);
                Packet::Publish(Publish {
                    dup: one,
                    qos: self.qos,
                    retain: two,
                    topic,
                    packet_id,
                    properties,
                    payload,
                })
            }
            3..=6 => {
                let kinds = [AckKind::Puback, AckKind::Pubrec, AckKind::Pubrel, AckKind::Pubcomp];
                Packet::Ack(Ack { kind: kinds[self.kind - 3], packet_id, reason: self.code, properties })
            }
            7 => {
                let handling = [RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DoNotSend];
                let subscription = |filter| Subscription {
                    filter,
                    qos: self.qos,
                    no_local: one && version == Version::V5,
                    retain_as_published: two && version == Version::V5,
                    retain_handling: handling
                        [if version == Version::V5 { packet_id as usize % 3 } else { 0 }],
                };
                let subscriptions = self.filters.iter().map(|filter| subscription(filter)).collect();
                Packet::Subscribe(Subscribe { packet_id, subscriptions, properties })
            }
            8 => Packet::Suback(Suback { packet_id, codes: &self.codes, properties }),
            9 => {
                let filters = self.filters.iter().map(String::as_str).collect();
                Packet::Unsubscribe(Unsubscribe { packet_id, filters, properties })
            }
            10 => Packet::Unsuback(Unsuback { packet_id, codes: &self.codes, properties }),
            11 => Packet::Pingreq,
            12 => Packet::Pingresp,
            _ if fourth.len() % 2 == 0 => Packet::Disconnect(Disconnect { reason: self.code, properties }),
            _ => Packet::Auth(Auth { reason: self.code, properties }),
        }
    }

    /// Properties that the packet may have: the drawn ones without those that it refuses.
    fn allowed_list(&self, version: Version) -> Vec<Property<'_>> {
        let mut list = Vec::new();
        for &which in &self.properties {
            list.push(self.property(which));
            let refused = self.packet(version, &[]).encode(version, &mut Vec::new()).is_ok()
                && self.packet(version, &list).encode(version, &mut Vec::new()).is_err();
            if refused {
                list.pop();
            }
        }
        list
    }

    /// The packet's bytes, `None` where it is refused.
    fn encoded(&self, version: Version) -> Option<Vec<u8>> {
        let list = self.allowed_list(version);
        let mut out = b"before".to_vec();
        match self.packet(version, &list).encode(version, &mut out) {
            Ok(()) => Some(out.split_off(6)),
            Err(_) => {
                assert_eq!(out, b"before", "a refused packet must leave nothing behind");
                None
            }
        }
    }
}

/// Decodes in a version, and checks that what was read can be written and read again.
fn decode_again(version: Version, bytes: &[u8]) {
    let Ok(packet) = Packet::decode(version, bytes) else { return };
    let version = if let Packet::Connect(connect) = &packet { connect.version } else { version };
    let mut out = Vec::new();
    packet
        .encode(version, &mut out)
        .unwrap_or_else(|error| panic!("read {packet:?} but cannot write it: {error}"));
    assert_eq!(Packet::decode(version, &out), Ok(packet));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_can_be_written_is_read_back(drawn in drawn(), version in version()) {
        let Some(bytes) = drawn.encoded(version) else { return Ok(()) };
        let list = drawn.allowed_list(version);
        prop_assert_eq!(packet_length(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(Packet::decode(version, &bytes), Ok(drawn.packet(version, &list)));
    }

    #[test]
    fn a_packet_cut_anywhere_is_incomplete_and_never_malformed(drawn in drawn(), version in version()) {
        let Some(bytes) = drawn.encoded(version) else { return Ok(()) };
        let header = 1 + bytes[1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        for cut in 0..bytes.len() {
            let expected = if cut < header { None } else { Some(bytes.len()) };
            prop_assert_eq!(packet_length(&bytes[..cut]), Ok(expected));
            prop_assert!(Packet::decode(version, &bytes[..cut]).is_err());
        }
    }

    #[test]
    fn a_packet_is_found_at_the_head_of_a_stream(
        drawn in drawn(),
        version in version(),
        after in vec(any::<u8>(), 0..20),
    ) {
        let Some(bytes) = drawn.encoded(version) else { return Ok(()) };
        let stream = [&bytes[..], &after].concat();
        prop_assert_eq!(packet_length(&stream), Ok(Some(bytes.len())));
    }

    #[test]
    fn a_changed_packet_never_panics(
        drawn in drawn(),
        version in version(),
        position: usize,
        value: u8,
        body_length in option::of(0..64usize),
    ) {
        let Some(mut bytes) = drawn.encoded(version) else { return Ok(()) };
        let position = position % bytes.len();
        bytes[position] = value;
        decode_again(Version::V311, &bytes);
        decode_again(Version::V5, &bytes);
        // The same with a remaining length that fits, so that the fields themselves end too early.
        if let Some(length) = body_length {
            bytes.truncate(2 + length);
            bytes.resize(bytes.len().max(2), 0);
            bytes[1] = (bytes.len() - 2) as u8;
            decode_again(Version::V311, &bytes);
            decode_again(Version::V5, &bytes);
        }
    }

    #[test]
    fn random_bytes_never_panic(first: u8, body in vec(any::<u8>(), 0..100)) {
        let framed = [&[first, body.len() as u8][..], &body].concat();
        for bytes in [&body, &framed] {
            let _ = packet_length(bytes);
            decode_again(Version::V311, bytes);
            decode_again(Version::V5, bytes);
            let _ = Connect::decode(bytes);
        }
    }
}

/// The tests above are worth something only if most of what is drawn can be written.
#[test]
fn every_kind_of_packet_is_drawn_and_written() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut written = std::collections::BTreeMap::new();
    let mut properties = 0;
    for _ in 0..3000 {
        let drawn = drawn().new_tree(&mut runner).unwrap().current();
        if let Some(bytes) = drawn.encoded(Version::V5) {
            *written.entry(bytes[0] >> 4).or_insert(0) += 1;
            properties += drawn.allowed_list(Version::V5).len();
        }
    }
    assert_eq!(written.len(), 15, "{written:?}");
    assert!(written.values().all(|&count| count >= 10), "{written:?}");
    assert!(properties > 300, "{properties}");
}
