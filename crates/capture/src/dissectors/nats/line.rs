//! The lines of NATS: what is said, and how much content follows (NATS documentation, "Client Protocol").

use memchr::memchr;

/// The longest line, bytes: servers and clients describe themselves in one.
pub(super) const LINE: usize = 1 << 16;
/// The longest content, bytes: more than servers can be set to.
const CONTENT: u64 = 1 << 28;

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Info,
    Connect,
    Ping,
    Pong,
    Ok,
    Err,
    Sub {
        subject: &'a [u8],
        sid: &'a [u8],
    },
    Unsub,
    /// `PUB` and `HPUB`.
    Publish(Message<'a>),
    /// `MSG` and `HMSG`, for a subscription.
    Deliver(Message<'a>, &'a [u8]),
}

/// A message of which the content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub subject: &'a [u8],
    pub reply: Option<&'a [u8]>,
    /// Size of the headers, where it has any.
    pub headers: Option<u64>,
    /// Size of all that follows, without the line end behind it.
    pub size: u64,
}

impl Line<'_> {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Line::Info => "INFO",
            Line::Connect => "CONNECT",
            Line::Ping => "PING",
            Line::Pong => "PONG",
            Line::Ok => "+OK",
            Line::Err => "-ERR",
            Line::Sub { .. } => "SUB",
            Line::Unsub => "UNSUB",
            Line::Publish(message) if message.headers.is_some() => "HPUB",
            Line::Publish(_) => "PUB",
            Line::Deliver(message, _) if message.headers.is_some() => "HMSG",
            Line::Deliver(..) => "MSG",
        }
    }

    /// Whether clients say this, servers, or both.
    pub fn spoken_by(&self) -> (bool, bool) {
        match self {
            Line::Ping | Line::Pong => (true, true),
            Line::Connect | Line::Sub { .. } | Line::Unsub | Line::Publish(_) => (true, false),
            Line::Info | Line::Ok | Line::Err | Line::Deliver(..) => (false, true),
        }
    }
}

/// Reads a line without its end; `None` if it is none of NATS.
pub(super) fn read(text: &[u8]) -> Option<Line<'_>> {
    let end = memchr(b' ', text).or_else(|| memchr(b'\t', text)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut name_upper = [0; 8];
    let upper = name_upper.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let bare = |line| rest.trim_ascii().is_empty().then_some(line);
    let object = |line| rest.trim_ascii_start().starts_with(b"{").then_some(line);
    match &*upper {
        b"PING" => return bare(Line::Ping),
        b"PONG" => return bare(Line::Pong),
        b"+OK" => return bare(Line::Ok),
        b"-ERR" => return rest.starts_with(b" '").then_some(Line::Err),
        b"INFO" => return object(Line::Info),
        b"CONNECT" => return object(Line::Connect),
        b"PUB" | b"HPUB" | b"MSG" | b"HMSG" | b"SUB" | b"UNSUB" => {}
        _ => return None,
    }
    let mut words: [&[u8]; 5] = [b""; 5];
    let mut count = 0;
    for word in rest.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()) {
        *words.get_mut(count)? = word;
        count += 1;
        if !word.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
            return None;
        }
    }
    let words = &words[..count];
    let with = |subject, reply: Option<&_>, headers: Option<&_>, size| {
        let headers = match headers {
            Some(headers) => Some(number(headers)?),
            None => None,
        };
        let size = number(size).filter(|&size| size <= CONTENT && headers.unwrap_or(0) <= size)?;
        Some(Message { subject, reply: reply.copied(), headers, size })
    };
    match (&*upper, words) {
        (b"PUB", [subject, reply @ .., size]) if reply.len() <= 1 => {
            with(subject, reply.first(), None, size).map(Line::Publish)
        }
        (b"HPUB", [subject, reply @ .., headers, size]) if reply.len() <= 1 => {
            with(subject, reply.first(), Some(headers), size).map(Line::Publish)
        }
        (b"MSG", [subject, sid, reply @ .., size]) if reply.len() <= 1 => {
            with(subject, reply.first(), None, size).map(|message| Line::Deliver(message, sid))
        }
        (b"HMSG", [subject, sid, reply @ .., headers, size]) if reply.len() <= 1 => {
            with(subject, reply.first(), Some(headers), size).map(|message| Line::Deliver(message, sid))
        }
        (b"SUB", [subject, sid] | [subject, _, sid]) => Some(Line::Sub { subject, sid }),
        (b"UNSUB", [_sid]) => Some(Line::Unsub),
        (b"UNSUB", [_sid, most]) => number(most).map(|_| Line::Unsub),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0')))
}
