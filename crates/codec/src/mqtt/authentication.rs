//! AUTH (MQTT 5 section 3.15): a step of an extended authentication. MQTT 3.1.1 does not have it.

use super::fields::Reader;
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, Unencodable, Version, Violation, reason};

/// A step of an extended authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The reason code: success, continue, or begin again.
    pub reason: u8,
    /// Properties (MQTT 5 section 3.15.2.2); the authentication method is one of them, except in a plain success.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Auth<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let mut auth = Auth { reason: 0, properties: Properties::default() };
        // MQTT 5 section 3.15.2.1: only a plain success may leave out everything.
        if !reader.is_empty() {
            auth.reason = reader.u8("reason code")?;
            auth.properties = Properties::read(version, &mut reader)?;
        }
        reader.finish(PacketType::Auth)?;
        auth.check(version)?;
        Ok(auth)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Auth.first_byte(), out, |out| {
            if self.is_plain_success() {
                return Ok(());
            }
            out.push(self.reason);
            self.properties.write(version, out)
        })
    }

    fn is_plain_success(&self) -> bool {
        self.reason == 0 && self.properties.is_empty()
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if version == Version::V311 {
            return Err(Violation::OnlyMqtt5 { what: "AUTH packet" });
        }
        reason::check(version, PacketType::Auth, self.reason)?;
        self.properties.check(version, Place::of(PacketType::Auth))?;
        if !self.is_plain_success() && self.properties.authentication_method().is_none() {
            return Err(Violation::NoAuthenticationMethod);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    fn round_trip(reason: u8, properties: Properties, bytes: &[u8]) {
        let packet = Packet::Auth(Auth { reason, properties });
        assert_eq!(Packet::decode(Version::V5, bytes), Ok(packet.clone()));
        let mut out = Vec::new();
        packet.encode(Version::V5, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_plain_success_is_two_bytes() {
        round_trip(0, Properties::default(), &[0xf0, 0]);
    }

    #[test]
    fn a_step_names_its_method() {
        let properties = [Property::AuthenticationMethod("S"), Property::AuthenticationData(b"xy")];
        round_trip(0x18, Properties::List(&properties), b"\xf0\x0b\x18\x09\x15\0\x01S\x16\0\x02xy");
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        let only_5 = Violation::OnlyMqtt5 { what: "AUTH packet" };
        assert_eq!(Packet::decode(Version::V311, &[0xf0, 0]), Err(only_5.into()));
        let nameless = Violation::NoAuthenticationMethod;
        assert_eq!(Packet::decode(Version::V5, &[0xf0, 2, 0x18, 0]), Err(nameless.into()));
        let truncated = Malformed::Truncated { field: "property length" };
        assert_eq!(Packet::decode(Version::V5, &[0xf0, 1, 0]), Err(truncated));
    }
}
