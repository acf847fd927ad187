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

/// Takes the next call out of what a gateway has sent to a device; `Ok(None)` where none is whole.
pub fn next_device_call(input: &mut Vec<u8>) -> Result<Option<DeviceCall>, String> {
    // As our own gateway writes them, without a look at JSON.
    for (line, call) in [
        (b"{\"name\":\"status\",\"args\":[]}\n".as_slice(), DeviceCall::Status),
        (b"{\"name\":\"next_event\",\"args\":[]}\n".as_slice(), DeviceCall::NextEvent),
    ] {
        if input.starts_with(line) {
            input.drain(..line.len());
            return Ok(Some(call));
        }
    }
    Ok(next(input)?.map(|call| match call["name"].as_str() {
        Some("status") => DeviceCall::Status,
        Some("next_event") => DeviceCall::NextEvent,
        _ => DeviceCall::Unknown,
    }))
}

/// Takes the next JSON value out of what came; `Ok(None)` where none is whole.
pub fn next(input: &mut Vec<u8>) -> Result<Option<Value>, String> {
    let mut stream = serde_json::Deserializer::from_slice(input).into_iter::<Value>();
    match stream.next() {
        None => {
            input.clear();
            Ok(None)
        }
        Some(Ok(value)) => {
            let read = stream.byte_offset();
            input.drain(..read);
            Ok(Some(value))
        }
        Some(Err(error)) if error.is_eof() && input.len() <= LONGEST => Ok(None),
        Some(Err(error)) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn calls_are_read_in_any_form() {
        let mut input = b"{\"name\":\"status\",\"args\":[]}\n{ \"args\": [], \"name\": \"next_event\" }{\"name\":\"x\"}{\"na".to_vec();
        let all: Vec<_> = std::iter::from_fn(|| next_device_call(&mut input).unwrap()).collect();
        assert_eq!(all, [DeviceCall::Status, DeviceCall::NextEvent, DeviceCall::Unknown]);
        assert_eq!(input, b"{\"na");
        assert!(next_device_call(&mut b"GET / HTTP/1.1\r\n".to_vec()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_calls_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut input = bytes;
            while let Ok(Some(_)) = next_device_call(&mut input) {}
        }
    }
}
