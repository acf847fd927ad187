//! Calls as devices and the name service hear and answer them (docs/gateway-protocol.md).

use serde_json::{Value, json};

/// The longest call, bytes.
const LONGEST: usize = 1 << 20;

/// A call to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCall {
    /// Whether it has an event.
    Status,
    /// Its oldest event.
    NextEvent,
    /// Something that devices cannot do.
    Unknown,
}

/// The answer to `status` with an event, and without one.
pub const SOMETHING: &[u8] = b"{\"result\":1}\n";
/// See [`SOMETHING`].
pub const NOTHING: &[u8] = b"{\"result\":0}\n";
/// The answer to `next_event` without one.
pub const EMPTY: &[u8] = b"{\"error\":{\"name\":\"IndexError\",\"args\":[\"pop from an empty deque\"]}}\n";
/// The answer to what is no function.
pub const UNKNOWN: &[u8] =
    b"{\"error\":{\"name\":\"AttributeError\",\"args\":[\"The API-function is not available.\"]}}\n";

/// The answer to `next_event`.
pub fn event(name: &str) -> Vec<u8> {
    format!("{{\"result\":\"{name}\"}}\n").into_bytes()
}

/// A result.
pub fn result(value: &Value) -> Vec<u8> {
    format!("{}\n", json!({ "result": value })).into_bytes()
}

/// An error.
pub fn error(name: &str, words: &[String]) -> Vec<u8> {
    format!("{}\n", json!({ "error": { "name": name, "args": words } })).into_bytes()
}

/// What the other side says, object by object, from the pieces in which it comes. A byte is looked at once for where its object
/// ends, and once more when that is whole.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// Where the next object begins.
    begin: usize,
    /// How far its end was looked for.
    seen: usize,
    /// Brackets that are open there.
    depth: u32,
    /// Whether that is within a text, and behind a backslash.
    in_text: bool,
    escaped: bool,
}

impl Input {
    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.seen -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next call to a device, `Ok(None)` where none is whole.
    ///
    /// # Errors
    /// What comes is no object, or longer than 1 MiB.
    pub fn device_call(&mut self) -> Result<Option<DeviceCall>, String> {
        // As our own gateway writes them, without a look at JSON.
        for (line, call) in [
            (b"{\"name\":\"status\",\"args\":[]}\n".as_slice(), DeviceCall::Status),
            (b"{\"name\":\"next_event\",\"args\":[]}\n".as_slice(), DeviceCall::NextEvent),
        ] {
            if self.seen == self.begin && self.bytes[self.begin..].starts_with(line) {
                self.begin += line.len();
                self.seen = self.begin;
                return Ok(Some(call));
            }
        }
        Ok(self.object()?.map(|call| match call["name"].as_str() {
            Some("status") => DeviceCall::Status,
            Some("next_event") => DeviceCall::NextEvent,
            _ => DeviceCall::Unknown,
        }))
    }

    /// The next object, `Ok(None)` where none is whole.
    ///
    /// # Errors
    /// See [`Input::device_call`].
    pub fn object(&mut self) -> Result<Option<Value>, String> {
        if self.seen == self.begin {
            let rest = self.bytes[self.begin..].trim_ascii_start();
            self.begin = self.bytes.len() - rest.len();
            self.seen = self.begin;
            if rest.first().is_some_and(|&first| first != b'{') {
                return Err("it is no object".to_owned());
            }
        }
        while let Some(&byte) = self.bytes.get(self.seen) {
            self.seen += 1;
            if self.ends_with(byte) {
                let object = &self.bytes[self.begin..self.seen];
                self.begin = self.seen;
                return serde_json::from_slice(object).map(Some).map_err(|error| error.to_string());
            }
        }
        if self.seen - self.begin > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        Ok(None)
    }

    /// Whether the object ends with its next byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_text {
            self.in_text = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All calls of some bytes that come in pieces of that size, and why no more were read, if so.
    fn read(bytes: &[u8], piece: usize) -> (Vec<DeviceCall>, bool) {
        let (mut input, mut calls) = (Input::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.add(piece);
            loop {
                match input.device_call() {
                    Ok(Some(call)) => calls.push(call),
                    Ok(None) => break,
                    Err(_) => return (calls, true),
                }
            }
        }
        (calls, false)
    }

    #[test]
    fn calls_are_read_in_any_form() {
        let bytes = b"{\"name\":\"status\",\"args\":[]}\n{ \"args\": [], \"name\": \"next_event\" }{\"name\":\"x}\\\"{\"}  {\"na";
        let expected = vec![DeviceCall::Status, DeviceCall::NextEvent, DeviceCall::Unknown];
        for piece in 1..bytes.len() {
            assert_eq!(read(bytes, piece), (expected.clone(), false), "in pieces of {piece}");
        }
        for wrong in [b"GET / HTTP/1.1\r\n".as_slice(), b"  [1]", b"}", b"{]"] {
            assert_eq!(read(wrong, 1), (vec![], true), "{wrong:?}");
        }
    }

    #[test]
    fn an_object_without_end_is_refused_and_space_before_it_is_no_part_of_it() {
        let mut input = Input::default();
        for _ in 0..3 * LONGEST / 1024 {
            input.add(&[b' '; 1024]);
            assert_eq!(input.object(), Ok(None));
        }
        assert!(input.bytes.len() <= 2048, "space is not kept");
        input.add(b"{\"a\":[");
        let mut added = 0;
        while input.object() == Ok(None) {
            input.add(&[b'0'; 1024]);
            added += 1024;
        }
        assert!((LONGEST..LONGEST + 4096).contains(&added), "{added}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_calls_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), piece in 1_usize..20) {
            let (calls, _) = read(&bytes, bytes.len().max(1));
            prop_assert_eq!(read(&bytes, piece).0, calls);
        }
    }
}
