//! PINGREQ and PINGRESP (MQTT 5 sections 3.12 and 3.13): a type and nothing else.

use super::{Malformed, Packet, PacketType};

/// Appends a PINGREQ.
pub fn encode_pingreq(out: &mut Vec<u8>) {
    out.extend_from_slice(&[PacketType::Pingreq.first_byte(), 0]);
}

/// Appends a PINGRESP.
pub fn encode_pingresp(out: &mut Vec<u8>) {
    out.extend_from_slice(&[PacketType::Pingresp.first_byte(), 0]);
}

/// Either packet, which has no body.
pub(super) fn read<'a>(packet: Packet<'a>, body: &[u8]) -> Result<Packet<'a>, Malformed> {
    match body.len() {
        0 => Ok(packet),
        count => Err(Malformed::Trailing { packet: packet.packet_type(), count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::Version;

    #[test]
    fn pings_are_two_bytes() {
        let mut out = Vec::new();
        encode_pingreq(&mut out);
        encode_pingresp(&mut out);
        assert_eq!(out, [0xc0, 0x00, 0xd0, 0x00]);
        for version in [Version::V311, Version::V5] {
            assert_eq!(Packet::decode(version, &out[..2]), Ok(Packet::Pingreq));
            assert_eq!(Packet::decode(version, &out[2..]), Ok(Packet::Pingresp));
        }
    }

    #[test]
    fn a_ping_with_a_body_is_malformed() {
        let trailing = Malformed::Trailing { packet: PacketType::Pingresp, count: 1 };
        assert_eq!(Packet::decode(Version::V311, &[0xd0, 0x01, 0x00]), Err(trailing));
    }
}
