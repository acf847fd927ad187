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

/// Where the IP packet begins in a record. `None` where there is none, or too little of it.
pub fn network(link: u16, bytes: &[u8]) -> Option<usize> {
    match link {
        ETHERNET => tagged(bytes, 12),
        COOKED => tagged(bytes, 14),
        // Its protocol stands first, the packet behind twenty bytes.
        COOKED_2 => match bytes.get(..2)? {
            [0x08, 0x00] | [0x86, 0xdd] => Some(20),
            [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => tagged(bytes, 22),
            _ => None,
        },
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
            [0x88, 0x64] => return is_ip(bytes, at + 10),
            _ => return None,
        }
    }
    None
}

fn is_ip(bytes: &[u8], at: usize) -> Option<usize> {
    matches!(bytes.get(at)? >> 4, 4 | 6).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However short a record was cut, whatever its link layer says lies in it or is refused by who reads on.
    #[test]
    fn records_of_any_length_are_borne() {
        let mut decoder = crate::packet::Decoder::default();
        for link in [NULL, ETHERNET, RAW_OLD, RAW, LOOP, COOKED, IPV4, IPV6, COOKED_2, 147] {
            for length in 0..80_u32 {
                for fill in [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x45, 0x60], [0x60, 0x45]] {
                    let bytes: Vec<u8> = fill.iter().copied().cycle().take(length as usize).collect();
                    let mut block = crate::source::Block { bytes, records: Vec::new() };
                    let at = plimsoll_model::Nanos::ZERO;
                    let original = length + 100;
                    let record = crate::source::Record {
                        at,
                        offset: 0,
                        captured: length,
                        original,
                        link,
                        interface: 0,
                    };
                    let _ = decoder.packet(&mut block, &record);
                }
            }
        }
        assert!(decoder.counts.others > 0);
    }
}
