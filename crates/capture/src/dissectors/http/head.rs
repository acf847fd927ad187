//! The head of a message of HTTP/1 (RFC 9112, sections 2 to 6): its first line, and what its fields say of the body.

use memchr::memchr;
use plimsoll_model::wire::{Label, WireProtocol};

/// Longest head that is read, bytes.
const LONGEST: usize = 1 << 16;
/// A target so long needs no end to be believed.
const LONG_TARGET: usize = 1024;

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Request(Label),
    /// With that status code.
    Response(u16),
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all, or in a way that is not opened.
    Plain,
    Gzip,
    /// `deflate`, which is zlib's format (RFC 9110, section 8.4.1.2).
    Zlib,
}

/// A whole head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub first: First,
    /// Where the target of a request begins and ends.
    pub target: (usize, usize),
    /// With the empty line at its end, bytes.
    pub length: usize,
    /// `Content-Length`.
    pub content: Option<u64>,
    /// There is a `Transfer-Encoding`, and its last coding is `chunked`.
    pub transfer: Option<bool>,
    pub coding: Coding,
    /// The client waits for a `100 Continue`.
    pub expects: bool,
    /// Where a change of protocol leads.
    pub upgrade: WireProtocol,
}

/// Reads a head. `None` while its end is not there.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(end) = memchr(b'\n', bytes) else {
        return if bytes.len() > LONGEST { Err("a first line that is too long") } else { Ok(None) };
    };
    let first = first(trimmed(&bytes[..end]))?;
    let line = trimmed(&bytes[..end]).len();
    let target = match first {
        First::Request(verb) => (verb.as_str().len() + 1, line.saturating_sub(9)),
        First::Response(_) => (0, 0),
    };
    let mut head = Head {
        first,
        target,
        length: 0,
        content: None,
        transfer: None,
        coding: Coding::Plain,
        expects: false,
        upgrade: WireProtocol::Unknown,
    };
    let mut at = end + 1;
    while let Some(end) = memchr(b'\n', &bytes[at..]) {
        let line = trimmed(&bytes[at..at + end]);
        at += end + 1;
        if line.is_empty() {
            head.length = at;
            return Ok(Some(head));
        }
        if at > LONGEST {
            break;
        }
        field(line, &mut head)?;
    }
    if bytes.len() > LONGEST { Err("a head that is too long") } else { Ok(None) }
}

/// A line without the carriage return before its end.
pub(super) fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn first(line: &[u8]) -> Result<First, &'static str> {
    if line.starts_with(b"HTTP/") {
        return status(line).map(First::Response).ok_or("a status line that cannot be read");
    }
    let space = method(line).ok_or("no method at the beginning of a request")?;
    if line.len() < space + 11 || version(&line[line.len() - 8..]).is_none() || line[line.len() - 9] != b' ' {
        return Err("a request line without HTTP's version");
    }
    Ok(First::Request(Label::from_bytes(&line[..space])))
}

/// `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    version(line.get(..8)?)?;
    let digits = line.get(9..12)?;
    let three = digits.iter().all(u8::is_ascii_digit) && (b'1'..=b'9').contains(&digits[0]);
    let apart = line[8] == b' ' && line.get(12).is_none_or(|&byte| byte == b' ');
    (three && apart).then(|| digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0')))
}

fn version(text: &[u8]) -> Option<()> {
    matches!(text, b"HTTP/1.1" | b"HTTP/1.0").then_some(())
}

/// The length of the method before the first space: capital letters and hyphens, as all that are registered.
fn method(line: &[u8]) -> Option<usize> {
    let length = line.iter().take(24).take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    (length >= 3 && line.get(length) == Some(&b' ')).then_some(length)
}

fn field(line: &[u8], head: &mut Head) -> Result<(), &'static str> {
    let Some(colon) = memchr(b':', line) else { return Err("a header field without a colon") };
    // Few lengths concern us, so that most fields cost one look.
    if !matches!(colon, 6 | 7 | 14 | 16 | 17) {
        return Ok(());
    }
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        for part in value.split(|&byte| byte == b',') {
            let length = decimal(part.trim_ascii()).ok_or("a Content-Length that is no number")?;
            if head.content.is_some_and(|before| before != length) {
                return Err("two values of Content-Length");
            }
            head.content = Some(length);
        }
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        head.transfer = Some(last_of(value).eq_ignore_ascii_case(b"chunked"));
    } else if name.eq_ignore_ascii_case(b"content-encoding") {
        head.coding = match value {
            v if v.eq_ignore_ascii_case(b"gzip") || v.eq_ignore_ascii_case(b"x-gzip") => Coding::Gzip,
            v if v.eq_ignore_ascii_case(b"deflate") => Coding::Zlib,
            _ => Coding::Plain,
        };
    } else if name.eq_ignore_ascii_case(b"expect") {
        head.expects = value.eq_ignore_ascii_case(b"100-continue");
    } else if name.eq_ignore_ascii_case(b"upgrade") {
        head.upgrade = match value {
            v if v.eq_ignore_ascii_case(b"websocket") => WireProtocol::WebSocket,
            v if v.eq_ignore_ascii_case(b"h2c") => WireProtocol::Http2,
            _ => WireProtocol::Unknown,
        };
    }
    Ok(())
}

fn last_of(list: &[u8]) -> &[u8] {
    list.rsplit(|&byte| byte == b',').next().unwrap_or_default().trim_ascii()
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Whether bytes begin a request: `None` while that cannot be told.
pub(super) fn is_request(bytes: &[u8]) -> Option<bool> {
    let capitals =
        bytes.iter().take(24).take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    if capitals == bytes.len() && capitals < 24 {
        return None;
    }
    let Some(space) = method(bytes) else { return Some(false) };
    match memchr(b'\n', &bytes[..bytes.len().min(1 << 13)]) {
        Some(end) => Some(first(trimmed(&bytes[..end])).is_ok()),
        None => {
            let target = &bytes[space + 1..];
            let plain = target.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\r');
            // A target begins with a path, a scheme, a host or an asterisk.
            let begins =
                target.first().is_none_or(|byte| matches!(byte, b'/' | b'*') || byte.is_ascii_alphanumeric());
            match plain && begins {
                true if target.len() >= LONG_TARGET => Some(true),
                true => None,
                false => Some(false),
            }
        }
    }
}

/// Whether bytes begin a request where requests are expected: a method and a path will do.
pub(super) fn may_be_request(bytes: &[u8]) -> bool {
    let begins = || method(bytes).is_some_and(|space| bytes.get(space + 1) == Some(&b'/'));
    is_request(bytes).unwrap_or_else(begins)
}

/// Whether bytes begin a response: `None` while that cannot be told.
pub(super) fn is_response(bytes: &[u8]) -> Option<bool> {
    let begin = &b"HTTP/1."[..bytes.len().min(7)];
    if !bytes.starts_with(begin) {
        return Some(false);
    }
    bytes.get(..13).map(|line| status(trimmed(line)).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_concern_the_body_are_read_in_any_case() {
        let text = b"POST /a HTTP/1.1\r\nHost: h\r\ncontent-length: 5, 5\r\nExpect: 100-Continue\r\nContent-Encoding: GZIP\r\n\r\nxx";
        let head = read(text).unwrap().unwrap();
        assert_eq!(head.first, First::Request(Label::new("POST")));
        assert_eq!((head.content, head.expects, head.coding), (Some(5), true, Coding::Gzip));
        assert_eq!(head.length, text.len() - 2);
        assert_eq!(read(&text[..text.len() - 3]), Ok(None));
    }

    #[test]
    fn lines_may_end_without_carriage_return() {
        let head = read(b"HTTP/1.0 200\nTransfer-Encoding: gzip, chunked\n\n").unwrap().unwrap();
        assert_eq!((head.first, head.transfer), (First::Response(200), Some(true)));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bad in [
            "get / HTTP/1.1\r\n\r\n",
            "GET / HTTP/3.0\r\n\r\n",
            "GET /\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 2000\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read(&[b'A'; LONGEST + 1]).is_err());
    }

    #[test]
    fn a_beginning_is_told_as_early_as_can_be() {
        assert_eq!(is_request(b"GE"), None);
        assert_eq!(is_request(b"GET /x HTT"), None);
        assert_eq!(is_request(b"GET /x HTTP/1.1\r\n"), Some(true));
        assert_eq!(is_request(b"PING\r\n"), Some(false));
        assert_eq!(is_request(b"PRI * HTTP/2.0\r\n"), Some(false));
        assert_eq!(is_request(b"PUB a 5\r\nhello\r\n"), Some(false));
        assert_eq!(is_response(b"HTTP/1.1 404 N"), Some(true));
        assert_eq!(is_response(b"HTTP/1.1"), None);
        assert_eq!(is_response(b"HTTX"), Some(false));
    }
}
