//! Data representations (MQTT 5 section 1.5): integers, variable byte integers, texts and binary data.

use super::{LARGEST_REMAINING_LENGTH, Malformed, PacketType, Unencodable, Violation};

/// A variable byte integer at the start of `bytes`, with the number of its bytes; `None` when more are needed.
pub(super) fn variable_at(bytes: &[u8]) -> Result<Option<(u32, usize)>, Malformed> {
    let mut value = 0;
    for (position, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok(Some((value, position + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err(Malformed::LengthTooLong) }
}

/// How many bytes a variable byte integer takes at least.
pub(super) fn variable_width(value: u32) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ => 4,
    }
}

/// Takes a packet apart, field by field.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Refuses a packet that goes on after its last field.
    pub(super) fn finish(self, packet: PacketType) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(Malformed::Trailing { packet, count }),
        }
    }

    pub(super) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated { field })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated { field })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// A variable byte integer of MQTT 5, which must be as short as can be.
    pub(super) fn variable(&mut self, field: &'static str) -> Result<u32, Malformed> {
        let (value, width) = variable_at(self.rest)?.ok_or(Malformed::Truncated { field })?;
        if width != variable_width(value) {
            return Err(Malformed::LengthNotShortest);
        }
        self.take(width, field)?;
        Ok(value)
    }

    pub(super) fn binary(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u16(field)?;
        self.take(usize::from(length), field)
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<&'a str, Malformed> {
        let bytes = self.binary(field)?;
        let text = str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8 { field })?;
        without_nul(text, field)?;
        Ok(text)
    }
}

/// Refuses U+0000, which no text may contain (MQTT 5 section 1.5.4).
pub(super) fn without_nul(text: &str, field: &'static str) -> Result<(), Violation> {
    match memchr::memchr(0, text.as_bytes()) {
        Some(_) => Err(Violation::Nul { field }),
        None => Ok(()),
    }
}

pub(super) fn write_binary(bytes: &[u8], field: &'static str, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    let length = bytes.len();
    let prefix = u16::try_from(length).map_err(|_| Unencodable::FieldTooLong { field, length })?;
    out.extend_from_slice(&prefix.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

pub(super) fn write_text(text: &str, field: &'static str, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    without_nul(text, field)?;
    write_binary(text.as_bytes(), field, out)
}

/// The bytes of a variable byte integer, of which the second number says how many count.
pub(super) fn variable_bytes(length: usize) -> Result<([u8; 4], usize), Unencodable> {
    if length > LARGEST_REMAINING_LENGTH {
        return Err(Unencodable::TooLong { length });
    }
    let value = length as u32;
    let width = variable_width(value);
    let mut bytes = [0; 4];
    for (position, byte) in bytes.iter_mut().take(width).enumerate() {
        let more = if position + 1 < width { 0x80 } else { 0 };
        *byte = (value >> (7 * position)) as u8 & 0x7f | more;
    }
    Ok((bytes, width))
}

pub(super) fn write_variable(length: usize, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    let (bytes, width) = variable_bytes(length)?;
    out.extend(bytes.into_iter().take(width));
    Ok(())
}

/// Puts the length of what stands from `begin` on before it.
pub(super) fn insert_length(begin: usize, out: &mut Vec<u8>) -> Result<(), Unencodable> {
    let (bytes, width) = variable_bytes(out.len() - begin)?;
    drop(out.splice(begin..begin, bytes.into_iter().take(width)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MQTT 5 table 1-1: the ends of the ranges.
    const RANGES: [(u32, &[u8]); 8] = [
        (0, &[0x00]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 0x01]),
        (2_097_151, &[0xff, 0xff, 0x7f]),
        (2_097_152, &[0x80, 0x80, 0x80, 0x01]),
        (268_435_455, &[0xff, 0xff, 0xff, 0x7f]),
    ];

    #[test]
    fn variable_byte_integers_match_the_table_of_the_standard() {
        for (value, bytes) in RANGES {
            assert_eq!(variable_at(bytes), Ok(Some((value, bytes.len()))));
            assert_eq!(variable_at(&bytes[..bytes.len() - 1]), Ok(None));
            let mut written = Vec::new();
            write_variable(value as usize, &mut written).unwrap();
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn a_variable_byte_integer_has_four_bytes_at_most() {
        assert_eq!(variable_at(&[0x80, 0x80, 0x80, 0x80]), Err(Malformed::LengthTooLong));
        assert_eq!(variable_bytes(268_435_456), Err(Unencodable::TooLong { length: 268_435_456 }));
    }

    #[test]
    fn mqtt_5_wants_the_shortest_form() {
        assert_eq!(Reader::new(&[0x80, 0x00]).variable("length"), Err(Malformed::LengthNotShortest));
    }

    #[test]
    fn texts_are_utf_8_without_nul() {
        assert_eq!(Reader::new(b"\0\x03a\xc3\xa9").text("text"), Ok("a\u{e9}"));
        assert_eq!(Reader::new(b"\0\x01\xc3").text("text"), Err(Malformed::NotUtf8 { field: "text" }));
        // A surrogate, which MQTT 5 section 1.5.4 forbids by name.
        assert_eq!(
            Reader::new(b"\0\x03\xed\xa0\x80").text("text"),
            Err(Malformed::NotUtf8 { field: "text" })
        );
        assert_eq!(Reader::new(b"\0\x01\0").text("text"), Err(Violation::Nul { field: "text" }.into()));
        assert_eq!(Reader::new(b"\0\x02a").text("text"), Err(Malformed::Truncated { field: "text" }));
    }
}
