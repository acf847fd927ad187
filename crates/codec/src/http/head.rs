//! The head of a message: first line and header fields.

use super::{HttpError, Side};

/// Largest head that is taken, in bytes.
pub const LARGEST_HEAD: usize = 64 * 1024;
/// Characters of a wrong line that an error shows.
const SHOWN: usize = 60;
/// How answers begin (RFC 9112 section 4).
const STATUS_LINE: &[u8] = b"HTTP/";

/// Whether bytes may be the beginning of an answer.
pub fn begins_as_answer(bytes: &[u8]) -> bool {
    bytes.iter().zip(STATUS_LINE).all(|(is, should)| is == should)
}

/// A head, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The first line.
    pub start: Start<'a>,
    /// The fields as they stand on the wire, without the empty line.
    fields: &'a [u8],
    /// Whether the version is 1.1 rather than 1.0.
    newer: bool,
}

/// The first line of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// Of a request.
    Request {
        /// Such as `POST`.
        method: &'a str,
        /// Path and query as written.
        target: &'a str,
    },
    /// Of an answer.
    Status {
        /// Such as 204.
        code: u16,
        /// The words behind it.
        reason: &'a str,
    },
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(usize),
    /// After the last chunk.
    Chunked,
    /// With the connection.
    Close,
}

impl<'a> Head<'a> {
    /// Reads a head, its empty line left out.
    ///
    /// # Errors
    /// The first line is none of that side's.
    pub fn read(head: &'a [u8], side: Side) -> Result<Head<'a>, HttpError> {
        let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
        let (line, fields) = head.split_at_checked(end).unwrap_or((head, &[]));
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let fields = fields.strip_prefix(b"\n").unwrap_or(fields);
        let wrong = || HttpError::Start(shown(line));
        let text = str::from_utf8(line).map_err(|_| wrong())?;
        let (start, version) = match side {
            Side::Answer => {
                let (version, rest) = text.split_once(' ').unwrap_or((text, ""));
                let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                let code = Some(code).filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
                let code = code.filter(|code| (100..1000).contains(code)).ok_or_else(wrong)?;
                (Start::Status { code, reason }, version)
            }
            Side::Request => {
                let (method, rest) = text.split_once(' ').ok_or_else(wrong)?;
                let (target, version) = rest.rsplit_once(' ').ok_or_else(wrong)?;
                if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(wrong());
                }
                (Start::Request { method, target }, version)
            }
        };
        let newer = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => return Err(wrong()),
        };
        Ok(Head { start, fields, newer })
    }

    /// Every field: its name and its value without the blanks around it.
    pub fn fields(&self) -> impl Iterator<Item = Result<(&'a str, &'a [u8]), HttpError>> + use<'a> {
        let lines = self.fields.split(|&byte| byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty()).map(
            |line| {
                let wrong = || HttpError::Field(shown(line));
                let colon = memchr::memchr(b':', line).ok_or_else(wrong)?;
                let (name, value) = line.split_at_checked(colon).ok_or_else(wrong)?;
                let name = str::from_utf8(name).map_err(|_| wrong())?;
                if name.is_empty() || name.contains(|c: char| c.is_ascii_whitespace()) {
                    return Err(wrong());
                }
                Ok((name, value.get(1..).unwrap_or_default().trim_ascii()))
            },
        )
    }

    /// The value of the first field of that name, in whatever case it is written.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut found = self.fields().filter_map(Result::ok);
        found.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Where the body ends (RFC 9112 section 6.3) and whether the connection stays open afterwards (section 9.3).
    /// `bodiless`: whether the answer is to a request whose answers have no body (HEAD).
    ///
    /// # Errors
    /// A field that cannot be understood.
    pub fn framing(&self, bodiless: bool) -> Result<(Framing, bool), HttpError> {
        let (mut length, mut chunked, mut stays) = (None, false, self.newer);
        for field in self.fields() {
            let (name, value) = field?;
            // Lengths are compared first, since most fields are none of these.
            if name.len() == 14 && name.eq_ignore_ascii_case("content-length") {
                let told =
                    str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let told: Option<usize> = told.and_then(|text| text.parse().ok());
                let wrong = || HttpError::Length(shown(value));
                let told = told.ok_or_else(wrong)?;
                if let Some(known) = length.filter(|known| *known != told) {
                    return Err(HttpError::Lengths(known, told));
                }
                length = Some(told);
            } else if name.len() == 17 && name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(HttpError::Coding(shown(value)));
                }
                chunked = true;
            } else if name.len() == 10 && name.eq_ignore_ascii_case("connection") {
                for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        stays = false;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        stays = true;
                    }
                }
            }
        }
        let framing = match (self.start, chunked, length) {
            (Start::Status { code: 100..200 | 204 | 304, .. }, ..) => Framing::Length(0),
            _ if bodiless => Framing::Length(0),
            (_, true, _) => Framing::Chunked,
            (_, false, Some(length)) => Framing::Length(length),
            (Start::Request { .. }, false, None) => Framing::Length(0),
            (Start::Status { .. }, false, None) => Framing::Close,
        };
        Ok((framing, stays && framing != Framing::Close))
    }
}

/// A line as an error shows it: short, and without what could move a cursor.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().map(|c| if c.is_control() { '.' } else { c }).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let head =
            Head::read(b"HTTP/1.1 204 No Content\r\nA: b\r\nlocation:  /x \r\n", Side::Answer).unwrap();
        assert_eq!(head.start, Start::Status { code: 204, reason: "No Content" });
        assert_eq!(head.field("Location"), Some(&b"/x"[..]));
        assert_eq!(head.framing(false), Ok((Framing::Length(0), true)));
        let head = Head::read(b"POST /a b HTTP/1.0\r\nContent-Length: 3\r\n", Side::Request).unwrap();
        assert_eq!(head.start, Start::Request { method: "POST", target: "/a b" });
        assert_eq!(head.framing(false), Ok((Framing::Length(3), false)));
    }

    #[test]
    fn bodies_end_as_the_standard_says() {
        for (fields, expected) in [
            ("", (Framing::Close, false)),
            ("Content-Length: 0\r\n", (Framing::Length(0), true)),
            ("Content-Length: 5\r\nCONNECTION: Close\r\n", (Framing::Length(5), false)),
            ("Connection: x, close\r\nTransfer-Encoding: chunked\r\n", (Framing::Chunked, false)),
            ("Content-Length: 9\r\nTransfer-Encoding: Chunked\r\n", (Framing::Chunked, true)),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{fields}");
            let head = Head::read(text.as_bytes(), Side::Answer).unwrap();
            assert_eq!(head.framing(false), Ok(expected), "{fields:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("SMTP\r\n", "no HTTP/1: `SMTP`"),
            ("HTTP/2 200 OK\r\n", "no HTTP/1"),
            ("HTTP/1.1 20 OK\r\n", "no HTTP/1"),
            ("HTTP/1.1 200 OK\r\nno colon\r\n", "`no colon` is no header field"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", "`-1` is no length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "Content-Lengths, 1 and 2"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", "`gzip` is not known"),
        ] {
            let told = Head::read(text.as_bytes(), Side::Answer).and_then(|head| head.framing(false));
            assert!(told.clone().unwrap_err().to_string().contains(expected), "{text:?}: {told:?}");
        }
    }
}
