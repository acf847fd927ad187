//! Socket.IO 5 over Engine.IO 4 (protocol documents of socket.io), as they go in text frames of a WebSocket: what both sides say before
//! the first message, the signs of life between, events and their acknowledgements. Only the main namespace, and no binary
//! events.

use std::io::Write;

/// The path and query at which a server of Socket.IO takes WebSockets, where nothing says another.
pub const PATH: &str = "/socket.io/?EIO=4&transport=websocket";
/// What a client answers to a ping of the server.
pub const PONG: &[u8] = b"3";

/// A packet of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The transport is there: the client asks for the namespace now.
    Opened,
    /// The server lets the client in.
    Connected,
    /// It does not: what it says, as JSON.
    Refused(&'a [u8]),
    /// A sign of life, which is to be answered.
    Ping,
    /// An event: an array of JSON whose first value is its name.
    Event(&'a [u8]),
    /// The acknowledgement of an event of ours: the event's number, and an array of JSON.
    Acknowledged(u32, &'a [u8]),
    /// The server ends the connection.
    Closed,
    /// Anything else, which means nothing to us.
    Other,
}

impl Packet<'_> {
    /// Reads the content of a frame.
    pub fn read(content: &[u8]) -> Packet<'_> {
        match content {
            [b'0', ..] => Packet::Opened,
            [b'1'] => Packet::Closed,
            [b'2', ..] => Packet::Ping,
            [b'4', b'0', ..] => Packet::Connected,
            [b'4', b'1', ..] => Packet::Closed,
            [b'4', b'2', rest @ ..] => numbered(rest).map_or(Packet::Other, |(_, json)| Packet::Event(json)),
            [b'4', b'3', rest @ ..] => match numbered(rest) {
                Some((Some(number), json)) => Packet::Acknowledged(number, json),
                _ => Packet::Other,
            },
            [b'4', b'4', rest @ ..] => Packet::Refused(rest),
            _ => Packet::Other,
        }
    }
}

/// The number before an array of JSON, where there is one, and the array; `None` for another namespace, or a number beyond ours.
fn numbered(bytes: &[u8]) -> Option<(Option<u32>, &[u8])> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, json) = bytes.split_at_checked(digits)?;
    if json.first() != Some(&b'[') {
        return None;
    }
    let number = match number {
        [] => None,
        digits => Some(str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some((number, json))
}

/// Appends how a client asks for the namespace, with what lets it in as JSON, which may be nothing.
pub fn connect(credentials: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"40");
    out.extend_from_slice(credentials);
}

/// Appends what stands before an event, an array of JSON. With a number, the server acknowledges it.
pub fn event(number: Option<u32>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"42");
    if let Some(number) = number {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_read() {
        for (content, expected) in [
            (&b"0{\"sid\":\"x\",\"pingInterval\":25000}"[..], Packet::Opened),
            (b"1", Packet::Closed),
            (b"2", Packet::Ping),
            (b"40{\"sid\":\"y\"}", Packet::Connected),
            (b"44{\"message\":\"no\"}", Packet::Refused(b"{\"message\":\"no\"}")),
            (b"42[\"message\",{}]", Packet::Event(b"[\"message\",{}]")),
            (b"427[\"message\",{}]", Packet::Event(b"[\"message\",{}]")),
            (b"4312[1]", Packet::Acknowledged(12, b"[1]")),
            (b"41", Packet::Closed),
            (b"43[1]", Packet::Other),
            (b"4399999999999[1]", Packet::Other),
            (b"42/admin,[\"x\"]", Packet::Other),
            (b"451-[\"x\",{\"_placeholder\":true,\"num\":0}]", Packet::Other),
            (b"", Packet::Other),
        ] {
            assert_eq!(Packet::read(content), expected, "{}", String::from_utf8_lossy(content));
        }
    }

    #[test]
    fn what_a_client_says_is_read_by_a_server() {
        let mut out = Vec::new();
        connect(b"{\"token\":\"t\"}", &mut out);
        out.push(b' ');
        event(None, &mut out);
        out.push(b' ');
        event(Some(7), &mut out);
        assert_eq!(out, b"40{\"token\":\"t\"} 42 427");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            Packet::read(&bytes);
        }
    }
}
