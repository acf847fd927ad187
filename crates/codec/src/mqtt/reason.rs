//! Reason codes (MQTT 5 section 2.4) and return codes (MQTT 3.1.1 sections 3.2.2.3 and 3.9.3): their names, and which
//! packets may have them.

use super::{PacketType, Version, Violation};

const UNKNOWN: &str = "a code that the standard does not define";

struct Reason {
    code: u8,
    text: &'static str,
    packets: &'static [PacketType],
}

const fn reason(code: u8, text: &'static str, packets: &'static [PacketType]) -> Reason {
    Reason { code, text, packets }
}

/// MQTT 5 table 2-6, by code. Where one code has several names, the one that holds for most packets.
const REASONS: [Reason; 43] = {
    use PacketType::*;
    [
        reason(
            0x00,
            "Success",
            &[Connack, Puback, Pubrec, Pubrel, Pubcomp, Suback, Unsuback, Disconnect, Auth],
        ),
        reason(0x01, "Granted QoS 1", &[Suback]),
        reason(0x02, "Granted QoS 2", &[Suback]),
        reason(0x04, "Disconnect with Will Message", &[Disconnect]),
        reason(0x10, "No matching subscribers", &[Puback, Pubrec]),
        reason(0x11, "No subscription existed", &[Unsuback]),
        reason(0x18, "Continue authentication", &[Auth]),
        reason(0x19, "Re-authenticate", &[Auth]),
        reason(0x80, "Unspecified error", &[Connack, Puback, Pubrec, Suback, Unsuback, Disconnect]),
        reason(0x81, "Malformed Packet", &[Connack, Disconnect]),
        reason(0x82, "Protocol Error", &[Connack, Disconnect]),
        reason(
            0x83,
            "Implementation specific error",
            &[Connack, Puback, Pubrec, Suback, Unsuback, Disconnect],
        ),
        reason(0x84, "Unsupported Protocol Version", &[Connack]),
        reason(0x85, "Client Identifier not valid", &[Connack]),
        reason(0x86, "Bad User Name or Password", &[Connack]),
        reason(0x87, "Not authorized", &[Connack, Puback, Pubrec, Suback, Unsuback, Disconnect]),
        reason(0x88, "Server unavailable", &[Connack]),
        reason(0x89, "Server busy", &[Connack, Disconnect]),
        reason(0x8a, "Banned", &[Connack]),
        reason(0x8b, "Server shutting down", &[Disconnect]),
        reason(0x8c, "Bad authentication method", &[Connack, Disconnect]),
        reason(0x8d, "Keep Alive timeout", &[Disconnect]),
        reason(0x8e, "Session taken over", &[Disconnect]),
        reason(0x8f, "Topic Filter invalid", &[Suback, Unsuback, Disconnect]),
        reason(0x90, "Topic Name invalid", &[Connack, Puback, Pubrec, Disconnect]),
        reason(0x91, "Packet Identifier in use", &[Puback, Pubrec, Suback, Unsuback]),
        reason(0x92, "Packet Identifier not found", &[Pubrel, Pubcomp]),
        reason(0x93, "Receive Maximum exceeded", &[Disconnect]),
        reason(0x94, "Topic Alias invalid", &[Disconnect]),
        reason(0x95, "Packet too large", &[Connack, Disconnect]),
        reason(0x96, "Message rate too high", &[Disconnect]),
        reason(0x97, "Quota exceeded", &[Connack, Puback, Pubrec, Suback, Disconnect]),
        reason(0x98, "Administrative action", &[Disconnect]),
        reason(0x99, "Payload format invalid", &[Connack, Puback, Pubrec, Disconnect]),
        reason(0x9a, "Retain not supported", &[Connack, Disconnect]),
        reason(0x9b, "QoS not supported", &[Connack, Disconnect]),
        reason(0x9c, "Use another server", &[Connack, Disconnect]),
        reason(0x9d, "Server moved", &[Connack, Disconnect]),
        reason(0x9e, "Shared Subscriptions not supported", &[Suback, Disconnect]),
        reason(0x9f, "Connection rate exceeded", &[Connack, Disconnect]),
        reason(0xa0, "Maximum connect time", &[Disconnect]),
        reason(0xa1, "Subscription Identifiers not supported", &[Suback, Disconnect]),
        reason(0xa2, "Wildcard Subscriptions not supported", &[Suback, Disconnect]),
    ]
};

/// The return codes of a CONNACK, by code (MQTT 3.1.1 section 3.2.2.3).
const RETURNS: [&str; 6] = [
    "Connection Accepted",
    "Connection Refused, unacceptable protocol version",
    "Connection Refused, identifier rejected",
    "Connection Refused, Server unavailable",
    "Connection Refused, bad user name or password",
    "Connection Refused, not authorized",
];

/// The standard's name of a reason code; in MQTT 3.1.1 of a code in a SUBACK.
pub fn reason_text(version: Version, code: u8) -> &'static str {
    match (version, code) {
        (Version::V311, 0x80) => "Failure",
        (Version::V311, 0x03..) => UNKNOWN,
        _ => REASONS.iter().find(|reason| reason.code == code).map_or(UNKNOWN, |reason| reason.text),
    }
}

/// The standard's name of the code in a CONNACK.
pub fn connack_text(version: Version, code: u8) -> &'static str {
    match version {
        Version::V311 => RETURNS.get(usize::from(code)).copied().unwrap_or(UNKNOWN),
        Version::V5 => reason_text(version, code),
    }
}

/// Refuses a code that the packet cannot have.
pub(super) fn check(version: Version, packet: PacketType, code: u8) -> Result<(), Violation> {
    let allowed = match (version, packet) {
        (Version::V311, PacketType::Connack) => usize::from(code) < RETURNS.len(),
        (Version::V311, PacketType::Suback) => matches!(code, 0..=2 | 0x80),
        (Version::V311, _) if code != 0 => return Err(Violation::OnlyMqtt5 { what: "reason codes" }),
        _ => REASONS.iter().any(|reason| reason.code == code && reason.packets.contains(&packet)),
    };
    if allowed { Ok(()) } else { Err(Violation::ReasonCode { packet, code }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_rise_and_none_stands_twice() {
        assert!(REASONS.iter().zip(REASONS.iter().skip(1)).all(|(one, next)| one.code < next.code));
    }

    #[test]
    fn codes_have_the_names_of_their_version() {
        assert_eq!(reason_text(Version::V5, 0x87), "Not authorized");
        assert_eq!(reason_text(Version::V5, 0x03), UNKNOWN);
        assert_eq!(reason_text(Version::V311, 0x80), "Failure");
        assert_eq!(reason_text(Version::V311, 0x87), UNKNOWN);
        assert_eq!(connack_text(Version::V311, 5), "Connection Refused, not authorized");
        assert_eq!(connack_text(Version::V311, 6), UNKNOWN);
        assert_eq!(connack_text(Version::V5, 0x86), "Bad User Name or Password");
    }

    #[test]
    fn each_packet_has_its_codes() {
        assert_eq!(check(Version::V5, PacketType::Puback, 0x10), Ok(()));
        let not_there = Violation::ReasonCode { packet: PacketType::Pubcomp, code: 0x10 };
        assert_eq!(check(Version::V5, PacketType::Pubcomp, 0x10), Err(not_there));
        assert_eq!(check(Version::V311, PacketType::Suback, 0x80), Ok(()));
        let v5_only = Violation::ReasonCode { packet: PacketType::Suback, code: 0x87 };
        assert_eq!(check(Version::V311, PacketType::Suback, 0x87), Err(v5_only));
    }
}
