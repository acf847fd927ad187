//! DISCONNECT (MQTT 5 section 3.14): the orderly end, with a reason in MQTT 5.

use super::fields::Reader;
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, Unencodable, Version, Violation, reason};

/// The last packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// The reason code; always 0 in MQTT 3.1.1.
    pub reason: u8,
    /// Properties (MQTT 5 section 3.14.2.2).
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Disconnect<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut disconnect = Disconnect { reason: 0, properties: Properties::default() };
        // MQTT 5 sections 3.14.2.1 and 3.14.2.2.1: reason code and property length may be left out.
        if version == Version::V5 && !reader.is_empty() {
            disconnect.reason = reader.u8("reason code")?;
            if !reader.is_empty() {
                disconnect.properties = Properties::read(version, &mut reader)?;
            }
        }
        reader.finish(PacketType::Disconnect)?;
        disconnect.check(version)?;
        Ok(disconnect)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Disconnect.first_byte(), out, |out| {
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
        reason::check(version, PacketType::Disconnect, self.reason)?;
        self.properties.check(version, Place::of(PacketType::Disconnect))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    fn round_trip(version: Version, reason: u8, properties: Properties, bytes: &[u8]) {
        let packet = Packet::Disconnect(Disconnect { reason, properties });
        assert_eq!(Packet::decode(version, bytes), Ok(packet.clone()));
        let mut out = Vec::new();
        packet.encode(version, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn the_normal_end_is_two_bytes() {
        round_trip(Version::V311, 0, Properties::default(), &[0xe0, 0]);
        round_trip(Version::V5, 0, Properties::default(), &[0xe0, 0]);
    }

    #[test]
    fn mqtt_5_gives_reasons() {
        round_trip(Version::V5, 0x8e, Properties::default(), &[0xe0, 1, 0x8e]);
        let moved = [Property::ServerReference("b")];
        round_trip(Version::V5, 0x9d, Properties::List(&moved), b"\xe0\x06\x9d\x04\x1c\0\x01b");
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        let trailing = Malformed::Trailing { packet: PacketType::Disconnect, count: 1 };
        assert_eq!(Packet::decode(Version::V311, &[0xe0, 1, 0]), Err(trailing));
        assert_eq!(Packet::decode(Version::V5, &[0xe0, 3, 0, 0, 0]), Err(trailing));
        let code = Violation::ReasonCode { packet: PacketType::Disconnect, code: 1 };
        assert_eq!(Packet::decode(Version::V5, &[0xe0, 1, 1]), Err(code.into()));
    }
}
