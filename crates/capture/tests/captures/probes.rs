//! What packets are taken for when nothing but their bytes is known: wherever a capture begins, a wrong guess is worse than none.

use crate::{folder, truth};
use plimsoll_capture::dissect::Carrier;
use plimsoll_capture::dissectors::{Found, find};
use plimsoll_capture::packet::{Decoder, Transport};
use plimsoll_capture::side::Side;
use plimsoll_capture::source::{Block, PacketSource};
use std::collections::BTreeMap;

/// Ports of which nothing is known.
const STRANGE: [u16; 2] = [50_000, 50_001];

#[test]
fn no_packet_is_taken_for_another_protocol_or_another_side() {
    for name in [
        "amqp",
        "chain",
        "coap_tcp",
        "coap_udp",
        "http11",
        "http2",
        "kafka",
        "mongodb",
        "mongodb_w0",
        "mqtt311",
        "mqtt311_ws",
        "mqtt5",
        "nats",
        "postgres",
        "redis_basic",
        "redis_pubsub_queue",
        "websocket",
    ] {
        let truth = truth(name);
        let endpoints = truth["endpoints"].as_array().unwrap().iter();
        let spoken: BTreeMap<u16, &str> = endpoints
            .map(|endpoint| {
                (endpoint["port"].as_u64().unwrap() as u16, endpoint["protocol"].as_str().unwrap())
            })
            .collect();
        let mut source = PacketSource::open(&folder().join(format!("{name}.pcap.zst"))).unwrap();
        let (mut block, mut decoder) = (Block::default(), Decoder::default());
        let (mut known, mut all) = (0, 0);
        while source.next(&mut block).unwrap() {
            for record in std::mem::take(&mut block.records) {
                let Some(packet) = decoder.packet(&mut block, &record).filter(|packet| packet.length > 0)
                else {
                    continue;
                };
                let bytes = &block.bytes[packet.offset as usize..][..packet.length as usize];
                let (port, side) = match spoken.get_key_value(&packet.to.port) {
                    Some((port, _)) => (port, Side::Client),
                    None => (&packet.from.port, Side::Server),
                };
                let carrier =
                    if packet.transport == Transport::Udp { Carrier::Datagrams } else { Carrier::Stream };
                for speaker in [None, Some(side)] {
                    all += 1;
                    match find(bytes, carrier, STRANGE, speaker) {
                        Found::One(entry, says) => {
                            let place = format!(
                                "{name}: {} said by {says:?} for {side:?}: {bytes:.40?}",
                                entry.protocol.name()
                            );
                            // WebSocket begins as HTTP does.
                            let spoken = spoken[port];
                            let upgrade = spoken.ends_with("websocket") && entry.protocol.name() == "http";
                            assert!(spoken.ends_with(entry.protocol.name()) || upgrade, "{place}");
                            assert!(says.is_none_or(|says| says == side), "{place}");
                            known += 1;
                        }
                        Found::Opaque(protocol) => panic!("{name}: {}: {bytes:.40?}", protocol.name()),
                        Found::Perhaps | Found::None => {}
                    }
                }
            }
        }
        assert!(known * 4 > all, "{name}: {known} of {all} are known by their bytes alone");
    }
}
