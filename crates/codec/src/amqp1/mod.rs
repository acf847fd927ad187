//! AMQP 1.0 as its clients see it: frames, the performatives of one session with one link, and messages (OASIS AMQP 1.0). It has nothing
//! in common with AMQP 0-9-1 but its first four bytes.

pub mod message;
pub mod performatives;
pub mod types;

use types::{Reader, Value};

/// With what a client begins that says first who it is (section 5.3.1).
pub const SASL_HEADER: &[u8; 8] = b"AMQP\x03\x01\0\0";
/// With what a client begins that has said so (section 2.2).
pub const HEADER: &[u8; 8] = b"AMQP\0\x01\0\0";
/// Bytes of a frame before its body, where it has no more of them.
pub const FRAME_HEAD: usize = 8;
/// The largest frame that we take, bytes, as we say when we open a connection; a larger message comes in several.
pub const LARGEST_FRAME: u32 = 65_536;
/// The type of frames that say who a client is.
const SASL: u8 = 1;

/// Bytes that are no AMQP 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Something ends before its end.
    #[error("it ends too early")]
    Short,
    /// A value has a type that there is not.
    #[error("there is no type {0:#04x}")]
    Type(u8),
    /// Values lie too deep within each other.
    #[error("values lie too deep within each other")]
    Deep,
    /// A text is none.
    #[error("a text is not UTF-8")]
    Text,
    /// A frame says that it is shorter than its head, or longer than we take.
    #[error("a frame of {0} bytes cannot be")]
    Frame(usize),
    /// A frame does not begin with a performative.
    #[error("a frame has no performative")]
    Performative,
}

/// What comes.
#[derive(Debug)]
pub enum Frame<'a> {
    /// The header of a protocol: its number, and its version.
    Header(u8, [u8; 3]),
    /// A performative by its number, and what lies behind it.
    Performative(u64, types::Fields<'a>, &'a [u8]),
    /// A frame without a body: a sign of life (section 2.4.5).
    Empty,
}

/// The length of the first frame, of which some bytes may not have come; `None` until that can be known.
///
/// # Errors
/// It is none, or larger than we take.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    if head == b"AMQP" {
        return Ok(Some(HEADER.len()));
    }
    let length = u32::from_be_bytes(*head) as usize;
    let is_possible = (FRAME_HEAD..=LARGEST_FRAME as usize).contains(&length);
    if is_possible { Ok(Some(length)) } else { Err(Malformed::Frame(length)) }
}

/// What a frame of that length says.
///
/// # Errors
/// It is malformed.
pub fn decode(frame: &[u8]) -> Result<Frame<'_>, Malformed> {
    let head = frame.first_chunk::<FRAME_HEAD>().ok_or(Malformed::Short)?;
    let &[a, b, c, d, offset, _, _, _] = head;
    if [a, b, c, d] == *b"AMQP" {
        let rest = frame.get(5..8).and_then(|rest| rest.try_into().ok()).unwrap_or_default();
        return Ok(Frame::Header(offset, rest));
    }
    let begin = usize::from(offset) * 4;
    let body = frame.get(begin..).filter(|_| begin >= FRAME_HEAD).ok_or(Malformed::Short)?;
    if body.is_empty() {
        return Ok(Frame::Empty);
    }
    let mut reader = Reader::new(body);
    match reader.value()? {
        Value::Described(Some(number), fields) => Ok(Frame::Performative(number, fields, reader.rest())),
        _ => Err(Malformed::Performative),
    }
}

/// Appends a frame on our only channel, whose body `body` writes.
fn put_frame(is_sasl: bool, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend([0, 0, 0, 0, 2, if is_sasl { SASL } else { 0 }, 0, 0]);
    body(out);
    let length = (out.len() - begin) as u32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_and_frames_are_told_apart() {
        assert_eq!(length(b"AMQP"), Ok(Some(8)));
        assert!(matches!(decode(HEADER), Ok(Frame::Header(0, [1, 0, 0]))));
        let empty = [0, 0, 0, 8, 2, 0, 0, 0];
        assert_eq!((length(&empty), length(&[0; 3])), (Ok(Some(8)), Ok(None)));
        assert!(matches!(decode(&empty), Ok(Frame::Empty)));
        assert_eq!(length(&[0, 0, 0, 7]), Err(Malformed::Frame(7)));
        assert_eq!(length(b"HTTP"), Err(Malformed::Frame(0x4854_5450)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = length(&bytes);
            if let Ok(Frame::Performative(number, fields, payload)) = decode(&bytes) {
                let _ = performatives::read(number, fields, payload);
                let _ = message::content(payload, &mut Vec::new());
            }
        }
    }
}
