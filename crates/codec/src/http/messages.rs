//! Messages in a body that may not end: server-sent events (HTML Living Standard section 9.2), objects of JSON, or lines.

use super::HttpError;

/// What may stand between messages that are no events: blanks, what separates values of JSON or encloses them all, and the record
/// separator (RFC 7464).
const BETWEEN: &[u8] = b" \t\r\n,[]\x1e";
/// What may stand before all events (section 9.2.6).
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Cuts a body into its messages.
#[derive(Debug, Default)]
pub struct Messages {
    /// Whether the body has server-sent events. Else each object of JSON is a message, and each line that begins otherwise.
    has_events: bool,
    /// What came of a line or an object that is not whole.
    part: Vec<u8>,
    /// Where an object that is not whole has come to; `None` within a line.
    object: Option<Nesting>,
    /// The data of an event that is not whole, each line with its end.
    data: Vec<u8>,
    /// Whether the last byte was a carriage return, which a line feed may follow.
    after_return: bool,
    /// The name of the event that is not whole, and that of the last one that was.
    id: Vec<u8>,
    last_id: Vec<u8>,
    /// Whether no line of events was whole yet.
    is_new: bool,
    /// How long the platform wants a client to wait before it connects again, in milliseconds.
    retry: Option<u64>,
}

impl Messages {
    /// A body begins, which has server-sent events or not. What was not whole of the one before is gone.
    pub fn begin(&mut self, has_events: bool) {
        self.has_events = has_events;
        self.after_return = false;
        self.is_new = true;
        self.object = None;
        // The name of an event goes with it.
        self.id.clone_from(&self.last_id);
        self.part.clear();
        self.data.clear();
    }

    /// The name of the last event that has one, with which a client goes on after a loss (`Last-Event-ID`).
    pub fn last_id(&self) -> &[u8] {
        &self.last_id
    }

    /// Bytes of messages that are not whole.
    pub fn pending(&self) -> usize {
        self.part.len() + self.data.len()
    }

    /// How long the platform wants a client to wait before it connects again, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Takes a piece of the body, and gives each message that is whole by it.
    ///
    /// # Errors
    /// A message has more than `largest` bytes.
    pub fn push(
        &mut self,
        bytes: &[u8],
        largest: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), HttpError> {
        if self.has_events { self.events(bytes, largest, each) } else { self.values(bytes, largest, each) }
    }

    /// Objects and lines.
    fn values(&mut self, bytes: &[u8], largest: usize, each: &mut dyn FnMut(&[u8])) -> Result<(), HttpError> {
        for &byte in bytes {
            if self.part.is_empty() {
                if BETWEEN.contains(&byte) {
                    continue;
                }
                self.object = (byte == b'{').then(Nesting::default);
            }
            let is_whole = match &mut self.object {
                Some(nesting) => {
                    self.part.push(byte);
                    nesting.ends_with(byte)
                }
                None if matches!(byte, b'\r' | b'\n') => true,
                None => {
                    self.part.push(byte);
                    false
                }
            };
            if is_whole {
                each(&self.part);
                self.part.clear();
            }
            self.bound(largest)?;
        }
        Ok(())
    }

    /// Lines of server-sent events.
    fn events(
        &mut self,
        mut bytes: &[u8],
        largest: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), HttpError> {
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\r', b'\n', bytes) {
            let (line, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            self.after_return = rest == b"\r";
            bytes = rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..)).unwrap_or_default();
            self.part.extend_from_slice(line);
            let line = std::mem::take(&mut self.part);
            self.line(&line, each);
            self.part = line;
            self.part.clear();
            self.bound(largest)?;
        }
        self.part.extend_from_slice(bytes);
        self.bound(largest)
    }

    /// What waits for its end is a lie or an attack beyond so many bytes.
    fn bound(&self, largest: usize) -> Result<(), HttpError> {
        if self.pending() > largest { Err(HttpError::MessageTooLong(largest)) } else { Ok(()) }
    }

    /// A line of events is whole.
    fn line(&mut self, line: &[u8], each: &mut dyn FnMut(&[u8])) {
        let line =
            if std::mem::take(&mut self.is_new) { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        if line.is_empty() {
            self.last_id.clone_from(&self.id);
            if let Some((_, data)) = self.data.split_last() {
                each(data);
            }
            return self.data.clear();
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"id" if !value.contains(&0) => {
                self.id.clear();
                self.id.extend_from_slice(value);
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.retry = str::from_utf8(value).ok().and_then(|text| text.parse().ok()).or(self.retry);
            }
            // Comments, which begin with a colon, types of events, and what the standard does not know.
            _ => {}
        }
    }
}

/// Where an object of JSON has come to (RFC 8259).
#[derive(Debug, Default)]
struct Nesting {
    /// Objects that are open.
    depth: usize,
    is_in_text: bool,
    /// Whether the next character of a text stands for itself.
    is_escaped: bool,
}

impl Nesting {
    /// Whether the object ends with its next byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.is_in_text => self.is_escaped = true,
            b'"' => self.is_in_text = !self.is_in_text,
            b'{' if !self.is_in_text => self.depth += 1,
            b'}' if !self.is_in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(has_events: bool, bytes: &[u8], piece: usize) -> (Vec<String>, Messages) {
        let (mut messages, mut told) = (Messages::default(), Vec::new());
        messages.begin(has_events);
        for piece in bytes.chunks(piece.max(1)) {
            let mut each = |content: &[u8]| told.push(String::from_utf8_lossy(content).into_owned());
            messages.push(piece, 1000, &mut each).unwrap();
        }
        (told, messages)
    }

    #[test]
    fn events_are_what_the_standard_says() {
        let stream = b"\xef\xbb\xbf: hello\nretry: 250\n\nevent: message\nid: 7\ndata: a\ndata:b\n\ndata\n\nid: 8\r\n\r\ndata:  c\r\rid: 9\ndata: cut";
        for piece in 1..=stream.len() {
            let (told, messages) = cut(true, stream, piece);
            assert_eq!(told, ["a\nb", "", " c"], "in pieces of {piece}");
            assert_eq!((messages.last_id(), messages.retry()), (&b"8"[..], Some(250)));
        }
    }

    #[test]
    fn a_new_body_forgets_what_was_not_whole_of_the_last_one() {
        let (mut messages, mut told) = (Messages::default(), Vec::new());
        for body in [&b"id: 1\ndata: a\n\nid: 2\ndata: b\n"[..], b"data: c\n\n"] {
            messages.begin(true);
            messages.push(body, 100, &mut |content| told.push(content.to_vec())).unwrap();
            assert_eq!(messages.last_id(), b"1");
        }
        assert_eq!(told, [b"a", b"c"]);
    }

    #[test]
    fn objects_are_messages_however_they_are_separated_and_so_are_other_lines() {
        for (body, expected) in [
            (
                &b"{\"a\":1}\n\n{\"b\":{}}\r\nx y\rz\r\n\r\ncut"[..],
                &["{\"a\":1}", "{\"b\":{}}", "x y", "z"][..],
            ),
            (b"{ \"a\" :\n 1}{\"b\":\"}\\\"{\"},{}{", &["{ \"a\" :\n 1}", "{\"b\":\"}\\\"{\"}", "{}"]),
            (b"[\n{\"a\":[1,2]},\n{\"b\":2},\n", &["{\"a\":[1,2]}", "{\"b\":2}"]),
            (b"\x1e{\"a\":1}\n\x1e\"b\"\n", &["{\"a\":1}", "\"b\""]),
        ] {
            for piece in 1..=body.len() {
                assert_eq!(cut(false, body, piece).0, expected, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_message_without_end_is_an_error() {
        let outcome = |has_events, bytes: &[u8]| {
            let mut messages = Messages { has_events, ..Messages::default() };
            messages.push(bytes, 20, &mut |_| ())
        };
        let too_long = Err(HttpError::MessageTooLong(20));
        for has_events in [false, true] {
            assert_eq!(outcome(has_events, &[b'x'; 20]), Ok(()));
            assert_eq!(outcome(has_events, &[b'x'; 21]), too_long);
        }
        assert_eq!(outcome(false, &[b'{'; 21]), too_long);
        assert_eq!(outcome(true, b"data: 1234567\ndata: 12345678901\n\n"), Ok(()));
        assert_eq!(outcome(true, b"data: 1234567\ndata: 123456789012\n\n"), too_long);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_cutting_changes_nothing(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(&b"\r\n:di{}\"\\,"[..])],
                0..200,
            ),
            has_events in any::<bool>(),
            piece in 1usize..20,
        ) {
            prop_assert_eq!(cut(has_events, &bytes, piece).0, cut(has_events, &bytes, 200).0);
        }
    }
}
