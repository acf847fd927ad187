//! PUBACK, PUBREC, PUBREL and PUBCOMP (MQTT 5 sections 3.4 to 3.7): one form for all four.

use super::fields::Reader;
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, Unencodable, Version, Violation, reason};

/// Which of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// The answer to a PUBLISH at QoS 1.
    Puback,
    /// The first answer to a PUBLISH at QoS 2.
    Pubrec,
    /// The answer to PUBREC.
    Pubrel,
    /// The answer to PUBREL.
    Pubcomp,
}

impl AckKind {
    /// Its packet type.
    pub fn packet_type(self) -> PacketType {
        match self {
            AckKind::Puback => PacketType::Puback,
            AckKind::Pubrec => PacketType::Pubrec,
            AckKind::Pubrel => PacketType::Pubrel,
            AckKind::Pubcomp => PacketType::Pubcomp,
        }
    }
}

/// A step in the acknowledgement of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Which step.
    pub kind: AckKind,
    /// The packet id of the PUBLISH.
    pub packet_id: u16,
    /// The reason code; 0x80 and above refuse. Always 0 in MQTT 3.1.1.
    pub reason: u8,
    /// Properties: reason string and user properties.
    pub properties: Properties<'a>,
}

impl<'a> Ack<'a> {
    pub(super) fn read(version: Version, kind: AckKind, body: &'a [u8]) -> Result<Ack<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.u16("packet id")?;
        let mut ack = Ack { kind, packet_id, reason: 0, properties: Properties::default() };
        // MQTT 5 section 3.4.2.1: reason code and property length may be left out.
        if version == Version::V5 && !reader.is_empty() {
            ack.reason = reader.u8("reason code")?;
            if !reader.is_empty() {
                ack.properties = Properties::read(version, &mut reader)?;
            }
        }
        reader.finish(kind.packet_type())?;
        ack.check(version)?;
        Ok(ack)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(self.kind.packet_type().first_byte(), out, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            let has_properties = !self.properties.is_empty();
            if self.reason != 0 || has_properties {
                out.push(self.reason);
            }
            if has_properties {
                self.properties.write(version, out)?;
            }
            Ok(())
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if self.packet_id == 0 {
            return Err(Violation::PacketIdZero);
        }
        reason::check(version, self.kind.packet_type(), self.reason)?;
        self.properties.check(version, Place::of(self.kind.packet_type()))
    }
}

/// Appends an acknowledgement with reason code 0 and no properties, which is the same four bytes in both versions.
/// The packet id is trusted not to be 0: it is that of a message which came in.
pub fn encode_ack(_version: Version, kind: AckKind, packet_id: u16, out: &mut Vec<u8>) {
    let [high, low] = packet_id.to_be_bytes();
    out.extend_from_slice(&[kind.packet_type().first_byte(), 2, high, low]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    const KINDS: [(AckKind, u8); 4] =
        [(AckKind::Puback, 0x40), (AckKind::Pubrec, 0x50), (AckKind::Pubrel, 0x62), (AckKind::Pubcomp, 0x70)];

    fn ack(kind: AckKind, reason: u8, properties: Properties) -> Packet {
        Packet::Ack(Ack { kind, packet_id: 0x1234, reason, properties })
    }

    #[test]
    fn a_plain_acknowledgement_is_four_bytes_in_both_versions() {
        for version in [Version::V311, Version::V5] {
            for (kind, first) in KINDS {
                let bytes = [first, 2, 0x12, 0x34];
                assert_eq!(Packet::decode(version, &bytes), Ok(ack(kind, 0, Properties::default())));
                let (mut long, mut short) = (Vec::new(), Vec::new());
                ack(kind, 0, Properties::default()).encode(version, &mut long).unwrap();
                encode_ack(version, kind, 0x1234, &mut short);
                assert_eq!((&long[..], &short[..]), (&bytes[..], &bytes[..]));
            }
        }
    }

    #[test]
    fn a_reason_code_may_stand_without_property_length() {
        let bytes = [0x40, 3, 0x12, 0x34, 0x10];
        assert_eq!(
            Packet::decode(Version::V5, &bytes),
            Ok(ack(AckKind::Puback, 0x10, Properties::default()))
        );
        let mut out = Vec::new();
        ack(AckKind::Puback, 0x10, Properties::default()).encode(Version::V5, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_reason_string_comes_with_its_reason_code() {
        let properties = [Property::ReasonString("no")];
        let bytes = b"\x50\x09\x12\x34\x87\x05\x1f\0\x02no";
        let expected = ack(AckKind::Pubrec, 0x87, Properties::List(&properties));
        assert_eq!(Packet::decode(Version::V5, bytes), Ok(expected.clone()));
        let mut out = Vec::new();
        expected.encode(Version::V5, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        let zero = Violation::PacketIdZero;
        assert_eq!(Packet::decode(Version::V5, &[0x40, 2, 0, 0]), Err(zero.into()));
        let trailing = Malformed::Trailing { packet: PacketType::Puback, count: 1 };
        assert_eq!(Packet::decode(Version::V311, &[0x40, 3, 0, 1, 0]), Err(trailing));
        let code = Violation::ReasonCode { packet: PacketType::Pubrel, code: 0x10 };
        assert_eq!(Packet::decode(Version::V5, &[0x62, 3, 0, 1, 0x10]), Err(code.into()));
        let truncated = Malformed::Truncated { field: "packet id" };
        assert_eq!(Packet::decode(Version::V5, &[0x40, 1, 0]), Err(truncated));
        let refusal = ack(AckKind::Puback, 0x87, Properties::default());
        let only_5 = Violation::OnlyMqtt5 { what: "reason codes" };
        assert_eq!(refusal.encode(Version::V311, &mut Vec::new()), Err(only_5.into()));
    }
}
