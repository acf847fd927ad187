//! What each protocol costs: the packets of its capture from memory through reassembly, dissection and counting, on one thread,
//! without and with a search for markers. The shortest of many rounds.
//!
//!     cargo bench -p plimsoll-capture

use plimsoll_capture::marker::{Form, Pattern, Search};
use plimsoll_capture::packet::{Decoder, Packet};
use plimsoll_capture::source::{Block, PacketSource};
use plimsoll_capture::table::{Settings, Table};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CAPTURES: [&str; 16] = [
    "http11",
    "http2",
    "websocket",
    "mqtt311",
    "mqtt5",
    "mqtt311_ws",
    "coap_udp",
    "coap_tcp",
    "redis_basic",
    "redis_pubsub_queue",
    "mongodb",
    "postgres",
    "kafka",
    "nats",
    "amqp",
    "chain",
];
const ROUNDS: u32 = 40;

/// Blocks of a capture and the packets in them.
type Blocks = Vec<(Block, Vec<Packet>)>;

fn load(name: &str) -> Result<Blocks, Box<dyn Error>> {
    let captures = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures"));
    let mut source = PacketSource::open(&captures.join(format!("{name}.pcap.zst")))?;
    let mut decoder = Decoder::default();
    let mut blocks = Vec::new();
    loop {
        let mut block = Block::default();
        if !source.next(&mut block)? {
            return Ok(blocks);
        }
        let records = std::mem::take(&mut block.records);
        let packets = records.iter().filter_map(|record| decoder.packet(&mut block, record)).collect();
        blocks.push((block, packets));
    }
}

fn round(blocks: &[(Block, Vec<Packet>)], search: &Search) -> Duration {
    let settings = Settings {
        search: search.clone(),
        components: Arc::default(),
        phases: Arc::default(),
        keys: Arc::default(),
        exchanges: false,
        actions: false,
        only_known: false,
        open: 1000,
        stop: Arc::default(),
    };
    let begin = Instant::now();
    let mut table = Table::new(settings);
    let mut last = plimsoll_model::Nanos::ZERO;
    for (block, packets) in blocks {
        for packet in packets {
            let content = block.bytes.get(packet.offset as usize..).unwrap_or_default();
            table.packet(packet, content.get(..packet.length as usize).unwrap_or_default());
            last = packet.at;
        }
    }
    table.finish(last);
    begin.elapsed()
}

fn main() -> Result<(), Box<dyn Error>> {
    let marker = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};")?)]);
    println!(
        "{:20}{:>9}{:>11}{:>12}{:>12}{:>12}",
        "capture", "packets", "bytes", "ns/packet", "ns/byte", "searching"
    );
    for name in CAPTURES {
        let blocks = load(name)?;
        let packets: usize = blocks.iter().map(|(_, packets)| packets.len()).sum();
        let all = blocks.iter().flat_map(|(_, packets)| packets);
        let bytes: usize = all.map(|packet| packet.length as usize).sum();
        let shortest = |search: &Search| {
            (0..ROUNDS).map(|_| round(&blocks, search)).min().unwrap_or_default().as_nanos() as f64
        };
        let (plain, searching) = (shortest(&Search::default()), shortest(&marker));
        println!(
            "{name:20}{packets:>9}{bytes:>11}{:>12.0}{:>12.2}{:>12.2}",
            plain / packets as f64,
            plain / bytes as f64,
            searching / bytes as f64
        );
    }
    Ok(())
}
