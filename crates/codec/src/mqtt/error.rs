//! What can be wrong with a packet.

use super::PacketType;

/// What the standard forbids in a packet, whether it is read or written. "Malformed packet" and "protocol error" of
/// MQTT 5 section 4.13 are one to us: both end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Packet id 0.
    #[error("the packet id is 0 (MQTT 5 section 2.2.1, MQTT 3.1.1 section 2.3.1)")]
    PacketIdZero,
    /// A PUBLISH at QoS 1 or 2 without packet id.
    #[error("a PUBLISH at QoS 1 or 2 needs a packet id (MQTT 5 section 3.3.2.2, MQTT 3.1.1 section 3.3.2.2)")]
    PacketIdMissing,
    /// A PUBLISH at QoS 0 with packet id.
    #[error("a PUBLISH at QoS 0 has no packet id (MQTT 5 section 3.3.2.2, MQTT 3.1.1 section 3.3.2.2)")]
    PacketIdAtQoS0,
    /// A PUBLISH at QoS 0 that claims to be repeated.
    #[error("a PUBLISH at QoS 0 has the DUP flag (MQTT 5 section 3.3.1.1, MQTT 3.1.1 section 3.3.1.1)")]
    DupAtQoS0,
    /// A topic name that is empty, contains a wildcard or U+0000, or is too long.
    #[error(
        "the {field} is empty, too long or contains a wildcard or U+0000 (MQTT 5 and MQTT 3.1.1 section 4.7)"
    )]
    TopicName {
        /// Which topic name.
        field: &'static str,
    },
    /// An empty topic name without a topic alias.
    #[error("the topic name is empty and there is no topic alias (MQTT 5 section 3.3.2.1)")]
    NoTopic,
    /// A topic filter that is empty, has a wildcard in the wrong place, contains U+0000 or is too long.
    #[error(
        "the topic filter is empty, too long or its wildcards stand wrong (MQTT 5 and MQTT 3.1.1 section 4.7)"
    )]
    TopicFilter,
    /// A text with U+0000.
    #[error("the {field} contains U+0000 (MQTT 5 section 1.5.4, MQTT 3.1.1 section 1.5.3)")]
    Nul {
        /// Which text.
        field: &'static str,
    },
    /// A SUBSCRIBE, SUBACK, UNSUBSCRIBE or UNSUBACK about nothing.
    #[error(
        "the {packet} has an empty payload (MQTT 5 sections 3.8.3 to 3.11.3, MQTT 3.1.1 sections 3.8.3 to 3.10.3)"
    )]
    NothingListed {
        /// Which packet.
        packet: PacketType,
    },
    /// "No local" on a shared subscription.
    #[error("\"no local\" is set on a shared subscription (MQTT 5 section 3.8.3.1)")]
    NoLocalShared,
    /// A reason or return code that the packet cannot have.
    #[error(
        "{packet} cannot have the code 0x{code:02x} (MQTT 5 section 2.4, MQTT 3.1.1 sections 3.2.2.3 and 3.9.3)"
    )]
    ReasonCode {
        /// Which packet.
        packet: PacketType,
        /// The code.
        code: u8,
    },
    /// A refused CONNECT with a session.
    #[error(
        "a CONNACK that refuses says \"session present\" (MQTT 5 section 3.2.2.1.1, MQTT 3.1.1 section 3.2.2.2)"
    )]
    SessionPresent,
    /// MQTT 3.1.1 lets a password come only with a user name.
    #[error("a password without a user name (MQTT 3.1.1 section 3.1.2.9)")]
    PasswordWithoutUsername,
    /// MQTT 3.1.1 lets the client id be empty only in a clean session.
    #[error("an empty client id without a clean session (MQTT 3.1.1 section 3.1.3.1)")]
    EmptyClientId,
    /// Something that MQTT 3.1.1 does not have.
    #[error("MQTT 3.1.1 has no {what}")]
    OnlyMqtt5 {
        /// What it lacks.
        what: &'static str,
    },
    /// A property in a packet that cannot have it.
    #[error("the property {property} does not belong in {place} (MQTT 5 section 2.2.2.2)")]
    PropertyNotAllowed {
        /// Which property.
        property: &'static str,
        /// Where it stood.
        place: &'static str,
    },
    /// A property that may stand only once.
    #[error("the property {property} stands more than once (MQTT 5 section 2.2.2)")]
    PropertyRepeated {
        /// Which property.
        property: &'static str,
    },
    /// A property with a value that it cannot have.
    #[error("the property {property} has a value outside its range (MQTT 5 section 2.2.2.2)")]
    PropertyValue {
        /// Which property.
        property: &'static str,
    },
    /// Authentication data, or an AUTH, without authentication method.
    #[error("the authentication method is missing (MQTT 5 sections 3.1.2.11.10 and 3.15.2.2.2)")]
    NoAuthenticationMethod,
}

/// Why bytes are not a packet. That more bytes are needed is not among the reasons: see
/// [`packet_length`](super::packet_length).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A variable byte integer of more than four bytes.
    #[error("a length takes more than four bytes (MQTT 5 section 1.5.5, MQTT 3.1.1 section 2.2.3)")]
    LengthTooLong,
    /// A variable byte integer longer than it need be, in MQTT 5.
    #[error("a length is not written in the fewest bytes (MQTT 5 section 1.5.5)")]
    LengthNotShortest,
    /// The slice to decode is not exactly one packet.
    #[error("a packet of {said} bytes in {given} bytes: pass exactly one packet (MQTT 5 section 2.1.4)")]
    NotOnePacket {
        /// Length by the packet's own word, bytes; 0 where not even that can be told.
        said: usize,
        /// Length of the slice, bytes.
        given: usize,
    },
    /// A packet type that does not exist.
    #[error("packet type {code} does not exist (MQTT 5 section 2.1.2, MQTT 3.1.1 section 2.2.1)")]
    PacketType {
        /// The type's number.
        code: u8,
    },
    /// Flags in the fixed header that the packet type cannot have.
    #[error("{packet} cannot have the flags {flags:#06b} (MQTT 5 section 2.1.3, MQTT 3.1.1 section 2.2.2)")]
    Flags {
        /// Which packet.
        packet: PacketType,
        /// The four flags.
        flags: u8,
    },
    /// Quality of service 3.
    #[error("quality of service 3 (MQTT 5 section 3.3.1.2, MQTT 3.1.1 section 3.3.1.2)")]
    QoS3,
    /// The remaining length ends inside a field.
    #[error("the packet ends inside its {field} (MQTT 5 section 2.1.4, MQTT 3.1.1 section 2.2.3)")]
    Truncated {
        /// Which field.
        field: &'static str,
    },
    /// The packet goes on after its last field.
    #[error(
        "{packet} has {count} bytes after its last field (MQTT 5 section 2.1.4, MQTT 3.1.1 section 2.2.3)"
    )]
    Trailing {
        /// Which packet.
        packet: PacketType,
        /// How many bytes are too many.
        count: usize,
    },
    /// A text that is not UTF-8.
    #[error("the {field} is not UTF-8 (MQTT 5 section 1.5.4, MQTT 3.1.1 section 1.5.3)")]
    NotUtf8 {
        /// Which text.
        field: &'static str,
    },
    /// The first packet of a connection is not a CONNECT.
    #[error("{packet} where a CONNECT belongs (MQTT 5 section 3.1, MQTT 3.1.1 section 3.1)")]
    NotConnect {
        /// What it is.
        packet: PacketType,
    },
    /// A CONNECT whose protocol name is not `MQTT`.
    #[error("the protocol name is not \"MQTT\" (MQTT 5 section 3.1.2.1, MQTT 3.1.1 section 3.1.2.1)")]
    ProtocolName,
    /// A CONNECT of another version than 3.1.1 and 5.0.
    #[error("protocol level {level} is neither MQTT 3.1.1 (4) nor MQTT 5 (5) (MQTT 5 section 3.1.2.2)")]
    ProtocolLevel {
        /// The level.
        level: u8,
    },
    /// Reserved bits that are set, or flags of CONNECT that contradict each other.
    #[error(
        "the {field} have a value that is reserved (MQTT 5 and MQTT 3.1.1 sections 3.1.2, 3.2.2 and 3.8.3)"
    )]
    Reserved {
        /// Which flags.
        field: &'static str,
    },
    /// A property identifier that does not exist.
    #[error("property 0x{identifier:02x} does not exist (MQTT 5 section 2.2.2.2)")]
    Property {
        /// The identifier.
        identifier: u32,
    },
    /// Something that the standard forbids.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// A field whose length does not fit into its two bytes.
    #[error(
        "the {field} has {length} bytes, at most 65,535 fit (MQTT 5 section 1.5.4, MQTT 3.1.1 section 1.5.3)"
    )]
    FieldTooLong {
        /// Which field.
        field: &'static str,
        /// Its length, bytes.
        length: usize,
    },
    /// A packet, or its properties, longer than a remaining length can say.
    #[error(
        "{length} bytes exceed the largest packet, 268,435,455 (MQTT 5 section 2.1.4, MQTT 3.1.1 section 2.2.3)"
    )]
    TooLong {
        /// The length, bytes.
        length: usize,
    },
    /// Something that the standard forbids.
    #[error(transparent)]
    Violation(#[from] Violation),
}
