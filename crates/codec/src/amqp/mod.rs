//! AMQP 0-9-1 as its clients see it: frames, and the methods that publishers and consumers need (the specification of AMQP 0-9-1, and
//! RabbitMQ's extensions to it: confirms, `basic.nack` and `connection.blocked`).

mod fields;
pub mod methods;

use fields::Fields;
pub use fields::Malformed;
pub use methods::Method;

/// With what a client begins (section 4.2.2).
pub const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
/// All that follows, in a routing key with wildcards.
pub const REST: &str = "#";
/// Bytes of a frame beside its payload: type, channel and size before it, and its end.
pub const FRAME_OVERHEAD: usize = 8;
/// Largest payload of a frame that we take; servers have 128 KiB by custom.
const LARGEST_PAYLOAD: usize = 16 * 1024 * 1024;
const HEAD: usize = 7;
/// Each frame ends with it (section 4.2.3).
const END: u8 = 0xce;
/// The class of contents.
const BASIC: u16 = 60;
/// The flag of a content's delivery mode, and the mode of messages that outlive their broker.
const HAS_DELIVERY_MODE: u16 = 1 << 12;
const PERSISTENT: u8 = 2;

/// A frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A method, on that channel.
    Method(u16, Method<'a>),
    /// The beginning of a content, which has so many bytes.
    Header(u16, u64),
    /// Bytes of a content.
    Body(u16, &'a [u8]),
    /// A sign of life.
    Heartbeat,
}

/// The length of the first frame, of which some bytes may not have come; `None` until that can be known.
///
/// # Errors
/// It is none, or larger than we take.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    if bytes.first().is_some_and(|kind| !matches!(kind, 1..=3 | 8)) {
        return Err(Malformed::Kind);
    }
    let Some(head) = bytes.get(..HEAD) else { return Ok(None) };
    let size = head.get(3..).and_then(|size| size.try_into().ok()).map_or(0, u32::from_be_bytes) as usize;
    if size > LARGEST_PAYLOAD { Err(Malformed::Large(size)) } else { Ok(Some(size + FRAME_OVERHEAD)) }
}

/// What a frame of that length says.
///
/// # Errors
/// It is malformed.
pub fn decode(frame: &[u8]) -> Result<Frame<'_>, Malformed> {
    let (&[kind, high, low, _, _, _, _], rest) = frame.split_first_chunk::<HEAD>().ok_or(Malformed::Short)?;
    let payload = rest.strip_suffix(&[END]).ok_or(Malformed::End)?;
    let channel = u16::from_be_bytes([high, low]);
    let mut fields = Fields(payload);
    Ok(match kind {
        1 => Frame::Method(channel, methods::decode(&mut fields)?),
        2 => {
            // Class and weight say nothing.
            fields.u32()?;
            Frame::Header(channel, fields.u64()?)
        }
        3 => Frame::Body(channel, payload),
        8 => Frame::Heartbeat,
        _ => return Err(Malformed::Kind),
    })
}

/// Appends a frame of that kind, whose payload `write` appends.
fn encode_frame(kind: u8, channel: u16, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = (out.len() - at - 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.push(END);
}

/// Appends a sign of life.
pub fn encode_heartbeat(out: &mut Vec<u8>) {
    encode_frame(8, 0, out, |_| ());
}

/// Appends a message: the method, the head of its content, and the content in frames of at most `largest` bytes.
pub fn encode_publish(
    channel: u16,
    (exchange, routing_key): (&[u8], &[u8]),
    (content, is_persistent): (&[u8], bool),
    largest: usize,
    out: &mut Vec<u8>,
) {
    methods::encode_basic_publish(channel, exchange, routing_key, out);
    encode_frame(2, channel, out, |out| {
        out.extend_from_slice(&BASIC.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(content.len() as u64).to_be_bytes());
        let flags = if is_persistent { HAS_DELIVERY_MODE } else { 0 };
        out.extend_from_slice(&flags.to_be_bytes());
        if is_persistent {
            out.push(PERSISTENT);
        }
    });
    for part in content.chunks(largest.saturating_sub(FRAME_OVERHEAD).max(1)) {
        encode_frame(3, channel, out, |out| out.extend_from_slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_a_method_a_head_and_its_content_in_parts() {
        let mut out = Vec::new();
        encode_publish(1, (b"amq.topic", b"a.b"), (b"hello", true), 11, &mut out);
        let (mut rest, mut frames) = (out.as_slice(), Vec::new());
        while let Some(length) = length(rest).unwrap() {
            let (frame, after) = rest.split_at(length);
            frames.push(decode(frame).unwrap());
            rest = after;
        }
        assert_eq!(frames.len(), 4);
        assert_eq!(frames[1..], [Frame::Header(1, 5), Frame::Body(1, b"hel"), Frame::Body(1, b"lo")]);
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_no_frame_is_told_at_once() {
        assert_eq!(length(b"HTTP"), Err(Malformed::Kind));
        assert_eq!(length(&[1, 0, 0, 0xff, 0, 0, 0]), Err(Malformed::Large(0xff00_0000)));
        assert_eq!(length(&[1, 0, 0]), Ok(None));
        assert_eq!(decode(&[8, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::End));
        assert_eq!(decode(&[8, 0, 0, 0, 0, 0, 0, END]), Ok(Frame::Heartbeat));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = (length(&bytes), decode(&bytes));
        }

        #[test]
        fn any_method_is_read_or_refused(class in 0u16..100, method in 0u16..130, arguments: Vec<u8>) {
            let mut frame = vec![1, 0, 1, 0, 0, 0, 0];
            frame.extend_from_slice(&class.to_be_bytes());
            frame.extend_from_slice(&method.to_be_bytes());
            frame.extend_from_slice(&arguments);
            frame.push(END);
            let _ = decode(&frame);
        }
    }
}
