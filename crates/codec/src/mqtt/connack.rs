//! CONNACK (MQTT 5 section 3.2): the answer to CONNECT.

use super::fields::Reader;
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, Unencodable, Version, Violation, reason};

/// The answer to a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connack<'a> {
    /// Whether the broker goes on with an earlier session.
    pub session_present: bool,
    /// The return code (MQTT 3.1.1) or reason code (MQTT 5); [`connack_text`](super::connack_text) has its name.
    pub code: u8,
    /// Properties (MQTT 5 section 3.2.2.3).
    pub properties: Properties<'a>,
}

impl<'a> Connack<'a> {
    /// Whether the broker took the connection.
    pub fn accepted(&self) -> bool {
        self.code == 0
    }

    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Connack<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let session_present = match reader.u8("acknowledge flags")? {
            0 => false,
            1 => true,
            _ => return Err(Malformed::Reserved { field: "acknowledge flags" }),
        };
        let code = reader.u8("reason code")?;
        let properties = Properties::read(version, &mut reader)?;
        reader.finish(PacketType::Connack)?;
        let connack = Connack { session_present, code, properties };
        connack.check(version)?;
        Ok(connack)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Connack.first_byte(), out, |out| {
            out.extend_from_slice(&[u8::from(self.session_present), self.code]);
            self.properties.write(version, out)
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        reason::check(version, PacketType::Connack, self.code)?;
        if self.session_present && !self.accepted() {
            return Err(Violation::SessionPresent);
        }
        self.properties.check(version, Place::of(PacketType::Connack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    #[test]
    fn mqtt_3_1_1_has_two_bytes() {
        let expected = Connack { session_present: true, code: 0, properties: Properties::default() };
        assert!(expected.accepted());
        assert_eq!(Packet::decode(Version::V311, &[0x20, 2, 1, 0]), Ok(Packet::Connack(expected.clone())));
        let mut out = Vec::new();
        Packet::Connack(expected).encode(Version::V311, &mut out).unwrap();
        assert_eq!(out, [0x20, 2, 1, 0]);
    }

    #[test]
    fn mqtt_5_has_properties() {
        let bytes = b"\x20\x08\0\x86\x05\x1f\0\x02no";
        let properties = [Property::ReasonString("no")];
        let expected =
            Connack { session_present: false, code: 0x86, properties: Properties::List(&properties) };
        assert!(!expected.accepted());
        assert_eq!(Packet::decode(Version::V5, bytes), Ok(Packet::Connack(expected.clone())));
        let mut out = Vec::new();
        Packet::Connack(expected).encode(Version::V5, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        let cases: [(Version, &[u8], Malformed); 5] = [
            (Version::V311, &[0x20, 2, 2, 0], Malformed::Reserved { field: "acknowledge flags" }),
            (Version::V311, &[0x20, 2, 1, 5], Violation::SessionPresent.into()),
            (
                Version::V311,
                &[0x20, 2, 0, 6],
                Violation::ReasonCode { packet: PacketType::Connack, code: 6 }.into(),
            ),
            (
                Version::V311,
                &[0x20, 3, 0, 0, 0],
                Malformed::Trailing { packet: PacketType::Connack, count: 1 },
            ),
            (Version::V5, &[0x20, 2, 0, 0], Malformed::Truncated { field: "property length" }),
        ];
        for (version, bytes, error) in cases {
            assert_eq!(Packet::decode(version, bytes), Err(error));
        }
    }
}
