//! The hub without sockets, in a time of its own.

mod connections;
mod messages;
mod robustness;

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
