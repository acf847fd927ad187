//! Captures of planted traffic, written byte by byte: no codec of the program has part in them. Each message is a segment or a
//! datagram, answered a millisecond later.

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
}

impl Speaks {
    fn port(self) -> u16 {
        match self {
            Speaks::Mqtt => 1883,
            Speaks::Http => 8080,
            Speaks::Coap => 5683,
        }
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

/// A connection's numbers of bytes, of both sides.
#[derive(Clone, Copy)]
struct Stream {
    client: u32,
    server: u32,
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
            let mut body = vec![0, 1];
            text(&mut body, &filter);
            body.push(1);
            self.say(
                begin + 400_000,
                Speaks::Mqtt,
                client,
                &mut stream,
                &mqtt(0x82, &body),
                b"\x90\x03\0\x01\x01",
            );
        }
        for (at, speaks, sent) in std::mem::take(&mut self.said) {
            if speaks == Speaks::Coap {
                self.datagrams(at, &sent);
                continue;
            }
            let key = (speaks, sent.client);
            let known = streams.get(&key).copied();
            let mut stream = known.unwrap_or_else(|| self.open(begin, speaks, sent.client));
            if known.is_none() && speaks == Speaks::Mqtt {
                let hello = connect(&format!("device-{}", sent.client));
                self.say(begin + 500_000, speaks, sent.client, &mut stream, &hello, b"\x20\x02\0\0");
            }
            let (asks, answers) = match speaks {
                Speaks::Mqtt => publish(&sent),
                _ => post(&sent),
            };
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
        Stream { client: 1_000, server: 5_000 }
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

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

/// A packet of MQTT.
fn mqtt(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut left = body.len();
    loop {
        let more = if left > 127 { 128 } else { 0 };
        packet.push((left % 128) as u8 | more);
        left /= 128;
        if more == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

fn connect(client: &str) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, "MQTT");
    body.extend([4, 2, 0, 45]);
    text(&mut body, client);
    mqtt(0x10, &body)
}

fn publish(sent: &Sent) -> (Vec<u8>, Vec<u8>) {
    let mut body = Vec::new();
    text(&mut body, &sent.target);
    if sent.qos > 0 {
        body.extend([0, 7]);
    }
    body.extend(vec![b'x'; sent.bytes]);
    let first = 0x30 | sent.qos << 1 | u8::from(sent.retained);
    let answers: &[u8] = if sent.qos > 0 { b"\x40\x02\0\x07" } else { b"" };
    (mqtt(first, &body), answers.to_vec())
}

fn post(sent: &Sent) -> (Vec<u8>, Vec<u8>) {
    let Sent { target, bytes, .. } = sent;
    let mut asks =
        format!("POST {target} HTTP/1.1\r\nHost: platform\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    asks.extend(vec![b'x'; *bytes]);
    (asks, b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())
}
