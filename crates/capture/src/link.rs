//! Link layers: from the first byte of a record to that of its IP packet.

/// Pcap's numbers of link types (tcpdump.org/linktypes).
const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW_OLD: u16 = 12;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const COOKED: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const COOKED_2: u16 = 276;

/// Tags one within the other that are followed.
const TAGS: usize = 4;

/// Whether packets of that link type can be read.
pub fn is_known(link: u16) -> bool {
    matches!(link, NULL | ETHERNET | RAW_OLD | RAW | LOOP | COOKED | IPV4 | IPV6 | COOKED_2)
}

/// Where the IP packet begins in a record, and the interface where the link layer tells it. `None` where there is none, or
/// too little of it.
pub fn network(link: u16, bytes: &[u8]) -> Option<(usize, Option<u16>)> {
    match link {
        ETHERNET => tagged(bytes, 12).map(|at| (at, None)),
        COOKED => tagged(bytes, 14).map(|at| (at, None)),
        COOKED_2 => {
            let interface = bytes.get(4..8)?.first_chunk().map(|four| u32::from_be_bytes(*four) as u16);
            // Its protocol stands first, the packet behind twenty bytes.
            let inner = match bytes.get(..2)? {
                [0x08, 0x00] | [0x86, 0xdd] => 20,
                [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => tagged(bytes, 22)?,
                _ => return None,
            };
            Some((inner, interface))
        }
        // The family, in the byte order of who captured; the version of IP tells it as well.
        NULL | LOOP => is_ip(bytes, 4),
        RAW | RAW_OLD | IPV4 | IPV6 => is_ip(bytes, 0),
        _ => None,
    }
}

/// Follows 802.1Q and 802.1ad tags from an EtherType.
fn tagged(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=TAGS {
        match bytes.get(at..at + 2)? {
            [0x08, 0x00] | [0x86, 0xdd] => return Some(at + 2),
            [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => at += 4,
            // PPPoE session with IP in it.
            [0x88, 0x64] => return is_ip(bytes, at + 10).map(|(at, _)| at),
            _ => return None,
        }
    }
    None
}

fn is_ip(bytes: &[u8], at: usize) -> Option<(usize, Option<u16>)> {
    matches!(bytes.get(at)? >> 4, 4 | 6).then_some((at, None))
}
