//! The fixed header (MQTT 5 section 2.1, MQTT 3.1.1 section 2.2): packet type, flags and remaining length.

use super::fields::{insert_length, variable_at, variable_width};
use super::{Malformed, Unencodable, Version, Violation};
use std::fmt;

/// The largest remaining length (MQTT 5 section 2.1.4), bytes; a packet is at most five bytes longer.
pub const LARGEST_REMAINING_LENGTH: usize = 268_435_455;

/// Control packet types (MQTT 5 section 2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PacketType {
    /// A client asks for a session.
    Connect = 1,
    /// The answer to CONNECT.
    Connack,
    /// An application message.
    Publish,
    /// The answer to a PUBLISH at QoS 1.
    Puback,
    /// The first answer to a PUBLISH at QoS 2.
    Pubrec,
    /// The answer to PUBREC.
    Pubrel,
    /// The answer to PUBREL.
    Pubcomp,
    /// A client asks for messages.
    Subscribe,
    /// The answer to SUBSCRIBE.
    Suback,
    /// A client no longer wants messages.
    Unsubscribe,
    /// The answer to UNSUBSCRIBE.
    Unsuback,
    /// Is the connection alive?
    Pingreq,
    /// The answer to PINGREQ.
    Pingresp,
    /// The orderly end.
    Disconnect,
    /// A step of an extended authentication (MQTT 5 only).
    Auth,
}

impl PacketType {
    /// Every packet type, by number.
    pub const ALL: [PacketType; 15] = [
        PacketType::Connect,
        PacketType::Connack,
        PacketType::Publish,
        PacketType::Puback,
        PacketType::Pubrec,
        PacketType::Pubrel,
        PacketType::Pubcomp,
        PacketType::Subscribe,
        PacketType::Suback,
        PacketType::Unsubscribe,
        PacketType::Unsuback,
        PacketType::Pingreq,
        PacketType::Pingresp,
        PacketType::Disconnect,
        PacketType::Auth,
    ];

    /// Its number in the fixed header, 1 to 15.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The packet type with this number, `None` for 0 and above 15.
    pub fn from_code(code: u8) -> Option<PacketType> {
        PacketType::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// Its name in the standards, in capitals.
    pub fn name(self) -> &'static str {
        match self {
            PacketType::Connect => "CONNECT",
            PacketType::Connack => "CONNACK",
            PacketType::Publish => "PUBLISH",
            PacketType::Puback => "PUBACK",
            PacketType::Pubrec => "PUBREC",
            PacketType::Pubrel => "PUBREL",
            PacketType::Pubcomp => "PUBCOMP",
            PacketType::Subscribe => "SUBSCRIBE",
            PacketType::Suback => "SUBACK",
            PacketType::Unsubscribe => "UNSUBSCRIBE",
            PacketType::Unsuback => "UNSUBACK",
            PacketType::Pingreq => "PINGREQ",
            PacketType::Pingresp => "PINGRESP",
            PacketType::Disconnect => "DISCONNECT",
            PacketType::Auth => "AUTH",
        }
    }

    /// The first byte of a packet of this type; for a PUBLISH that of QoS 0 (MQTT 5 section 2.1.3).
    pub(super) fn first_byte(self) -> u8 {
        let flags = match self {
            PacketType::Pubrel | PacketType::Subscribe | PacketType::Unsubscribe => 0b0010,
            _ => 0,
        };
        self.code() << 4 | flags
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A packet without its fixed header.
pub(super) struct Frame<'a> {
    pub(super) packet_type: PacketType,
    pub(super) flags: u8,
    pub(super) body: &'a [u8],
    /// Whether the remaining length takes no more bytes than it need.
    shortest: bool,
}

impl Frame<'_> {
    /// Only MQTT 5 forbids a remaining length with needless bytes, and AUTH exists only there.
    pub(super) fn check_length(&self, version: Version) -> Result<(), Malformed> {
        match version {
            Version::V5 if !self.shortest => Err(Malformed::LengthNotShortest),
            Version::V311 if self.packet_type == PacketType::Auth => {
                Err(Violation::OnlyMqtt5 { what: "AUTH packet" }.into())
            }
            _ => Ok(()),
        }
    }
}

/// The length of the first packet in `buffer`, fixed header included, in bytes; `None` when more bytes are needed
/// to tell. The packet itself need not be there in full. Whether its type and flags exist is looked at as soon as
/// its first byte is there, so that a stream of something else is noticed at once.
///
/// # Errors
/// No packet begins like this.
pub fn packet_length(buffer: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((&first, rest)) = buffer.split_first() else { return Ok(None) };
    packet_type(first)?;
    Ok(variable_at(rest)?.map(|(remaining, width)| 1 + width + remaining as usize))
}

/// Reads the first byte of a packet.
fn packet_type(first: u8) -> Result<PacketType, Malformed> {
    let code = first >> 4;
    let flags = first & 0x0f;
    let packet = PacketType::from_code(code).ok_or(Malformed::PacketType { code })?;
    if packet == PacketType::Publish {
        if flags & 0b0110 == 0b0110 {
            return Err(Malformed::QoS3);
        }
    } else if first != packet.first_byte() {
        return Err(Malformed::Flags { packet, flags });
    }
    Ok(packet)
}

/// Takes off the fixed header of exactly one packet.
pub(super) fn split(bytes: &[u8]) -> Result<Frame<'_>, Malformed> {
    let given = bytes.len();
    let (&first, rest) = bytes.split_first().ok_or(Malformed::NotOnePacket { said: 0, given })?;
    let packet_type = packet_type(first)?;
    let (remaining, width) = variable_at(rest)?.ok_or(Malformed::NotOnePacket { said: 0, given })?;
    let said = 1 + width + remaining as usize;
    let body = rest.get(width..).filter(|_| said == given).ok_or(Malformed::NotOnePacket { said, given })?;
    Ok(Frame { packet_type, flags: first & 0x0f, body, shortest: width == variable_width(remaining) })
}

/// Appends a packet whose body `write` appends; nothing where that fails.
pub(super) fn write_frame(
    first_byte: u8,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Unencodable>,
) -> Result<(), Unencodable> {
    let begin = out.len();
    out.push(first_byte);
    let written = write(out).and_then(|()| insert_length(begin + 1, out));
    if written.is_err() {
        out.truncate(begin);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::Packet;

    #[test]
    fn the_length_is_known_as_soon_as_its_last_byte_is() {
        assert_eq!(packet_length(&[]), Ok(None));
        assert_eq!(packet_length(&[0x30]), Ok(None));
        assert_eq!(packet_length(&[0x30, 0x80]), Ok(None));
        assert_eq!(packet_length(&[0x30, 0x80, 0x01]), Ok(Some(131)));
        assert_eq!(packet_length(&[0xc0, 0x00, 0xd0]), Ok(Some(2)));
    }

    #[test]
    fn what_cannot_begin_a_packet_is_noticed_at_the_first_byte() {
        assert_eq!(packet_length(&[0x00]), Err(Malformed::PacketType { code: 0 }));
        assert_eq!(
            packet_length(b"HTTP/1.1"),
            Err(Malformed::Flags { packet: PacketType::Puback, flags: 8 })
        );
        assert_eq!(packet_length(&[0x36]), Err(Malformed::QoS3));
        let pubrel_without_flag = Malformed::Flags { packet: PacketType::Pubrel, flags: 0 };
        assert_eq!(packet_length(&[0x60]), Err(pubrel_without_flag));
        assert_eq!(packet_length(&[0x30, 0xff, 0xff, 0xff, 0xff]), Err(Malformed::LengthTooLong));
    }

    #[test]
    fn decoding_wants_exactly_one_packet() {
        for (bytes, said) in [(&[][..], 0), (&[0xc0], 0), (&[0xc0, 1], 3), (&[0xc0, 0, 0], 2)] {
            let given = bytes.len();
            assert_eq!(Packet::decode(Version::V5, bytes), Err(Malformed::NotOnePacket { said, given }));
        }
    }

    #[test]
    fn needless_length_bytes_are_forbidden_in_mqtt_5_only() {
        let pingreq = [0xc0, 0x80, 0x00];
        assert_eq!(Packet::decode(Version::V311, &pingreq), Ok(Packet::Pingreq));
        assert_eq!(Packet::decode(Version::V5, &pingreq), Err(Malformed::LengthNotShortest));
    }

    #[test]
    fn every_packet_type_survives_its_number() {
        for packet in PacketType::ALL {
            assert_eq!(PacketType::from_code(packet.code()), Some(packet));
        }
        assert_eq!(PacketType::from_code(0), None);
        assert_eq!(PacketType::from_code(16), None);
    }
}
