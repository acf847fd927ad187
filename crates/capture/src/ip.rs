//! IPv4 (RFC 791) and IPv6 (RFC 8200): headers, extension headers, fragments, jumbograms (RFC 2675), checksums (RFC 1071).

use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use std::net::Ipv4Addr;

/// Numbers of transports.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Extension headers that are walked through.
const EXTENSIONS: usize = 8;
/// Packets that are being put together, and the bytes of all of them.
const OPEN: usize = 1024;
const OPEN_BYTES: usize = 4 << 20;
/// How long fragments wait for the others (RFC 8200, section 4.5).
const PATIENCE: Nanos = Nanos::from_secs(60);

/// What the header of an IP packet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub from: [u8; 16],
    pub to: [u8; 16],
    pub protocol: u8,
    /// Low bits of the packet's number; 0 where it has none.
    pub id: u16,
    /// Where the content begins and ends, counted from the header.
    pub begin: usize,
    pub end: usize,
    /// Bytes of content that are not in the capture.
    pub missing: u32,
    pub fragment: Option<Fragment>,
    pub checksum_holds: bool,
}

/// Which part of a packet this is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    offset: usize,
    more: bool,
    id: u32,
}

/// Reads the header; `cut_off` bytes of the packet's end were not captured.
pub(crate) fn read(bytes: &[u8], cut_off: u32) -> Option<Network> {
    match bytes.first()? >> 4 {
        4 => version_4(bytes, cut_off),
        6 => version_6(bytes, cut_off),
        _ => None,
    }
}

/// Where the content ends, and how much of it is missing. A total of 0 is a large segment's: what is there counts.
fn extent(total: usize, bytes: &[u8], cut_off: u32) -> (usize, u32) {
    if total == 0 {
        return (bytes.len(), cut_off);
    }
    (total.min(bytes.len()), total.saturating_sub(bytes.len()).min(cut_off as usize) as u32)
}

fn version_4(bytes: &[u8], cut_off: u32) -> Option<Network> {
    let header = bytes.first_chunk::<20>()?;
    let length = usize::from(header[0] & 15) * 4;
    if length < 20 || length > bytes.len() {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total != 0 && total < length {
        return None;
    }
    let (end, missing) = extent(total, bytes, cut_off);
    let id = u16::from_be_bytes([header[4], header[5]]);
    let place = u16::from_be_bytes([header[6], header[7]]);
    let (offset, more) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    let fragment = (more || offset > 0).then_some(Fragment { offset, more, id: u32::from(id) });
    let address = |at: usize| mapped([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some(Network {
        from: address(12),
        to: address(16),
        protocol: header[9],
        id,
        begin: length,
        end,
        missing,
        fragment,
        checksum_holds: fold(sum(&bytes[..length])) == 0xffff,
    })
}

fn version_6(bytes: &[u8], cut_off: u32) -> Option<Network> {
    const HEADER: usize = 40;
    let header = bytes.first_chunk::<HEADER>()?;
    let mut total = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut protocol = header[6];
    let mut begin = HEADER;
    let (mut fragment, mut id) = (None, 0);
    if total > 0 {
        total += HEADER;
    }
    for _ in 0..EXTENSIONS {
        let extension = bytes.get(begin..begin + 8);
        let length = match (protocol, extension) {
            // Hop by hop, routing, destination, mobility, host identity, shim.
            (0 | 43 | 60 | 135 | 139 | 140, Some(extension)) => {
                // The jumbo payload option: its length counts from behind the first header.
                if let (0, [_, _, 0xc2, 4, jumbo @ ..]) = (protocol, extension) {
                    let jumbo = u32::from_be_bytes(jumbo.first_chunk().copied().unwrap_or_default());
                    total = HEADER + jumbo as usize;
                }
                8 + usize::from(extension[1]) * 8
            }
            (51, Some(extension)) => 8 + usize::from(extension[1]) * 4,
            (44, Some(extension)) => {
                let place = u16::from_be_bytes([extension[2], extension[3]]);
                let number = u32::from_be_bytes([extension[4], extension[5], extension[6], extension[7]]);
                id = number as u16;
                fragment =
                    Some(Fragment { offset: usize::from(place & 0xfff8), more: place & 1 != 0, id: number });
                8
            }
            (0 | 43 | 60 | 135 | 139 | 140 | 51 | 44, None) => return None,
            _ => break,
        };
        protocol = extension?[0];
        begin += length;
        if fragment.is_some_and(|fragment| fragment.offset > 0) {
            break;
        }
    }
    let (end, missing) = extent(total, bytes, cut_off);
    if begin > end {
        return None;
    }
    // A packet that is whole within one fragment header.
    let fragment = fragment.filter(|fragment| fragment.more || fragment.offset > 0);
    let address = |at: usize| header[at..at + 16].first_chunk().copied().unwrap_or_default();
    let (from, to) = (address(8), address(24));
    Some(Network { from, to, protocol, id, begin, end, missing, fragment, checksum_holds: true })
}

/// Whether the checksum of a segment or datagram holds. UDP over IPv4 may have none.
pub(crate) fn checksum_holds(network: &Network, content: &[u8]) -> bool {
    if network.protocol == UDP && content.get(6..8) == Some(&[0, 0]) {
        return true;
    }
    // Addresses in the form ::ffff:a.b.c.d would add 0xffff twice, which is 0 in this sum.
    let length = (content.len() as u32).to_be_bytes();
    let pseudo = sum(&network.from) + sum(&network.to) + sum(&[0, network.protocol]) + sum(&length);
    fold(pseudo + sum(content)) == 0xffff
}

/// The sum of 16-bit words in this machine's order of bytes, four bytes at a time.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

type Key = ([u8; 16], [u8; 16], u8, u32);

/// Packets that are being put together from their fragments.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    open: FxHashMap<Key, Parts>,
    bytes: usize,
    /// Fragments whose packet was given up.
    pub given_up: u64,
}

#[derive(Debug)]
struct Parts {
    since: Nanos,
    parts: Vec<(usize, Vec<u8>)>,
    /// Known with the last fragment.
    total: Option<usize>,
}

impl Fragments {
    /// Takes a fragment; the content of its packet when it is whole.
    pub fn put(
        &mut self,
        network: &Network,
        fragment: Fragment,
        content: &[u8],
        at: Nanos,
    ) -> Option<Vec<u8>> {
        if network.missing > 0 || self.open.len() >= OPEN || self.bytes + content.len() > OPEN_BYTES {
            self.give_up_before(at - PATIENCE);
            if network.missing > 0 || self.open.len() >= OPEN || self.bytes + content.len() > OPEN_BYTES {
                self.given_up += 1;
                return None;
            }
        }
        let key = (network.from, network.to, network.protocol, fragment.id);
        if self.open.get(&key).is_some_and(|parts| at - parts.since > PATIENCE) {
            // The number has come round.
            self.give_up_before(at - PATIENCE);
        }
        let parts =
            self.open.entry(key).or_insert_with(|| Parts { since: at, parts: Vec::new(), total: None });
        if parts.parts.iter().any(|(offset, _)| *offset == fragment.offset) {
            return None;
        }
        if !fragment.more {
            parts.total = Some(fragment.offset + content.len());
        }
        self.bytes += content.len();
        parts.parts.push((fragment.offset, content.to_vec()));
        let total = parts.total?;
        parts.parts.sort_by_key(|(offset, _)| *offset);
        let mut whole = Vec::with_capacity(total);
        for (offset, part) in &parts.parts {
            if *offset > whole.len() {
                return None;
            }
            // Where two overlap, the first counts.
            whole.extend_from_slice(part.get(whole.len() - offset..).unwrap_or_default());
        }
        if whole.len() < total {
            return None;
        }
        if let Some(parts) = self.open.remove(&key) {
            self.bytes -= parts.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
        }
        whole.truncate(total);
        Some(whole)
    }

    /// Fragments of packets that are not whole.
    pub fn open(&self) -> u64 {
        self.open.values().map(|parts| parts.parts.len() as u64).sum()
    }

    fn give_up_before(&mut self, at: Nanos) {
        let (bytes, given_up) = (&mut self.bytes, &mut self.given_up);
        self.open.retain(|_, parts| {
            let keep = parts.since > at;
            if !keep {
                *bytes -= parts.parts.iter().map(|(_, part)| part.len()).sum::<usize>();
                *given_up += parts.parts.len() as u64;
            }
            keep
        });
    }
}

/// An address in the form `::ffff:a.b.c.d`.
fn mapped(v4: [u8; 4]) -> [u8; 16] {
    Ipv4Addr::from(v4).to_ipv6_mapped().octets()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of RFC 1071, section 3.
    #[test]
    fn the_sum_is_that_of_the_standard() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(u16::from_be(fold(sum(&bytes))), 0xddf2);
    }

    fn fragment(offset: u16, more: bool, content: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&(20 + content.len() as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
        packet.extend_from_slice(content);
        packet
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
        let parts = [fragment(0, true, &[1; 16]), fragment(16, true, &[2; 8]), fragment(24, false, &[3; 3])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut fragments = Fragments::default();
            let put = |fragments: &mut Fragments, bytes: &[u8]| {
                let network = read(bytes, 0).unwrap();
                fragments.put(
                    &network,
                    network.fragment.unwrap(),
                    &bytes[network.begin..network.end],
                    Nanos::ZERO,
                )
            };
            assert_eq!(put(&mut fragments, &parts[order[0]]), None);
            assert_eq!(put(&mut fragments, &parts[order[0]]), None, "twice");
            assert_eq!(put(&mut fragments, &parts[order[1]]), None);
            let whole = put(&mut fragments, &parts[order[2]]).unwrap();
            assert_eq!(whole, [[1; 16].as_slice(), &[2; 8], &[3; 3]].concat());
            assert_eq!((fragments.open.len(), fragments.bytes), (0, 0));
        }
    }

    #[test]
    fn what_never_becomes_whole_is_given_up() {
        let mut fragments = Fragments::default();
        for number in 0..OPEN as u32 + 500 {
            let mut bytes = fragment(0, true, &[0; 8]);
            bytes[4..6].copy_from_slice(&(number as u16).to_be_bytes());
            let network = read(&bytes, 0).unwrap();
            let at = Nanos::from_secs(i64::from(number));
            assert!(fragments.put(&network, network.fragment.unwrap(), &[0; 8], at).is_none());
        }
        assert!(fragments.open.len() <= OPEN && fragments.given_up > 0);
    }

    #[test]
    fn extension_headers_and_jumbograms_are_walked_through() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 1];
        packet.extend([0; 32]);
        // Hop by hop with a jumbo payload of 70,008 bytes, then destination options, then UDP.
        packet.extend([60, 0, 0xc2, 4, 0, 1, 0x11, 0x78, UDP, 0, 1, 4, 0, 0, 0, 0]);
        packet[6] = 0;
        packet.resize(40 + 70_008, 7);
        let network = read(&packet, 0).unwrap();
        assert_eq!(
            (network.protocol, network.begin, network.end, network.missing),
            (UDP, 56, packet.len(), 0)
        );
        assert!(read(&packet[..50], 0).is_none());
    }
}
