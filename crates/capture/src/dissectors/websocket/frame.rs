//! Frames of WebSocket (RFC 6455, section 5.2), and whether bytes can be frames at all.

use super::super::mqtt;
use crate::dissect::Probe;
use crate::side::Side;
use plimsoll_codec::websocket::Opcode;

/// As verbs are called.
pub(super) fn name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Continuation => "CONTINUATION",
        Opcode::Text => "TEXT",
        Opcode::Binary => "BINARY",
        Opcode::Close => "CLOSE",
        Opcode::Ping => "PING",
        Opcode::Pong => "PONG",
    }
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub opcode: Opcode,
    /// The last frame of its message.
    pub last: bool,
    /// The message is compressed (RFC 7692, section 6).
    pub compressed: bool,
    pub mask: Option<[u8; 4]>,
    /// Its bytes.
    pub length: usize,
    /// Bytes that follow it.
    pub content: u64,
}

/// Reads a header; `None` where bytes are missing.
pub(super) fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let &[first, second, ..] = bytes else { return Ok(None) };
    let Some(opcode) = Opcode::from_number(first & 15) else {
        return Err("a frame of a kind that does not exist");
    };
    let (last, compressed) = (first & 0x80 != 0, first & 0x40 != 0);
    if first & 0x30 != 0 || compressed && (opcode.is_control() || opcode == Opcode::Continuation) {
        return Err("a frame with reserved bits");
    }
    let (content, length) = match (second & 127, &bytes[2..]) {
        (126, [high, low, ..]) => (u64::from(u16::from_be_bytes([*high, *low])), 4),
        (127, [a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10),
        (126 | 127, _) => return Ok(None),
        (short, _) => (u64::from(short), 2),
    };
    let shortest = match length {
        2 => 0,
        4 => 126,
        _ => 1 << 16,
    };
    if content < shortest || content >> 63 != 0 {
        return Err("a frame whose length is not written as it must be");
    }
    if opcode.is_control() && (!last || content > 125) {
        return Err("a control frame that is cut or too long");
    }
    let masked = second & 128 != 0;
    let mask = match bytes.get(length..length + 4) {
        _ if !masked => None,
        Some(&[a, b, c, d]) => Some([a, b, c, d]),
        _ => return Ok(None),
    };
    Ok(Some(Header { opcode, last, compressed, mask, length: length + if masked { 4 } else { 0 }, content }))
}

/// Appends content without its mask, of which so many bytes were used before.
pub(super) fn unmask(bytes: &[u8], mask: Option<[u8; 4]>, used: usize, plain: &mut Vec<u8>) {
    let begin = plain.len();
    plain.extend_from_slice(bytes);
    let Some(mut mask) = mask else { return };
    mask.rotate_left(used % 4);
    let [a, b, c, d] = mask;
    let wide = [a, b, c, d, a, b, c, d];
    let (groups, rest) = plain[begin..].as_chunks_mut();
    for group in groups {
        *group = (u64::from_ne_bytes(*group) ^ u64::from_ne_bytes(wide)).to_ne_bytes();
    }
    rest.iter_mut().zip(wide).for_each(|(byte, mask)| *byte ^= mask);
}

/// Judges bytes whose conversation's beginning was not captured: whole frames up to their end, the first of which has text or
/// MQTT in it.
pub(super) fn probe(bytes: &[u8], speaker: Option<Side>, _: bool) -> Probe {
    let Ok(Some(first)) = header(bytes) else { return Probe::No };
    let says = sender(first);
    if speaker.is_some_and(|speaker| speaker != says)
        || !chained(bytes, says)
        || !first.last
        || first.compressed
    {
        return Probe::No;
    }
    let Some(content) = bytes.get(first.length..first.length + first.content as usize) else {
        return Probe::No;
    };
    let mut plain = Vec::new();
    unmask(content, first.mask, 0, &mut plain);
    let known = match first.opcode {
        Opcode::Text => plain.len() >= 4 && is_text(&plain),
        Opcode::Binary => matches!(mqtt::probe(&plain, Some(says), false), Probe::Yes(_)),
        _ => false,
    };
    if known { Probe::Yes(Some(says)) } else { Probe::No }
}

/// Whether a frame begins there.
pub(super) fn resumes(bytes: &[u8], side: Side) -> bool {
    matches!(header(bytes), Ok(Some(first)) if first.opcode != Opcode::Continuation) && chained(bytes, side)
}

fn sender(header: Header) -> Side {
    if header.mask.is_some() { Side::Client } else { Side::Server }
}

/// Whether all is frames of that side up to the end; the last may be cut where it is a long one.
fn chained(mut bytes: &[u8], side: Side) -> bool {
    while !bytes.is_empty() {
        let Ok(Some(header)) = header(bytes) else { return false };
        if sender(header) != side {
            return false;
        }
        let whole =
            usize::try_from(header.content).ok().and_then(|content| content.checked_add(header.length));
        match whole.and_then(|whole| bytes.get(whole..)) {
            Some(rest) => bytes = rest,
            None => return header.content > 125 && header.content < 1 << 32,
        }
    }
    true
}

fn is_text(plain: &[u8]) -> bool {
    std::str::from_utf8(plain).is_ok_and(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_in_three_sizes_and_only_the_shortest_is_right() {
        let content = |bytes: &[u8]| header(bytes).map(|header| header.map(|header| header.content));
        assert_eq!(content(&[0x82, 5]), Ok(Some(5)));
        assert_eq!(content(&[0x82, 126, 1, 0]), Ok(Some(256)));
        assert_eq!(content(&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]), Ok(Some(65536)));
        assert_eq!(content(&[0x82, 127, 0, 0, 0]), Ok(None));
        assert_eq!(content(&[0x82, 0x85, 0, 0, 0]), Ok(None));
        for bad in [
            &[0x82, 126, 0, 125][..],
            &[0x82, 127, 0, 0, 0, 0, 0, 0, 255, 255],
            &[0x82, 127, 255, 0, 0, 0, 0, 0, 0, 0],
            &[0x83, 0],
            &[0x92, 0],
            &[0x09, 0],
            &[0x89, 126, 1, 0],
            &[0xC9, 0],
        ] {
            assert!(header(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_mask_goes_on_where_it_was() {
        let mut whole = Vec::new();
        unmask(b"abcdefghij", Some([1, 2, 3, 4]), 0, &mut whole);
        let mut pieces = Vec::new();
        unmask(b"abc", Some([1, 2, 3, 4]), 0, &mut pieces);
        unmask(b"defghij", Some([1, 2, 3, 4]), 3, &mut pieces);
        assert_eq!(whole, pieces);
    }
}
