//! One property (MQTT 5 section 2.2.2.2): its value, where it may stand, and how it is read and written.

use super::fields::{Reader, write_binary, write_text, write_variable};
use super::{LARGEST_REMAINING_LENGTH, Malformed, PacketType, Unencodable, Violation, topic};

/// One property (MQTT 5 section 2.2.2.2, in the order of its table 2-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// Whether the content is UTF-8 text.
    PayloadFormatIndicator(bool),
    /// How long the message is worth delivering, s.
    MessageExpiryInterval(u32),
    /// What the content is, in the sender's words.
    ContentType(&'a str),
    /// The topic name that an answer is to be published to.
    ResponseTopic(&'a str),
    /// What tells the asker which question was answered.
    CorrelationData(&'a [u8]),
    /// A number that comes back with every message of the subscription, 1 to 268,435,455.
    SubscriptionIdentifier(u32),
    /// How long the session outlives the connection, s.
    SessionExpiryInterval(u32),
    /// The client id that the broker chose.
    AssignedClientIdentifier(&'a str),
    /// The keep alive that the broker demands instead of the client's, s.
    ServerKeepAlive(u16),
    /// The name of an extended authentication.
    AuthenticationMethod(&'a str),
    /// Data of an extended authentication.
    AuthenticationData(&'a [u8]),
    /// Whether the broker may send reason strings and user properties with failures.
    RequestProblemInformation(bool),
    /// How long the broker waits before it publishes the will, s.
    WillDelayInterval(u32),
    /// Whether the client asks for response information.
    RequestResponseInformation(bool),
    /// What response topics are to be made of.
    ResponseInformation(&'a str),
    /// Another broker to go to.
    ServerReference(&'a str),
    /// The reason in words, for people.
    ReasonString(&'a str),
    /// How many QoS 1 and 2 messages the sender of this takes unacknowledged, at least 1.
    ReceiveMaximum(u16),
    /// The highest topic alias that the sender of this takes.
    TopicAliasMaximum(u16),
    /// A number that stands for the topic name, at least 1.
    TopicAlias(u16),
    /// The highest quality of service that the broker takes where it is not 2: 0 or 1.
    MaximumQoS(u8),
    /// Whether the broker takes retained messages.
    RetainAvailable(bool),
    /// A name and a value that only the users know.
    UserProperty(&'a str, &'a str),
    /// The largest packet that the sender of this takes, bytes, at least 1.
    MaximumPacketSize(u32),
    /// Whether the broker takes wildcards in subscriptions.
    WildcardSubscriptionAvailable(bool),
    /// Whether the broker takes subscription identifiers.
    SubscriptionIdentifierAvailable(bool),
    /// Whether the broker takes shared subscriptions.
    SharedSubscriptionAvailable(bool),
}

/// Where properties stand: in a packet, by its number, or in the will of a CONNECT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    pub(super) const WILL: Place = Place(1);

    pub(super) const fn of(packet: PacketType) -> Place {
        Place(1 << packet as u16)
    }

    const fn or(self, packet: PacketType) -> Place {
        Place(self.0 | Place::of(packet).0)
    }

    pub(super) fn is_in(self, places: Place) -> bool {
        self.0 & places.0 != 0
    }

    pub(super) fn name(self) -> &'static str {
        PacketType::from_code(self.0.trailing_zeros() as u8).map_or("the will", PacketType::name)
    }
}

const MESSAGE: Place = Place::WILL.or(PacketType::Publish);
const CONNECTING: Place = Place::of(PacketType::Connect).or(PacketType::Connack);
const AUTHENTICATING: Place = CONNECTING.or(PacketType::Auth);
const ANSWERS: Place = Place::of(PacketType::Connack)
    .or(PacketType::Puback)
    .or(PacketType::Pubrec)
    .or(PacketType::Pubrel)
    .or(PacketType::Pubcomp)
    .or(PacketType::Suback)
    .or(PacketType::Unsuback)
    .or(PacketType::Disconnect)
    .or(PacketType::Auth);
const ANYWHERE: Place = Place(u16::MAX);

impl<'a> Property<'a> {
    /// Its identifier, its name, and where it may stand (MQTT 5 table 2-4).
    pub(super) fn describe(&self) -> (u8, &'static str, Place) {
        use PacketType::{Connack, Connect, Disconnect, Publish, Subscribe};
        match self {
            Property::PayloadFormatIndicator(_) => (0x01, "payload format indicator", MESSAGE),
            Property::MessageExpiryInterval(_) => (0x02, "message expiry interval", MESSAGE),
            Property::ContentType(_) => (0x03, "content type", MESSAGE),
            Property::ResponseTopic(_) => (0x08, "response topic", MESSAGE),
            Property::CorrelationData(_) => (0x09, "correlation data", MESSAGE),
            Property::SubscriptionIdentifier(_) => {
                (0x0b, "subscription identifier", Place::of(Publish).or(Subscribe))
            }
            Property::SessionExpiryInterval(_) => {
                (0x11, "session expiry interval", CONNECTING.or(Disconnect))
            }
            Property::AssignedClientIdentifier(_) => (0x12, "assigned client identifier", Place::of(Connack)),
            Property::ServerKeepAlive(_) => (0x13, "server keep alive", Place::of(Connack)),
            Property::AuthenticationMethod(_) => (0x15, "authentication method", AUTHENTICATING),
            Property::AuthenticationData(_) => (0x16, "authentication data", AUTHENTICATING),
            Property::RequestProblemInformation(_) => {
                (0x17, "request problem information", Place::of(Connect))
            }
            Property::WillDelayInterval(_) => (0x18, "will delay interval", Place::WILL),
            Property::RequestResponseInformation(_) => {
                (0x19, "request response information", Place::of(Connect))
            }
            Property::ResponseInformation(_) => (0x1a, "response information", Place::of(Connack)),
            Property::ServerReference(_) => (0x1c, "server reference", Place::of(Connack).or(Disconnect)),
            Property::ReasonString(_) => (0x1f, "reason string", ANSWERS),
            Property::ReceiveMaximum(_) => (0x21, "receive maximum", CONNECTING),
            Property::TopicAliasMaximum(_) => (0x22, "topic alias maximum", CONNECTING),
            Property::TopicAlias(_) => (0x23, "topic alias", Place::of(Publish)),
            Property::MaximumQoS(_) => (0x24, "maximum QoS", Place::of(Connack)),
            Property::RetainAvailable(_) => (0x25, "retain available", Place::of(Connack)),
            Property::UserProperty(..) => (0x26, "user property", ANYWHERE),
            Property::MaximumPacketSize(_) => (0x27, "maximum packet size", CONNECTING),
            Property::WildcardSubscriptionAvailable(_) => {
                (0x28, "wildcard subscription available", Place::of(Connack))
            }
            Property::SubscriptionIdentifierAvailable(_) => {
                (0x29, "subscription identifiers available", Place::of(Connack))
            }
            Property::SharedSubscriptionAvailable(_) => {
                (0x2a, "shared subscription available", Place::of(Connack))
            }
        }
    }

    /// Its name in the standard.
    pub fn name(&self) -> &'static str {
        self.describe().1
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Property<'a>, Malformed> {
        let identifier = reader.variable("property identifier")?;
        Ok(match identifier {
            0x01 => Property::PayloadFormatIndicator(flag(reader, "payload format indicator")?),
            0x02 => Property::MessageExpiryInterval(reader.u32("message expiry interval")?),
            0x03 => Property::ContentType(reader.text("content type")?),
            0x08 => Property::ResponseTopic(reader.text("response topic")?),
            0x09 => Property::CorrelationData(reader.binary("correlation data")?),
            0x0b => Property::SubscriptionIdentifier(reader.variable("subscription identifier")?),
            0x11 => Property::SessionExpiryInterval(reader.u32("session expiry interval")?),
            0x12 => Property::AssignedClientIdentifier(reader.text("assigned client identifier")?),
            0x13 => Property::ServerKeepAlive(reader.u16("server keep alive")?),
            0x15 => Property::AuthenticationMethod(reader.text("authentication method")?),
            0x16 => Property::AuthenticationData(reader.binary("authentication data")?),
            0x17 => Property::RequestProblemInformation(flag(reader, "request problem information")?),
            0x18 => Property::WillDelayInterval(reader.u32("will delay interval")?),
            0x19 => Property::RequestResponseInformation(flag(reader, "request response information")?),
            0x1a => Property::ResponseInformation(reader.text("response information")?),
            0x1c => Property::ServerReference(reader.text("server reference")?),
            0x1f => Property::ReasonString(reader.text("reason string")?),
            0x21 => Property::ReceiveMaximum(reader.u16("receive maximum")?),
            0x22 => Property::TopicAliasMaximum(reader.u16("topic alias maximum")?),
            0x23 => Property::TopicAlias(reader.u16("topic alias")?),
            0x24 => Property::MaximumQoS(reader.u8("maximum QoS")?),
            0x25 => Property::RetainAvailable(flag(reader, "retain available")?),
            0x26 => Property::UserProperty(
                reader.text("user property name")?,
                reader.text("user property value")?,
            ),
            0x27 => Property::MaximumPacketSize(reader.u32("maximum packet size")?),
            0x28 => Property::WildcardSubscriptionAvailable(flag(reader, "wildcard subscription available")?),
            0x29 => {
                Property::SubscriptionIdentifierAvailable(flag(reader, "subscription identifiers available")?)
            }
            0x2a => Property::SharedSubscriptionAvailable(flag(reader, "shared subscription available")?),
            _ => return Err(Malformed::Property { identifier }),
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let (identifier, name, _) = self.describe();
        out.push(identifier);
        match *self {
            Property::PayloadFormatIndicator(value)
            | Property::RequestProblemInformation(value)
            | Property::RequestResponseInformation(value)
            | Property::RetainAvailable(value)
            | Property::WildcardSubscriptionAvailable(value)
            | Property::SubscriptionIdentifierAvailable(value)
            | Property::SharedSubscriptionAvailable(value) => out.push(u8::from(value)),
            Property::MaximumQoS(value) => out.push(value),
            Property::ServerKeepAlive(value)
            | Property::ReceiveMaximum(value)
            | Property::TopicAliasMaximum(value)
            | Property::TopicAlias(value) => out.extend_from_slice(&value.to_be_bytes()),
            Property::MessageExpiryInterval(value)
            | Property::SessionExpiryInterval(value)
            | Property::WillDelayInterval(value)
            | Property::MaximumPacketSize(value) => out.extend_from_slice(&value.to_be_bytes()),
            Property::SubscriptionIdentifier(value) => write_variable(value as usize, out)?,
            Property::ContentType(text)
            | Property::ResponseTopic(text)
            | Property::AssignedClientIdentifier(text)
            | Property::AuthenticationMethod(text)
            | Property::ResponseInformation(text)
            | Property::ServerReference(text)
            | Property::ReasonString(text) => write_text(text, name, out)?,
            Property::CorrelationData(bytes) | Property::AuthenticationData(bytes) => {
                write_binary(bytes, name, out)?;
            }
            Property::UserProperty(key, value) => {
                write_text(key, "user property name", out)?;
                write_text(value, "user property value", out)?;
            }
        }
        Ok(())
    }

    /// Whether its value is within its range.
    pub(super) fn value_is_allowed(&self) -> bool {
        match *self {
            Property::ReceiveMaximum(value) | Property::TopicAlias(value) => value != 0,
            Property::MaximumPacketSize(value) => value != 0,
            Property::SubscriptionIdentifier(value) => {
                (1..=LARGEST_REMAINING_LENGTH).contains(&(value as usize))
            }
            Property::MaximumQoS(value) => value <= 1,
            Property::ResponseTopic(name) => topic::valid_name(name),
            _ => true,
        }
    }

    /// Whether it may stand more than once: user properties anywhere, and in a PUBLISH one identifier for each
    /// subscription that it matches (MQTT 5 section 3.3.2.3.8).
    pub(super) fn may_repeat(&self, place: Place) -> bool {
        match self {
            Property::UserProperty(..) => true,
            Property::SubscriptionIdentifier(_) => place == Place::of(PacketType::Publish),
            _ => false,
        }
    }
}

/// A byte that says yes or no.
fn flag(reader: &mut Reader, property: &'static str) -> Result<bool, Malformed> {
    match reader.u8(property)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Violation::PropertyValue { property }.into()),
    }
}
