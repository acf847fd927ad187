//! Packets with slips that do not touch what they mean: reserved flags, needless bytes, properties and codes that do not
//! belong there. Whoever measures a platform counts them and goes on; what is unclear stays an error.

use super::acknowledgement::{Ack, AckKind};
use super::fields::{Reader, variable_at};
use super::{
    Connack, Disconnect, Malformed, Packet, PacketType, Properties, Publish, QoS, Suback, Unsuback, Version,
};

/// From here on a reason code refuses.
const REFUSES: u8 = 0x80;

impl<'a> Packet<'a> {
    /// Reads a packet of a server as [`Packet::decode`] does, and where the standard forbids something in it that does not touch
    /// its meaning, gives the packet together with what is wrong with it. A code below 0x80 that an acknowledgement
    /// cannot have is read as success, one above as a refusal.
    ///
    /// # Errors
    /// The bytes mean nothing, or more than one thing.
    pub fn decode_tolerantly(
        version: Version,
        packet: &'a [u8],
    ) -> Result<(Packet<'a>, Option<Malformed>), Malformed> {
        match Packet::decode(version, packet) {
            Ok(packet) => Ok((packet, None)),
            Err(slip) => read(version, packet).map(|read| (read, Some(slip))).ok_or(slip),
        }
    }
}

/// [`packet_length`](super::packet_length) of a connection on which MQTT is spoken: flags that a packet cannot have end nothing.
///
/// # Errors
/// No packet begins like this.
pub fn packet_length_tolerantly(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    match (super::packet_length(buffer), buffer.split_first()) {
        (Err(Malformed::Flags { .. }), Some((_, rest))) => {
            Ok(variable_at(rest)?.map(|(remaining, width)| 1 + width + remaining as usize))
        }
        (known, _) => known,
    }
}

/// What the packet means without doubt.
fn read(version: Version, packet: &[u8]) -> Option<Packet<'_>> {
    let (&first, rest) = packet.split_first()?;
    let (remaining, width) = variable_at(rest).ok()??;
    let body = rest.get(width..).filter(|body| body.len() == remaining as usize)?;
    let kind = match PacketType::from_code(first >> 4)? {
        PacketType::Puback => AckKind::Puback,
        PacketType::Pubrec => AckKind::Pubrec,
        PacketType::Pubrel => AckKind::Pubrel,
        PacketType::Pubcomp => AckKind::Pubcomp,
        PacketType::Connack => return connack(version, body).map(Packet::Connack),
        PacketType::Publish => return publish(version, first & 0x0f, body).map(Packet::Publish),
        PacketType::Pingresp => return Some(Packet::Pingresp),
        PacketType::Suback => return Suback::read(version, body).ok().map(Packet::Suback),
        PacketType::Unsuback => return Unsuback::read(version, body).ok().map(Packet::Unsuback),
        PacketType::Disconnect => {
            let reason = body.first().copied().unwrap_or_default();
            return Some(Packet::Disconnect(Disconnect { reason, properties: Properties::default() }));
        }
        _ => return None,
    };
    ack(version, kind, body).map(Packet::Ack)
}

fn ack(version: Version, kind: AckKind, body: &[u8]) -> Option<Ack<'_>> {
    let mut reader = Reader::new(body);
    let packet_id = reader.u16("packet id").ok().filter(|&id| id > 0)?;
    let said = reader.u8("reason code").unwrap_or_default();
    let reason = if said < REFUSES { 0 } else { said };
    // MQTT 3.1.1 has no way to refuse a message: what such a byte means there, nobody knows.
    if version == Version::V311 && reason != 0 {
        return None;
    }
    let properties = Properties::read(version, &mut reader).unwrap_or_default();
    Some(Ack { kind, packet_id, reason, properties })
}

fn connack(version: Version, body: &[u8]) -> Option<Connack<'_>> {
    let mut reader = Reader::new(body);
    let flags = reader.u8("acknowledge flags").ok()?;
    let code = reader.u8("reason code").ok()?;
    // What the server offers and demands stands in its properties: they must be readable.
    let properties = Properties::read(version, &mut reader).ok()?;
    Some(Connack { session_present: flags & 1 != 0 && code == 0, code, properties })
}

fn publish(version: Version, flags: u8, body: &[u8]) -> Option<Publish<'_>> {
    let mut reader = Reader::new(body);
    let qos = QoS::from_level(flags >> 1 & 0b11)?;
    let topic = str::from_utf8(reader.binary("topic name").ok()?).ok()?;
    let packet_id = match qos {
        QoS::AtMostOnce => None,
        QoS::AtLeastOnce | QoS::ExactlyOnce => Some(reader.u16("packet id").ok().filter(|&id| id > 0)?),
    };
    let properties = Properties::read(version, &mut reader).ok()?;
    let (dup, retain) = (flags & 0b1000 != 0 && qos != QoS::AtMostOnce, flags & 1 != 0);
    Some(Publish { dup, qos, retain, topic, packet_id, properties, payload: reader.rest() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::Violation;

    fn tolerated(version: Version, bytes: &[u8]) -> (Packet<'_>, Malformed) {
        let (packet, slip) = Packet::decode_tolerantly(version, bytes).unwrap();
        (packet, slip.unwrap())
    }

    #[test]
    fn a_code_that_an_acknowledgement_cannot_have_is_success_below_0x80_and_a_refusal_above() {
        // As a broker was seen to send it: granted QoS 1 in a PUBACK, with a user property.
        let bytes = b"\x40\x0b\0\x07\x01\x07\x26\0\x01k\0\x01v";
        let (packet, slip) = tolerated(Version::V5, bytes);
        let Packet::Ack(ack) = packet else { unreachable!() };
        assert_eq!((ack.kind, ack.packet_id, ack.reason), (AckKind::Puback, 7, 0));
        assert_eq!(ack.properties.user_properties().collect::<Vec<_>>(), [("k", "v")]);
        let code = Violation::ReasonCode { packet: PacketType::Puback, code: 1 };
        assert_eq!(slip, code.into());
        let (packet, _) = tolerated(Version::V5, &[0x40, 3, 0, 7, 0xf0]);
        assert!(matches!(packet, Packet::Ack(Ack { reason: 0xf0, .. })));
        // In MQTT 3.1.1 a zero more means nothing, a refusal has no meaning at all.
        assert!(matches!(
            tolerated(Version::V311, &[0x40, 3, 0, 7, 0]).0,
            Packet::Ack(Ack { reason: 0, .. })
        ));
        assert!(Packet::decode_tolerantly(Version::V311, &[0x40, 3, 0, 7, 0x87]).is_err());
    }

    #[test]
    fn reserved_flags_and_needless_bytes_change_no_meaning() {
        let cases: [(&[u8], PacketType); 5] = [
            (&[0x43, 2, 0, 7], PacketType::Puback),
            (&[0x60, 2, 0, 7], PacketType::Pubrel),
            (&[0xd1, 0], PacketType::Pingresp),
            (&[0x20, 3, 2, 0, 0], PacketType::Connack),
            (&[0x38, 5, 0, 1, b't', 0, b'x'], PacketType::Publish),
        ];
        for (bytes, kind) in cases {
            assert_eq!(packet_length_tolerantly(bytes), Ok(Some(bytes.len())), "{kind}");
            assert_eq!(tolerated(Version::V5, bytes).0.packet_type(), kind);
        }
    }

    #[test]
    fn what_may_mean_two_things_stays_an_error() {
        let cases: [(Version, &[u8]); 6] = [
            // The layout of another version.
            (Version::V5, &[0x20, 2, 0, 0]),
            (Version::V5, &[0x40, 2, 0, 0]),
            (Version::V5, &[0x36, 5, 0, 1, b't', 0, b'x']),
            (Version::V5, &[0x30, 2, 0, 9]),
            (Version::V5, &[0x90, 4, 0, 1, 0, 0x33]),
            (Version::V5, &[0x00, 0]),
        ];
        for (version, bytes) in cases {
            assert!(Packet::decode_tolerantly(version, bytes).is_err(), "{bytes:02x?}");
        }
        assert!(packet_length_tolerantly(b"\0\0").is_err());
    }
}
