//! UNSUBSCRIBE and UNSUBACK (MQTT 5 sections 3.10 and 3.11): a client no longer wants messages, the broker answers.

use super::fields::{Reader, write_text};
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, Unencodable, Version, Violation, reason, topic};

/// A client's wish for no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// The packet id, which the UNSUBACK repeats.
    pub packet_id: u16,
    /// The topic filters, at least one, as they were subscribed to.
    pub filters: Vec<&'a str>,
    /// Properties: user properties.
    pub properties: Properties<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Unsubscribe<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.u16("packet id")?;
        let properties = Properties::read(version, &mut reader)?;
        let mut filters = Vec::new();
        while !reader.is_empty() {
            filters.push(reader.text("topic filter")?);
        }
        let unsubscribe = Unsubscribe { packet_id, filters, properties };
        unsubscribe.check(version)?;
        Ok(unsubscribe)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Unsubscribe.first_byte(), out, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            self.properties.write(version, out)?;
            self.filters.iter().try_for_each(|filter| write_text(filter, "topic filter", out))
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if self.packet_id == 0 {
            return Err(Violation::PacketIdZero);
        }
        if self.filters.is_empty() {
            return Err(Violation::NothingListed { packet: PacketType::Unsubscribe });
        }
        if !self.filters.iter().all(|filter| topic::valid_filter_in(version, filter)) {
            return Err(Violation::TopicFilter);
        }
        self.properties.check(version, Place::of(PacketType::Unsubscribe))
    }
}

/// The answer to an UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuback<'a> {
    /// The packet id of the UNSUBSCRIBE.
    pub packet_id: u16,
    /// One reason code a filter, in their order; none in MQTT 3.1.1.
    pub codes: &'a [u8],
    /// Properties: reason string and user properties.
    pub properties: Properties<'a>,
}

impl<'a> Unsuback<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Unsuback<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.u16("packet id")?;
        let properties = Properties::read(version, &mut reader)?;
        let unsuback = Unsuback { packet_id, codes: reader.rest(), properties };
        unsuback.check(version)?;
        Ok(unsuback)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Unsuback.first_byte(), out, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            self.properties.write(version, out)?;
            out.extend_from_slice(self.codes);
            Ok(())
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if self.packet_id == 0 {
            return Err(Violation::PacketIdZero);
        }
        match (version, self.codes.is_empty()) {
            (Version::V311, false) => return Err(Violation::OnlyMqtt5 { what: "payload in an UNSUBACK" }),
            (Version::V5, true) => return Err(Violation::NothingListed { packet: PacketType::Unsuback }),
            _ => {}
        }
        self.properties.check(version, Place::of(PacketType::Unsuback))?;
        self.codes.iter().try_for_each(|&code| reason::check(version, PacketType::Unsuback, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::Packet;

    fn round_trip(version: Version, packet: Packet, bytes: &[u8]) {
        assert_eq!(Packet::decode(version, bytes), Ok(packet.clone()));
        let mut out = Vec::new();
        packet.encode(version, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    /// The example of MQTT 3.1.1 section 3.10.3: a/b and c/d.
    #[test]
    fn reads_and_writes_the_standards_example() {
        let unsubscribe = Packet::Unsubscribe(Unsubscribe {
            packet_id: 10,
            filters: vec!["a/b", "c/d"],
            properties: Properties::default(),
        });
        round_trip(Version::V311, unsubscribe.clone(), b"\xa2\x0c\0\x0a\0\x03a/b\0\x03c/d");
        round_trip(Version::V5, unsubscribe, b"\xa2\x0d\0\x0a\0\0\x03a/b\0\x03c/d");
    }

    #[test]
    fn only_mqtt_5_answers_with_codes() {
        let plain = Unsuback { packet_id: 10, codes: &[], properties: Properties::default() };
        round_trip(Version::V311, Packet::Unsuback(plain.clone()), b"\xb0\x02\0\x0a");
        let with_codes = Packet::Unsuback(Unsuback { codes: &[0, 0x11], ..plain });
        round_trip(Version::V5, with_codes, b"\xb0\x05\0\x0a\0\0\x11");
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        let nothing = |packet| Violation::NothingListed { packet };
        let cases: [(Version, &[u8], Violation); 6] = [
            (Version::V311, b"\xa2\x02\0\x01", nothing(PacketType::Unsubscribe)),
            (Version::V311, b"\xa2\x05\0\0\0\x01a", Violation::PacketIdZero),
            (Version::V311, b"\xa2\x06\0\x01\0\x02a#", Violation::TopicFilter),
            (Version::V311, b"\xb0\x03\0\x01\0", Violation::OnlyMqtt5 { what: "payload in an UNSUBACK" }),
            (Version::V5, b"\xb0\x03\0\x01\0", nothing(PacketType::Unsuback)),
            (
                Version::V5,
                b"\xb0\x04\0\x01\0\x01",
                Violation::ReasonCode { packet: PacketType::Unsuback, code: 1 },
            ),
        ];
        for (version, bytes, violation) in cases {
            assert_eq!(Packet::decode(version, bytes), Err(violation.into()));
        }
    }
}
