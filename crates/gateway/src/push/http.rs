//! Events as requests of HTTP/1.1 (RFC 9112): POST of any path, the event in the body, answered by 204 when it is done.

use super::{LONGEST, PATIENCE, Reply, Said, Session, name_in};
use crate::received::Received;
use std::time::Duration;

/// The longest head of a request, and the longest line between chunks, bytes.
const LONGEST_HEAD: usize = 1 << 14;
const LONGEST_LINE: usize = 1 << 10;
/// Empty lines before a request that are passed over: one at least (RFC 9112, section 2.2).
const EMPTY_LINES: usize = 4;

/// Why a request cannot be taken: its status, and in words.
type Refusal = (&'static str, String);

/// A session of requests.
#[derive(Debug, Default)]
pub struct Http {
    bytes: Received,
    stage: Stage,
    /// Empty lines that came instead of a head.
    empty: usize,
    /// Of chunks, as far as they have come.
    body: Vec<u8>,
    /// The connection goes on after this request.
    keeps: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    /// A body of that length.
    Body(usize),
    /// The line before a chunk.
    Size,
    /// A chunk of that length, and the end of its line.
    Chunk(usize),
    /// Lines after the last chunk; so many bytes of them may still come.
    Trailer(usize),
}

/// What a head says of the body and of the connection.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    body: Stage,
    keeps: bool,
    /// The client waits for a word before it sends the body.
    is_hesitant: bool,
}

impl Session for Http {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.add(bytes);
    }

    fn next(&mut self) -> Option<Said> {
        match self.advance() {
            Ok(said) => said,
            Err((status, reason)) => {
                let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                Some(Said::Refused(answer.into_bytes(), reason))
            }
        }
    }

    fn over(&mut self, is_done: bool) -> Reply {
        let status = if is_done { "204 No Content" } else { "500 Internal Server Error" };
        let closes = if self.keeps { "" } else { "Connection: close\r\n" };
        // A 204 has no length (RFC 9110, section 8.6).
        let length = if is_done { "" } else { "Content-Length: 0\r\n" };
        let bytes = format!("HTTP/1.1 {status}\r\n{closes}{length}\r\n").into_bytes();
        Reply { bytes, is_last: !self.keeps }
    }

    fn waiting(&self) -> usize {
        self.bytes.rest().len() + self.body.len()
    }

    fn is_begun(&self) -> bool {
        self.stage != Stage::Head || !self.bytes.rest().is_empty()
    }

    fn patience(&self) -> Option<Duration> {
        self.is_begun().then_some(PATIENCE)
    }
}

impl Http {
    fn advance(&mut self) -> Result<Option<Said>, Refusal> {
        loop {
            match self.stage {
                Stage::Head => {
                    let pairs = self.bytes.rest().chunks_exact(2);
                    let empty = pairs.take(EMPTY_LINES + 1).take_while(|pair| pair == b"\r\n").count();
                    self.bytes.take(2 * empty);
                    self.empty += empty;
                    if self.empty > EMPTY_LINES {
                        return Err(bad("there are too many empty lines before a request"));
                    }
                    let rest = self.bytes.rest();
                    let Some(end) = head_end(rest)? else { return Ok(None) };
                    let head = read_head(&rest[..end])?;
                    self.bytes.take(end);
                    (self.stage, self.keeps, self.empty) = (head.body, head.keeps, 0);
                    if head.is_hesitant && self.bytes.rest().is_empty() {
                        return Ok(Some(Said::Call(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())));
                    }
                }
                Stage::Body(length) => {
                    let Some(body) = self.bytes.rest().get(..length) else { return Ok(None) };
                    let name = name_in(body);
                    self.bytes.take(length);
                    self.stage = Stage::Head;
                    return Ok(Some(Said::Event(name)));
                }
                Stage::Size => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    let size = chunk_size(&line)?;
                    if self.body.len() + size > LONGEST {
                        return Err(too_large());
                    }
                    self.stage = if size == 0 { Stage::Trailer(LONGEST_HEAD) } else { Stage::Chunk(size) };
                }
                Stage::Chunk(size) => {
                    let Some(chunk) = self.bytes.rest().get(..size + 2) else { return Ok(None) };
                    if !chunk.ends_with(b"\r\n") {
                        return Err(bad("a chunk is not as long as it says"));
                    }
                    self.body.extend_from_slice(&chunk[..size]);
                    self.bytes.take(size + 2);
                    self.stage = Stage::Size;
                }
                Stage::Trailer(left) => {
                    let Some(line) = self.line()? else { return Ok(None) };
                    if line.is_empty() {
                        self.stage = Stage::Head;
                        return Ok(Some(Said::Event(name_in(&std::mem::take(&mut self.body)))));
                    }
                    let left = left.checked_sub(line.len()).ok_or_else(|| bad("the trailer is too long"))?;
                    self.stage = Stage::Trailer(left);
                }
            }
        }
    }

    /// The next line between chunks, without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let rest = self.bytes.rest();
        match rest.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') {
            Some(at) if at > 0 && rest[at - 1] == b'\r' => {
                let line = rest[..at - 1].to_vec();
                self.bytes.take(at + 1);
                Ok(Some(line))
            }
            Some(_) => Err(bad("a line does not end with CR and LF")),
            None if rest.len() >= LONGEST_LINE => Err(bad("a line between chunks is too long")),
            None => Ok(None),
        }
    }
}

fn bad(reason: &str) -> Refusal {
    ("400 Bad Request", reason.to_owned())
}

fn too_large() -> Refusal {
    ("413 Content Too Large", format!("the body is longer than {LONGEST} bytes"))
}

/// Where the head ends, with its empty line; `None` where it is not whole yet.
fn head_end(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let mut begin = 0;
    for (at, _) in bytes.iter().enumerate().take(LONGEST_HEAD).filter(|(_, byte)| **byte == b'\n') {
        match &bytes[begin..at] {
            b"\r" => return Ok(Some(at + 1)),
            line if line.ends_with(b"\r") => begin = at + 1,
            _ => return Err(bad("a line of the head does not end with CR and LF")),
        }
    }
    if bytes.len() >= LONGEST_HEAD { Err(bad("the head is too long")) } else { Ok(None) }
}

/// Reads a head that is whole.
fn read_head(bytes: &[u8]) -> Result<Head, Refusal> {
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is no text"))?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let [Some(method), Some(_path), Some(version), None] = std::array::from_fn(|_| words.next()) else {
        return Err(bad("the first line is no request line"));
    };
    let persists = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(bad("the version is neither HTTP/1.0 nor HTTP/1.1")),
    };
    if method != "POST" {
        return Err(("405 Method Not Allowed\r\nAllow: POST", format!("{method:?} is not POST")));
    }
    let (mut length, mut is_chunked, mut keeps, mut is_hesitant) = (None, false, persists, false);
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a field has no colon"))?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(bad("the name of a field is none"));
        }
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || length.replace(value).is_some_and(|other| other != value) {
                return Err(bad("the content length is no single number"));
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || !value.eq_ignore_ascii_case("chunked") {
                return Err(bad("the transfer encoding is not `chunked` alone"));
            }
            is_chunked = true;
        } else if name.eq_ignore_ascii_case("connection") {
            // What a client of 1.0 asks for is not granted: it would have to be told so in words of its own.
            keeps &= !value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
        } else if name.eq_ignore_ascii_case("expect") {
            is_hesitant = persists && value.eq_ignore_ascii_case("100-continue");
        }
    }
    let body = match (length, is_chunked) {
        // One of them would be believed here, and the other one elsewhere (section 6.3).
        (Some(_), true) => return Err(bad("there is both a content length and a transfer encoding")),
        (None, true) => Stage::Size,
        (None, false) => {
            return Err(("411 Length Required", "the length of the body is not said".to_owned()));
        }
        // More digits than fit are too many bytes.
        (Some(digits), false) => match digits.parse::<usize>() {
            Ok(length) if length <= LONGEST => Stage::Body(length),
            _ => return Err(too_large()),
        },
    };
    Ok(Head { body, keeps, is_hesitant })
}

/// Of a field's name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The length of a chunk; what follows a semicolon is passed over.
fn chunk_size(line: &[u8]) -> Result<usize, Refusal> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(bad("the length of a chunk is no number"));
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    usize::from_str_radix(text, 16).ok().filter(|&size| size <= LONGEST).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(request: &[u8]) -> Option<Said> {
        let mut http = Http::default();
        http.add(request);
        http.next()
    }

    #[test]
    fn requests_follow_each_other_on_a_connection() {
        let mut http = Http::default();
        http.add(b"\r\nPOST /a HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\na-1");
        http.add(b"POST /b HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\na-\r\n01\r\n2\r\n0\r\nA: b\r\n\r\n");
        http.add(b"POST / HTTP/1.1\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(http.next(), Some(Said::Event(Some("a-1".into()))));
        assert_eq!(
            http.over(true),
            Reply { bytes: b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), is_last: false }
        );
        assert_eq!(http.next(), Some(Said::Event(Some("a-2".into()))));
        let failed = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(http.over(false), Reply { bytes: failed.to_vec(), is_last: false });
        assert_eq!(http.next(), Some(Said::Event(None)));
        let last = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        assert_eq!(http.over(true), Reply { bytes: last.to_vec(), is_last: true });
        assert_eq!((http.next(), http.patience()), (None, None));
    }

    #[test]
    fn few_empty_lines_before_a_request_are_passed_over() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na-1";
        for (lines, passes) in [(EMPTY_LINES, true), (EMPTY_LINES + 1, false), (1 << 20, false)] {
            let bytes = [b"\r\n".repeat(lines), request.to_vec()].concat();
            for piece in [1, 3, bytes.len()] {
                let mut http = Http::default();
                // Between requests, so many may come again.
                http.add(request);
                assert!(matches!(http.next(), Some(Said::Event(_))));
                let said = bytes.chunks(piece).find_map(|piece| {
                    http.add(piece);
                    http.next()
                });
                match said {
                    Some(Said::Event(_)) => assert!(passes, "{lines}"),
                    Some(Said::Refused(answer, _)) => {
                        assert!(!passes && answer.starts_with(b"HTTP/1.1 400 "), "{lines}");
                    }
                    other => panic!("{lines}: {other:?}"),
                }
            }
        }
    }

    /// A message has begun also between two of its chunks, when nothing of it is left to be read.
    #[test]
    fn a_message_has_begun_until_it_is_whole() {
        let mut http = Http::default();
        assert!(!http.is_begun());
        for piece in [&b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"[..], b"1\r\na\r\n", b"0\r\n"]
        {
            http.add(piece);
            assert_eq!((http.next(), http.is_begun(), http.patience()), (None, true, Some(PATIENCE)));
        }
        assert_eq!(http.waiting(), 1, "the body that has come");
        http.add(b"\r\n");
        assert_eq!(
            (http.next(), http.is_begun(), http.waiting()),
            (Some(Said::Event(Some("a".into()))), false, 0)
        );
    }

    #[test]
    fn a_client_that_waits_for_a_word_gets_it() {
        let mut http = Http::default();
        http.add(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        assert_eq!(http.next(), Some(Said::Call(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())));
        assert_eq!((http.next(), http.patience()), (None, Some(PATIENCE)));
        http.add(b"a-1");
        assert_eq!(http.next(), Some(Said::Event(Some("a-1".into()))));
    }

    #[test]
    fn what_cannot_be_read_gets_the_status_that_says_why() {
        let long = [b"POST / HTTP/1.1\r\nA: ".to_vec(), vec![b'a'; LONGEST_HEAD]].concat();
        for (request, status) in [
            (&b"hello\r\n\r\n"[..], "400"),
            (b"hello\n", "400"),
            (b"POST / HTTP/3\r\n\r\n", "400"),
            (b"GET / HTTP/1.1\r\n\r\n", "405"),
            (b"POST / HTTP/1.1\r\n\r\n", "411"),
            (b"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", "413"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "413"),
            (b"POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\n folded\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", "413"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", "413"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", "400"),
            (&long, "400"),
        ] {
            let Some(Said::Refused(answer, _)) = first(request) else {
                panic!("{status}: {:?}", String::from_utf8_lossy(request));
            };
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }
}
