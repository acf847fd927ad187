//! What answers say: values that are kept, and the words of errors.

use plimsoll_codec::cbor;
use plimsoll_codec::coap::{Block, option};
use plimsoll_codec::hiding::cut;
use plimsoll_scenario::plan::{Capture, CaptureFrom};

/// Characters of an answer that an error shows.
pub(super) const SHOWN: usize = 300;

/// What is to be kept of an answer; `None` where it has not got that.
pub(super) fn captured(capture: &Capture, headers: &[(String, String)], body: &[u8]) -> Option<String> {
    let header = |name: &str| {
        headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    let found = match &capture.from {
        CaptureFrom::Header(name) => header(name).map(str::to_owned),
        CaptureFrom::LocationEnd => {
            let path = header("location")?.split(['?', '#']).next()?;
            path.trim_end_matches('/').rsplit('/').next().map(str::to_owned)
        }
        CaptureFrom::Pointer(pointer) => {
            // What is a map or an array in CBOR is no JSON, so that nobody need say which it is.
            let json: serde_json::Value =
                serde_json::from_slice(body).ok().or_else(|| cbor::to_json(body).ok())?;
            match json.pointer(pointer)? {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Null => None,
                other => Some(other.to_string()),
            }
        }
    };
    // One with a line's end would break the request that it is put into.
    found.filter(|value| !value.contains(char::is_control))
}

/// Where that stands, for people.
pub(super) fn place(from: &CaptureFrom) -> String {
    match from {
        CaptureFrom::Header(name) => format!("header {name}"),
        CaptureFrom::LocationEnd => "header Location".into(),
        CaptureFrom::Pointer(pointer) => pointer.clone(),
    }
}

/// The beginning of an answer, for people.
pub(super) fn shown(body: &[u8]) -> String {
    let text = match (std::str::from_utf8(body), cbor::to_json(body)) {
        (Err(_), Ok(value)) => value.to_string().into(),
        _ => String::from_utf8_lossy(body),
    };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { "nothing more was said".into() } else { cut(&text, SHOWN) }
}

/// What of the options of CoAP a step looks at, by the names that HTTP has for them.
pub(super) fn headers(options: &[(u16, Vec<u8>)]) -> Vec<(String, String)> {
    let parts = options.iter().filter(|(number, _)| *number == option::LOCATION_PATH);
    let location: String = parts.map(|(_, value)| format!("/{}", String::from_utf8_lossy(value))).collect();
    if location.is_empty() { Vec::new() } else { vec![("location".to_owned(), location)] }
}

/// The value of the option that asks for the block after one of an answer over CoAP that brought so many bytes (RFC 7959).
///
/// # Errors
/// It was no whole block, so that what follows would leave a gap.
pub(super) fn next_block(block: Block, length: usize) -> Result<u32, String> {
    let following = block.following(length);
    let following =
        following.ok_or("the platform gave less than a block of its answer, and says that more follows")?;
    Ok(following.to_number())
}
