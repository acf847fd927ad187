//! Whole messages out of a stream of bytes, however they are cut.

use super::chunks::{end_of_trailers, size_line};
use super::head::{Framing, Head, LARGEST_HEAD, begins_as_answer};
use super::{HttpError, Start};

/// Which messages a reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests.
    Request,
    /// Answers; interim ones (1xx) are passed over, but not 101, after which HTTP is not spoken any more.
    Answer,
}

/// Takes messages off the front of a connection's bytes. Bodies in chunks are put together in place.
#[derive(Debug)]
pub struct Reader {
    side: Side,
    largest_body: usize,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that belong to messages taken already.
    begin: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The head is not whole; so much of what is there has no end of a head in it.
    Head { searched: usize },
    /// The head is whole.
    Body(Body),
}

/// A body being read; offsets count from the beginning of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Body {
    head: usize,
    stays: bool,
    framing: Framing,
    /// Chunked: what is put together already, and what of the wire is done with.
    put: usize,
    read: usize,
}

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// First line and fields.
    pub head: Head<'a>,
    /// The body, chunks put together.
    pub body: &'a [u8],
    /// Whether the connection stays open after it.
    pub stays: bool,
    /// All its bytes on the wire, what frames chunks included.
    pub wire_bytes: u32,
}

impl Reader {
    /// A reader of messages of that side, with bodies of at most so many bytes.
    pub fn new(side: Side, largest_body: usize) -> Reader {
        Reader { side, largest_body, buffer: Vec::new(), begin: 0, state: State::Head { searched: 0 } }
    }

    /// Adds bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.begin > 0 {
            self.buffer.drain(..self.begin.min(self.buffer.len()));
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether bytes of a message that is not whole are there.
    pub fn is_within_message(&self) -> bool {
        self.buffer.len() > self.begin
    }

    /// What came and was not taken.
    pub fn rest(&self) -> &[u8] {
        self.buffer.get(self.begin..).unwrap_or_default()
    }

    /// Forgets everything, for a new connection.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.begin = 0;
        self.state = State::Head { searched: 0 };
    }

    /// The next whole message, `None` while it is not whole. `ended`: whether no more bytes will come. `bodiless`: whether
    /// the answer that is awaited has no body whatever its head says (that to HEAD).
    ///
    /// # Errors
    /// See [`HttpError`]; the connection is of no more use then.
    pub fn take(&mut self, ended: bool, bodiless: bool) -> Result<Option<Message<'_>>, HttpError> {
        let whole = loop {
            match self.state {
                State::Head { searched } => match self.read_head(searched, bodiless)? {
                    Some(body) => self.state = State::Body(body),
                    None if ended && self.is_within_message() => return Err(HttpError::Cut),
                    None => return Ok(None),
                },
                State::Body(body) => match self.read_body(body, ended)? {
                    Some(whole) if whole.interim => {
                        self.begin += whole.wire;
                        self.state = State::Head { searched: 0 };
                    }
                    Some(whole) => break whole,
                    None if ended => return Err(HttpError::Cut),
                    None => return Ok(None),
                },
            }
        };
        self.state = State::Head { searched: 0 };
        let message = self.buffer.get(self.begin..).unwrap_or_default();
        self.begin += whole.wire;
        let (head, rest) = message.split_at_checked(whole.head).ok_or(HttpError::Cut)?;
        let body = rest.get(..whole.body).unwrap_or_default();
        let wire_bytes = whole.wire as u32;
        Ok(Some(Message { head: Head::read(head, self.side)?, body, stays: whole.stays, wire_bytes }))
    }

    fn read_head(&mut self, searched: usize, bodiless: bool) -> Result<Option<Body>, HttpError> {
        let message = self.buffer.get(self.begin..).unwrap_or_default();
        // Others need not end their lines as HTTP does: what is awaited would never come.
        if self.side == Side::Answer && !begins_as_answer(message) {
            return Err(HttpError::NoHttp);
        }
        // The end may have been cut in three places.
        let from = searched.saturating_sub(3);
        let found = message.get(from..).and_then(|rest| memchr::memmem::find(rest, b"\r\n\r\n"));
        let Some(end) = found.map(|at| from + at + 4).filter(|&end| end <= LARGEST_HEAD) else {
            if message.len() > LARGEST_HEAD {
                return Err(HttpError::HeadTooLong(LARGEST_HEAD));
            }
            self.state = State::Head { searched: message.len() };
            return Ok(None);
        };
        let head = Head::read(message.get(..end).unwrap_or_default(), self.side)?;
        let (framing, stays) = head.framing(bodiless)?;
        if let Framing::Length(length) = framing
            && length > self.largest_body
        {
            return Err(HttpError::BodyTooLong(self.largest_body));
        }
        Ok(Some(Body { head: end, stays, framing, put: end, read: end }))
    }

    fn read_body(&mut self, body: Body, ended: bool) -> Result<Option<Whole>, HttpError> {
        let message = self.buffer.get_mut(self.begin..).unwrap_or_default();
        let there = message.len() - body.head.min(message.len());
        let whole = |length: usize, wire: usize, head: &[u8], side| {
            let start = Head::read(head, side).map(|head| head.start);
            let interim = matches!(start, Ok(Start::Status { code: 100 | 102..200, .. }));
            Whole { head: body.head, body: length, wire, stays: body.stays, interim }
        };
        match body.framing {
            Framing::Length(length) if there >= length => {
                let head = message.get(..body.head).unwrap_or_default();
                Ok(Some(whole(length, body.head + length, head, self.side)))
            }
            Framing::Length(_) => Ok(None),
            Framing::Close if there > self.largest_body => Err(HttpError::BodyTooLong(self.largest_body)),
            Framing::Close if ended => Ok(Some(whole(
                there,
                body.head + there,
                message.get(..body.head).unwrap_or_default(),
                self.side,
            ))),
            Framing::Close => Ok(None),
            // What stands between the chunks is not worth more than they are.
            Framing::Chunked if there > self.largest_body.saturating_mul(2).saturating_add(LARGEST_HEAD) => {
                Err(HttpError::BodyTooLong(self.largest_body))
            }
            Framing::Chunked => {
                let mut body = body;
                let end = put_together(message, &mut body, self.largest_body)?;
                self.state = State::Body(body);
                let head = message.get(..body.head).unwrap_or_default();
                Ok(end.map(|end| whole(body.put - body.head, end, head, self.side)))
            }
        }
    }
}

struct Whole {
    head: usize,
    body: usize,
    wire: usize,
    stays: bool,
    interim: bool,
}

/// Moves the contents of whole chunks behind the head (RFC 9112 section 7.1); the offset behind the last chunk and its
/// trailers once it is there.
fn put_together(message: &mut [u8], body: &mut Body, largest: usize) -> Result<Option<usize>, HttpError> {
    loop {
        let rest = message.get(body.read..).unwrap_or_default();
        let Some((size, length)) = size_line(rest)? else { return Ok(None) };
        let begin = body.read + length;
        if size == 0 {
            return end_of_trailers(message.get(begin..).unwrap_or_default())
                .map(|end| end.map(|end| begin + end));
        }
        if size > largest || body.put - body.head + size > largest {
            return Err(HttpError::BodyTooLong(largest));
        }
        let end = begin + size;
        match message.get(end..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {
                message.copy_within(begin..end, body.put);
                body.put += size;
                body.read = end + 2;
            }
            [] | [b'\r'] => return Ok(None),
            _ => return Err(HttpError::Chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reader makes of bytes that come in pieces of that size and then end.
    fn read(side: Side, bytes: &[u8], piece: usize) -> Vec<String> {
        let mut reader = Reader::new(side, 1000);
        let mut told = Vec::new();
        let mut take = |reader: &mut Reader, ended| {
            loop {
                match reader.take(ended, false) {
                    Ok(Some(message)) => {
                        let body = String::from_utf8_lossy(message.body).into_owned();
                        told.push(format!("{:?} {body} {}", message.head.start, message.stays));
                    }
                    Ok(None) => return true,
                    Err(error) => {
                        told.push(format!("error: {error}"));
                        return false;
                    }
                }
            }
        };
        for piece in bytes.chunks(piece.max(1)) {
            reader.push(piece);
            if !take(&mut reader, false) {
                return told;
            }
        }
        take(&mut reader, true);
        told
    }

    const STREAM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 201 Created\r\n\
        Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nWiki\r\n05\r\npedia\r\n0\r\nTrailer: z\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\nrest";

    #[test]
    fn messages_are_whole_wherever_they_are_cut() {
        let expected = [
            "Status { code: 200, reason: \"OK\" } ok true",
            "Status { code: 201, reason: \"Created\" } Wikipedia true",
            "Status { code: 204, reason: \"No Content\" }  true",
            "Status { code: 200, reason: \"OK\" } rest false",
        ];
        for piece in 1..=STREAM.len() {
            assert_eq!(read(Side::Answer, STREAM, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn an_answer_of_another_protocol_is_told_before_it_ends() {
        for bytes in [&b"-ERR unknown"[..], b"SSH-2.0-x\r\n\r\n", b"HTTq"] {
            for piece in [1, bytes.len()] {
                assert_eq!(read(Side::Answer, bytes, piece), ["error: it is no HTTP"], "{piece}");
            }
        }
        assert_eq!(read(Side::Answer, b"HTT", 3), ["error: the connection ended within it"]);
    }

    #[test]
    fn bounds_hold() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LARGEST_HEAD));
        assert!(read(Side::Answer, long.as_bytes(), 4096)[0].contains("head is longer"));
        let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n";
        assert!(read(Side::Answer, announced, 10)[0].contains("more than 1000 bytes"));
        let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        assert!(read(Side::Answer, chunk, 10)[0].contains("more than 1000 bytes"));
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1001));
        assert!(read(Side::Answer, endless.as_bytes(), 100)[0].contains("more than 1000 bytes"));
        let broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n";
        assert_eq!(read(Side::Answer, broken, 7), ["error: a chunk of its body is broken"]);
        assert_eq!(
            read(Side::Request, b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", 7),
            ["error: the connection ended within it"]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_cutting_changes_nothing(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'0')], 0..200),
            prefix in 0usize..STREAM.len(),
            piece in 1usize..50,
        ) {
            let mut stream = STREAM[..prefix].to_vec();
            stream.extend(bytes);
            for side in [Side::Answer, Side::Request] {
                prop_assert_eq!(read(side, &stream, piece), read(side, &stream, stream.len()));
            }
        }
    }
}
