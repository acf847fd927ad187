//! One packet of a capture: who to whom, and what TCP or UDP says in its header.

use crate::ip::{self, Fragments, Network};
use crate::link;
use crate::source::{Block, Record};
use plimsoll_model::Nanos;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address and a port; IPv4 in the form `::ffff:a.b.c.d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: [u8; 16],
    /// The port.
    pub port: u16,
}

impl From<Endpoint> for SocketAddr {
    fn from(endpoint: Endpoint) -> SocketAddr {
        SocketAddr::new(endpoint.ip(), endpoint.port)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        let ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Endpoint { address: ip.octets(), port: address.port() }
    }
}

impl Endpoint {
    /// The address.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }
}

/// Flags of a TCP header (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const fn fin(self) -> bool {
        self.0 & 1 != 0
    }

    /// Numbers are being agreed on.
    pub const fn syn(self) -> bool {
        self.0 & 2 != 0
    }

    /// The connection is no more.
    pub const fn rst(self) -> bool {
        self.0 & 4 != 0
    }

    /// The acknowledgement counts.
    pub const fn ack(self) -> bool {
        self.0 & 16 != 0
    }
}

/// What a TCP header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Number of the first byte.
    pub sequence: u32,
    /// Number of the next byte that is expected from the other side.
    pub acknowledgement: u32,
    /// Its flags.
    pub flags: Flags,
    /// Free space of the receiver, not scaled.
    pub window: u16,
    /// Largest segment, in a SYN; 0 where it is not said.
    pub mss: u16,
    /// The sender's clock (RFC 7323, section 3); 0 where it is not said.
    pub clock: u32,
    /// Tells duplicates of one packet from packets alike: made of all of the headers that routers and bridges leave alone.
    pub print: u64,
}

/// The transport of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A segment.
    Tcp(Tcp),
    /// A datagram.
    Udp,
}

/// A packet that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was captured.
    pub at: Nanos,
    /// Who sent it.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// What carries it.
    pub transport: Transport,
    /// IP's number of it: each sender counts.
    pub ip_id: u16,
    /// Where its content begins in its block.
    pub offset: u32,
    /// Bytes of content that are there.
    pub length: u32,
    /// Bytes of content that were cut off by the capture.
    pub missing: u32,
}

impl Packet {
    /// The same for both directions of a conversation; its low bits choose a thread.
    pub fn conversation_hash(&self) -> u64 {
        end_hash(&self.from) ^ end_hash(&self.to)
    }
}

fn end_hash(endpoint: &Endpoint) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let [high, low] = halves(&endpoint.address);
    let mixed = (high.rotate_left(29) ^ low).wrapping_mul(ODD)
        ^ u64::from(endpoint.port).wrapping_mul(ODD.rotate_left(17));
    (mixed ^ mixed >> 32).wrapping_mul(ODD)
}

fn halves(address: &[u8; 16]) -> [u64; 2] {
    let (chunks, _) = address.as_chunks::<8>();
    [chunks[0], chunks[1]].map(u64::from_ne_bytes)
}

/// What was seen on the way from records to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of those, bytes that the capture holds.
    pub captured: u64,
    /// Packets whose end was cut off by the capture.
    pub cut: u64,
    /// Packets of neither TCP nor UDP over IP (ARP, ICMP), or whose headers are cut off or wrong.
    pub others: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Fragments whose packet was never whole.
    pub lost_fragments: u64,
    /// Packets with a wrong checksum: an offloading network card fills it in later.
    pub bad_checksums: u64,
    /// Times at which a packet was stamped before the one ahead of it by over a millisecond: the clock was set.
    pub clock_steps: u64,
}

/// Interfaces whose clocks are told apart.
const INTERFACES: usize = 64;

/// Turns records into packets.
#[derive(Default)]
pub struct Decoder {
    fragments: Fragments,
    last: Vec<Nanos>,
    /// What was seen.
    pub counts: Counts,
}

impl Decoder {
    /// The packet of a record, where it is one of TCP or UDP and whole. A datagram that was put together from fragments
    /// is appended to the block.
    pub fn packet(&mut self, block: &mut Block, record: &Record) -> Option<Packet> {
        self.counts.packets += 1;
        self.counts.bytes += u64::from(record.original);
        self.counts.captured += u64::from(record.captured);
        self.counts.cut += u64::from(record.captured < record.original);
        let interface = usize::from(record.interface).min(INTERFACES - 1);
        if self.last.len() <= interface {
            self.last.resize(interface + 1, Nanos(i64::MIN));
        }
        // Each interface has an order of its own.
        let last = std::mem::replace(&mut self.last[interface], record.at);
        if record.at < last - Nanos::from_millis(1) && last.0 != i64::MIN {
            self.counts.clock_steps += 1;
        }
        let packet = self.decode(block, record);
        if packet.is_none() {
            self.counts.others += 1;
        }
        packet.flatten()
    }

    /// The capture is over: what is not whole will never be.
    pub fn finish(&mut self) {
        self.counts.lost_fragments += self.fragments.open();
    }

    /// `Some(None)` for a fragment.
    fn decode(&mut self, block: &mut Block, record: &Record) -> Option<Option<Packet>> {
        let begin = record.offset as usize;
        let bytes = block.bytes.get(begin..begin + record.captured as usize)?;
        let at = link::network(record.link, bytes)?;
        let packet = bytes.get(at..)?;
        let cut_off = record.original - record.captured;
        let network = ip::read(packet, cut_off)?;
        self.counts.bad_checksums += u64::from(!network.checksum_holds);
        let Some(fragment) = network.fragment else {
            let content = packet.get(network.begin..network.end)?;
            return self.transport(record, &network, content, (begin + at + network.begin) as u32).map(Some);
        };
        self.counts.fragments += 1;
        let content = packet.get(network.begin..network.end)?;
        let Some(whole) = self.fragments.put(&network, fragment, content, record.at) else {
            return Some(None);
        };
        self.counts.lost_fragments += std::mem::take(&mut self.fragments.given_up);
        let offset = block.bytes.len() as u32;
        let packet = self.transport(record, &Network { missing: 0, ..network }, &whole, offset)?;
        block.bytes.extend_from_slice(&whole);
        Some(Some(packet))
    }

    fn transport(
        &mut self,
        record: &Record,
        network: &Network,
        content: &[u8],
        offset: u32,
    ) -> Option<Packet> {
        let ports = content.first_chunk::<4>()?;
        let from = Endpoint { address: network.from, port: u16::from_be_bytes([ports[0], ports[1]]) };
        let to = Endpoint { address: network.to, port: u16::from_be_bytes([ports[2], ports[3]]) };
        let (head, transport, end) = match network.protocol {
            ip::TCP => {
                let header = content.first_chunk::<20>()?;
                let length = usize::from(header[12] >> 4) * 4;
                if length < 20 {
                    return None;
                }
                let whole = content.get(..length.min(content.len()))?;
                (length, Transport::Tcp(tcp(header, whole.get(20..)?, network, content.len())), content.len())
            }
            ip::UDP => {
                let header = content.first_chunk::<8>()?;
                let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
                // A length of 0 is a jumbogram's.
                let end = if length >= 8 { length.min(content.len()) } else { content.len() };
                (8, Transport::Udp, end)
            }
            _ => return None,
        };
        if network.missing == 0 && !ip::checksum_holds(network, content) {
            self.counts.bad_checksums += 1;
        }
        let begin = head.min(end);
        Some(Packet {
            at: record.at,
            from,
            to,
            transport,
            ip_id: network.id,
            offset: offset + begin as u32,
            length: (end - begin) as u32,
            missing: network.missing,
        })
    }
}

fn tcp(header: &[u8; 20], options: &[u8], network: &Network, length: usize) -> Tcp {
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (mut mss, mut clock) = (0, 0);
    let mut rest = options;
    // The usual form first: two paddings and the clocks.
    loop {
        match rest {
            [1, more @ ..] => rest = more,
            [8, 10, a, b, c, d, _, _, _, _, more @ ..] => {
                clock = u32::from_be_bytes([*a, *b, *c, *d]);
                rest = more;
            }
            [2, 4, a, b, more @ ..] => {
                mss = u16::from_be_bytes([*a, *b]);
                rest = more;
            }
            [kind, size, ..] if *kind >= 2 && *size >= 2 && usize::from(*size) <= rest.len() => {
                rest = &rest[usize::from(*size)..]
            }
            _ => break,
        }
    }
    Tcp {
        sequence: number(4),
        acknowledgement: number(8),
        flags: Flags(header[13]),
        window: u16::from_be_bytes([header[14], header[15]]),
        mss,
        clock,
        print: print((network.id, network.missing, length), header, options),
    }
}

/// Made of IP's number, what is missing, the length, and all of the header but its checksum, which an offloading card has not
/// filled in on every interface.
fn print((id, missing, length): (u16, u32, usize), header: &[u8; 20], options: &[u8]) -> u64 {
    let start = u64::from(id) << 48 ^ u64::from(missing) << 40 ^ (length as u64);
    // IP's number is spread over all bits first: in its own, a sequence number that counts with it would undo it.
    let mut print = mixed(start);
    for word in header[..16].chunks(8).chain(options.chunks(8)) {
        let mut eight = [0; 8];
        eight[..word.len()].copy_from_slice(word);
        print = mixed(print ^ u64::from_ne_bytes(eight));
    }
    print
}

fn mixed(word: u64) -> u64 {
    let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 29
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// IP's number counts packets, and the sequence number bytes: with 256 bytes a packet, both change in one bit.
    #[test]
    fn packets_in_a_row_are_no_duplicates_of_each_other() {
        let mut prints = BTreeSet::new();
        for packet in 0..4_096_u32 {
            let mut header = [0; 20];
            header[4..8].copy_from_slice(&(packet * 256).to_be_bytes());
            prints.insert(print((packet as u16, 0, 296), &header, &[]));
        }
        assert_eq!(prints.len(), 4_096);
    }
}
