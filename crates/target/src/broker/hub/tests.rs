//! The hub without sockets, in a time of its own.

use super::*;
use plimsoll_codec::mqtt::{
    Ack, Connack, Connect, Property, Publish, QoS, RetainHandling, Subscribe, Subscription, Unsubscribe,
    Will, encode_connect,
};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const LIMITS: Limits =
    Limits { connections: 100, packet: 1024 * 1024, handed: 1000, memory: 64 * 1024 * 1024 };

struct Bench {
    hub: Hub,
    now: Nanos,
}

/// Bytes that a client got, and the version that they are in.
struct Got(Version, Vec<u8>);

impl Got {
    fn packets(&self) -> Vec<Packet<'_>> {
        let mut rest = &self.1[..];
        let mut packets = Vec::new();
        while let Some(length) = packet_length(rest).unwrap() {
            packets.push(Packet::decode(self.0, &rest[..length]).unwrap());
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        packets
    }

    fn payloads(&self) -> Vec<String> {
        let payload = |packet: Packet<'_>| match packet {
            Packet::Publish(publish) => Some(String::from_utf8_lossy(publish.payload).into_owned()),
            _ => None,
        };
        self.packets().into_iter().filter_map(payload).collect()
    }

    /// The only packet, which is a PUBLISH.
    fn publish(&self) -> Publish<'_> {
        let packets = self.packets();
        let [Packet::Publish(publish)] = &packets[..] else { panic!("{packets:?}") };
        publish.clone()
    }

    fn reason(&self) -> u8 {
        let packets = self.packets();
        let [Packet::Disconnect(disconnect)] = &packets[..] else { panic!("{packets:?}") };
        disconnect.reason
    }
}

fn hello(client_id: &str) -> Connect<'_> {
    Connect::clean(Version::V5, client_id)
}

fn lasting(client_id: &str) -> Connect<'_> {
    let properties = Properties::List(&[Property::SessionExpiryInterval(60)]);
    Connect { clean_start: false, properties, ..hello(client_id) }
}

fn will<'a>(payload: &'a [u8], properties: Properties<'a>) -> Will<'a> {
    Will { qos: QoS::AtMostOnce, retain: false, topic: "will", payload, properties }
}

fn publish<'a>(topic: &'a str, payload: &'a [u8]) -> Publish<'a> {
    Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic,
        packet_id: None,
        properties: Properties::default(),
        payload,
    }
}

impl Bench {
    fn new() -> Bench {
        Bench::with(LIMITS)
    }

    fn with(limits: Limits) -> Bench {
        Bench { hub: Hub::new(limits, None, Nanos::ZERO), now: Nanos::ZERO }
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.hub.set_time(self.now);
        self.hub.fire();
    }

    fn version(&mut self, id: u64) -> Version {
        self.hub.link(id).unwrap().version
    }

    /// Sends a packet as a client.
    fn send(&mut self, id: u64, packet: Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.version(id), &mut bytes).unwrap();
        self.hub.input(id, &bytes);
    }

    /// What a client was sent since it was last asked.
    fn got(&mut self, id: u64) -> Got {
        let mut bytes = Vec::new();
        let version = self.version(id);
        loop {
            let link = self.hub.link(id).unwrap();
            let count = link.out.waiting();
            bytes.extend_from_slice(link.out.rest());
            link.out.advance(count);
            link.dirty = false;
            if count == 0 {
                return Got(version, bytes);
            }
            self.hub.sent(id);
        }
    }

    /// A connection and the answer to its CONNECT.
    fn connect(&mut self, connect: &Connect<'_>) -> (u64, Got) {
        let id = self.hub.open();
        let mut bytes = Vec::new();
        encode_connect(connect, &mut bytes).unwrap();
        self.hub.input(id, &bytes);
        let mut got = self.got(id);
        got.0 = connect.version;
        (id, got)
    }

    /// A client that is connected.
    fn client(&mut self, connect: &Connect<'_>) -> u64 {
        let (id, got) = self.connect(connect);
        assert!(matches!(got.packets()[0], Packet::Connack(Connack { code: 0, .. })), "{:?}", got.packets());
        id
    }

    fn subscribe(&mut self, id: u64, subscription: Subscription<'_>, identifier: Option<u32>) -> Got {
        let list: Vec<_> = identifier.map(Property::SubscriptionIdentifier).into_iter().collect();
        let properties = Properties::List(&list);
        let subscriptions = vec![subscription];
        self.send(id, Packet::Subscribe(Subscribe { packet_id: 1, subscriptions, properties }));
        let mut got = self.got(id);
        let length = packet_length(&got.1).unwrap().unwrap();
        assert_eq!(got.1[0], 0x90);
        got.1.drain(..length);
        got
    }

    /// A subscriber of a clean session.
    fn subscriber(&mut self, client_id: &str, filter: &str, qos: QoS) -> u64 {
        let id = self.client(&hello(client_id));
        self.subscribe(id, Subscription::new(filter, qos), None);
        id
    }

    fn publish(&mut self, id: u64, topic: &str, payload: &[u8]) {
        self.send(id, Packet::Publish(publish(topic, payload)));
    }

    fn publish_at(&mut self, id: u64, qos: QoS, packet_id: u16, payload: &[u8]) {
        self.send(id, Packet::Publish(Publish { qos, packet_id: Some(packet_id), ..publish("t", payload) }));
    }

    fn ack(&mut self, id: u64, kind: AckKind, packet_id: u16) {
        self.send(id, Packet::Ack(Ack { kind, packet_id, reason: 0, properties: Properties::default() }));
    }
}

#[test]
fn both_versions_talk_to_each_other_and_3_1_1_gets_no_properties() {
    let mut bench = Bench::new();
    let old = bench.client(&Connect { version: Version::V311, ..hello("old") });
    let new = bench.subscriber("new", "a/#", QoS::AtMostOnce);
    bench.subscribe(old, Subscription::new("a/b", QoS::AtMostOnce), None);
    let list = [
        Property::PayloadFormatIndicator(true),
        Property::MessageExpiryInterval(5),
        Property::TopicAlias(3),
        Property::ContentType("text"),
        Property::ResponseTopic("answers"),
        Property::CorrelationData(b"7"),
        Property::UserProperty("k", "v"),
    ];
    bench.send(new, Packet::Publish(Publish { properties: Properties::List(&list), ..publish("a/b", b"1") }));
    assert_eq!(bench.got(old).publish(), publish("a/b", b"1"));
    let got = bench.got(new);
    let forwarded: Vec<_> = got.publish().properties.iter().collect();
    let expected = [list[0], list[3], list[4], list[5], list[6], list[1]];
    assert_eq!(forwarded, expected, "all but the alias");
    bench.send(
        new,
        Packet::Publish(Publish { properties: Properties::List(&[list[2]]), ..publish("", b"2") }),
    );
    assert_eq!(bench.got(old).publish(), publish("a/b", b"2"));
    let unknown = Properties::List(&[Property::TopicAlias(4)]);
    bench.send(new, Packet::Publish(Publish { properties: unknown, ..publish("", b"3") }));
    assert_eq!(bench.got(new).packets().len(), 2, "the message, and the reason");
    assert_eq!(bench.hub.take_ended(), [new]);
}

#[test]
fn overlapping_subscriptions_no_local_and_identifiers() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(&hello("a")), bench.client(&hello("b")));
    bench.subscribe(a, Subscription::new("t/#", QoS::AtMostOnce), Some(1));
    bench.subscribe(
        a,
        Subscription { no_local: true, ..Subscription::new("t/+", QoS::ExactlyOnce) },
        Some(2),
    );
    bench.publish(b, "t/x", b"of b");
    let got = bench.got(a);
    let mut identifiers: Vec<_> = got.publish().properties.subscription_identifiers().collect();
    identifiers.sort_unstable();
    assert_eq!(identifiers, [1, 2], "one delivery");
    bench.publish(a, "t/x", b"of a");
    let got = bench.got(a);
    assert_eq!(got.publish().properties.subscription_identifiers().collect::<Vec<_>>(), [1]);
    let filters = vec!["t/#", "t/+", "none"];
    bench.send(
        a,
        Packet::Unsubscribe(Unsubscribe { packet_id: 2, filters, properties: Properties::default() }),
    );
    assert_eq!(bench.got(a).1, [0xb0, 6, 0, 2, 0, 0, 0, 0x11]);
    bench.publish(b, "t/x", b"again");
    assert!(bench.got(a).1.is_empty());
}

#[test]
fn retained_messages_are_kept_replaced_removed_and_expire() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let retain = |bench: &mut Bench, topic, payload, properties| {
        let publish = Publish { retain: true, properties, ..publish(topic, payload) };
        bench.send(publisher, Packet::Publish(publish));
    };
    for (topic, payload) in [("a", "old"), ("a", "new"), ("b/c", "gone"), ("b/c", ""), ("$s/d", "hidden")] {
        retain(&mut bench, topic, payload.as_bytes(), Properties::default());
    }
    retain(&mut bench, "e", b"short", Properties::List(&[Property::MessageExpiryInterval(10)]));
    bench.pass(Nanos::from_millis(2500));
    let reader = bench.client(&hello("r"));
    let wild = Subscription::new("#", QoS::AtMostOnce);
    let got = bench.subscribe(reader, wild, None);
    let mut payloads = got.payloads();
    payloads.sort();
    assert_eq!(payloads, ["new", "short"]);
    for packet in got.packets() {
        let Packet::Publish(publish) = packet else { panic!() };
        assert!(publish.retain);
        if publish.topic == "e" {
            assert_eq!(publish.properties.message_expiry_interval(), Some(8), "what is left");
        }
    }
    bench.pass(Nanos::from_secs(8));
    assert_eq!(bench.subscribe(reader, wild, None).payloads(), ["new"], "subscribed again");
    let if_new = Subscription { retain_handling: RetainHandling::SendIfNew, ..wild };
    assert!(bench.subscribe(reader, if_new, None).1.is_empty());
    let never = Subscription {
        retain_handling: RetainHandling::DoNotSend,
        ..Subscription::new("a", QoS::AtMostOnce)
    };
    assert!(bench.subscribe(reader, never, None).1.is_empty());
    assert!(bench.subscribe(reader, Subscription::new("$share/g/a", QoS::AtMostOnce), None).1.is_empty());
}

#[test]
fn retain_as_published_keeps_the_flag_and_others_lose_it() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let plain = bench.subscriber("plain", "t", QoS::AtMostOnce);
    let kept = bench.client(&hello("kept"));
    let subscription = Subscription { retain_as_published: true, ..Subscription::new("t", QoS::AtMostOnce) };
    bench.subscribe(kept, subscription, None);
    bench.send(publisher, Packet::Publish(Publish { retain: true, ..publish("t", b"1") }));
    assert!(!bench.got(plain).publish().retain);
    assert!(bench.got(kept).publish().retain);
}

#[test]
fn a_lasting_session_queues_repeats_and_keeps_order() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let reader = bench.client(&lasting("r"));
    bench.subscribe(reader, Subscription::new("t", QoS::ExactlyOnce), None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 1, b"1");
    bench.publish_at(publisher, QoS::ExactlyOnce, 2, b"2");
    bench.publish_at(publisher, QoS::ExactlyOnce, 3, b"3");
    assert_eq!(bench.got(reader).payloads(), ["1", "2", "3"]);
    bench.ack(reader, AckKind::Pubrec, 2);
    assert_eq!(bench.got(reader).1, [0x62, 2, 0, 2]);
    bench.hub.end(reader, None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 4, b"4");
    bench.publish(publisher, "t", b"not kept");
    bench.pass(Nanos::from_secs(59));
    let (reader, got) = bench.connect(&lasting("r"));
    let packets = got.packets();
    assert!(matches!(&packets[0], Packet::Connack(Connack { session_present: true, .. })));
    let Packet::Publish(first) = &packets[1] else { panic!("{packets:?}") };
    assert!(first.dup && first.packet_id == Some(1) && first.payload == b"1");
    assert!(matches!(&packets[2], Packet::Ack(Ack { kind: AckKind::Pubrel, packet_id: 2, .. })));
    let Packet::Publish(third) = &packets[3] else { panic!("{packets:?}") };
    assert!(third.dup && third.packet_id == Some(3));
    let Packet::Publish(fourth) = &packets[4] else { panic!("{packets:?}") };
    assert!(!fourth.dup && fourth.payload == b"4");
    bench.hub.end(reader, None);
    bench.pass(Nanos::from_secs(61));
    let (_, got) = bench.connect(&lasting("r"));
    assert_eq!(got.packets().len(), 1, "the session expired");
}

#[test]
fn the_clients_receive_maximum_is_the_only_window() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let properties = Properties::List(&[Property::ReceiveMaximum(2)]);
    let narrow = bench.client(&Connect { properties, ..hello("narrow") });
    bench.subscribe(narrow, Subscription::new("t", QoS::AtLeastOnce), None);
    let wide = bench.subscriber("wide", "t", QoS::AtLeastOnce);
    for number in 1..=5000 {
        bench.publish_at(publisher, QoS::AtLeastOnce, number, number.to_string().as_bytes());
    }
    assert_eq!(bench.got(wide).payloads().len(), 5000);
    assert_eq!(bench.got(narrow).payloads(), ["1", "2"]);
    bench.ack(narrow, AckKind::Puback, 2);
    assert_eq!(bench.got(narrow).payloads(), ["3"]);
    bench.ack(narrow, AckKind::Puback, 2);
    assert!(bench.got(narrow).1.is_empty(), "acknowledged already");
}

#[test]
fn what_is_larger_than_a_client_takes_is_left_out() {
    let mut bench = Bench::new();
    let properties = Properties::List(&[Property::MaximumPacketSize(30)]);
    let small = bench.client(&Connect { properties, ..hello("small") });
    bench.subscribe(small, Subscription::new("t", QoS::AtLeastOnce), None);
    let publisher = bench.client(&hello("p"));
    bench.publish_at(publisher, QoS::AtLeastOnce, 1, &[b'x'; 40]);
    bench.publish_at(publisher, QoS::AtLeastOnce, 2, b"fits");
    assert_eq!(bench.got(small).payloads(), ["fits"]);
    bench.publish(publisher, "t", &vec![0; 2 * 1024 * 1024]);
    let mut got = bench.got(publisher);
    got.1.drain(..8);
    assert_eq!(got.reason(), reasons::PACKET_TOO_LARGE);
}

#[test]
fn wills_come_when_the_connection_breaks_and_not_after_a_goodbye() {
    let mut bench = Bench::new();
    let watcher = bench.subscriber("w", "will", QoS::AtMostOnce);
    let with_will = |payload| Connect { will: Some(will(payload, Properties::default())), ..hello("c") };
    let goodbye = |reason| Packet::Disconnect(Disconnect { reason, properties: Properties::default() });
    let client = bench.client(&with_will(b"broken"));
    bench.hub.end(client, None);
    assert_eq!(bench.got(watcher).payloads(), ["broken"]);
    let client = bench.client(&with_will(b"never"));
    bench.send(client, goodbye(0));
    assert!(bench.got(watcher).1.is_empty());
    let client = bench.client(&with_will(b"asked for"));
    bench.send(client, goodbye(0x04));
    assert_eq!(bench.got(watcher).payloads(), ["asked for"]);
    let first = bench.client(&with_will(b"taken over"));
    bench.client(&hello("c"));
    assert_eq!(bench.got(watcher).payloads(), ["taken over"]);
    assert_eq!(bench.got(first).reason(), reasons::TAKEN_OVER);
}

#[test]
fn a_delayed_will_waits_and_ends_with_the_return_or_the_session() {
    let mut bench = Bench::new();
    let watcher = bench.subscriber("w", "will", QoS::AtMostOnce);
    let delay = [Property::WillDelayInterval(10)];
    let with_will = Connect { will: Some(will(b"late", Properties::List(&delay))), ..lasting("c") };
    let client = bench.client(&with_will);
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(9));
    assert!(bench.got(watcher).1.is_empty());
    bench.pass(Nanos::from_secs(1));
    assert_eq!(bench.got(watcher).payloads(), ["late"]);
    let client = bench.client(&with_will);
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(5));
    let client = bench.client(&with_will);
    bench.pass(Nanos::from_secs(20));
    assert!(bench.got(watcher).1.is_empty(), "the client was back");
    bench.hub.end(client, None);
    bench.client(&hello("c"));
    assert_eq!(bench.got(watcher).payloads(), ["late"], "a clean start ended the session");
    let brief = [Property::SessionExpiryInterval(3)];
    let client = bench.client(&Connect { properties: Properties::List(&brief), ..with_will.clone() });
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(3));
    assert_eq!(bench.got(watcher).payloads(), ["late"], "the session ended before the delay");
}

#[test]
fn a_group_shares_and_what_a_member_leaves_goes_to_another() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let members: Vec<u64> =
        ["a", "b"].iter().map(|name| bench.subscriber(name, "$share/g/t", QoS::ExactlyOnce)).collect();
    let alone = bench.subscriber("alone", "t", QoS::AtMostOnce);
    for number in 1..=6 {
        bench.publish_at(publisher, QoS::AtLeastOnce, number, number.to_string().as_bytes());
    }
    assert_eq!(bench.got(members[0]).payloads(), ["1", "3", "5"]);
    assert_eq!(bench.got(members[1]).payloads(), ["2", "4", "6"]);
    assert_eq!(bench.got(alone).payloads().len(), 6);
    bench.ack(members[0], AckKind::Puback, 1);
    bench.hub.end(members[0], None);
    assert_eq!(bench.got(members[1]).payloads(), ["3", "5"], "unacknowledged at QoS 1");
    bench.publish_at(publisher, QoS::ExactlyOnce, 7, b"7");
    assert_eq!(bench.got(members[1]).payloads(), ["7"]);
    bench.subscriber("c", "$share/g/t", QoS::AtMostOnce);
    bench.hub.end(members[1], None);
    assert_eq!(bench.hub.dropped_for_memory(), 0);
}

#[test]
fn silence_and_violations_end_a_connection_with_their_reason() {
    let mut bench = Bench::new();
    let client = bench.client(&Connect { keep_alive: 10, ..hello("c") });
    bench.pass(Nanos::from_secs(14));
    bench.send(client, Packet::Pingreq);
    assert_eq!(bench.got(client).packets(), [Packet::Pingresp]);
    bench.pass(Nanos::from_millis(14_900));
    assert!(bench.hub.take_ended().is_empty());
    bench.pass(Nanos::from_millis(100));
    assert_eq!(bench.got(client).reason(), reasons::KEEP_ALIVE_TIMEOUT);
    let silent = bench.hub.open();
    bench.pass(CONNECT_PATIENCE);
    assert!(bench.hub.take_ended().contains(&silent));
    let cases: [(&[u8], u8); 8] = [
        (b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0", reasons::PROTOCOL_ERROR),
        (b"\x20\x03\0\0\0", reasons::PROTOCOL_ERROR),
        (b"\xf0\0", reasons::PROTOCOL_ERROR),
        (b"\x36\0", reasons::MALFORMED),
        (b"\x30\x05\0\x02a#\0", reasons::TOPIC_INVALID),
        (b"\x82\x08\0\x01\0\0\x02a#\0", reasons::FILTER_INVALID),
        (b"\x30\x07\0\x01a\x03\x23\0\0", reasons::ALIAS_INVALID),
        (b"\x30\x06\0\x01a\x02\x0b\x01", reasons::PROTOCOL_ERROR),
    ];
    for (bytes, reason) in cases {
        let client = bench.client(&hello("c"));
        bench.hub.input(client, bytes);
        assert_eq!(bench.got(client).reason(), reason, "{bytes:?}");
    }
}

#[test]
fn a_refused_connect_has_the_code_of_its_version() {
    let mut bench = Bench::with(Limits { connections: 1, ..LIMITS });
    bench.client(&hello("first"));
    let (_, got) = bench.connect(&hello("second"));
    assert_eq!(got.1[3], reasons::SERVER_BUSY);
    let (_, got) = bench.connect(&Connect { version: Version::V311, ..hello("second") });
    assert_eq!(got.1, [0x20, 2, 0, 3]);
    bench.client(&hello("first"));
    let cases: [(&[u8], &[u8]); 6] = [
        (b"\x10\x0e\0\x06MQIsdp\x03\x02\0\0\0\0", &[0x20, 2, 0, 1]),
        (b"\x10\x0c\0\x04MQTT\x03\x02\0\0\0\0", &[0x20, 2, 0, 1]),
        (b"\x10\x0d\0\x04MQTT\x06\x02\0\0\0\0\0", &[0x20, 3, 0, 0x84, 0]),
        (b"\x10\x0c\0\x04MQTT\x04\0\0\0\0\0", &[0x20, 2, 0, 2]),
        (b"\x10\x0d\0\x04MQTT\x05\x03\0\0\0\0\0", &[0x20, 3, 0, 0x81, 0]),
        (b"\xc0\0", b""),
    ];
    for (bytes, answer) in cases {
        let id = bench.hub.open();
        bench.hub.input(id, bytes);
        assert_eq!(bench.got(id).1, answer, "{bytes:?}");
        assert!(bench.hub.take_ended().contains(&id));
    }
    let (_, got) = bench.connect(&Connect {
        properties: Properties::List(&[Property::AuthenticationMethod("x")]),
        ..hello("first")
    });
    assert_eq!(got.1[3], reasons::BAD_AUTHENTICATION_METHOD);
}

#[test]
fn a_client_without_id_gets_one_of_its_own() {
    let mut bench = Bench::new();
    let ids: BTreeSet<String> = (0..3)
        .map(|_| {
            let (_, got) = bench.connect(&hello(""));
            let packets = got.packets();
            let Packet::Connack(connack) = &packets[0] else { panic!("{packets:?}") };
            connack.properties.assigned_client_identifier().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn at_the_memory_bound_what_must_wait_is_dropped_and_counted_and_others_go_on() {
    let mut bench = Bench::with(Limits { memory: 1024 * 1024, ..LIMITS });
    let publisher = bench.client(&hello("p"));
    let stuck = bench.subscriber("stuck", "t", QoS::AtMostOnce);
    let well = bench.subscriber("well", "t", QoS::AtMostOnce);
    let payload = [b'x'; 1000];
    let mut read = 0;
    for _ in 0..4000 {
        bench.publish(publisher, "t", &payload);
        read += bench.got(well).payloads().len();
    }
    assert_eq!(read, 4000);
    let dropped = bench.hub.dropped_for_memory() as usize;
    let late = bench.got(stuck).payloads().len();
    assert!(dropped > 2000 && late > 500, "{dropped} {late}");
    assert_eq!(dropped + late, 4000, "nothing is lost uncounted");
    bench.publish(publisher, "t", b"again");
    assert_eq!(bench.got(stuck).payloads(), ["again"], "there is room again");
}

#[test]
fn all_memory_is_given_back() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let alias = Properties::List(&[Property::TopicAlias(1)]);
    let reader = bench.client(&lasting("r"));
    for filter in ["t", "a/+/c", "$share/g/t"] {
        bench.subscribe(reader, Subscription::new(filter, QoS::ExactlyOnce), None);
    }
    bench.send(publisher, Packet::Publish(Publish { properties: alias, retain: true, ..publish("t", b"1") }));
    for (number, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce), (3, QoS::ExactlyOnce)] {
        bench.publish_at(publisher, qos, number, b"x");
    }
    bench.ack(reader, AckKind::Pubrec, 2);
    bench.hub.end(reader, None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 4, b"x");
    bench.send(publisher, Packet::Publish(Publish { retain: true, ..publish("t", b"") }));
    bench.hub.input(publisher, b"\x30\x10half");
    bench.hub.end(publisher, None);
    bench.pass(Nanos::from_secs(60));
    for id in bench.hub.take_ended() {
        bench.hub.remove(id).unwrap().close();
    }
    assert_eq!(bench.hub.context.memory.used(), 0);
    assert_eq!((bench.hub.sessions.iter_mut().count(), bench.hub.connected), (0, 0));
}

/// One side of an exchange at QoS 2 as the standard describes it (MQTT 5 section 4.3.3), over connections that break.
#[derive(Default)]
struct Sender {
    /// Packet id, and whether PUBREC has come.
    open: VecDeque<(u16, bool)>,
}

/// The other side.
#[derive(Default)]
struct Receiver {
    unreleased: BTreeSet<u16>,
    delivered: Vec<String>,
}

/// Answers whatever the hub has sent to the sender.
fn sender_answers(bench: &mut Bench, id: u64, sender: &mut Sender) -> bool {
    let got = bench.got(id);
    for packet in got.packets() {
        let Packet::Ack(ack) = packet else { continue };
        match ack.kind {
            AckKind::Pubrec => {
                for (packet_id, received) in &mut sender.open {
                    *received |= *packet_id == ack.packet_id;
                }
                bench.ack(id, AckKind::Pubrel, ack.packet_id);
            }
            _ => sender.open.retain(|(packet_id, _)| *packet_id != ack.packet_id),
        }
    }
    !got.1.is_empty()
}

fn receiver_answers(bench: &mut Bench, id: u64, receiver: &mut Receiver, most: usize) -> bool {
    let got = bench.got(id);
    for packet in got.packets().into_iter().take(most) {
        match packet {
            Packet::Publish(publish) => {
                let packet_id = publish.packet_id.unwrap();
                if receiver.unreleased.insert(packet_id) {
                    receiver.delivered.push(String::from_utf8(publish.payload.to_vec()).unwrap());
                }
                bench.ack(id, AckKind::Pubrec, packet_id);
            }
            Packet::Ack(ack) => {
                receiver.unreleased.remove(&ack.packet_id);
                bench.ack(id, AckKind::Pubcomp, ack.packet_id);
            }
            _ => {}
        }
    }
    !got.1.is_empty()
}

fn resume_sender(bench: &mut Bench, sender: &Sender) -> u64 {
    let id = bench.client(&lasting("s"));
    for &(packet_id, received) in &sender.open {
        if received {
            bench.ack(id, AckKind::Pubrel, packet_id);
        } else {
            let payload = packet_id.to_string();
            let again = Publish {
                dup: true,
                qos: QoS::ExactlyOnce,
                packet_id: Some(packet_id),
                ..publish("t", payload.as_bytes())
            };
            bench.send(id, Packet::Publish(again));
        }
    }
    id
}

proptest! {
    /// However often both connections break, and wherever, each message at QoS 2 is delivered once and in order.
    #[test]
    fn qos_2_is_exactly_once(steps in proptest::collection::vec(0u8..6, 1..120), window in 1u16..5) {
        let mut bench = Bench::new();
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        let list = [Property::SessionExpiryInterval(60), Property::ReceiveMaximum(window)];
        let reading = Connect { properties: Properties::List(&list), ..lasting("r") };
        let (mut out, mut into) = (bench.client(&lasting("s")), bench.client(&reading));
        bench.subscribe(into, Subscription::new("t", QoS::ExactlyOnce), None);
        let mut published = 0;
        for step in steps {
            match step {
                0 | 1 => {
                    published += 1;
                    sender.open.push_back((published, false));
                    bench.publish_at(out, QoS::ExactlyOnce, published, published.to_string().as_bytes());
                }
                2 => drop(sender_answers(&mut bench, out, &mut sender)),
                3 => drop(receiver_answers(&mut bench, into, &mut receiver, usize::MAX)),
                4 => {
                    bench.hub.end(out, None);
                    out = resume_sender(&mut bench, &sender);
                }
                // The receiver reads some of what came, and the connection breaks.
                _ => {
                    receiver_answers(&mut bench, into, &mut receiver, usize::from(window) / 2);
                    bench.hub.end(into, None);
                    into = bench.hub.open();
                    let mut bytes = Vec::new();
                    encode_connect(&reading, &mut bytes).unwrap();
                    bench.hub.input(into, &bytes);
                }
            }
        }
        while sender_answers(&mut bench, out, &mut sender)
            | receiver_answers(&mut bench, into, &mut receiver, usize::MAX) {}
        let expected: Vec<String> = (1..=published).map(|number| number.to_string()).collect();
        prop_assert_eq!(receiver.delivered, expected);
        prop_assert!(sender.open.is_empty() && receiver.unreleased.is_empty());
    }

    /// Whatever bytes come, in whatever pieces and after whatever CONNECT, nothing panics and others are served.
    #[test]
    fn no_bytes_bring_the_hub_down(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..6),
        version_5: bool,
        connected: bool,
    ) {
        let mut bench = Bench::new();
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let id = if connected { bench.client(&Connect { version, ..hello("x") }) } else { bench.hub.open() };
        for piece in pieces {
            bench.hub.input(id, &piece);
        }
        let reader = bench.subscriber("r", "t", QoS::AtMostOnce);
        let publisher = bench.client(&hello("p"));
        bench.publish(publisher, "t", b"on");
        prop_assert_eq!(bench.got(reader).payloads(), ["on"]);
    }

    /// The same with packets that are well formed at their beginning.
    #[test]
    fn no_damaged_packet_brings_the_hub_down(
        packets in proptest::collection::vec((1u8..16, 0u8..16, proptest::collection::vec(any::<u8>(), 0..40)), 1..8),
        version_5: bool,
    ) {
        let mut bench = Bench::new();
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let id = bench.client(&Connect { version, ..hello("x") });
        for (kind, flags, body) in packets {
            let mut bytes = vec![kind << 4 | flags, body.len() as u8];
            bytes.extend_from_slice(&body);
            bench.hub.input(id, &bytes);
        }
        bench.client(&hello("p"));
    }
}
