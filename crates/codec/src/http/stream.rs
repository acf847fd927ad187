//! An answer whose body is taken as it comes, since it may not end.

use super::chunks::{end_of_trailers, size_line};
use super::head::{Framing, Head, LARGEST_HEAD, begins_as_answer};
use super::{HttpError, Side, Start};

/// The media type of server-sent events (HTML Living Standard section 9.2).
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// What the head of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Such as 200.
    pub status: u16,
    /// The words behind it.
    pub reason: String,
    /// The Location field, where there is one.
    pub location: Option<String>,
    /// Whether the body has server-sent events.
    pub has_events: bool,
    /// Whether the connection stays open after the answer.
    pub stays: bool,
}

/// Takes one answer off the bytes of a connection, its body piece by piece. Interim answers (1xx) are passed over.
#[derive(Debug, Default)]
pub struct StreamReader {
    /// What came and could not be used yet.
    bytes: Vec<u8>,
    state: State,
    begun: Option<Begun>,
}

/// What is awaited next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The end of the head.
    #[default]
    Head,
    /// So many bytes of a body of known length.
    Length(usize),
    /// The line with the size of a chunk.
    Size,
    /// So many bytes of a chunk.
    Chunk(usize),
    /// The end of the line behind a chunk.
    ChunkEnd,
    /// What follows the last chunk.
    Trailers,
    /// The end of the connection.
    Close,
    /// Nothing: the answer is whole.
    Whole,
}

impl StreamReader {
    /// What the head says, once it is whole.
    pub fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// Whether the answer has come to its end.
    pub fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    /// What came and could not be used: behind a whole answer, what answers nothing.
    pub fn rest(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes bytes that came, and appends what of them is body.
    ///
    /// # Errors
    /// See [`HttpError`]; the connection is of no more use then.
    pub fn push(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), HttpError> {
        self.bytes.extend_from_slice(bytes);
        let mut used = 0;
        let outcome = loop {
            let rest = self.bytes.get(used..).unwrap_or_default();
            let step = match self.state {
                State::Head => read_head(rest, &mut self.begun),
                State::Length(0) => Ok(Some((State::Whole, 0))),
                State::Length(left) => {
                    Ok(part(rest, left, body).map(|count| (State::Length(left - count), count)))
                }
                State::Size => size_line(rest).map(|line| {
                    line.map(|(size, length)| {
                        (if size == 0 { State::Trailers } else { State::Chunk(size) }, length)
                    })
                }),
                State::Chunk(0) => Ok(Some((State::ChunkEnd, 0))),
                State::Chunk(left) => {
                    Ok(part(rest, left, body).map(|count| (State::Chunk(left - count), count)))
                }
                State::ChunkEnd => match rest {
                    [b'\r', b'\n', ..] => Ok(Some((State::Size, 2))),
                    [] | [b'\r'] => Ok(None),
                    _ => Err(HttpError::Chunk),
                },
                State::Trailers => end_of_trailers(rest).map(|end| end.map(|end| (State::Whole, end))),
                State::Close => Ok(part(rest, usize::MAX, body).map(|count| (State::Close, count))),
                State::Whole => Ok(None),
            };
            match step {
                Ok(Some((state, count))) => (self.state, used) = (state, used + count),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.bytes.drain(..used);
        outcome
    }

    /// No more bytes will come.
    ///
    /// # Errors
    /// The answer is not whole.
    pub fn end(&mut self) -> Result<(), HttpError> {
        match self.state {
            State::Close => self.state = State::Whole,
            State::Whole => {}
            _ => return Err(HttpError::Cut),
        }
        Ok(())
    }
}

/// Appends the bytes that are there, at most so many; how many they are, `None` without any.
fn part(bytes: &[u8], most: usize, body: &mut Vec<u8>) -> Option<usize> {
    let some = bytes.get(..most).unwrap_or(bytes);
    body.extend_from_slice(some);
    Some(some.len()).filter(|&count| count > 0)
}

/// Reads a head: what follows it, and its length; `None` while it is not whole.
fn read_head(bytes: &[u8], begun: &mut Option<Begun>) -> Result<Option<(State, usize)>, HttpError> {
    if !begins_as_answer(bytes) {
        return Err(HttpError::NoHttp);
    }
    let found = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
    let Some(end) = found.filter(|&end| end <= LARGEST_HEAD) else {
        return if bytes.len() > LARGEST_HEAD { Err(HttpError::HeadTooLong(LARGEST_HEAD)) } else { Ok(None) };
    };
    let head = Head::read(bytes.get(..end).unwrap_or_default(), Side::Answer)?;
    let (framing, stays) = head.framing(false)?;
    let (status, reason) = match head.start {
        Start::Status { code: 100 | 102..200, .. } => return Ok(Some((State::Head, end))),
        Start::Status { code, reason } => (code, reason.to_owned()),
        Start::Request { .. } => return Err(HttpError::NoHttp),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let media_type = head.field("content-type").unwrap_or_default().split(|&byte| byte == b';').next();
    let has_events = media_type.unwrap_or_default().trim_ascii().eq_ignore_ascii_case(EVENT_STREAM);
    *begun = Some(Begun { status, reason, location: head.field("location").map(text), has_events, stays });
    let state = match framing {
        Framing::Length(length) => State::Length(length),
        Framing::Chunked => State::Size,
        Framing::Close => State::Close,
    };
    Ok(Some((state, end)))
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;
    use proptest::prelude::*;

    /// What is made of bytes that come in pieces of that size and then end.
    fn read(bytes: &[u8], piece: usize) -> Result<(u16, String, bool), HttpError> {
        let (mut reader, mut body) = (StreamReader::default(), Vec::new());
        for piece in bytes.chunks(piece.max(1)) {
            reader.push(piece, &mut body)?;
        }
        let stays = reader.is_whole();
        reader.end()?;
        let status = reader.begun().map_or(0, |begun| begun.status);
        Ok((status, String::from_utf8_lossy(&body).into_owned(), stays))
    }

    #[test]
    fn a_body_is_there_as_far_as_it_came() {
        let (mut reader, mut body) = (StreamReader::default(), Vec::new());
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
                     Transfer-Encoding: chunked\r\n\r\n";
        reader.push(head, &mut body).unwrap();
        assert!(reader.begun().is_some_and(|begun| begun.has_events && begun.status == 200 && begun.stays));
        reader.push(b"4\r\nda", &mut body).unwrap();
        assert_eq!(body, b"da");
        reader.push(b"ta\r\n2\r\n: ", &mut body).unwrap();
        assert_eq!((body.as_slice(), reader.is_whole()), (&b"data: "[..], false));
        reader.push(b"\r\n0\r\n\r\n", &mut body).unwrap();
        assert!(reader.is_whole());
        reader.push(b"HTTP/1.1", &mut body).unwrap();
        assert_eq!(reader.rest(), b"HTTP/1.1");
    }

    #[test]
    fn bodies_end_with_their_length_their_last_chunk_or_the_connection() {
        for (bytes, expected) in [
            (
                &b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
                (200, "ok", true),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: z\r\n\r\n",
                (200, "a", true),
            ),
            (b"HTTP/1.1 204 No Content\r\n\r\n", (204, "", true)),
            (b"HTTP/1.0 200 OK\r\n\r\nrest", (200, "rest", false)),
        ] {
            for piece in 1..=bytes.len() {
                let (status, body, whole) = read(bytes, piece).unwrap();
                assert_eq!((status, body.as_str(), whole), expected, "in pieces of {piece}");
            }
        }
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", 9), Err(HttpError::Cut));
        assert_eq!(read(b"-ERR unknown", 1), Err(HttpError::NoHttp));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_a_whole_answer_is_that_of_the_other_reader(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'0')], 0..200),
            head in prop_oneof![
                Just(&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..]),
                Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"[..]),
                Just(&b"HTTP/1.1 200 OK\r\n\r\n"[..]),
                Just(&b""[..]),
            ],
            piece in 1usize..50,
        ) {
            let bytes = [head, &bytes].concat();
            let told = read(&bytes, piece);
            prop_assert_eq!(&told, &read(&bytes, bytes.len()));
            let mut reader = Reader::new(Side::Answer, 1000);
            reader.push(&bytes);
            if let (Ok((_, body, _)), Ok(Some(message))) = (told, reader.take(true, false)) {
                prop_assert_eq!(body, String::from_utf8_lossy(message.body).into_owned());
            }
        }
    }
}
