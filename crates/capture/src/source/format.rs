//! The two file formats: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).

use super::block::{LONGEST, Record};
use plimsoll_model::Nanos;
use std::ops::Range;

/// What stands where a record should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// A length that no record has.
    Length(u32),
    /// A block that is longer than all that follows.
    Block(u32),
    /// A packet of an interface that was not described.
    Interface(u32),
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Garbage::Length(length) => write!(f, "a record of {length} bytes"),
            Garbage::Block(length) => {
                write!(f, "a block of {length} bytes, which are not all in the file,")
            }
            Garbage::Interface(number) => {
                write!(f, "a packet of interface {number}, which was not described,")
            }
        }
    }
}

/// What was found.
pub enum Item {
    Packet(Record),
    /// A key log of TLS, and where it lies in those bytes.
    Keys(Range<usize>),
    /// Something about the capture.
    Other,
}

/// Why nothing was.
pub enum Need {
    More,
    Nothing(Garbage),
}

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let both = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        match self {
            Order::Little => u16::from_le_bytes(both),
            Order::Big => u16::from_be_bytes(both),
        }
    }

    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let four = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        match self {
            Order::Little => u32::from_le_bytes(four),
            Order::Big => u32::from_be_bytes(four),
        }
    }
}

/// How the records of a file are read.
pub struct Format(Kind);

enum Kind {
    Pcap { order: Order, nanoseconds: bool, link: u16 },
    Pcapng { order: Order, interfaces: Vec<Interface>, before: u16 },
}

/// An interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: u16,
    snapshot: u32,
    /// Units of time in a second.
    resolution: u64,
    /// Seconds to be added.
    offset: i64,
}

impl Format {
    /// Bytes that tell the format.
    pub const HEAD: usize = 24;

    /// The format, and the bytes before its first record.
    pub fn recognise(head: &[u8]) -> Option<(Format, usize)> {
        let magic = head.first_chunk().map(|four| u32::from_le_bytes(*four))?;
        let pcap = |order: Order, nanoseconds| {
            // The upper bits hold the length of a frame check sequence.
            let link = order.u32(head, 20) as u16;
            (head.len() >= Format::HEAD)
                .then_some((Format(Kind::Pcap { order, nanoseconds, link }), Format::HEAD))
        };
        match magic {
            0xa1b2_c3d4 => pcap(Order::Little, false),
            0xd4c3_b2a1 => pcap(Order::Big, false),
            0xa1b2_3c4d => pcap(Order::Little, true),
            0x4d3c_b2a1 => pcap(Order::Big, true),
            0x0a0d_0d0a => {
                let order = section_order(head)?;
                Some((Format(Kind::Pcapng { order, interfaces: Vec::new(), before: 0 }), 0))
            }
            _ => None,
        }
    }

    /// Whether all interfaces that are known so far have that link type.
    pub fn is_all(&self, link: u16) -> bool {
        match &self.0 {
            Kind::Pcap { .. } => true,
            Kind::Pcapng { interfaces, .. } => interfaces.iter().all(|interface| interface.link == link),
        }
    }

    /// The first record in those bytes and its length, which reaches beyond those bytes where it is a long one that is no
    /// packet.
    pub fn next(&mut self, bytes: &[u8]) -> Result<(usize, Item), Need> {
        match &mut self.0 {
            Kind::Pcap { order, nanoseconds, link } => pcap_record(*order, *nanoseconds, *link, bytes),
            Kind::Pcapng { order, interfaces, before } => block(order, interfaces, before, bytes),
        }
    }
}

fn pcap_record(order: Order, nanoseconds: bool, link: u16, bytes: &[u8]) -> Result<(usize, Item), Need> {
    const HEAD: usize = 16;
    if bytes.len() < HEAD {
        return Err(Need::More);
    }
    let captured = order.u32(bytes, 8);
    if captured as usize > LONGEST - HEAD {
        return Err(Need::Nothing(Garbage::Length(captured)));
    }
    let length = HEAD + captured as usize;
    if bytes.len() < length {
        return Err(Need::More);
    }
    let unit = if nanoseconds { 1 } else { 1000 };
    let at = i64::from(order.u32(bytes, 0)) * 1_000_000_000 + i64::from(order.u32(bytes, 4)) * unit;
    let original = order.u32(bytes, 12).max(captured);
    Ok((
        length,
        Item::Packet(Record { at: Nanos(at), offset: HEAD as u32, captured, original, link, interface: 0 }),
    ))
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// The Decryption Secrets Block, the kind of secrets that is a key log of TLS, and the longest that is believed, bytes.
const SECRETS: u32 = 10;
const TLS_KEY_LOG: u32 = 0x544c_534b;
const LONGEST_SECRETS: usize = 16 << 20;

fn section_order(bytes: &[u8]) -> Option<Order> {
    match bytes.get(8..12)? {
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
        _ => None,
    }
}

fn block(
    order: &mut Order,
    interfaces: &mut Vec<Interface>,
    before: &mut u16,
    bytes: &[u8],
) -> Result<(usize, Item), Need> {
    if bytes.len() < 12 {
        return Err(Need::More);
    }
    let kind = order.u32(bytes, 0);
    if kind == SECTION {
        // A section may have another byte order than the one before.
        *order = section_order(bytes).ok_or(Need::Nothing(Garbage::Length(order.u32(bytes, 4))))?;
    }
    let total = order.u32(bytes, 4);
    let length = total as usize;
    let is_packet = matches!(kind, OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
    if length < 12 || !length.is_multiple_of(4) || is_packet && length > LONGEST {
        return Err(Need::Nothing(Garbage::Length(total)));
    }
    // Private blocks may be of any length. Of a section's or an interface's the beginning says enough.
    let are_keys = kind == SECRETS && length <= LONGEST_SECRETS;
    let wanted = if are_keys { length } else { LONGEST };
    let Some(bytes) = bytes.get(..length.min(wanted)) else { return Err(Need::More) };
    let body_end = bytes.len() - 4;
    let packet = |interface: u32, time: Option<u64>, captured: u32, original: u32, offset: usize| {
        let described =
            interfaces.get(interface as usize).ok_or(Need::Nothing(Garbage::Interface(interface)))?;
        let captured = captured.min(body_end.saturating_sub(offset) as u32);
        Ok((
            length,
            Item::Packet(Record {
                at: time.map_or(Nanos::ZERO, |time| described.time(time)),
                offset: offset as u32,
                captured,
                original: original.max(captured),
                link: described.link,
                interface: before.wrapping_add(interface as u16),
            }),
        ))
    };
    match kind {
        SECTION => {
            *before = before.wrapping_add(interfaces.len() as u16);
            interfaces.clear();
        }
        SECRETS if are_keys && length >= 20 && order.u32(bytes, 8) == TLS_KEY_LOG => {
            let end = (order.u32(bytes, 12) as usize).saturating_add(16).min(body_end);
            return Ok((length, Item::Keys(16..end)));
        }
        INTERFACE if length >= 20 => interfaces.push(Interface::read(*order, bytes, body_end)),
        ENHANCED_PACKET | OLD_PACKET if length >= 32 => {
            let interface =
                if kind == ENHANCED_PACKET { order.u32(bytes, 8) } else { u32::from(order.u16(bytes, 8)) };
            let time = u64::from(order.u32(bytes, 12)) << 32 | u64::from(order.u32(bytes, 16));
            return packet(interface, Some(time), order.u32(bytes, 20), order.u32(bytes, 24), 28);
        }
        SIMPLE_PACKET if length >= 16 => {
            let original = order.u32(bytes, 8);
            let snapshot = interfaces.first().map_or(0, |interface| interface.snapshot);
            let captured = if snapshot == 0 { original } else { original.min(snapshot) };
            return packet(0, None, captured, original, 12);
        }
        _ => {}
    }
    Ok((length, Item::Other))
}

impl Interface {
    fn read(order: Order, bytes: &[u8], end: usize) -> Interface {
        let (mut resolution, mut offset) = (1_000_000, 0);
        let mut at = 16;
        while at + 4 <= end {
            let (code, length) = (order.u16(bytes, at), usize::from(order.u16(bytes, at + 2)));
            let value = bytes.get(at + 4..at + 4 + length).unwrap_or_default();
            match (code, value) {
                (0, _) => break,
                // if_tsresol: a power of ten, or of two where the highest bit is set.
                (9, &[exponent]) => {
                    let power = u32::from(exponent & 0x7f);
                    let base = if exponent & 0x80 == 0 { 10_u64 } else { 2 };
                    resolution = base.checked_pow(power).unwrap_or(u64::MAX);
                }
                (14, value) if value.len() == 8 => {
                    let (one, two) = (order.u32(value, 0), order.u32(value, 4));
                    let (high, low) = match order {
                        Order::Big => (one, two),
                        Order::Little => (two, one),
                    };
                    offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        let (link, snapshot) = (order.u16(bytes, 8), order.u32(bytes, 12));
        Interface { link, snapshot, resolution, offset }
    }

    fn time(&self, units: u64) -> Nanos {
        let nanoseconds = u128::from(units) * 1_000_000_000 / u128::from(self.resolution);
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        Nanos(nanoseconds.saturating_add(self.offset.saturating_mul(1_000_000_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever an interface says of its clock, its packets have a time.
    #[test]
    fn clocks_out_of_this_world_overflow_nothing() {
        for (resolution, offset) in [(u64::MAX, i64::MIN), (1, i64::MAX), (10, i64::MIN)] {
            let interface = Interface { link: 1, snapshot: 0, resolution, offset };
            for units in [0, 1, u64::MAX] {
                let _ = interface.time(units) - Nanos::from_secs(1);
            }
        }
        assert_eq!(Nanos::from_secs(i64::MIN / 2), Nanos(i64::MIN));
    }
}
