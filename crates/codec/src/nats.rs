//! NATS as its clients see it: what a server says as operations, and what a client says as bytes. The protocol is that of the page
//! "Client Protocol" of the NATS documentation; contents with headers are as in its ADR-4.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Longest line of a server that we take, bytes. What it says of itself names all servers of its cluster.
const LONGEST_LINE: usize = 64 * 1024;
/// Largest content that we take, bytes; a server has 64 MiB at most, and 1 MiB by custom.
const LARGEST_CONTENT: usize = 64 * 1024 * 1024;

/// Asks whether the server is there, and for its answer to all that was said before.
pub const PING: &[u8] = b"PING\r\n";
/// Answers PING.
pub const PONG: &[u8] = b"PONG\r\n";

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// What it is and takes, as JSON: see [`Info`].
    Info(&'a [u8]),
    /// A message for a subscription of ours.
    Message(Delivery<'a>),
    /// Asks whether we are there.
    Ping,
    /// Answers our PING.
    Pong,
    /// Took an operation, where it was asked to say so.
    Ok,
    /// An error, without its quotes.
    Error(Cow<'a, str>),
}

/// A message of a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Where it was published to.
    pub subject: &'a str,
    /// Which of our subscriptions it is for.
    pub subscription: u64,
    /// Where an answer is awaited.
    pub reply: Option<&'a str>,
    /// Its headers with their version and status, as they stand there; empty without any.
    pub headers: &'a [u8],
    /// Its content.
    pub content: &'a [u8],
}

impl Delivery<'_> {
    /// The status that stands before the headers, such as 503 where nobody listens to a subject.
    pub fn status(&self) -> Option<u16> {
        let line = self.headers.strip_prefix(b"NATS/1.0 ")?;
        std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()
    }
}

/// What is wrong with what a server says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No operation of a server.
    #[error("a line that is no operation of a server")]
    Unknown,
    /// A line without an end.
    #[error("a line of over {LONGEST_LINE} bytes")]
    LongLine,
    /// A message whose line does not say what it must.
    #[error("a message whose first line is wrong")]
    Message,
    /// A content of that many bytes.
    #[error("a content of {0} bytes, more than we take")]
    LargeContent(usize),
    /// No end of line after a content.
    #[error("a content that does not end where its line says")]
    ContentEnd,
}

/// The length of the first operation, of which some bytes may not have come; `None` until that can be known.
///
/// # Errors
/// It is none of a server, or larger than we take.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let looked_at = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = memchr::memchr(b'\n', looked_at) else {
        return if bytes.len() >= LONGEST_LINE {
            Err(Malformed::LongLine)
        } else {
            begins(bytes).map(|()| None)
        };
    };
    let (line, _) = looked_at.split_at(end);
    let after = match kind(line)? {
        Kind::Message | Kind::MessageWithHeaders => content_size(line)? + 2,
        _ => 0,
    };
    Ok(Some(end + 1 + after))
}

/// What an operation of that length says.
///
/// # Errors
/// It is none of a server.
pub fn decode(operation: &[u8]) -> Result<Operation<'_>, Malformed> {
    let end = memchr::memchr(b'\n', operation).ok_or(Malformed::Unknown)?;
    let (line, rest) = operation.split_at(end);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let kind = kind(line)?;
    Ok(match kind {
        Kind::Info => Operation::Info(after_word(line)),
        Kind::Ping => Operation::Ping,
        Kind::Pong => Operation::Pong,
        Kind::Ok => Operation::Ok,
        Kind::Error => {
            let text = String::from_utf8_lossy(after_word(line));
            Operation::Error(match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.trim_matches('\'')),
                Cow::Owned(text) => Cow::Owned(text.trim_matches('\'').to_owned()),
            })
        }
        Kind::Message | Kind::MessageWithHeaders => {
            let body =
                rest.get(1..).and_then(|rest| rest.strip_suffix(b"\r\n")).ok_or(Malformed::ContentEnd)?;
            Operation::Message(delivery(line, kind == Kind::MessageWithHeaders, body)?)
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Info,
    Message,
    MessageWithHeaders,
    Ping,
    Pong,
    Ok,
    Error,
}

const KINDS: [(&[u8], Kind); 7] = [
    (b"MSG", Kind::Message),
    (b"HMSG", Kind::MessageWithHeaders),
    (b"PING", Kind::Ping),
    (b"PONG", Kind::Pong),
    (b"INFO", Kind::Info),
    (b"+OK", Kind::Ok),
    (b"-ERR", Kind::Error),
];

/// What a line is, by its first word, in which case does not matter.
fn kind(line: &[u8]) -> Result<Kind, Malformed> {
    let word = line.split(|byte| is_space(*byte) || *byte == b'\r').next().unwrap_or_default();
    let found = KINDS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
    found.map(|(_, kind)| *kind).ok_or(Malformed::Unknown)
}

/// Whether bytes without an end of line can become an operation: what is none is told at once.
fn begins(bytes: &[u8]) -> Result<(), Malformed> {
    let fits = |(name, _): &(&[u8], Kind)| {
        let common = bytes.len().min(name.len());
        let same = name.get(..common).zip(bytes.get(..common));
        same.is_some_and(|(name, bytes)| name.eq_ignore_ascii_case(bytes))
    };
    if KINDS.iter().any(fits) { Ok(()) } else { Err(Malformed::Unknown) }
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty())
}

fn after_word(line: &[u8]) -> &[u8] {
    let rest = line.iter().position(|byte| is_space(*byte)).and_then(|at| line.get(at..));
    rest.unwrap_or_default().trim_ascii()
}

fn number(word: &[u8]) -> Option<u64> {
    // A sign would be taken, too.
    let digits =
        std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Bytes of headers and content together.
fn content_size(line: &[u8]) -> Result<usize, Malformed> {
    let size = words(line).skip(1).last().and_then(number).ok_or(Malformed::Message)?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > LARGEST_CONTENT { Err(Malformed::LargeContent(size)) } else { Ok(size) }
}

fn delivery<'a>(line: &'a [u8], has_headers: bool, body: &'a [u8]) -> Result<Delivery<'a>, Malformed> {
    let (mut found, mut count) = ([""; 5], 0);
    for word in words(line).skip(1) {
        let place = found.get_mut(count).ok_or(Malformed::Message)?;
        *place = std::str::from_utf8(word).map_err(|_| Malformed::Message)?;
        count += 1;
    }
    let [subject, subscription, third, fourth, _] = found;
    let (reply, headers) = match (has_headers, count) {
        (false, 3) => (None, "0"),
        (false, 4) => (Some(third), "0"),
        (true, 4) => (None, third),
        (true, 5) => (Some(third), fourth),
        _ => return Err(Malformed::Message),
    };
    let subscription = number(subscription.as_bytes()).ok_or(Malformed::Message)?;
    let headers = number(headers.as_bytes()).and_then(|size| usize::try_from(size).ok());
    let (headers, content) =
        headers.and_then(|size| body.split_at_checked(size)).ok_or(Malformed::Message)?;
    Ok(Delivery { subject, subscription, reply, headers, content })
}

/// What a server says of itself, as far as a client needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Its version.
    pub version: String,
    /// Largest content that it takes, bytes.
    pub max_payload: Option<u64>,
    /// Whether it asks who a client is.
    pub auth_required: bool,
    /// Whether clients must secure their connections.
    pub tls_required: bool,
    /// Whether clients may.
    pub tls_available: bool,
    /// Whether it has JetStream.
    pub jetstream: bool,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Connect<'a> {
    /// Its name, as the server's monitoring shows it.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// User name.
    #[serde(rename = "user", skip_serializing_if = "Option::is_none")]
    pub username: Option<&'a str>,
    /// Password.
    #[serde(rename = "pass", skip_serializing_if = "Option::is_none")]
    pub password: Option<&'a str>,
    /// Token.
    #[serde(rename = "auth_token", skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
}

/// The same with what never varies: operations are not acknowledged, headers are understood, and a request that nobody listens to is
/// answered at once.
#[derive(Serialize)]
struct Whole<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    protocol: u8,
    lang: &'static str,
    headers: bool,
    no_responders: bool,
    #[serde(flatten)]
    said: &'a Connect<'a>,
}

/// Appends CONNECT.
pub fn encode_connect(said: &Connect<'_>, out: &mut Vec<u8>) {
    let whole = Whole {
        verbose: false,
        pedantic: false,
        tls_required: false,
        protocol: 1,
        lang: "rust",
        headers: true,
        no_responders: true,
        said,
    };
    out.extend_from_slice(b"CONNECT ");
    // Texts and numbers can always be written.
    let _ = serde_json::to_writer(&mut *out, &whole);
    out.extend_from_slice(b"\r\n");
}

/// Appends a message. `reply` is where an answer is awaited.
pub fn encode_publish(subject: &[u8], reply: Option<&[u8]>, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"PUB ");
    out.extend_from_slice(subject);
    if let Some(reply) = reply {
        out.push(b' ');
        out.extend_from_slice(reply);
    }
    out.push(b' ');
    append_number(content.len() as u64, out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

/// Appends a subscription under that number. In a queue group each message goes to one of its members.
pub fn encode_subscribe(subject: &str, group: Option<&str>, subscription: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SUB ");
    out.extend_from_slice(subject.as_bytes());
    if let Some(group) = group {
        out.push(b' ');
        out.extend_from_slice(group.as_bytes());
    }
    out.push(b' ');
    append_number(subscription, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits, without a detour over a text.
pub fn append_number(mut number: u64, out: &mut Vec<u8>) {
    let begin = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(begin..) {
        digits.reverse();
    }
}

/// All that follows, in a filter.
pub const REST: &str = ">";

/// Why levels are no subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// A level without anything in it.
    #[error("it has an empty level")]
    EmptyLevel,
    /// A space or a control character.
    #[error("it has a space or a control character")]
    Space,
    /// A wildcard.
    #[error("it has a wildcard")]
    Wildcard,
}

/// Whether levels that slashes separate are a subject that can be published to.
///
/// # Errors
/// Why they are none.
pub fn check_subject(levels: &str) -> Result<(), SubjectError> {
    check_filter(levels)?;
    let has_wildcard = levels.split('/').any(|level| matches!(level, "*" | ">" | "+" | "#"));
    if has_wildcard { Err(SubjectError::Wildcard) } else { Ok(()) }
}

/// Whether levels that slashes separate are a filter that can be subscribed to.
///
/// # Errors
/// Why they are none.
pub fn check_filter(levels: &str) -> Result<(), SubjectError> {
    for level in levels.split('/') {
        if level.is_empty() {
            return Err(SubjectError::EmptyLevel);
        }
        if level.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(SubjectError::Space);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Option<Operation<'_>>, Malformed> {
        let Some(length) = length(bytes)? else { return Ok(None) };
        bytes.get(..length).map(decode).transpose()
    }

    #[test]
    fn what_a_server_says_is_read() {
        let info = br#"INFO {"version":"2.9.10","max_payload":1048576,"jetstream":true}"#;
        let line = [&info[..], b" \r\n"].concat();
        let Ok(Some(Operation::Info(json))) = read(&line) else { panic!("no INFO") };
        let told: Info = serde_json::from_slice(json).unwrap();
        assert_eq!((told.max_payload, told.jetstream, told.auth_required), (Some(1_048_576), true, false));
        assert_eq!(read(b"+OK\r\n"), Ok(Some(Operation::Ok)));
        assert_eq!(read(b"ping\r\n"), Ok(Some(Operation::Ping)));
        let violation = Operation::Error("Permissions Violation for Publish to \"a\"".into());
        assert_eq!(read(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n"), Ok(Some(violation)));
        let message = |reply, headers, content| {
            Ok(Some(Operation::Message(Delivery {
                subject: "a.b",
                subscription: 9,
                reply,
                headers,
                content,
            })))
        };
        assert_eq!(read(b"MSG a.b 9 5\r\nhe\r\no\r\n"), message(None, &b""[..], &b"he\r\no"[..]));
        assert_eq!(read(b"MSG a.b 9 r.1 0\r\n\r\nMSG"), message(Some("r.1"), b"", b""));
        let unheard = read(b"HMSG a.b 9 16 16\r\nNATS/1.0 503\r\n\r\n\r\n");
        assert_eq!(unheard, message(None, b"NATS/1.0 503\r\n\r\n", b""));
        let Ok(Some(Operation::Message(unheard))) = unheard else { panic!("no message") };
        assert_eq!(unheard.status(), Some(503));
    }

    #[test]
    fn what_is_no_operation_is_told_at_once() {
        assert_eq!(read(b"HTTP/1.1 400"), Err(Malformed::Unknown));
        assert_eq!(read(b"MSG a 1 x\r\n"), Err(Malformed::Message));
        assert_eq!(read(b"MSG a 1 -5\r\n"), Err(Malformed::Message));
        assert_eq!(read(b"MSG a 1 99999999999\r\n"), Err(Malformed::LargeContent(99_999_999_999)));
        assert_eq!(read(b"MSG a 1 2\r\nabcd"), Err(Malformed::ContentEnd));
        assert_eq!(read(b"HMSG a 1 9 2\r\nab\r\n"), Err(Malformed::Message));
        assert_eq!(length(&vec![b'I'; LONGEST_LINE]), Err(Malformed::LongLine));
        assert_eq!(length(b"MSG a 1 3\r\nab"), Ok(Some(16)));
        assert_eq!(read(b"IN"), Ok(None));
    }

    #[test]
    fn what_a_client_says_is_written() {
        let mut out = Vec::new();
        encode_publish(b"a.b", Some(b"_INBOX.1"), b"hello", &mut out);
        encode_subscribe("a.>", Some("workers"), 10, &mut out);
        assert_eq!(out, b"PUB a.b _INBOX.1 5\r\nhello\r\nSUB a.> workers 10\r\n");
        out.clear();
        let said = Connect { name: "d1", version: "1", token: Some("t"), ..Connect::default() };
        encode_connect(&said, &mut out);
        let json = out.strip_prefix(b"CONNECT ").and_then(|rest| rest.strip_suffix(b"\r\n")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(json).unwrap();
        assert_eq!((&json["auth_token"], &json["verbose"]), (&"t".into(), &false.into()));
        assert!(json.get("user").is_none());
    }

    #[test]
    fn what_is_no_subject_is_told() {
        assert_eq!(check_subject("a//b"), Err(SubjectError::EmptyLevel));
        assert_eq!(check_subject("a/b c"), Err(SubjectError::Space));
        assert_eq!(check_subject("a/>"), Err(SubjectError::Wildcard));
        assert_eq!(check_subject("a/b*"), Ok(()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }

        #[test]
        fn any_line_of_a_message_is_read_or_refused(line in "H?MSG [ a-z0-9.-]{0,30}", body: Vec<u8>) {
            let _ = read(&[line.as_bytes(), b"\r\n", &body, b"\r\n"].concat());
        }

        #[test]
        fn each_content_is_found_again(content: Vec<u8>, number in 0u64..100) {
            let mut bytes = b"MSG a.b ".to_vec();
            append_number(number, &mut bytes);
            bytes.push(b' ');
            append_number(content.len() as u64, &mut bytes);
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(&content);
            bytes.extend_from_slice(b"\r\n");
            prop_assert_eq!(length(&bytes), Ok(Some(bytes.len())));
            let delivery =
                Delivery { subject: "a.b", subscription: number, reply: None, headers: b"", content: &content };
            prop_assert_eq!(decode(&bytes), Ok(Operation::Message(delivery)));
        }
    }
}
