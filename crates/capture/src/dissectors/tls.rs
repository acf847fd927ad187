//! TLS (RFC 8446, section 5.1) and DTLS records: recognised, so that they are called by their name.

use crate::dissect::Carrier;

/// Whether the bytes begin with a record of a handshake, or of what follows one.
pub(super) fn probe(bytes: &[u8], carrier: Carrier) -> bool {
    // Change cipher spec, alert, handshake, application data.
    let known = |content: u8| (20..=23).contains(&content);
    match (carrier, bytes) {
        // Lengths that such records have, since lengths of others may begin in the same way.
        (Carrier::Stream, &[content, 3, 1..=3, high, low, ..]) => {
            match (content, u16::from_be_bytes([high, low])) {
                (20, length) => length == 1,
                (21, length) => (2..=64).contains(&length),
                (22, length) => (4..=0x4800).contains(&length),
                (23, length) => (17..=0x4800).contains(&length),
                _ => false,
            }
        }
        (Carrier::Datagrams, &[content, 254, minor, _, _, _, _, _, _, _, _, _, _, ..]) => {
            known(content) && (minor == 253 || minor == 255)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_from_lengths_that_begin_in_the_same_way() {
        let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
        assert!(probe(hello, Carrier::Stream) && probe(b"\x14\x03\x03\x00\x01\x01", Carrier::Stream));
        // A message of MongoDB that is 788 bytes long.
        assert!(!probe(b"\x14\x03\x00\x00\xe9\xdd\x16\x45", Carrier::Stream));
        assert!(!probe(b"\x17\x03\x03\x00\x10", Carrier::Stream));
    }
}
