//! CoAP messages over a stream, TCP or TLS (RFC 8323): each one begins with its length. They have no type and no id, since a
//! stream neither loses nor doubles anything.

use super::{Kind, LONGEST_TOKEN, Malformed, Message, OptionList, options, write_payload};

/// Codes of messages about the connection itself (RFC 8323 section 5).
pub mod signal {
    /// Capabilities and settings, the first message of each side.
    pub const CSM: u8 = 0xe1;
    /// Ping.
    pub const PING: u8 = 0xe2;
    /// Pong.
    pub const PONG: u8 = 0xe3;
    /// The connection is closed when what was asked is answered.
    pub const RELEASE: u8 = 0xe4;
    /// The connection is closed at once.
    pub const ABORT: u8 = 0xe5;
    /// Of [`CSM`]: the longest message that is taken, in bytes.
    pub const MAX_MESSAGE_SIZE: u16 = 2;
    /// Of [`CSM`]: bodies in blocks are understood.
    pub const BLOCK_WISE_TRANSFER: u16 = 4;
    /// Of [`ABORT`]: the option of a CSM that was not understood.
    pub const BAD_CSM_OPTION: u16 = 2;
    /// Of [`RELEASE`]: seconds before the next connection.
    pub const HOLD_OFF: u16 = 4;

    /// Whether a code is one of these, known or not.
    pub fn is_signal(code: u8) -> bool {
        code >> 5 == 7
    }
}

/// The longest message that a peer takes which does not say otherwise (RFC 8323 section 5.3.1), in bytes.
pub const DEFAULT_MAX_MESSAGE_SIZE: u32 = 1_152;

/// Lengths that need one, two or four bytes more (section 3.2).
const ONE_BYTE: usize = 13;
const TWO_BYTES: usize = 269;
const FOUR_BYTES: usize = 65_805;

/// What the beginning of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A message, and the bytes that it takes. Its type and its id mean nothing.
    Message(Message<'a>, usize),
    /// The beginning of one. So many bytes are there when it is whole, as far as that is known.
    Part(usize),
}

/// Reads the message at the beginning of some bytes.
///
/// # Errors
/// [`Malformed`], also for a message of more than `most` bytes: the stream is of no use any more.
pub fn decode(bytes: &[u8], most: usize) -> Result<Frame<'_>, Malformed> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(Frame::Part(2)) };
    let token_length = usize::from(first & 0x0f);
    if token_length > LONGEST_TOKEN {
        return Err(Malformed);
    }
    let (more, base) = match first >> 4 {
        13 => (1, ONE_BYTE),
        14 => (2, TWO_BYTES),
        15 => (4, FOUR_BYTES),
        length => (0, usize::from(length)),
    };
    let header = 2 + more + token_length;
    let Some((extended, rest)) = rest.split_at_checked(more) else { return Ok(Frame::Part(header)) };
    let extended = extended.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    let whole = extended.checked_add(base + header).filter(|whole| *whole <= most).ok_or(Malformed)?;
    if bytes.len() < whole {
        return Ok(Frame::Part(whole));
    }
    let (&code, rest) = rest.split_first().ok_or(Malformed)?;
    let (token, rest) = rest.split_at_checked(token_length).ok_or(Malformed)?;
    let body = rest.get(..extended + base).ok_or(Malformed)?;
    let (options, rest) = body.split_at_checked(options::length(body)?).ok_or(Malformed)?;
    let payload = match rest.split_first() {
        None => &[][..],
        // A marker without a payload is a format error (RFC 7252 section 3).
        Some((_, [])) => return Err(Malformed),
        Some((_, payload)) => payload,
    };
    let message = Message { kind: Kind::NonConfirmable, code, id: 0, token, options, payload };
    Ok(Frame::Message(message, whole))
}

/// Bytes of options, marker and payload, which are those that the length counts.
fn counted(message: &Message<'_>) -> usize {
    message.options.len() + usize::from(!message.payload.is_empty()) + message.payload.len()
}

/// Bytes of a message as a whole.
pub fn length(message: &Message<'_>) -> usize {
    let counted = counted(message);
    let more = match counted {
        FOUR_BYTES.. => 4,
        TWO_BYTES.. => 2,
        ONE_BYTE.. => 1,
        _ => 0,
    };
    2 + more + message.token.len().min(LONGEST_TOKEN) + counted
}

/// Appends a message. A token beyond 8 bytes is cut.
pub fn encode(message: &Message<'_>, out: &mut Vec<u8>) {
    let token = message.token.get(..LONGEST_TOKEN).unwrap_or(message.token);
    let length = counted(message);
    let nibble = match length {
        FOUR_BYTES.. => 15,
        TWO_BYTES.. => 14,
        ONE_BYTE.. => 13,
        _ => length,
    };
    out.push((nibble as u8) << 4 | token.len() as u8);
    match length {
        FOUR_BYTES.. => out.extend(((length - FOUR_BYTES) as u32).to_be_bytes()),
        TWO_BYTES.. => out.extend(((length - TWO_BYTES) as u16).to_be_bytes()),
        ONE_BYTE.. => out.push((length - ONE_BYTE) as u8),
        _ => {}
    }
    out.push(message.code);
    out.extend_from_slice(token);
    write_payload(message, out);
}

/// Appends a message of these parts.
pub fn append(code: u8, token: &[u8], options: &OptionList, payload: &[u8], out: &mut Vec<u8>) {
    let mut encoded = Vec::new();
    options.encode(&mut encoded);
    let kind = Kind::NonConfirmable;
    encode(&Message { kind, code, id: 0, token, options: &encoded, payload }, out);
}

#[cfg(test)]
mod tests {
    use super::super::{code, option};
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 1 << 20;

    fn message<'a>(code: u8, token: &'a [u8], options: &'a [u8], payload: &'a [u8]) -> Message<'a> {
        Message { kind: Kind::NonConfirmable, code, id: 0, token, options, payload }
    }

    /// A response with a token of one byte and a payload, as figure 4 of RFC 8323 lays it out.
    #[test]
    fn a_message_begins_with_its_length() {
        let bytes = [0x31, code::CONTENT, 0x7f, 0xff, b'h', b'i'];
        let expected = message(code::CONTENT, &[0x7f], &[], b"hi");
        assert_eq!(decode(&bytes, MOST), Ok(Frame::Message(expected, 6)));
        let mut out = Vec::new();
        encode(&expected, &mut out);
        assert_eq!(out, bytes);
        // The shortest message: a ping without anything.
        assert_eq!(
            decode(&[0, signal::PING], MOST),
            Ok(Frame::Message(message(signal::PING, b"", b"", b""), 2))
        );
        assert!(signal::is_signal(0xff) && !signal::is_signal(code::CONTENT));
    }

    #[test]
    fn lengths_have_up_to_four_bytes_more() {
        for (payload, header) in [(12, 2), (13, 3), (268, 3), (269, 4), (65_804, 4), (65_805, 6)] {
            // The marker counts, too.
            let payload = vec![7; payload - 1];
            let mut out = Vec::new();
            encode(&message(code::POST, b"", b"", &payload), &mut out);
            assert_eq!(out.len(), header + 1 + payload.len());
            assert_eq!(
                decode(&out, MOST),
                Ok(Frame::Message(message(code::POST, b"", b"", &payload), out.len()))
            );
        }
    }

    #[test]
    fn what_is_too_long_or_no_message_is_malformed() {
        for bytes in [
            &[0x09, code::GET][..],
            &[0x0f, code::GET],
            &[0xf0, 0xff, 0xff, 0xff, 0xff, code::GET],
            &[0xe0, 0xff, 0xff, code::GET],
            &[0x10, code::GET, 0xff],
            &[0x10, code::GET, 0xf0],
            &[0x20, code::GET, 0xb5, b'a'],
        ] {
            assert_eq!(decode(bytes, 1_024), Err(Malformed), "{bytes:x?}");
        }
    }

    #[test]
    fn capabilities_are_options() {
        let (mut list, mut options) = (OptionList::new(), Vec::new());
        list.add_number(signal::MAX_MESSAGE_SIZE, 8_192);
        list.add(signal::BLOCK_WISE_TRANSFER, b"");
        list.encode(&mut options);
        let mut out = Vec::new();
        encode(&message(signal::CSM, b"", &options, b""), &mut out);
        let Ok(Frame::Message(csm, _)) = decode(&out, MOST) else { panic!("{out:x?}") };
        assert_eq!(csm.number(signal::MAX_MESSAGE_SIZE), Some(8_192));
        assert_eq!(
            (csm.option(signal::BLOCK_WISE_TRANSFER), csm.option(option::BLOCK1)),
            (Some(&b""[..]), None)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_written_back(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Frame::Message(message, length)) = decode(&bytes, MOST) {
                let mut out = Vec::new();
                encode(&message, &mut out);
                prop_assert_eq!(decode(&out, MOST), Ok(Frame::Message(message, out.len())));
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn a_message_is_whole_with_its_last_byte(token in prop::collection::vec(any::<u8>(), 0..=8), payload in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut out = Vec::new();
            encode(&message(code::POST, &token, b"", &payload), &mut out);
            for there in 0..out.len() {
                let Ok(Frame::Part(whole)) = decode(&out[..there], MOST) else { panic!("{there} of {out:x?}") };
                prop_assert!(whole > there && whole <= out.len());
            }
            prop_assert_eq!(length(&message(code::POST, &token, b"", &payload)), out.len());
            prop_assert_eq!(decode(&out, MOST), Ok(Frame::Message(message(code::POST, &token, b"", &payload), out.len())));
        }
    }
}
