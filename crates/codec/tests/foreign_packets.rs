//! Packets of independent implementations: a codec that only reads what it wrote could hide its own mistakes.

// Functions beside the tests are tests too.
#![allow(clippy::panic, clippy::unwrap_used)]

use plimsoll_codec::mqtt::{Packet, PacketType, Version, packet_length};
use std::collections::BTreeMap;

const FIXTURE: &str = include_str!("fixtures/mqtt_packets.txt");

struct Captured {
    version: Version,
    sender: &'static str,
    packet_type: &'static str,
    bytes: Vec<u8>,
}

fn version(name: &str) -> Version {
    match name {
        "mqtt311" => Version::V311,
        "mqtt5" => Version::V5,
        other => panic!("the fixture has no version {other}"),
    }
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    assert!(odd.is_empty());
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    FIXTURE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(' ').collect())
}

fn captured() -> Vec<Captured> {
    lines()
        .filter(|words| words[0] != "count")
        .map(|words| Captured {
            version: version(words[0]),
            sender: words[1],
            packet_type: words[2],
            bytes: hexadecimal(words[3]),
        })
        .collect()
}

#[test]
fn every_captured_packet_is_read_and_written_again_byte_by_byte() {
    for Captured { version, packet_type, bytes, .. } in captured() {
        assert_eq!(packet_length(&bytes), Ok(Some(bytes.len())));
        let packet = Packet::decode(version, &bytes)
            .unwrap_or_else(|error| panic!("{packet_type} {bytes:02x?}: {error}"));
        assert_eq!(packet.packet_type().name(), packet_type);
        let mut out = Vec::new();
        packet.encode(version, &mut out).unwrap();
        assert_eq!(out, bytes, "{packet:?}");
    }
}

#[test]
fn there_are_as_many_packets_of_each_type_as_the_fixture_says() {
    let mut said = BTreeMap::new();
    for words in lines().filter(|words| words[0] == "count") {
        said.insert((words[1], words[2]), words[3].parse::<usize>().unwrap());
    }
    let mut counted = BTreeMap::new();
    for packet in captured() {
        let decoded = Packet::decode(packet.version, &packet.bytes).unwrap();
        let version = if packet.version == Version::V5 { "mqtt5" } else { "mqtt311" };
        *counted.entry((version, decoded.packet_type().name())).or_insert(0) += 1;
    }
    assert_eq!(counted, said);
}

#[test]
fn only_the_right_side_sends_each_packet() {
    for packet in captured() {
        let decoded = Packet::decode(packet.version, &packet.bytes).unwrap();
        let sender = match decoded.packet_type() {
            PacketType::Connect
            | PacketType::Subscribe
            | PacketType::Unsubscribe
            | PacketType::Pingreq
            | PacketType::Disconnect => "client",
            PacketType::Connack | PacketType::Suback | PacketType::Unsuback | PacketType::Pingresp => {
                "broker"
            }
            _ => packet.sender,
        };
        assert_eq!(packet.sender, sender);
    }
}

/// What the script that made the capture did: see `"what"` in the truth file of `mqtt5.pcap`.
#[test]
fn the_properties_that_were_sent_are_seen() {
    let packets = captured();
    let publishes: Vec<_> = packets
        .iter()
        .filter_map(|packet| match Packet::decode(packet.version, &packet.bytes) {
            Ok(Packet::Publish(publish)) => Some(publish),
            _ => None,
        })
        .collect();
    let seen = |what: &dyn Fn(&&plimsoll_codec::mqtt::Publish) -> bool| {
        publishes.iter().any(|publish| what(&publish))
    };
    assert!(seen(&|publish| publish.properties.topic_alias().is_some() && publish.topic.is_empty()));
    assert!(seen(&|publish| publish.properties.response_topic().is_some()));
    assert!(seen(&|publish| publish.properties.correlation_data().is_some()));
    assert!(seen(&|publish| publish.properties.user_properties().count() > 0));
    assert!(seen(&|publish| publish.retain));
    assert!(publishes.iter().all(|publish| publish.payload.windows(5).any(|window| window == b"plm1:")));
}
