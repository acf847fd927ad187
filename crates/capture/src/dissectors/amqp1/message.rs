//! What lies around the content of a message (OASIS AMQP 1.0, section 3.2): how long the content is, and to whom the message is.

use crate::action::name;
use plimsoll_codec::amqp1::types::{Reader, Value};

/// Sections, by their numbers.
const PROPERTIES: u64 = 0x73;
const DATA: u8 = 0x75;
const VALUE: u8 = 0x77;

/// Bytes of the content, by what its sections say of their length: the message may go on in other frames.
pub(super) fn content_length(message: &[u8]) -> u64 {
    let mut rest = message;
    let mut all = 0;
    while !rest.is_empty() {
        if let Some((length, begin)) = content(rest) {
            all += length;
            let end = usize::try_from(length).ok().and_then(|length| begin.checked_add(length));
            match end.and_then(|end| rest.get(end..)) {
                Some(behind) => rest = behind,
                None => break,
            }
            continue;
        }
        let mut reader = Reader::new(rest);
        if reader.value().is_err() {
            break;
        }
        rest = reader.rest();
    }
    all
}

/// The length of a section that is content, as bytes or as a text, and where these begin in it.
fn content(section: &[u8]) -> Option<(u64, usize)> {
    let &[0, 0x53, DATA | VALUE, code, ..] = section else { return None };
    match code {
        0xa0 | 0xa1 | 0xa3 => Some((u64::from(*section.get(4)?), 5)),
        0xb0 | 0xb1 | 0xb3 => {
            let length = section.get(4..)?.first_chunk()?;
            Some((u64::from(u32::from_be_bytes(*length)), 8))
        }
        _ => None,
    }
}

/// The address in the properties of a message.
pub(super) fn to(message: &[u8]) -> Option<String> {
    let mut reader = Reader::new(message);
    while !reader.rest().is_empty() {
        if content(reader.rest()).is_some() {
            return None;
        }
        if let Value::Described(Some(PROPERTIES), mut fields) = reader.value().ok()? {
            fields.skip(2).ok()?;
            return fields.field().ok()?.text().map(|address| name(address.as_bytes()));
        }
    }
    None
}
