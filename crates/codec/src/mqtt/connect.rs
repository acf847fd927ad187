//! CONNECT (MQTT 5 section 3.1): a client asks for a session.

use super::fields::{Reader, write_binary, write_text};
use super::frame::{self, Frame, write_frame};
use super::property::Place;
use super::{Malformed, PacketType, Properties, QoS, Unencodable, Version, Violation, topic};

const PROTOCOL_NAME: &str = "MQTT";

// Connect flags (MQTT 5 section 3.1.2.3).
const RESERVED: u8 = 0b0000_0001;
const CLEAN_START: u8 = 0b0000_0010;
const WILL: u8 = 0b0000_0100;
const WILL_QOS_SHIFT: u8 = 3;
const WILL_QOS: u8 = 0b0001_1000;
const WILL_RETAIN: u8 = 0b0010_0000;
const PASSWORD: u8 = 0b0100_0000;
const USERNAME: u8 = 0b1000_0000;

/// A client's wish for a session.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The version of MQTT that the client speaks from here on.
    pub version: Version,
    /// The client id; empty where the broker is to choose one.
    pub client_id: &'a str,
    /// Whether to begin a new session (MQTT 3.1.1: clean session).
    pub clean_start: bool,
    /// The longest time that the client will be silent, s; 0 for any.
    pub keep_alive: u16,
    /// The user name.
    pub username: Option<&'a str>,
    /// The password; in MQTT 3.1.1 only with a user name.
    pub password: Option<&'a [u8]>,
    /// The message that the broker publishes when the client is lost.
    pub will: Option<Will<'a>>,
    /// Properties (MQTT 5 section 3.1.2.11).
    pub properties: Properties<'a>,
}

/// The message that the broker publishes when the client is lost (MQTT 5 section 3.1.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Its quality of service.
    pub qos: QoS,
    /// Whether the broker is to keep it for later subscribers.
    pub retain: bool,
    /// Its topic name.
    pub topic: &'a str,
    /// Its content.
    pub payload: &'a [u8],
    /// Its properties (MQTT 5 section 3.1.3.2).
    pub properties: Properties<'a>,
}

impl<'a> Connect<'a> {
    /// A client that begins a new session, and asks for nothing else.
    pub fn clean(version: Version, client_id: &'a str) -> Connect<'a> {
        Connect {
            version,
            client_id,
            clean_start: true,
            keep_alive: 0,
            username: None,
            password: None,
            will: None,
            properties: Properties::default(),
        }
    }

    /// Reads exactly one packet, which must be a CONNECT, and learns the version from it.
    ///
    /// # Errors
    /// The bytes are not a CONNECT of MQTT 3.1.1 or 5.0, or say what the standard forbids.
    pub fn decode(packet: &'a [u8]) -> Result<Connect<'a>, Malformed> {
        let frame = frame::split(packet)?;
        match frame.packet_type {
            PacketType::Connect => Connect::read(&frame),
            other => Err(Malformed::NotConnect { packet: other }),
        }
    }

    pub(super) fn read(frame: &Frame<'a>) -> Result<Connect<'a>, Malformed> {
        let mut reader = Reader::new(frame.body);
        if reader.text("protocol name")? != PROTOCOL_NAME {
            return Err(Malformed::ProtocolName);
        }
        let level = reader.u8("protocol level")?;
        let version = Version::from_level(level).ok_or(Malformed::ProtocolLevel { level })?;
        frame.check_length(version)?;
        let flags = reader.u8("connect flags")?;
        if flags & RESERVED != 0 || (flags & WILL == 0 && flags & (WILL_QOS | WILL_RETAIN) != 0) {
            return Err(Malformed::Reserved { field: "connect flags" });
        }
        let keep_alive = reader.u16("keep alive")?;
        let properties = Properties::read(version, &mut reader)?;
        let client_id = reader.text("client id")?;
        let will = if flags & WILL != 0 { Some(Will::read(version, flags, &mut reader)?) } else { None };
        let username = if flags & USERNAME != 0 { Some(reader.text("user name")?) } else { None };
        let password = if flags & PASSWORD != 0 { Some(reader.binary("password")?) } else { None };
        reader.finish(PacketType::Connect)?;
        let clean_start = flags & CLEAN_START != 0;
        let connect =
            Connect { version, client_id, clean_start, keep_alive, username, password, will, properties };
        connect.check()?;
        Ok(connect)
    }

    fn check(&self) -> Result<(), Violation> {
        self.properties.check(self.version, Place::of(PacketType::Connect))?;
        if let Some(will) = &self.will {
            will.properties.check(self.version, Place::WILL)?;
            if !topic::valid_name(will.topic) {
                return Err(Violation::TopicName { field: "will topic" });
            }
        }
        if self.version == Version::V311 {
            if self.client_id.is_empty() && !self.clean_start {
                return Err(Violation::EmptyClientId);
            }
            if self.password.is_some() && self.username.is_none() {
                return Err(Violation::PasswordWithoutUsername);
            }
        }
        Ok(())
    }

    fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.clean_start {
            flags |= CLEAN_START;
        }
        if let Some(will) = &self.will {
            flags |= WILL | will.qos.level() << WILL_QOS_SHIFT;
            if will.retain {
                flags |= WILL_RETAIN;
            }
        }
        if self.password.is_some() {
            flags |= PASSWORD;
        }
        if self.username.is_some() {
            flags |= USERNAME;
        }
        flags
    }
}

/// Without the password, so that it does not get into a log.
impl std::fmt::Debug for Connect<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("keep_alive", &self.keep_alive)
            .field("username", &self.username)
            .field("password", &self.password.map(|_| "***"))
            .field("will", &self.will)
            .field("properties", &self.properties)
            .finish()
    }
}

impl<'a> Will<'a> {
    fn read(version: Version, flags: u8, reader: &mut Reader<'a>) -> Result<Will<'a>, Malformed> {
        let qos = QoS::from_level((flags & WILL_QOS) >> WILL_QOS_SHIFT).ok_or(Malformed::QoS3)?;
        Ok(Will {
            qos,
            retain: flags & WILL_RETAIN != 0,
            properties: Properties::read(version, reader)?,
            topic: reader.text("will topic")?,
            payload: reader.binary("will payload")?,
        })
    }
}

/// Appends a CONNECT in the version that it names.
///
/// # Errors
/// The standard forbids it, that version cannot express it, or a field is too long; then nothing is appended.
pub fn encode_connect(connect: &Connect<'_>, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    connect.check()?;
    let version = connect.version;
    write_frame(PacketType::Connect.first_byte(), out, |out| {
        write_text(PROTOCOL_NAME, "protocol name", out)?;
        out.push(version.level());
        out.push(connect.flags());
        out.extend_from_slice(&connect.keep_alive.to_be_bytes());
        connect.properties.write(version, out)?;
        write_text(connect.client_id, "client id", out)?;
        if let Some(will) = &connect.will {
            will.properties.write(version, out)?;
            write_text(will.topic, "will topic", out)?;
            write_binary(will.payload, "will payload", out)?;
        }
        if let Some(username) = connect.username {
            write_text(username, "user name", out)?;
        }
        if let Some(password) = connect.password {
            write_binary(password, "password", out)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Packet, Property};

    fn connect(version: Version) -> Connect<'static> {
        Connect { keep_alive: 10, ..Connect::clean(version, "c") }
    }

    fn encoded(connect: &Connect) -> Result<Vec<u8>, Unencodable> {
        let mut out = Vec::new();
        encode_connect(connect, &mut out)?;
        Ok(out)
    }

    #[test]
    fn the_smallest_of_both_versions() {
        let v311 = b"\x10\x0d\0\x04MQTT\x04\x02\0\x0a\0\x01c";
        let v5 = b"\x10\x0e\0\x04MQTT\x05\x02\0\x0a\0\0\x01c";
        assert_eq!(Connect::decode(v311), Ok(connect(Version::V311)));
        assert_eq!(Connect::decode(v5), Ok(connect(Version::V5)));
        assert_eq!(encoded(&connect(Version::V311)).unwrap(), v311);
        assert_eq!(encoded(&connect(Version::V5)).unwrap(), v5);
        // The packet names its version, whatever the caller believes.
        assert_eq!(Packet::decode(Version::V311, v5), Ok(Packet::Connect(connect(Version::V5))));
    }

    /// The flags of the example in MQTT 3.1.1 section 3.1.2.3 (figure 3.6): everything but a retained will, QoS 1.
    #[test]
    fn everything_that_mqtt_3_1_1_has() {
        let bytes = b"\x10\x1b\0\x04MQTT\x04\xce\0\x0a\0\x01c\0\x01w\0\x02by\0\x01u\0\x02pw";
        let expected = Connect {
            username: Some("u"),
            password: Some(b"pw"),
            will: Some(Will {
                qos: QoS::AtLeastOnce,
                retain: false,
                topic: "w",
                payload: b"by",
                properties: Properties::default(),
            }),
            ..connect(Version::V311)
        };
        assert_eq!(Connect::decode(bytes), Ok(expected.clone()));
        assert_eq!(encoded(&expected).unwrap(), bytes);
    }

    #[test]
    fn mqtt_5_has_properties_of_its_own_and_of_the_will() {
        let bytes = b"\x10\x1e\0\x04MQTT\x05\x36\0\x0a\x03\x21\0\x14\0\x01c\x05\x18\0\0\0\x05\0\x01w\0\x02by";
        let own = [Property::ReceiveMaximum(20)];
        let wills = [Property::WillDelayInterval(5)];
        let expected = Connect {
            will: Some(Will {
                qos: QoS::ExactlyOnce,
                retain: true,
                topic: "w",
                payload: b"by",
                properties: Properties::List(&wills),
            }),
            properties: Properties::List(&own),
            ..connect(Version::V5)
        };
        assert_eq!(Connect::decode(bytes), Ok(expected.clone()));
        assert_eq!(encoded(&expected).unwrap(), bytes);
    }

    #[test]
    fn other_protocols_and_versions_are_told_apart() {
        assert_eq!(Connect::decode(b"\x10\x08\0\x06MQIsdp"), Err(Malformed::ProtocolName));
        assert_eq!(Connect::decode(b"\x10\x07\0\x04MQTT\x06"), Err(Malformed::ProtocolLevel { level: 6 }));
        let ping = Malformed::NotConnect { packet: PacketType::Pingreq };
        assert_eq!(Connect::decode(&[0xc0, 0]), Err(ping));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        // Reserved bit; will QoS without will; will retain without will.
        for flags in [0x03, 0x0a, 0x22] {
            let bytes = [b"\x10\x0d\0\x04MQTT\x04", &[flags][..], b"\0\x0a\0\x01c"].concat();
            assert_eq!(Connect::decode(&bytes), Err(Malformed::Reserved { field: "connect flags" }));
        }
        let will_qos_3 = b"\x10\x12\0\x04MQTT\x04\x1e\0\x0a\0\x01c\0\x01w\0\0";
        assert_eq!(Connect::decode(will_qos_3), Err(Malformed::QoS3));
    }

    #[test]
    fn mqtt_3_1_1_wants_a_user_name_before_a_password() {
        let bytes = b"\x10\x10\0\x04MQTT\x04\x42\0\x0a\0\x01c\0\x01p";
        assert_eq!(Connect::decode(bytes), Err(Violation::PasswordWithoutUsername.into()));
        let only_password = Connect { password: Some(b"p"), ..connect(Version::V311) };
        assert_eq!(encoded(&only_password), Err(Violation::PasswordWithoutUsername.into()));
        assert!(encoded(&Connect { version: Version::V5, ..only_password }).is_ok());
    }

    #[test]
    fn mqtt_3_1_1_wants_a_client_id_for_a_lasting_session() {
        let nameless = Connect { client_id: "", clean_start: false, ..connect(Version::V311) };
        assert_eq!(encoded(&nameless), Err(Violation::EmptyClientId.into()));
        assert!(encoded(&Connect { version: Version::V5, ..nameless }).is_ok());
    }

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        let long = "x".repeat(65_536);
        let too_long = Connect { client_id: &long, ..connect(Version::V5) };
        let field = Unencodable::FieldTooLong { field: "client id", length: 65_536 };
        assert_eq!(encoded(&too_long), Err(field));
        let nul = Connect { username: Some("a\0"), ..connect(Version::V5) };
        assert_eq!(encoded(&nul), Err(Violation::Nul { field: "user name" }.into()));
    }

    #[test]
    fn a_password_does_not_get_into_a_log() {
        let secret = Connect { username: Some("u"), password: Some(b"hunter2"), ..connect(Version::V5) };
        let text = format!("{secret:?}");
        assert!(text.contains("***") && !text.contains("104, 117"), "{text}");
    }
}
