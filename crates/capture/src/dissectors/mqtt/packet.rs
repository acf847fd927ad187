//! Packets of MQTT (3.1.1, section 2; 5, section 2): the fixed header, and whether bytes can be packets at all.

use crate::side::Side;
use memchr::memchr3;

/// Types of packets that both versions number alike.
pub(super) mod kind {
    pub const CONNECT: u8 = 1;
    pub const CONNACK: u8 = 2;
    pub const PUBLISH: u8 = 3;
    pub const PUBACK: u8 = 4;
    pub const PUBREC: u8 = 5;
    pub const PUBREL: u8 = 6;
    pub const PUBCOMP: u8 = 7;
    pub const SUBSCRIBE: u8 = 8;
    pub const SUBACK: u8 = 9;
    pub const UNSUBSCRIBE: u8 = 10;
    pub const UNSUBACK: u8 = 11;
    pub const PINGREQ: u8 = 12;
    pub const PINGRESP: u8 = 13;
    pub const DISCONNECT: u8 = 14;
    pub const AUTH: u8 = 15;
}

/// A property of PUBLISH (5, section 3.3.2.3.4).
const TOPIC_ALIAS: u8 = 0x23;

/// A fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// One of [`kind`].
    pub kind: u8,
    /// The lower half of the first byte.
    pub flags: u8,
    /// Its bytes.
    pub length: usize,
    /// Bytes that follow it.
    pub remaining: usize,
}

impl Header {
    /// Of a PUBLISH.
    pub fn qos(self) -> u8 {
        self.flags >> 1 & 3
    }

    /// Of a PUBLISH: it is sent again.
    pub fn again(self) -> bool {
        self.flags & 8 != 0
    }

    /// Who alone sends such packets.
    pub fn sender(self) -> Option<Side> {
        match self.kind {
            kind::CONNECT | kind::SUBSCRIBE | kind::UNSUBSCRIBE | kind::PINGREQ => Some(Side::Client),
            kind::CONNACK | kind::SUBACK | kind::UNSUBACK | kind::PINGRESP => Some(Side::Server),
            _ => None,
        }
    }

    /// Header and what follows, bytes.
    pub fn whole(self) -> usize {
        self.length + self.remaining
    }
}

/// Reads a fixed header; `None` where bytes are missing.
pub(super) fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let (kind, flags) = (first >> 4, first & 15);
    let fits = match kind {
        0 => false,
        kind::PUBLISH => flags & 6 != 6 && (flags & 6 != 0 || flags & 8 == 0),
        kind::PUBREL | kind::SUBSCRIBE | kind::UNSUBSCRIBE => flags == 2,
        _ => flags == 0,
    };
    if !fits {
        return Err("a packet with a type or flags that do not exist");
    }
    let mut remaining = 0;
    for (place, &byte) in bytes[1..].iter().take(4).enumerate() {
        remaining |= usize::from(byte & 127) << (7 * place);
        if byte & 128 == 0 {
            let header = Header { kind, flags, length: place + 2, remaining };
            return if long_enough(header) { Ok(Some(header)) } else { Err("a packet of a wrong length") };
        }
    }
    if bytes.len() >= 5 { Err("a length of more than four bytes") } else { Ok(None) }
}

fn long_enough(header: Header) -> bool {
    match header.kind {
        kind::CONNECT => header.remaining >= 10,
        kind::CONNACK | kind::PUBACK..=kind::PUBCOMP | kind::UNSUBACK => header.remaining >= 2,
        kind::PUBLISH => header.remaining >= if header.qos() > 0 { 4 } else { 2 },
        kind::SUBSCRIBE | kind::UNSUBSCRIBE => header.remaining >= 5,
        kind::SUBACK => header.remaining >= 3,
        kind::PINGREQ | kind::PINGRESP => header.remaining == 0,
        _ => true,
    }
}

/// A number of two bytes.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let &[high, low] = bytes.get(at..at + 2)? else { return None };
    Some(usize::from(high) << 8 | usize::from(low))
}

/// What bytes look like that may begin with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// Nobody else begins like this.
    Certain,
    /// Whole packets, all well formed, the last one perhaps cut; each so short that other protocols may look alike.
    Possible,
    /// Not decided: more is needed.
    Short,
    Wrong,
}

/// Judges bytes of that side, or of an unknown one.
pub(super) fn looks(mut bytes: &[u8], side: Option<Side>) -> Looks {
    let mut verdict = None;
    loop {
        let looks = first_looks(bytes, side);
        let (Looks::Certain | Looks::Possible) = looks else {
            // A last packet that is cut spoils nothing.
            return if looks == Looks::Wrong { Looks::Wrong } else { verdict.unwrap_or(Looks::Short) };
        };
        if looks == Looks::Certain {
            verdict = Some(Looks::Certain);
        }
        verdict = verdict.or(Some(looks));
        let Ok(Some(header)) = header(bytes) else { return Looks::Wrong };
        match bytes.get(header.whole()..) {
            Some([]) | None => return verdict.unwrap_or(Looks::Short),
            Some(rest) => bytes = rest,
        }
    }
}

fn first_looks(bytes: &[u8], side: Option<Side>) -> Looks {
    let head = match header(bytes) {
        Ok(Some(head)) => head,
        Ok(None) => return Looks::Short,
        Err(_) => return Looks::Wrong,
    };
    if head.sender().zip(side).is_some_and(|(sender, side)| sender != side) {
        return Looks::Wrong;
    }
    let body = &bytes[head.length..];
    let body = &body[..body.len().min(head.remaining)];
    let numbered = || match number(body, 0) {
        None => Looks::Short,
        Some(0) => Looks::Wrong,
        Some(_) => Looks::Possible,
    };
    match head.kind {
        kind::CONNECT => connect(body),
        kind::PUBLISH => publish(head, body),
        kind::PUBACK..=kind::PUBCOMP => match (head.remaining, body.get(2)) {
            (2, _) => numbered(),
            // A reason: success, nobody subscribed, or an error.
            (_, Some(0 | 0x10 | 0x80..=0x99)) if head.remaining < 1024 => numbered(),
            (_, None) => Looks::Short,
            _ => Looks::Wrong,
        },
        kind::SUBSCRIBE | kind::UNSUBSCRIBE if has_filters(head, body) => Looks::Certain,
        kind::SUBSCRIBE | kind::UNSUBSCRIBE | kind::SUBACK | kind::UNSUBACK => numbered(),
        kind::CONNACK => match body {
            [] | [_] => Looks::Short,
            [0 | 1, code, ..] if *code < 6 || (0x80..0xA0).contains(code) => Looks::Possible,
            _ => Looks::Wrong,
        },
        kind::DISCONNECT | kind::AUTH if head.remaining > 1024 => Looks::Wrong,
        _ => Looks::Possible,
    }
}

fn connect(body: &[u8]) -> Looks {
    for name in [&b"\0\x04MQTT\x04"[..], b"\0\x04MQTT\x05", b"\0\x06MQIsdp\x03"] {
        if body.starts_with(name) {
            return Looks::Certain;
        }
        if name.starts_with(body) {
            return Looks::Short;
        }
    }
    Looks::Wrong
}

/// A topic with a name in it that is text without wildcards.
fn publish(head: Header, body: &[u8]) -> Looks {
    let Some(length) = number(body, 0) else { return Looks::Short };
    let end = 2 + length;
    let with_id = if head.qos() > 0 { end + 2 } else { end };
    if length == 0 {
        // In version 5 the first property may be what stands for a topic.
        let alias = matches!(body.get(with_id..), Some(&[length, TOPIC_ALIAS, high, low, ..])
            if length >= 3 && (high, low) != (0, 0));
        return if alias { Looks::Certain } else { Looks::Wrong };
    }
    if with_id > head.remaining {
        return Looks::Wrong;
    }
    let topic = &body[2..body.len().min(end)];
    let text = match std::str::from_utf8(topic) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && topic.len() < length,
    };
    if !text || memchr3(b'#', b'+', 0, topic).is_some() || topic.iter().any(|&byte| byte < b' ') {
        return Looks::Wrong;
    }
    if body.len() < with_id {
        return Looks::Short;
    }
    let numbered = head.qos() == 0 || number(body, end).is_some_and(|id| id != 0);
    if numbered { Looks::Certain } else { Looks::Wrong }
}

/// Filters and nothing else, behind the packet's identifier and, in version 5, no properties.
fn has_filters(head: Header, body: &[u8]) -> bool {
    if body.len() < head.remaining || number(body, 0) == Some(0) {
        return false;
    }
    let only_filters = |mut rest: &[u8]| {
        while let Some(length) = number(rest, 0).filter(|&length| length > 0) {
            let Some(filter) = rest.get(2..2 + length) else { return false };
            let text = std::str::from_utf8(filter).is_ok_and(|text| !text.chars().any(char::is_control));
            // Of SUBSCRIBE, the two upper bits of the options are reserved.
            let behind = match (head.kind, rest.get(2 + length)) {
                (kind::UNSUBSCRIBE, _) => 2 + length,
                (_, Some(0..0x40)) => 3 + length,
                _ => return false,
            };
            if !text {
                return false;
            }
            rest = rest.get(behind..).unwrap_or_default();
        }
        rest.is_empty()
    };
    let (old, new) = (body.get(2..).unwrap_or_default(), body.get(3..).unwrap_or_default());
    !old.is_empty() && only_filters(old) || !new.is_empty() && body[2] == 0 && only_filters(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_refused() {
        let header_of =
            |bytes: &[u8]| header(bytes).map(|header| header.map(|header| (header.kind, header.whole())));
        assert_eq!(header_of(&[0x30, 0x80, 0x01]), Ok(Some((3, 131))));
        assert_eq!(header_of(&[0x30, 0x80]), Ok(None));
        assert_eq!(header_of(&[0xC0, 0]), Ok(Some((12, 2))));
        for bad in
            [&[0x00, 0][..], &[0x36, 9], &[0x38, 9], &[0x80, 9], &[0xC0, 1], &[0x30, 255, 255, 255, 255]]
        {
            assert!(header(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_packets_look_like_packets() {
        assert_eq!(looks(b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd", None), Looks::Certain);
        assert_eq!(looks(b"\x10\x10\0\x04MQ", None), Looks::Short);
        assert_eq!(looks(b"\x30\x07\0\x03a/bxy", None), Looks::Certain);
        assert_eq!(looks(b"\x40\x02\0\x01", None), Looks::Possible);
        assert_eq!(looks(b"\x40\x02\0\x01\x30\x07\0\x03a/bxy", None), Looks::Certain);
        assert_eq!(looks(b"\x40\x02\0\x01\x00", None), Looks::Wrong);
        assert_eq!(looks(b"\x30\x07\0\x03a/#xy", None), Looks::Wrong);
        assert_eq!(looks(b"\x82\x08\0\x01\0\x03a/b\0", Some(Side::Server)), Looks::Wrong);
        assert_eq!(looks(b"\x82\x08\0\x01\0\x03a/#\x02", None), Looks::Certain);
        assert_eq!(looks(b"\xa2\x08\0\x01\0\0\x03a/b", None), Looks::Certain);
        assert_eq!(looks(b"\x32\x0a\0\0\0\x01\x03\x23\0\x07xy", None), Looks::Certain);
        // PostgreSQL, Redis, NATS.
        for other in
            [&b"Q\0\0\0\x0dSELECT 1\0"[..], b"1\0\0\0\x04", b":1000\r\n", b"PING\r\n", b"=15\r\ntxt:abc\r\n"]
        {
            assert_eq!(looks(other, None), Looks::Wrong, "{other:?}");
        }
    }
}
