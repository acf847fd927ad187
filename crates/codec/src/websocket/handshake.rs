//! The opening handshake (RFC 6455 section 4), seen from the client.

use super::deflate;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// What the server adds to the key (section 1.3).
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Most bytes of an answer.
pub const LARGEST_ANSWER: usize = 16 * 1024;
/// Characters of a server's words that are shown.
const SHOWN: usize = 80;

/// A client's wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Host and, where it is not the usual one, port.
    pub host: &'a str,
    /// Path, from its first slash.
    pub path: &'a str,
    /// The protocol to be spoken, as `mqtt`; `None` leaves it to what the path means.
    pub subprotocol: Option<&'a str>,
    /// Further header fields, each with the end of its line.
    pub headers: &'a str,
    /// Whether messages are to be compressed (RFC 7692).
    pub compression: bool,
    /// Sixteen bytes drawn anew for each connection.
    pub key: [u8; 16],
}

/// Why there is no WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What answers is no HTTP server.
    #[error("the answer to the WebSocket request is no HTTP")]
    NoHttp,
    /// Another status than 101.
    #[error("the WebSocket request was answered by HTTP {0}")]
    Status(String),
    /// A header that proves the switch is missing or wrong.
    #[error("the answer to the WebSocket request has a wrong `{0}`")]
    Header(&'static str),
    /// The server chose a subprotocol that nobody asked for.
    #[error("the server wants to speak `{0}` over its WebSocket, which was not asked for")]
    Unasked(String),
    /// The server chose another subprotocol, or none.
    #[error("the server does not speak `{wanted}` over its WebSocket: it chose {chosen}")]
    Subprotocol {
        /// What was asked for.
        wanted: String,
        /// What the server chose.
        chosen: String,
    },
    /// The server does not compress messages one by one, though it was asked to.
    #[error("the server does not compress each message by itself: {0}")]
    Compression(String),
    /// The answer does not end.
    #[error("the answer to the WebSocket request is longer than 16 KiB")]
    TooLong,
}

impl Refusal {
    /// Whether credentials are not accepted: status 401 (RFC 9110 section 15.5.2).
    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Refusal::Status(status) if status.starts_with("401"))
    }
}

impl Request<'_> {
    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Request { host, path, subprotocol, headers, compression, key } = self;
        let key = STANDARD.encode(key);
        out.extend_from_slice(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{headers}"
            )
            .as_bytes(),
        );
        if let Some(subprotocol) = subprotocol {
            out.extend_from_slice(format!("Sec-WebSocket-Protocol: {subprotocol}\r\n").as_bytes());
        }
        if *compression {
            out.extend_from_slice(format!("Sec-WebSocket-Extensions: {}\r\n", deflate::OFFER).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Reads the answer from its first byte: how many bytes it has, `None` where it is not whole yet.
    ///
    /// # Errors
    /// There is no WebSocket: why.
    pub fn answered(&self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        const BEGIN: &[u8] = b"HTTP/1.1 ";
        let seen = bytes.len().min(BEGIN.len());
        if bytes.get(..seen) != BEGIN.get(..seen) {
            return Err(Refusal::NoHttp);
        }
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
            return if bytes.len() > LARGEST_ANSWER { Err(Refusal::TooLong) } else { Ok(None) };
        };
        let head = bytes.get(BEGIN.len()..end).unwrap_or_default();
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or_default();
        if !status.starts_with("101") {
            return Err(Refusal::Status(shown(status)));
        }
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let of = |name: &str| {
            let mut values = headers
                .iter()
                .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim());
            values.next().unwrap_or_default()
        };
        if !of("Upgrade").eq_ignore_ascii_case("websocket") {
            return Err(Refusal::Header("Upgrade"));
        }
        if !of("Connection").split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade")) {
            return Err(Refusal::Header("Connection"));
        }
        if of("Sec-WebSocket-Accept") != accept_of(STANDARD.encode(self.key).as_bytes()) {
            return Err(Refusal::Header("Sec-WebSocket-Accept"));
        }
        let extensions = of("Sec-WebSocket-Extensions");
        match self.compression {
            false if !extensions.is_empty() => return Err(Refusal::Header("Sec-WebSocket-Extensions")),
            true if !deflate::is_agreed(extensions) => {
                let told =
                    if extensions.is_empty() { "it agreed to nothing".to_owned() } else { shown(extensions) };
                return Err(Refusal::Compression(told));
            }
            _ => {}
        }
        let chosen = of("Sec-WebSocket-Protocol");
        match self.subprotocol {
            None if !chosen.is_empty() => Err(Refusal::Unasked(shown(chosen))),
            Some(wanted) if chosen != wanted => {
                let chosen =
                    if chosen.is_empty() { "none".to_owned() } else { format!("`{}`", shown(chosen)) };
                Err(Refusal::Subprotocol { wanted: wanted.to_owned(), chosen })
            }
            _ => Ok(Some(end + 4)),
        }
    }
}

/// The `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key` as it was written (section 4.2.2).
pub fn accept_of(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(MAGIC).finalize())
}

/// A server's words without what could command a terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'static> = Request {
        host: "broker:8080",
        path: "/mqtt",
        subprotocol: Some("mqtt"),
        headers: "",
        compression: false,
        key: *b"the sample nonce",
    };

    /// RFC 6455, section 1.3.
    #[test]
    fn the_standards_own_example_is_accepted() {
        let mut out = Vec::new();
        REQUEST.encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{text}");
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

    #[test]
    fn an_answer_counts_when_it_is_whole() {
        for end in 0..ANSWER.len() {
            assert_eq!(REQUEST.answered(&ANSWER.as_bytes()[..end]), Ok(None), "{end} bytes");
        }
        let followed = format!("{ANSWER}\u{2}");
        assert_eq!(REQUEST.answered(followed.as_bytes()), Ok(Some(ANSWER.len())));
    }

    #[test]
    fn without_a_wish_for_a_subprotocol_none_may_be_chosen() {
        let (request, mut out) = (Request { subprotocol: None, ..REQUEST }, Vec::new());
        request.encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("Sec-WebSocket-Version: 13\r\n\r\n"), "{text}");
        assert_eq!(request.answered(ANSWER.as_bytes()), Err(Refusal::Unasked("mqtt".into())));
        let answer = ANSWER.replace("Sec-WebSocket-Protocol: mqtt\r\n", "");
        assert_eq!(request.answered(answer.as_bytes()), Ok(Some(answer.len())));
    }

    #[test]
    fn compression_is_asked_for_and_agreed_on() {
        let (request, mut out) = (Request { compression: true, ..REQUEST }, Vec::new());
        request.encode(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("Sec-WebSocket-Extensions: permessage-deflate; client_no_"), "{text}");
        let answered = |extensions: &str| {
            let field = format!("Sec-WebSocket-Extensions: {extensions}\r\nSec-WebSocket-Protocol");
            request.answered(ANSWER.replace("Sec-WebSocket-Protocol", &field).as_bytes())
        };
        assert!(answered("permessage-deflate; server_no_context_takeover").is_ok());
        assert_eq!(answered("permessage-deflate"), Err(Refusal::Compression("permessage-deflate".into())));
        assert_eq!(
            request.answered(ANSWER.as_bytes()),
            Err(Refusal::Compression("it agreed to nothing".into()))
        );
    }

    #[test]
    fn what_proves_no_websocket_is_refused_with_its_reason() {
        let chosen = |chosen: &str| Refusal::Subprotocol { wanted: "mqtt".into(), chosen: chosen.into() };
        for (from, to, refusal) in [
            (
                "HTTP/1.1 101 Switching Protocols",
                "HTTP/1.1 404 Not\u{1b} Found",
                Refusal::Status("404 Not Found".into()),
            ),
            ("HTTP/1.1", "SSH-2.0 ", Refusal::NoHttp),
            ("WebSocket\r\nC", "h2c\r\nC", Refusal::Header("Upgrade")),
            ("keep-alive, Upgrade", "close", Refusal::Header("Connection")),
            ("s3pP", "s3pQ", Refusal::Header("Sec-WebSocket-Accept")),
            (
                "Sec-WebSocket-Protocol: mqtt",
                "Sec-WebSocket-Extensions: x",
                Refusal::Header("Sec-WebSocket-Extensions"),
            ),
            ("Protocol: mqtt", "Protocol: amqp", chosen("`amqp`")),
            ("Sec-WebSocket-Protocol: mqtt\r\n", "", chosen("none")),
        ] {
            assert_eq!(REQUEST.answered(ANSWER.replace(from, to).as_bytes()), Err(refusal));
        }
        let endless = format!("HTTP/1.1 101 {}", "x".repeat(LARGEST_ANSWER));
        assert_eq!(REQUEST.answered(endless.as_bytes()), Err(Refusal::TooLong));
    }
}
