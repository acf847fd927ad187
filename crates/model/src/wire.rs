//! What is read off the wire: protocols, exchanges, and short texts that name verbs and statuses.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A short text that is copied, not allocated: a verb such as `PUBLISH`, a status such as `404`. Longer texts are cut at 23
/// bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    bytes: [u8; Label::LENGTH],
    length: u8,
}

impl Label {
    /// Longest text, bytes.
    pub const LENGTH: usize = 23;

    /// Takes what fits.
    pub const fn new(text: &str) -> Label {
        Label::from_bytes(text.as_bytes())
    }

    /// Takes what fits, each byte outside printable ASCII as `?`.
    pub const fn from_bytes(text: &[u8]) -> Label {
        let mut bytes = [0; Label::LENGTH];
        let mut length = 0;
        while length < Label::LENGTH && length < text.len() {
            bytes[length] = if matches!(text[length], b' '..=b'~') { text[length] } else { b'?' };
            length += 1;
        }
        Label { bytes, length: length as u8 }
    }

    /// The same in upper case.
    pub const fn uppercase(mut self) -> Label {
        let mut at = 0;
        while at < Label::LENGTH {
            self.bytes[at] = self.bytes[at].to_ascii_uppercase();
            at += 1;
        }
        self
    }

    /// A number in decimal digits.
    pub fn number(number: impl Into<u64>) -> Label {
        let mut digits = [0; 20];
        let (mut rest, mut begin) = (number.into(), digits.len());
        loop {
            begin -= 1;
            digits[begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Label::from_bytes(&digits[begin..]);
            }
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Only printable ASCII was let in.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Label {
        Label::new(text)
    }
}

impl Serialize for Label {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Label, D::Error> {
        Ok(Label::new(&String::deserialize(deserializer)?))
    }
}

/// What a conversation speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireProtocol {
    /// HTTP/1.0 and 1.1 (RFC 9112).
    Http,
    /// HTTP/2 (RFC 9113), gRPC on it included.
    Http2,
    /// WebSocket (RFC 6455), where nothing known is spoken in it.
    WebSocket,
    /// MQTT 3.1.1 and 5, over TCP or WebSocket.
    Mqtt,
    /// CoAP over UDP (RFC 7252) and TCP (RFC 8323).
    Coap,
    /// Redis: RESP2 and RESP3.
    Redis,
    /// MongoDB's wire protocol.
    MongoDb,
    /// PostgreSQL's protocol, version 3.
    Postgres,
    /// Apache Kafka's protocol.
    Kafka,
    /// NATS.
    Nats,
    /// AMQP 0-9-1.
    Amqp,
    /// AMQP 1.0.
    Amqp1,
    /// TLS whose keys are not known, and DTLS.
    Tls,
    /// What no dissector knows.
    Unknown,
}

impl WireProtocol {
    /// All of them, in the order of reports.
    pub const ALL: [WireProtocol; 14] = [
        WireProtocol::Http,
        WireProtocol::Http2,
        WireProtocol::WebSocket,
        WireProtocol::Mqtt,
        WireProtocol::Coap,
        WireProtocol::Redis,
        WireProtocol::MongoDb,
        WireProtocol::Postgres,
        WireProtocol::Kafka,
        WireProtocol::Nats,
        WireProtocol::Amqp,
        WireProtocol::Amqp1,
        WireProtocol::Tls,
        WireProtocol::Unknown,
    ];

    /// As in results and options: `http`, `mongodb`.
    pub const fn name(self) -> &'static str {
        match self {
            WireProtocol::Http => "http",
            WireProtocol::Http2 => "http2",
            WireProtocol::WebSocket => "websocket",
            WireProtocol::Mqtt => "mqtt",
            WireProtocol::Coap => "coap",
            WireProtocol::Redis => "redis",
            WireProtocol::MongoDb => "mongodb",
            WireProtocol::Postgres => "postgres",
            WireProtocol::Kafka => "kafka",
            WireProtocol::Nats => "nats",
            WireProtocol::Amqp => "amqp",
            WireProtocol::Amqp1 => "amqp1",
            WireProtocol::Tls => "tls",
            WireProtocol::Unknown => "unknown",
        }
    }

    /// Reads what [`WireProtocol::name`] wrote.
    pub fn parse(name: &str) -> Option<WireProtocol> {
        WireProtocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// The bytes of one message on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the packet with its first byte was captured.
    pub first: Nanos,
    /// When the packet with its last byte was captured.
    pub last: Nanos,
    /// Its bytes, the protocol's own framing included, headers of TCP and below not.
    pub bytes: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was answered with an error.
    Failed,
    /// The capture shows that it was not answered.
    Unanswered,
    /// It asks for no answer.
    OneWay,
    /// Its answer may lie where the capture has a hole.
    Unknown,
}

impl Outcome {
    /// As in results and exports.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Failed => "failed",
            Outcome::Unanswered => "unanswered",
            Outcome::OneWay => "one-way",
            Outcome::Unknown => "unknown",
        }
    }
}

/// Where the id stands that a request and its response share: between two texts, as in `"requestId":"{id}"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedId {
    /// What stands before it; never empty.
    pub before: String,
    /// What stands behind it; empty, or begun by a character that no id has.
    pub after: String,
}

impl SharedId {
    /// Reads `TEXT{id}` or `TEXT{id}TEXT`. What is wrong with it, in words for its writer.
    pub fn parse(text: &str) -> Result<SharedId, String> {
        match text.split_once("{id}") {
            Some((before, after)) if !before.is_empty() && !after.bytes().next().is_some_and(in_id) => {
                Ok(SharedId { before: before.to_owned(), after: after.to_owned() })
            }
            _ => Err(format!(
                "the text `{text}` needs `{{id}}`, something before it, and behind it nothing that could be a part of it, as in `\"requestId\":\"{{id}}\"`"
            )),
        }
    }
}

/// Whether a byte may stand in an id or the name of a device: letters, digits, `-`, `_`, `.`.
pub fn in_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hold_what_fits_and_print_nothing_strange() {
        assert_eq!(Label::new("findAndModify").as_str(), "findAndModify");
        assert_eq!(Label::from_bytes(b"g\xc3\xa9t\n").as_str(), "g??t?");
        assert_eq!(Label::new("a text that is longer than it may be").as_str(), "a text that is longer t");
        assert_eq!(Label::new("get").uppercase(), Label::new("GET"));
        assert_eq!(
            (Label::number(0_u32).as_str(), Label::number(u64::MAX).as_str()),
            ("0", "18446744073709551615")
        );
    }

    #[test]
    fn where_a_shared_id_ends_must_be_clear() {
        let parsed = SharedId::parse("\"id\":\"{id}\"").unwrap();
        assert_eq!((parsed.before.as_str(), parsed.after.as_str()), ("\"id\":\"", "\""));
        for text in ["id", "{id}", "id={id}x"] {
            assert!(SharedId::parse(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn protocols_have_names_of_their_own() {
        assert!(
            WireProtocol::ALL.iter().all(|&protocol| WireProtocol::parse(protocol.name()) == Some(protocol))
        );
    }
}
