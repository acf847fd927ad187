//! The properties of a packet (MQTT 5 section 2.2.2), as a list.

use super::fields::{Reader, insert_length};
use super::property::{Place, Property};
use super::{Malformed, Unencodable, Version, Violation};
use std::fmt;

/// Properties as they stand in a packet: only reading a packet makes them, so that they are well formed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawProperties<'a>(&'a [u8]);

/// The properties of a packet. Two of them are equal when they hold the same properties in the same order. In
/// MQTT 3.1.1 there are none.
#[derive(Clone, Copy)]
pub enum Properties<'a> {
    /// As read from a packet.
    Raw(RawProperties<'a>),
    /// To be written to a packet.
    List(&'a [Property<'a>]),
}

impl<'a> Properties<'a> {
    /// The properties in their order.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let (raw, list): (&'a [u8], &'a [Property<'a>]) = match *self {
            Properties::Raw(RawProperties(bytes)) => (bytes, &[]),
            Properties::List(list) => (&[], list),
        };
        let mut reader = Reader::new(raw);
        // What could not be read was refused when the packet was.
        let read =
            std::iter::from_fn(
                move || if reader.is_empty() { None } else { Property::read(&mut reader).ok() },
            );
        read.chain(list.iter().copied())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        match self {
            Properties::Raw(RawProperties(bytes)) => bytes.is_empty(),
            Properties::List(list) => list.is_empty(),
        }
    }

    /// All subscription identifiers: of the subscriptions that a PUBLISH matches, or the one of a SUBSCRIBE.
    pub fn subscription_identifiers(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::SubscriptionIdentifier(value) => Some(value),
            _ => None,
        })
    }

    /// All user properties, name and value, in their order.
    pub fn user_properties(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::UserProperty(name, value) => Some((name, value)),
            _ => None,
        })
    }

    /// Takes the property length and the properties; nothing in MQTT 3.1.1.
    pub(super) fn read(version: Version, reader: &mut Reader<'a>) -> Result<Properties<'a>, Malformed> {
        if version == Version::V311 {
            return Ok(Properties::default());
        }
        let length = reader.variable("property length")?;
        let bytes = reader.take(length as usize, "properties")?;
        let mut properties = Reader::new(bytes);
        while !properties.is_empty() {
            Property::read(&mut properties)?;
        }
        Ok(Properties::Raw(RawProperties(bytes)))
    }

    /// Whether the standard allows them there.
    pub(super) fn check(&self, version: Version, place: Place) -> Result<(), Violation> {
        if self.is_empty() {
            return Ok(());
        }
        if version == Version::V311 {
            return Err(Violation::OnlyMqtt5 { what: "properties" });
        }
        let mut seen: u64 = 0;
        for property in self.iter() {
            let (identifier, name, allowed) = property.describe();
            if !place.is_in(allowed) {
                return Err(Violation::PropertyNotAllowed { property: name, place: place.name() });
            }
            let bit = 1 << identifier;
            if seen & bit != 0 && !property.may_repeat(place) {
                return Err(Violation::PropertyRepeated { property: name });
            }
            seen |= bit;
            if !property.value_is_allowed() {
                return Err(Violation::PropertyValue { property: name });
            }
        }
        if self.authentication_data().is_some() && self.authentication_method().is_none() {
            return Err(Violation::NoAuthenticationMethod);
        }
        Ok(())
    }

    /// Appends the property length and the properties; nothing in MQTT 3.1.1.
    pub(super) fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        if version == Version::V311 {
            return Ok(());
        }
        let begin = out.len();
        for property in self.iter() {
            property.write(out)?;
        }
        insert_length(begin, out)
    }
}

/// Properties that outlive the packet that they were read from.
#[derive(Clone, Debug, Default)]
pub struct StoredProperties(Box<[u8]>);

impl StoredProperties {
    /// Stores those properties in their order.
    ///
    /// # Errors
    /// A text contains U+0000, or a field is too long.
    pub fn new<'a>(
        properties: impl IntoIterator<Item = Property<'a>>,
    ) -> Result<StoredProperties, Unencodable> {
        let mut bytes = Vec::new();
        properties.into_iter().try_for_each(|property| property.write(&mut bytes))?;
        Ok(StoredProperties(bytes.into_boxed_slice()))
    }

    /// The properties in their order.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties::Raw(RawProperties(&self.0))
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// Makes the reading of properties that stand once at most.
macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident: $property:ident -> $value:ty;)*) => {
        impl<'a> Properties<'a> {
            $(
                $(#[$doc])*
                pub fn $name(&self) -> Option<$value> {
                    self.iter().find_map(|property| match property {
                        Property::$property(value) => Some(value),
                        _ => None,
                    })
                }
            )*
        }
    };
}

accessors! {
    /// Whether the content is UTF-8 text.
    payload_format_indicator: PayloadFormatIndicator -> bool;
    /// How long the message is worth delivering, s.
    message_expiry_interval: MessageExpiryInterval -> u32;
    /// What the content is, in the sender's words.
    content_type: ContentType -> &'a str;
    /// The topic name that an answer is to be published to.
    response_topic: ResponseTopic -> &'a str;
    /// What tells the asker which question was answered.
    correlation_data: CorrelationData -> &'a [u8];
    /// How long the session outlives the connection, s.
    session_expiry_interval: SessionExpiryInterval -> u32;
    /// The client id that the broker chose.
    assigned_client_identifier: AssignedClientIdentifier -> &'a str;
    /// The keep alive that the broker demands, s.
    server_keep_alive: ServerKeepAlive -> u16;
    /// The name of an extended authentication.
    authentication_method: AuthenticationMethod -> &'a str;
    /// Data of an extended authentication.
    authentication_data: AuthenticationData -> &'a [u8];
    /// Whether the broker may send reason strings and user properties with failures.
    request_problem_information: RequestProblemInformation -> bool;
    /// How long the broker waits before it publishes the will, s.
    will_delay_interval: WillDelayInterval -> u32;
    /// Whether the client asks for response information.
    request_response_information: RequestResponseInformation -> bool;
    /// What response topics are to be made of.
    response_information: ResponseInformation -> &'a str;
    /// Another broker to go to.
    server_reference: ServerReference -> &'a str;
    /// The reason in words, for people.
    reason_string: ReasonString -> &'a str;
    /// How many QoS 1 and 2 messages the sender takes unacknowledged.
    receive_maximum: ReceiveMaximum -> u16;
    /// The highest topic alias that the sender takes.
    topic_alias_maximum: TopicAliasMaximum -> u16;
    /// The number that stands for the topic name.
    topic_alias: TopicAlias -> u16;
    /// The highest quality of service that the broker takes, where it is not 2.
    maximum_qos: MaximumQoS -> u8;
    /// Whether the broker takes retained messages.
    retain_available: RetainAvailable -> bool;
    /// The largest packet that the sender takes, bytes.
    maximum_packet_size: MaximumPacketSize -> u32;
    /// Whether the broker takes wildcards in subscriptions.
    wildcard_subscription_available: WildcardSubscriptionAvailable -> bool;
    /// Whether the broker takes subscription identifiers.
    subscription_identifier_available: SubscriptionIdentifierAvailable -> bool;
    /// Whether the broker takes shared subscriptions.
    shared_subscription_available: SharedSubscriptionAvailable -> bool;
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Properties::Raw(RawProperties::default())
    }
}

impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Properties<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Properties<'_> {}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::PacketType;

    fn read(bytes: &[u8]) -> Result<Properties<'_>, Malformed> {
        Properties::read(Version::V5, &mut Reader::new(bytes))
    }

    fn check(list: &[Property], place: Place) -> Result<(), Violation> {
        Properties::List(list).check(Version::V5, place)
    }

    #[test]
    fn reads_the_values_of_a_connack() {
        let bytes = b"\x14\x21\0\x14\x24\x01\x25\0\x27\0\0\x10\0\x13\0\x1e\x1f\0\x02no";
        let properties = read(bytes).unwrap();
        assert_eq!(properties.check(Version::V5, Place::of(PacketType::Connack)), Ok(()));
        assert_eq!(properties.receive_maximum(), Some(20));
        assert_eq!(properties.maximum_qos(), Some(1));
        assert_eq!(properties.retain_available(), Some(false));
        assert_eq!(properties.maximum_packet_size(), Some(4096));
        assert_eq!(properties.server_keep_alive(), Some(30));
        assert_eq!(properties.reason_string(), Some("no"));
        assert_eq!(properties.topic_alias_maximum(), None);
    }

    #[test]
    fn user_properties_keep_their_order_and_may_repeat() {
        let properties = read(b"\x0e\x26\0\x01a\0\x01b\x26\0\x01a\0\x01c").unwrap();
        assert_eq!(properties.check(Version::V5, Place::WILL), Ok(()));
        assert_eq!(properties.user_properties().collect::<Vec<_>>(), [("a", "b"), ("a", "c")]);
    }

    #[test]
    fn only_a_publish_may_repeat_subscription_identifiers() {
        let twice = [Property::SubscriptionIdentifier(1), Property::SubscriptionIdentifier(2)];
        assert_eq!(check(&twice, Place::of(PacketType::Publish)), Ok(()));
        assert_eq!(Properties::List(&twice).subscription_identifiers().collect::<Vec<_>>(), [1, 2]);
        let repeated = Violation::PropertyRepeated { property: "subscription identifier" };
        assert_eq!(check(&twice, Place::of(PacketType::Subscribe)), Err(repeated));
    }

    #[test]
    fn each_property_has_its_packets() {
        let properties = [Property::TopicAlias(1)];
        let misplaced = Violation::PropertyNotAllowed { property: "topic alias", place: "the will" };
        assert_eq!(check(&properties, Place::WILL), Err(misplaced));
        let misplaced = Violation::PropertyNotAllowed { property: "topic alias", place: "CONNACK" };
        assert_eq!(check(&properties, Place::of(PacketType::Connack)), Err(misplaced));
    }

    #[test]
    fn values_have_their_ranges() {
        let connack = Place::of(PacketType::Connack);
        let publish = Place::of(PacketType::Publish);
        let wrong = [
            (Property::ReceiveMaximum(0), connack),
            (Property::MaximumPacketSize(0), connack),
            (Property::MaximumQoS(2), connack),
            (Property::TopicAlias(0), publish),
            (Property::SubscriptionIdentifier(0), publish),
            (Property::SubscriptionIdentifier(268_435_456), publish),
            (Property::ResponseTopic("a/#"), publish),
        ];
        for (property, place) in wrong {
            assert_eq!(
                check(&[property], place),
                Err(Violation::PropertyValue { property: property.name() })
            );
        }
        let neither = Violation::PropertyValue { property: "retain available" };
        assert_eq!(read(b"\x02\x25\x02"), Err(neither.into()));
    }

    #[test]
    fn authentication_data_needs_a_method() {
        let data = [Property::AuthenticationData(b"x")];
        assert_eq!(check(&data, Place::of(PacketType::Auth)), Err(Violation::NoAuthenticationMethod));
    }

    #[test]
    fn stored_properties_are_those_that_were_read() {
        let read = read(b"\x0f\x26\0\x01a\0\x01b\x23\0\x07\x01\x01\x03\0\0").unwrap();
        let stored = StoredProperties::new(
            read.iter().filter(|property| !matches!(property, Property::TopicAlias(_))),
        );
        let expected = [
            Property::UserProperty("a", "b"),
            Property::PayloadFormatIndicator(true),
            Property::ContentType(""),
        ];
        assert_eq!(stored.unwrap().as_properties(), Properties::List(&expected));
        let long = "x".repeat(65_536);
        assert!(StoredProperties::new([Property::ContentType(&long)]).is_err());
    }

    #[test]
    fn damaged_properties_are_malformed() {
        assert_eq!(read(b"\x01\x04"), Err(Malformed::Property { identifier: 4 }));
        assert_eq!(read(b"\x02\x21\0"), Err(Malformed::Truncated { field: "receive maximum" }));
        assert_eq!(read(b"\x05\x21\0\x01"), Err(Malformed::Truncated { field: "properties" }));
        assert_eq!(read(b""), Err(Malformed::Truncated { field: "property length" }));
    }

    #[test]
    fn texts_of_properties_have_no_nul() {
        let mut out = Vec::new();
        let nul = Property::ReasonString("a\0").write(&mut out);
        assert_eq!(nul, Err(Violation::Nul { field: "reason string" }.into()));
    }
}
