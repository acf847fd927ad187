//! PUBLISH (MQTT 5 section 3.3): an application message.

use super::fields::{Reader, variable_bytes, write_text};
use super::frame::write_frame;
use super::property::Place;
use super::{Malformed, PacketType, Properties, QoS, Unencodable, Version, Violation, topic};

const RETAIN: u8 = 0b0001;
const DUP: u8 = 0b1000;

/// An application message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Its quality of service.
    pub qos: QoS,
    /// To a broker: keep it for later subscribers. To a client: it was kept.
    pub retain: bool,
    /// The topic name; in MQTT 5 empty where a topic alias stands for it.
    pub topic: &'a str,
    /// The packet id, `None` exactly at QoS 0.
    pub packet_id: Option<u16>,
    /// Properties (MQTT 5 section 3.3.2.3).
    pub properties: Properties<'a>,
    /// The content.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    pub(super) fn read(version: Version, flags: u8, body: &'a [u8]) -> Result<Publish<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let qos = QoS::from_level(flags >> 1 & 0b11).ok_or(Malformed::QoS3)?;
        let topic = reader.text("topic name")?;
        let packet_id = match qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce | QoS::ExactlyOnce => Some(reader.u16("packet id")?),
        };
        let properties = Properties::read(version, &mut reader)?;
        let publish = Publish {
            dup: flags & DUP != 0,
            qos,
            retain: flags & RETAIN != 0,
            topic,
            packet_id,
            properties,
            payload: reader.rest(),
        };
        publish.check(version)?;
        Ok(publish)
    }

    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        self.check(version)?;
        write_frame(first_byte(self.dup, self.qos, self.retain), out, |out| {
            write_text(self.topic, "topic name", out)?;
            if let Some(packet_id) = self.packet_id {
                out.extend_from_slice(&packet_id.to_be_bytes());
            }
            self.properties.write(version, out)?;
            out.extend_from_slice(self.payload);
            Ok(())
        })
    }

    fn check(&self, version: Version) -> Result<(), Violation> {
        match (self.qos, self.packet_id) {
            (QoS::AtMostOnce, None) if self.dup => return Err(Violation::DupAtQoS0),
            (QoS::AtMostOnce, None) => {}
            (QoS::AtMostOnce, Some(_)) => return Err(Violation::PacketIdAtQoS0),
            (_, None) => return Err(Violation::PacketIdMissing),
            (_, Some(0)) => return Err(Violation::PacketIdZero),
            (_, Some(_)) => {}
        }
        self.properties.check(version, Place::of(PacketType::Publish))?;
        if self.topic.is_empty() && version == Version::V5 {
            return if self.properties.topic_alias().is_some() { Ok(()) } else { Err(Violation::NoTopic) };
        }
        if !topic::valid_name(self.topic) {
            return Err(Violation::TopicName { field: "topic name" });
        }
        Ok(())
    }
}

fn first_byte(dup: bool, qos: QoS, retain: bool) -> u8 {
    let dup = if dup { DUP } else { 0 };
    let retain = if retain { RETAIN } else { 0 };
    PacketType::Publish.first_byte() | dup | qos.level() << 1 | retain
}

/// What stands before the content in a PUBLISH without properties.
#[derive(Clone, Copy, Debug)]
pub struct PublishHeader<'a> {
    /// Whether it may have been sent before.
    pub dup: bool,
    /// The quality of service.
    pub qos: QoS,
    /// Whether the broker is to keep it for later subscribers.
    pub retain: bool,
    /// The topic name in UTF-8. It is trusted to be valid: see [`topic::valid_name`].
    pub topic: &'a [u8],
    /// The packet id, ignored at QoS 0.
    pub packet_id: u16,
}

/// Appends a PUBLISH without properties. It allocates nothing but the growth of `out`.
///
/// # Errors
/// Packet id 0 at QoS 1 or 2, DUP at QoS 0, a topic or packet that is too long; then nothing is appended.
pub fn encode_publish(
    version: Version,
    header: &PublishHeader<'_>,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Unencodable> {
    let topic = header.topic;
    let topic_length = u16::try_from(topic.len())
        .map_err(|_| Unencodable::FieldTooLong { field: "topic name", length: topic.len() })?;
    let has_id = header.qos != QoS::AtMostOnce;
    if has_id && header.packet_id == 0 {
        return Err(Violation::PacketIdZero.into());
    }
    if !has_id && header.dup {
        return Err(Violation::DupAtQoS0.into());
    }
    let has_properties = version == Version::V5;
    let before = 2 + topic.len() + if has_id { 2 } else { 0 } + usize::from(has_properties);
    let length = before.saturating_add(payload.len());
    let (length_bytes, width) = variable_bytes(length)?;
    out.reserve(1 + width + length);
    out.push(first_byte(header.dup, header.qos, header.retain));
    out.extend(length_bytes.into_iter().take(width));
    out.extend_from_slice(&topic_length.to_be_bytes());
    out.extend_from_slice(topic);
    if has_id {
        out.extend_from_slice(&header.packet_id.to_be_bytes());
    }
    if has_properties {
        out.push(0);
    }
    out.extend_from_slice(payload);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    fn publish() -> Publish<'static> {
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: "a/b",
            packet_id: Some(10),
            properties: Properties::default(),
            payload: b"hi",
        }
    }

    fn refusal(version: Version, publish: Publish) -> Unencodable {
        let mut out = b"before".to_vec();
        let error = Packet::Publish(publish).encode(version, &mut out).unwrap_err();
        assert_eq!(out, b"before");
        error
    }

    /// The example of MQTT 3.1.1 section 3.3.2.3: topic a/b, packet id 10.
    #[test]
    fn reads_and_writes_the_standards_example() {
        let bytes = b"\x32\x09\x00\x03a/b\x00\x0ahi";
        assert_eq!(Packet::decode(Version::V311, bytes), Ok(Packet::Publish(publish())));
        let mut out = Vec::new();
        Packet::Publish(publish()).encode(Version::V311, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_mqtt_5_publish_has_properties_between_header_and_payload() {
        let properties = [Property::MessageExpiryInterval(60), Property::TopicAlias(7)];
        let bytes = b"\x3d\x10\x00\x00\x00\x0a\x08\x02\0\0\0\x3c\x23\0\x07hi!";
        let expected = Publish {
            dup: true,
            qos: QoS::ExactlyOnce,
            retain: true,
            topic: "",
            packet_id: Some(10),
            properties: Properties::List(&properties),
            payload: b"hi!",
        };
        assert_eq!(Packet::decode(Version::V5, bytes), Ok(Packet::Publish(expected.clone())));
        let mut out = Vec::new();
        Packet::Publish(expected).encode(Version::V5, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_empty_topic_needs_an_alias() {
        assert_eq!(Packet::decode(Version::V5, b"\x30\x03\0\0\0"), Err(Violation::NoTopic.into()));
        let no_name = Violation::TopicName { field: "topic name" };
        assert_eq!(Packet::decode(Version::V311, b"\x30\x02\0\0"), Err(no_name.into()));
    }

    #[test]
    fn what_the_standard_forbids_is_not_read() {
        let cases: [(&[u8], Malformed); 6] = [
            (b"\x32\x05\0\x01a\0\0", Violation::PacketIdZero.into()),
            (b"\x38\x03\0\x01a", Violation::DupAtQoS0.into()),
            (b"\x30\x03\0\x01#", Violation::TopicName { field: "topic name" }.into()),
            (b"\x30\x03\0\x01\0", Violation::Nul { field: "topic name" }.into()),
            (b"\x30\x03\0\x02a", Malformed::Truncated { field: "topic name" }),
            (b"\x32\x04\0\x01a\0", Malformed::Truncated { field: "packet id" }),
        ];
        for (bytes, error) in cases {
            assert_eq!(Packet::decode(Version::V311, bytes), Err(error));
        }
        assert_eq!(
            Packet::decode(Version::V5, b"\x30\x03\0\x01a"),
            Err(Malformed::Truncated { field: "property length" })
        );
    }

    #[test]
    fn what_the_standard_forbids_is_not_written() {
        let v311 = Version::V311;
        assert_eq!(
            refusal(v311, Publish { packet_id: None, ..publish() }),
            Violation::PacketIdMissing.into()
        );
        assert_eq!(
            refusal(v311, Publish { packet_id: Some(0), ..publish() }),
            Violation::PacketIdZero.into()
        );
        assert_eq!(
            refusal(v311, Publish { qos: QoS::AtMostOnce, ..publish() }),
            Violation::PacketIdAtQoS0.into()
        );
        let wildcard = Publish { topic: "a/+", ..publish() };
        assert_eq!(refusal(v311, wildcard), Violation::TopicName { field: "topic name" }.into());
        let properties = Properties::List(&[Property::TopicAlias(1)]);
        let with_properties = Publish { properties, ..publish() };
        assert_eq!(refusal(v311, with_properties), Violation::OnlyMqtt5 { what: "properties" }.into());
        let long = "a".repeat(65_536);
        let too_long = Publish { topic: &long, ..publish() };
        assert_eq!(refusal(v311, too_long), Violation::TopicName { field: "topic name" }.into());
    }

    #[test]
    fn the_short_way_writes_the_same_bytes() {
        for version in [Version::V311, Version::V5] {
            for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
                for length in [0, 1, 118, 119, 120, 121, 122, 16_374, 16_380, 100_000] {
                    let payload = vec![b'x'; length];
                    let header =
                        PublishHeader { dup: false, qos, retain: true, topic: b"a/b", packet_id: 10 };
                    let mut short = Vec::new();
                    encode_publish(version, &header, &payload, &mut short).unwrap();
                    let packet_id = (qos != QoS::AtMostOnce).then_some(10);
                    let publish = Publish { qos, retain: true, packet_id, payload: &payload, ..publish() };
                    let mut long = Vec::new();
                    Packet::Publish(publish).encode(version, &mut long).unwrap();
                    assert_eq!(short, long);
                }
            }
        }
    }

    #[test]
    fn the_short_way_refuses_what_it_can_see() {
        let header =
            PublishHeader { dup: false, qos: QoS::AtLeastOnce, retain: false, topic: b"a", packet_id: 0 };
        let mut out = Vec::new();
        let zero = encode_publish(Version::V5, &header, b"", &mut out);
        assert_eq!(zero, Err(Violation::PacketIdZero.into()));
        let dup = PublishHeader { dup: true, qos: QoS::AtMostOnce, ..header };
        assert_eq!(encode_publish(Version::V5, &dup, b"", &mut out), Err(Violation::DupAtQoS0.into()));
        let topic = vec![b'a'; 65_536];
        let long = PublishHeader { packet_id: 1, topic: &topic, ..header };
        let field_too_long = Unencodable::FieldTooLong { field: "topic name", length: 65_536 };
        assert_eq!(encode_publish(Version::V5, &long, b"", &mut out), Err(field_too_long));
        assert!(out.is_empty());
    }
}
