//! SUBSCRIBE and SUBACK (MQTT 5 sections 3.8 and 3.9): a client asks for messages, the broker answers.

use super::fields::{Reader, write_text};
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, QoS, Unencodable, Version, Violation, reason, topic};

// Subscription options (MQTT 5 section 3.8.3.1).
const QOS: u8 = 0b0000_0011;
const NO_LOCAL: u8 = 0b0000_0100;
const RETAIN_AS_PUBLISHED: u8 = 0b0000_1000;
const RETAIN_HANDLING_SHIFT: u8 = 4;
const RETAIN_HANDLING: u8 = 0b0011_0000;
const RESERVED: u8 = 0b1100_0000;

/// A client's wish for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// The packet id, which the SUBACK repeats.
    pub packet_id: u16,
    /// What it wants, at least one.
    pub subscriptions: Vec<Subscription<'a>>,
    /// Properties: subscription identifier and user properties.
    pub properties: Properties<'a>,
}

/// A topic filter and how its messages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// The topic filter.
    pub filter: &'a str,
    /// The highest quality of service wanted.
    pub qos: QoS,
    /// Not the messages that the client itself publishes (MQTT 5 only).
    pub no_local: bool,
    /// With the retain flag that the publisher set (MQTT 5 only).
    pub retain_as_published: bool,
    /// Whether retained messages are wanted at once (MQTT 5 only).
    pub retain_handling: RetainHandling,
}

/// Whether retained messages are sent when a subscription is made (MQTT 5 section 3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainHandling {
    /// Always, as in MQTT 3.1.1.
    #[default]
    Send,
    /// Only if the subscription is new.
    SendIfNew,
    /// Never.
    DoNotSend,
}

impl<'a> Subscription<'a> {
    /// A subscription as MQTT 3.1.1 knows it.
    pub fn new(filter: &'a str, qos: QoS) -> Subscription<'a> {
        Subscription {
            filter,
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Subscription<'a>, Malformed> {
        let filter = reader.text("topic filter")?;
        let options = reader.u8("subscription options")?;
        let reserved = Malformed::Reserved { field: "subscription options" };
        let retain_handling = match (options & RETAIN_HANDLING) >> RETAIN_HANDLING_SHIFT {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => return Err(reserved),
        };
        if options & RESERVED != 0 {
            return Err(reserved);
        }
        Ok(Subscription {
            filter,
            qos: QoS::from_level(options & QOS).ok_or(Malformed::QoS3)?,
            no_local: options & NO_LOCAL != 0,
            retain_as_published: options & RETAIN_AS_PUBLISHED != 0,
            retain_handling,
        })
    }

    fn options(&self) -> u8 {
        let no_local = if self.no_local { NO_LOCAL } else { 0 };
        let retain_as_published = if self.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 };
        let retain_handling = match self.retain_handling {
            RetainHandling::Send => 0,
            RetainHandling::SendIfNew => 1,
            RetainHandling::DoNotSend => 2,
        };
        self.qos.level() | no_local | retain_as_published | retain_handling << RETAIN_HANDLING_SHIFT
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if !topic::valid_filter_in(version, self.filter) {
            return Err(Violation::TopicFilter);
        }
        match version {
            Version::V311 if self.options() & !QOS != 0 => {
                Err(Violation::OnlyMqtt5 { what: "subscription options" })
            }
            Version::V5 if self.no_local && topic::shared(self.filter).is_some() => {
                Err(Violation::NoLocalShared)
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Subscribe<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Subscribe<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.u16("packet id")?;
        let properties = Properties::read(version, &mut reader)?;
        let mut subscriptions = Vec::new();
        while !reader.is_empty() {
            subscriptions.push(Subscription::read(&mut reader)?);
        }
        let subscribe = Subscribe { packet_id, subscriptions, properties };
        subscribe.check(version)?;
        Ok(subscribe)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Subscribe.first_byte(), out, |out| {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
            self.properties.write(version, out)?;
            for subscription in &self.subscriptions {
                write_text(subscription.filter, "topic filter", out)?;
                out.push(subscription.options());
            }
            Ok(())
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        if self.packet_id == 0 {
            return Err(Violation::PacketIdZero);
        }
        if self.subscriptions.is_empty() {
            return Err(Violation::NothingListed { packet: PacketType::Subscribe });
        }
        self.properties.check(version, Place::of(PacketType::Subscribe))?;
        self.subscriptions.iter().try_for_each(|subscription| subscription.check(version))
    }
}

/// Appends a SUBSCRIBE without properties and options.
///
/// # Errors
/// No filter or an invalid one, packet id 0, a packet that is too long; then nothing is appended.
pub fn encode_subscribe(
    version: Version,
    packet_id: u16,
    filters: &[(&str, QoS)],
    out: &mut Vec<u8>,
) -> Result<(), Unencodable> {
    let subscriptions = filters.iter().map(|&(filter, qos)| Subscription::new(filter, qos)).collect();
    Subscribe { packet_id, subscriptions, properties: Properties::default() }.write(version, out)
}

/// The answer to a SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suback<'a> {
    /// The packet id of the SUBSCRIBE.
    pub packet_id: u16,
    /// One code a filter, in their order: 0, 1 or 2 the QoS granted, 0x80 and above a refusal.
    pub codes: &'a [u8],
    /// Properties: reason string and user properties.
    pub properties: Properties<'a>,
}

impl<'a> Suback<'a> {
    pub(super) fn read(version: Version, body: &'a [u8]) -> Result<Suback<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let packet_id = reader.u16("packet id")?;
        let properties = Properties::read(version, &mut reader)?;
        let suback = Suback { packet_id, codes: reader.rest(), properties };
        suback.check(version)?;
        Ok(suback)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(PacketType::Suback.first_byte(), out, |out| {
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
        if self.codes.is_empty() {
            return Err(Violation::NothingListed { packet: PacketType::Suback });
        }
        self.properties.check(version, Place::of(PacketType::Suback))?;
        self.codes.iter().try_for_each(|&code| reason::check(version, PacketType::Suback, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    fn encoded(version: Version, packet: Packet) -> Result<Vec<u8>, Unencodable> {
        let mut out = Vec::new();
        packet.encode(version, &mut out)?;
        Ok(out)
    }

    /// The example of MQTT 3.1.1 section 3.8.3: a/b at QoS 1, c/d at QoS 2.
    #[test]
    fn reads_and_writes_the_standards_example() {
        let bytes = b"\x82\x0e\0\x0a\0\x03a/b\x01\0\x03c/d\x02";
        let filters = [("a/b", QoS::AtLeastOnce), ("c/d", QoS::ExactlyOnce)];
        let mut out = Vec::new();
        encode_subscribe(Version::V311, 10, &filters, &mut out).unwrap();
        assert_eq!(out, bytes);
        let Ok(Packet::Subscribe(subscribe)) = Packet::decode(Version::V311, bytes) else { panic!() };
        assert_eq!(subscribe.subscriptions, filters.map(|(filter, qos)| Subscription::new(filter, qos)));
    }

    #[test]
    fn mqtt_5_has_properties_and_options() {
        let bytes = b"\x82\x0b\0\x0a\x02\x0b\x07\0\x03a/b\x2d";
        let properties = [Property::SubscriptionIdentifier(7)];
        let expected = Packet::Subscribe(Subscribe {
            packet_id: 10,
            subscriptions: vec![Subscription {
                filter: "a/b",
                qos: QoS::AtLeastOnce,
                no_local: true,
                retain_as_published: true,
                retain_handling: RetainHandling::DoNotSend,
            }],
            properties: Properties::List(&properties),
        });
        assert_eq!(Packet::decode(Version::V5, bytes), Ok(expected.clone()));
        assert_eq!(encoded(Version::V5, expected).unwrap(), bytes);
    }

    #[test]
    fn what_the_standard_forbids_in_a_subscribe_is_refused() {
        let nothing = Violation::NothingListed { packet: PacketType::Subscribe };
        let reserved = Malformed::Reserved { field: "subscription options" };
        let cases: [(Version, &[u8], Malformed); 8] = [
            (Version::V311, b"\x82\x02\0\x01", nothing.into()),
            (Version::V311, b"\x82\x06\0\0\0\x01a\0", Violation::PacketIdZero.into()),
            (Version::V311, b"\x82\x06\0\x01\0\x01a\x03", Malformed::QoS3),
            (Version::V311, b"\x82\x07\0\x01\0\x02a#\x00", Violation::TopicFilter.into()),
            (
                Version::V311,
                b"\x82\x06\0\x01\0\x01a\x04",
                Violation::OnlyMqtt5 { what: "subscription options" }.into(),
            ),
            (Version::V5, b"\x82\x07\0\x01\0\0\x01a\x40", reserved),
            (Version::V5, b"\x82\x07\0\x01\0\0\x01a\x30", reserved),
            (Version::V5, b"\x82\x10\0\x01\0\0\x0a$share/g/a\x04", Violation::NoLocalShared.into()),
        ];
        for (version, bytes, error) in cases {
            assert_eq!(Packet::decode(version, bytes), Err(error));
        }
    }

    #[test]
    fn only_mqtt_5_knows_shared_subscriptions() {
        let filter = [("$share/g", QoS::AtMostOnce)];
        assert!(encode_subscribe(Version::V311, 1, &filter, &mut Vec::new()).is_ok());
        let refused = encode_subscribe(Version::V5, 1, &filter, &mut Vec::new());
        assert_eq!(refused, Err(Violation::TopicFilter.into()));
    }

    /// The example of MQTT 3.1.1 section 3.9.3: QoS 0, QoS 2, failure.
    #[test]
    fn a_suback_has_one_code_a_filter() {
        let bytes = b"\x90\x05\0\x0a\0\x02\x80";
        let expected =
            Packet::Suback(Suback { packet_id: 10, codes: &[0, 2, 0x80], properties: Properties::default() });
        assert_eq!(Packet::decode(Version::V311, bytes), Ok(expected.clone()));
        assert_eq!(encoded(Version::V311, expected.clone()).unwrap(), bytes);
        assert_eq!(encoded(Version::V5, expected).unwrap(), b"\x90\x06\0\x0a\0\0\x02\x80");
    }

    #[test]
    fn a_suback_without_codes_or_with_wrong_ones_is_refused() {
        let nothing = Violation::NothingListed { packet: PacketType::Suback };
        assert_eq!(Packet::decode(Version::V311, b"\x90\x02\0\x01"), Err(nothing.into()));
        let code = Violation::ReasonCode { packet: PacketType::Suback, code: 3 };
        assert_eq!(Packet::decode(Version::V311, b"\x90\x03\0\x01\x03"), Err(code.into()));
    }
}
