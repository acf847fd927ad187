//! MQTT 3.1.1 and 5.0 control packets, in both directions.
//!
//! [`packet_length`] cuts a stream into packets, [`Packet::decode`] reads one without copying topics and payloads,
//! [`Packet::encode`] writes one. Both refuse what the standards forbid, so that a lying peer is noticed and no
//! wrong packet leaves. [`encode_publish`] and [`encode_ack`] are the short ways of a load generator.

mod acknowledgement;
mod authentication;
mod connack;
mod connect;
mod disconnect;
mod error;
mod fields;
mod frame;
mod ping;
mod properties;
mod property;
mod publish;
mod reason;
mod subscribe;
mod tolerant;
pub mod topic;
mod unsubscribe;

pub use acknowledgement::{Ack, AckKind, encode_ack};
pub use authentication::Auth;
pub use connack::Connack;
pub use connect::{Connect, Will, encode_connect};
pub use disconnect::Disconnect;
pub use error::{Malformed, Unencodable, Violation};
pub use frame::{LARGEST_REMAINING_LENGTH, PacketType, packet_length};
pub use ping::{encode_pingreq, encode_pingresp};
pub use properties::{Properties, RawProperties, StoredProperties};
pub use property::Property;
pub use publish::{Publish, PublishHeader, encode_publish};
pub use reason::{connack_text, reason_text};
pub use subscribe::{RetainHandling, Suback, Subscribe, Subscription, encode_subscribe};
pub use tolerant::packet_length_tolerantly;
pub use unsubscribe::{Unsuback, Unsubscribe};

/// Protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// MQTT 3.1.1 (protocol level 4).
    V311,
    /// MQTT 5.0 (protocol level 5).
    V5,
}

impl Version {
    /// The version with this protocol level (MQTT 5 section 3.1.2.2), `None` for levels other than 4 and 5.
    pub fn from_level(level: u8) -> Option<Version> {
        match level {
            4 => Some(Version::V311),
            5 => Some(Version::V5),
            _ => None,
        }
    }

    /// The protocol level that CONNECT names.
    pub fn level(self) -> u8 {
        match self {
            Version::V311 => 4,
            Version::V5 => 5,
        }
    }
}

/// Quality of service of a message or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QoS {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce,
    /// QoS 2.
    ExactlyOnce,
}

impl QoS {
    /// The quality of service with this number, `None` above 2.
    pub fn from_level(level: u8) -> Option<QoS> {
        match level {
            0 => Some(QoS::AtMostOnce),
            1 => Some(QoS::AtLeastOnce),
            2 => Some(QoS::ExactlyOnce),
            _ => None,
        }
    }

    /// Its number: 0, 1 or 2.
    pub fn level(self) -> u8 {
        match self {
            QoS::AtMostOnce => 0,
            QoS::AtLeastOnce => 1,
            QoS::ExactlyOnce => 2,
        }
    }
}

/// A control packet (MQTT 5 chapter 3). Texts and payloads are borrowed from the bytes that were decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNECT: a client asks for a session.
    Connect(Connect<'a>),
    /// CONNACK: the answer to CONNECT.
    Connack(Connack<'a>),
    /// PUBLISH: an application message.
    Publish(Publish<'a>),
    /// PUBACK, PUBREC, PUBREL or PUBCOMP.
    Ack(Ack<'a>),
    /// SUBSCRIBE: a client asks for messages.
    Subscribe(Subscribe<'a>),
    /// SUBACK: the answer to SUBSCRIBE.
    Suback(Suback<'a>),
    /// UNSUBSCRIBE: a client no longer wants messages.
    Unsubscribe(Unsubscribe<'a>),
    /// UNSUBACK: the answer to UNSUBSCRIBE.
    Unsuback(Unsuback<'a>),
    /// PINGREQ: is the connection alive?
    Pingreq,
    /// PINGRESP: it is.
    Pingresp,
    /// DISCONNECT: the orderly end.
    Disconnect(Disconnect<'a>),
    /// AUTH: a step of an extended authentication (MQTT 5 only).
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Reads exactly one packet, whose end [`packet_length`] has found. CONNECT names its version itself, so
    /// `version` does not matter to it; [`Connect::decode`] reads it where no version is known yet.
    ///
    /// # Errors
    /// The bytes are not a packet of that version, or say what the standard forbids.
    pub fn decode(version: Version, packet: &'a [u8]) -> Result<Packet<'a>, Malformed> {
        let frame = frame::split(packet)?;
        if frame.packet_type != PacketType::Connect {
            frame.check_length(version)?;
        }
        let body = frame.body;
        Ok(match frame.packet_type {
            PacketType::Connect => Packet::Connect(Connect::read(&frame)?),
            PacketType::Connack => Packet::Connack(Connack::read(version, body)?),
            PacketType::Publish => Packet::Publish(Publish::read(version, frame.flags, body)?),
            PacketType::Puback => Packet::Ack(Ack::read(version, AckKind::Puback, body)?),
            PacketType::Pubrec => Packet::Ack(Ack::read(version, AckKind::Pubrec, body)?),
            PacketType::Pubrel => Packet::Ack(Ack::read(version, AckKind::Pubrel, body)?),
            PacketType::Pubcomp => Packet::Ack(Ack::read(version, AckKind::Pubcomp, body)?),
            PacketType::Subscribe => Packet::Subscribe(Subscribe::read(version, body)?),
            PacketType::Suback => Packet::Suback(Suback::read(version, body)?),
            PacketType::Unsubscribe => Packet::Unsubscribe(Unsubscribe::read(version, body)?),
            PacketType::Unsuback => Packet::Unsuback(Unsuback::read(version, body)?),
            PacketType::Pingreq => ping::read(Packet::Pingreq, body)?,
            PacketType::Pingresp => ping::read(Packet::Pingresp, body)?,
            PacketType::Disconnect => Packet::Disconnect(Disconnect::read(version, body)?),
            PacketType::Auth => Packet::Auth(Auth::read(version, body)?),
        })
    }

    /// Appends the packet. CONNECT is written in the version that it names, whatever `version` says.
    ///
    /// # Errors
    /// The standard forbids the packet, that version cannot express it, or a field is too long; then nothing is
    /// appended.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match self {
            Packet::Connect(connect) => encode_connect(connect, out),
            Packet::Connack(connack) => connack.write(version, out),
            Packet::Publish(publish) => publish.write(version, out),
            Packet::Ack(ack) => ack.write(version, out),
            Packet::Subscribe(subscribe) => subscribe.write(version, out),
            Packet::Suback(suback) => suback.write(version, out),
            Packet::Unsubscribe(unsubscribe) => unsubscribe.write(version, out),
            Packet::Unsuback(unsuback) => unsuback.write(version, out),
            Packet::Pingreq => {
                encode_pingreq(out);
                Ok(())
            }
            Packet::Pingresp => {
                encode_pingresp(out);
                Ok(())
            }
            Packet::Disconnect(disconnect) => disconnect.write(version, out),
            Packet::Auth(auth) => auth.write(version, out),
        }
    }

    /// Which control packet it is.
    pub fn packet_type(&self) -> PacketType {
        match self {
            Packet::Connect(_) => PacketType::Connect,
            Packet::Connack(_) => PacketType::Connack,
            Packet::Publish(_) => PacketType::Publish,
            Packet::Ack(ack) => ack.kind.packet_type(),
            Packet::Subscribe(_) => PacketType::Subscribe,
            Packet::Suback(_) => PacketType::Suback,
            Packet::Unsubscribe(_) => PacketType::Unsubscribe,
            Packet::Unsuback(_) => PacketType::Unsuback,
            Packet::Pingreq => PacketType::Pingreq,
            Packet::Pingresp => PacketType::Pingresp,
            Packet::Disconnect(_) => PacketType::Disconnect,
            Packet::Auth(_) => PacketType::Auth,
        }
    }
}
