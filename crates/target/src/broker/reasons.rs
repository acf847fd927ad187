//! Reason codes (MQTT 5 section 2.4) that the broker gives, and which of them answers what is wrong with a packet.

use plimsoll_codec::mqtt::{Malformed, Violation};

/// The client had no such subscription.
pub const NO_SUBSCRIPTION_EXISTED: u8 = 0x11;
/// "Unspecified error", and the failure of a SUBACK in MQTT 3.1.1 (section 3.9.3).
pub const FAILURE: u8 = 0x80;
/// A packet that cannot be read.
pub const MALFORMED: u8 = 0x81;
/// A packet that the standard forbids there.
pub const PROTOCOL_ERROR: u8 = 0x82;
/// A version of MQTT that the broker does not support.
pub const UNSUPPORTED_VERSION: u8 = 0x84;
/// As many clients are connected as may be.
pub const SERVER_BUSY: u8 = 0x89;
/// The broker ends.
pub const SHUTTING_DOWN: u8 = 0x8b;
/// The client asks for an extended authentication.
pub const BAD_AUTHENTICATION_METHOD: u8 = 0x8c;
/// The client was silent for 1.5 times its keep alive.
pub const KEEP_ALIVE_TIMEOUT: u8 = 0x8d;
/// Another connection has the client id now.
pub const TAKEN_OVER: u8 = 0x8e;
/// A topic filter that is none.
pub const FILTER_INVALID: u8 = 0x8f;
/// A topic name that is none.
pub const TOPIC_INVALID: u8 = 0x90;
/// No message awaits that packet id.
pub const PACKET_ID_NOT_FOUND: u8 = 0x92;
/// A topic alias that stands for nothing.
pub const ALIAS_INVALID: u8 = 0x94;
/// A packet above the broker's maximum packet size.
pub const PACKET_TOO_LARGE: u8 = 0x95;
/// The memory bound is reached.
pub const QUOTA_EXCEEDED: u8 = 0x97;

/// Return codes of a CONNACK in MQTT 3.1.1 (section 3.2.2.3).
pub mod v311 {
    /// A version that the broker does not support.
    pub const UNACCEPTABLE_VERSION: u8 = 1;
    /// An empty client id without clean session.
    pub const IDENTIFIER_REJECTED: u8 = 2;
    /// No room for the client.
    pub const UNAVAILABLE: u8 = 3;
}

/// The reason code for a packet that was refused.
pub fn of(malformed: Malformed) -> u8 {
    match malformed {
        Malformed::ProtocolLevel { .. } | Malformed::ProtocolName => UNSUPPORTED_VERSION,
        Malformed::NotConnect { .. } => PROTOCOL_ERROR,
        Malformed::Violation(violation) => match violation {
            Violation::Nul { .. } => MALFORMED,
            Violation::TopicName { .. } => TOPIC_INVALID,
            Violation::TopicFilter => FILTER_INVALID,
            Violation::PropertyValue { property: "topic alias" } => ALIAS_INVALID,
            _ => PROTOCOL_ERROR,
        },
        _ => MALFORMED,
    }
}
