//! Captures that begin late or have holes: what is read of them is right, though it is not all.

use crate::folder;
use plimsoll_capture::conversation::{Conversation, DissectionContext, Opening};
use plimsoll_capture::dissect::Carrier;
use plimsoll_capture::marker::Search;
use plimsoll_capture::observations::{ConversationId, Observations};
use plimsoll_capture::packet::{Decoder, Endpoint, Transport};
use plimsoll_capture::source::{Block, PacketSource};
use plimsoll_capture::tls::keys::Keys;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, WireProtocol};
use std::collections::BTreeMap;

const CAPTURES: [&str; 12] = [
    "redis_basic",
    "redis_pubsub_queue",
    "postgres",
    "nats",
    "amqp",
    "mongodb",
    "kafka",
    "http11",
    "http2",
    "mqtt311",
    "mqtt5",
    "coap_tcp",
];

/// The segments of a connection in their order: direction, time and content.
#[derive(Default)]
struct Connection {
    ports: [u16; 2],
    next: [u32; 2],
    segments: Vec<(usize, Nanos, Vec<u8>)>,
}

/// The connections of a capture of loopback, where nothing is lost or late, apart from repetitions.
fn connections(name: &str) -> Vec<Connection> {
    let mut source = PacketSource::open(&folder().join(format!("{name}.pcap.zst"))).unwrap();
    let (mut block, mut decoder) = (Block::default(), Decoder::default());
    let mut all: BTreeMap<[Endpoint; 2], Connection> = BTreeMap::new();
    while source.next(&mut block).unwrap() {
        for record in std::mem::take(&mut block.records) {
            let Some(packet) = decoder.packet(&mut block, &record) else { continue };
            let Transport::Tcp(tcp) = packet.transport else { continue };
            let (there, back) = ([packet.from, packet.to], [packet.to, packet.from]);
            if tcp.flags.syn() {
                let (key, direction) = if tcp.flags.ack() { (back, 1) } else { (there, 0) };
                let connection = all.entry(key).or_default();
                connection.ports = key.map(|end| end.port);
                connection.next[direction] = tcp.sequence.wrapping_add(1);
                continue;
            }
            let (key, direction) = if all.contains_key(&there) { (there, 0) } else { (back, 1) };
            let Some(connection) = all.get_mut(&key) else { continue };
            if packet.length > 0 && tcp.sequence == connection.next[direction] {
                connection.next[direction] = tcp.sequence.wrapping_add(packet.length);
                let content = block.bytes[packet.offset as usize..][..packet.length as usize].to_vec();
                connection.segments.push((direction, packet.at, content));
            }
        }
    }
    all.into_values().filter(|connection| !connection.segments.is_empty()).collect()
}

/// What is observed of a connection of which the segments before some are not there, nor others.
fn observe(
    connection: &Connection,
    from: usize,
    is_missing: impl Fn(usize) -> bool,
) -> (Observations, WireProtocol) {
    let search = Search::default();
    let mut observations = Observations::default();
    let mut context =
        DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
    let opening = if from == 0 { Opening::Seen(0) } else { Opening::Unknown };
    let mut conversation = Conversation::new(ConversationId(0), Carrier::Stream, connection.ports, opening);
    for (number, (direction, at, content)) in connection.segments.iter().enumerate().skip(from) {
        if is_missing(number) {
            conversation.gap(*direction, *at, content.len() as u64, &mut context);
        } else {
            conversation.data(*direction, *at, content, &mut context);
        }
    }
    conversation.end(&mut context);
    (observations, conversation.protocol())
}

/// When requests and their responses were complete.
fn pairs(observations: &Observations) -> Vec<(Label, Nanos, Nanos)> {
    let pair = |exchange: &plimsoll_capture::observations::Exchange| {
        Some((exchange.verb, exchange.request.last, exchange.response?.last))
    };
    observations.exchanges.iter().filter_map(pair).collect()
}

/// Whether an exchange that was observed is one of the whole capture. Of gRPC the path may have been missed, and with it that it
/// is gRPC; of MQTT the PUBLISH whose PUBREL then asks by itself.
fn is_one_of((verb, asked, answered): &(Label, Nanos, Nanos), whole: &[(Label, Nanos, Nanos)]) -> bool {
    let less = ["?", "POST", "PUBREL"].contains(&verb.as_str());
    let mut same = whole.iter().filter(|(_, _, whole)| whole == answered);
    same.any(|(name, when, _)| (when == asked || verb.as_str() == "PUBREL") && (less || name == verb))
}

#[test]
fn a_capture_that_begins_late_is_read_from_the_next_message_on() {
    for name in CAPTURES {
        for connection in connections(name).iter().filter(|connection| connection.segments.len() > 20) {
            let (whole, protocol) = observe(connection, 0, |_| false);
            for from in (1..connection.segments.len() - 10).step_by(7) {
                let (late, found) = observe(connection, from, |_| false);
                assert_eq!(found, protocol, "{name} from segment {from} on");
                assert_eq!(late.breaches, [], "{name} from segment {from} on");
                let begun = connection.segments[from].1;
                let still: usize = pairs(&whole).iter().filter(|(_, asked, _)| *asked > begun).count();
                // One may be under way where the reading begins.
                assert!((pairs(&late).len() + 1) * 10 >= still * 9, "{name} from segment {from} on: {still}");
            }
        }
    }
}

#[test]
fn a_hole_costs_exchanges_and_pairs_none_wrongly() {
    for name in CAPTURES.into_iter().chain(["mqtt311_ws"]) {
        let (mut expected, mut found) = (0, 0);
        for connection in connections(name) {
            let whole = pairs(&observe(&connection, 0, |_| false).0);
            for seed in 0..5 {
                let is_missing = |number: usize| number > 2 && (number * 7919 + seed).is_multiple_of(31);
                let (holed, _) = observe(&connection, 0, is_missing);
                assert_eq!(holed.breaches, [], "{name}");
                let pairs = pairs(&holed);
                assert!(pairs.iter().all(|pair| is_one_of(pair, &whole)), "{name}, seed {seed}");
                (expected, found) = (expected + whole.len(), found + pairs.len());
            }
        }
        // One packet in 31 is missing, and with it a request, a response, and what waits in order beside them.
        assert!(found * 4 > expected * 3, "{name}: {found} of {expected}");
    }
}
