//! TLS (RFC 8446, section 5.1) and DTLS records: recognised, so that they are called by their name.

use crate::dissect::Carrier;

/// Whether the bytes begin with a record of a handshake, or of what follows one.
pub(super) fn probe(bytes: &[u8], carrier: Carrier) -> bool {
    // Change cipher spec, alert, handshake, application data.
    let known = |content: u8| (20..=23).contains(&content);
    match (carrier, bytes) {
        (Carrier::Stream, &[content, 3, minor, high, _, ..]) => known(content) && minor <= 4 && high <= 0x48,
        (Carrier::Datagrams, &[content, 254, minor, _, _, _, _, _, _, _, _, _, _, ..]) => {
            known(content) && (minor == 253 || minor == 255)
        }
        _ => false,
    }
}
