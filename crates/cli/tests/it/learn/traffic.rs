//! Captures of planted traffic, written byte by byte: no codec of the program has part in them. Each message is a segment or a
//! datagram, answered a millisecond later.

use super::spoken::{connect, greeting, message, subscription};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The platform.
const SERVER: [u8; 4] = [10, 0, 0, 1];
/// What a client of the capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaks {
    Mqtt,
    Http,
    Coap,
    Http2,
    Nats,
    Amqp,
    Amqp1,
    Kafka,
}

impl Speaks {
    fn port(self) -> u16 {
        match self {
            Speaks::Mqtt => 1883,
            Speaks::Http => 8080,
            Speaks::Coap => 5683,
            Speaks::Http2 => 8081,
            Speaks::Nats => 4222,
            Speaks::Amqp | Speaks::Amqp1 => 5672,
            Speaks::Kafka => 9092,
        }
    }

    /// Whether messages have paths, which begin with a slash.
    pub fn has_paths(self) -> bool {
        matches!(self, Speaks::Http | Speaks::Coap | Speaks::Http2)
    }
}

/// A message of a client.
#[derive(Clone, Debug)]
pub struct Sent {
    pub client: u16,
    pub target: String,
    pub bytes: usize,
    pub qos: u8,
    pub retained: bool,
}

/// A connection's numbers of bytes, of both sides, and of messages.
#[derive(Clone, Copy)]
struct Stream {
    client: u32,
    server: u32,
    messages: u32,
}

/// Packets with their times in nanoseconds, in any order.
#[derive(Default)]
pub struct Traffic {
    packets: Vec<(i64, Vec<u8>)>,
    /// What is said, in the order of time, before it becomes packets.
    said: Vec<(i64, Speaks, Sent)>,
    /// Subscribers with their filters.
    subscribers: Vec<String>,
}

impl Traffic {
    pub fn send(&mut self, at: i64, speaks: Speaks, sent: Sent) {
        self.said.push((at, speaks, sent));
    }

    pub fn subscribe(&mut self, filter: &str) {
        self.subscribers.push(filter.to_owned());
    }

    /// The capture as a file of pcap: nanoseconds, raw IPv4. It begins at a fixed moment.
    pub fn pcap(mut self) -> Vec<u8> {
        self.said.sort_by_key(|(at, _, sent)| (*at, sent.client));
        let mut streams: BTreeMap<(Speaks, u16), Stream> = BTreeMap::new();
        let begin = self.said.first().map_or(0, |(at, ..)| *at) - 2_000_000;
        for (number, filter) in std::mem::take(&mut self.subscribers).into_iter().enumerate() {
            let client = 60_000 + number as u16;
            let mut stream = self.open(begin, Speaks::Mqtt, client);
            self.say(
                begin + 200_000,
                Speaks::Mqtt,
                client,
                &mut stream,
                &connect(&format!("app-{number}")),
                &[],
            );
            let (asks, answers) = subscription(&filter);
            self.say(begin + 400_000, Speaks::Mqtt, client, &mut stream, &asks, &answers);
        }
        for (at, speaks, sent) in std::mem::take(&mut self.said) {
            if speaks == Speaks::Coap {
                self.datagrams(at, &sent);
                continue;
            }
            let key = (speaks, sent.client);
            let known = streams.get(&key).copied();
            let mut stream = known.unwrap_or_else(|| self.open(begin, speaks, sent.client));
            if let Some((asks, answers)) = greeting(speaks, &sent).filter(|_| known.is_none()) {
                self.say(begin + 500_000, speaks, sent.client, &mut stream, &asks, &answers);
            }
            let (asks, answers) = message(speaks, &sent, stream.messages);
            stream.messages += 1;
            self.say(at, speaks, sent.client, &mut stream, &asks, &answers);
            streams.insert(key, stream);
        }
        self.packets.sort_by_key(|(at, _)| *at);
        let mut file = Vec::new();
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            file.extend(word.to_le_bytes());
        }
        for (at, packet) in self.packets {
            let at = at + 1_700_000_000_000_000_000;
            for word in [at / 1_000_000_000, at % 1_000_000_000, packet.len() as i64, packet.len() as i64] {
                file.extend((word as u32).to_le_bytes());
            }
            file.extend(packet);
        }
        file
    }

    /// The handshake of TCP.
    fn open(&mut self, at: i64, speaks: Speaks, client: u16) -> Stream {
        let port = speaks.port();
        self.segment(at, (client, port, true), (999, 0), 0x02, &[]);
        self.segment(at + 50_000, (client, port, false), (4_999, 1_000), 0x12, &[]);
        self.segment(at + 100_000, (client, port, true), (1_000, 5_000), 0x10, &[]);
        Stream { client: 1_000, server: 5_000, messages: 0 }
    }

    fn say(
        &mut self,
        at: i64,
        speaks: Speaks,
        client: u16,
        stream: &mut Stream,
        asks: &[u8],
        answers: &[u8],
    ) {
        let port = speaks.port();
        for part in asks.chunks(1_400) {
            self.segment(at, (client, port, true), (stream.client, stream.server), 0x18, part);
            stream.client = stream.client.wrapping_add(part.len() as u32);
        }
        if !answers.is_empty() {
            let later = at + 1_000_000;
            self.segment(later, (client, port, false), (stream.server, stream.client), 0x18, answers);
            stream.server = stream.server.wrapping_add(answers.len() as u32);
        }
    }

    fn segment(
        &mut self,
        at: i64,
        (client, port, by_client): (u16, u16, bool),
        (sequence, acknowledged): (u32, u32),
        flags: u8,
        content: &[u8],
    ) {
        let (from, to) = if by_client { (client, port) } else { (port, client) };
        let mut segment = Vec::new();
        segment.extend(from.to_be_bytes());
        segment.extend(to.to_be_bytes());
        segment.extend(sequence.to_be_bytes());
        segment.extend(acknowledged.to_be_bytes());
        segment.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend(content);
        self.ip(at, 6, client, by_client, &segment);
    }

    fn datagrams(&mut self, at: i64, sent: &Sent) {
        // A token and a number of its own: nothing is taken for a repetition.
        let id = self.packets.len() as u16;
        let mut asks = vec![if sent.qos == 0 { 0x54 } else { 0x44 }, 0x02];
        asks.extend(id.to_be_bytes());
        asks.extend((self.packets.len() as u32).to_be_bytes());
        let mut before = 0;
        for part in sent.target.trim_start_matches('/').split('/') {
            let number: u8 = if before == 0 { 11 } else { 0 };
            before = 11;
            assert!(part.len() < 13, "{part}");
            asks.push(number << 4 | part.len() as u8);
            asks.extend(part.as_bytes());
        }
        asks.push(0xff);
        asks.extend(vec![b'x'; sent.bytes]);
        let mut answers = vec![if sent.qos == 0 { 0x54 } else { 0x64 }, 0x44];
        answers.extend(&asks[2..8]);
        self.udp(at, sent.client, true, &asks);
        self.udp(at + 1_000_000, sent.client, false, &answers);
    }

    fn udp(&mut self, at: i64, client: u16, by_client: bool, content: &[u8]) {
        let port = Speaks::Coap.port();
        let (from, to) = if by_client { (client, port) } else { (port, client) };
        let mut datagram = Vec::new();
        datagram.extend(from.to_be_bytes());
        datagram.extend(to.to_be_bytes());
        datagram.extend((content.len() as u16 + 8).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(content);
        self.ip(at, 17, client, by_client, &datagram);
    }

    fn ip(&mut self, at: i64, protocol: u8, client: u16, by_client: bool, content: &[u8]) {
        let address = Ipv4Addr::from(0x0a01_0000 + u32::from(client)).octets();
        let (from, to) = if by_client { (address, SERVER) } else { (SERVER, address) };
        let mut packet = vec![0x45, 0];
        packet.extend((20 + content.len() as u16).to_be_bytes());
        // A number of its own for each packet.
        packet.extend((self.packets.len() as u16).to_be_bytes());
        packet.extend([0x40, 0, 64, protocol, 0, 0]);
        packet.extend(from);
        packet.extend(to);
        packet.extend(content);
        self.packets.push((at, packet));
    }
}
