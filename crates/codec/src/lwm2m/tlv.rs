//! TLV (1.0 core, section 6.4.3; 1.1, section 7.4.3): type, identifier, length, value, one entry after the other.

use super::{Kind, Malformed, Value};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An instance of an object, with entries of its resources.
    ObjectInstance,
    /// One of several values of a resource.
    ResourceInstance,
    /// A resource with several values, each of them an entry.
    MultipleResource,
    /// A resource with its value.
    Resource,
}

/// An entry as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub level: Level,
    /// Its number.
    pub id: u16,
    /// Its value: bytes, or further entries.
    pub value: &'a [u8],
}

/// The longest value that an entry can have, in bytes.
pub const LONGEST: usize = (1 << 24) - 1;
/// Bit of the type that says that the number has two bytes.
const WIDE_ID: u8 = 0x20;

const TOO_SHORT: Malformed = Malformed { format: "TLV", what: "it ends within an entry" };

/// The entries of a payload, one after the other. The first malformed one is the last.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Of a payload, or of the value of an entry that has entries.
    pub fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries { rest: bytes }
    }

    fn entry(&mut self) -> Result<Entry<'a>, Malformed> {
        let (&kind, rest) = self.rest.split_first().ok_or(TOO_SHORT)?;
        let (id, rest) = number(rest, if kind & WIDE_ID == 0 { 1 } else { 2 })?;
        let (length, rest) = match kind >> 3 & 3 {
            0 => (u32::from(kind & 7), rest),
            bytes => number(rest, usize::from(bytes))?,
        };
        let (value, rest) = rest.split_at_checked(length as usize).ok_or(TOO_SHORT)?;
        self.rest = rest;
        let level = match kind >> 6 {
            0 => Level::ObjectInstance,
            1 => Level::ResourceInstance,
            2 => Level::MultipleResource,
            _ => Level::Resource,
        };
        Ok(Entry { level, id: id as u16, value })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Result<Entry<'a>, Malformed>> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

/// A number of so many bytes, big endian, and what follows.
fn number(bytes: &[u8], length: usize) -> Result<(u32, &[u8]), Malformed> {
    let (number, rest) = bytes.split_at_checked(length).ok_or(TOO_SHORT)?;
    Ok((number.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)), rest))
}

/// Appends an entry. Of a value beyond [`LONGEST`] its beginning is written.
pub fn write(level: Level, id: u16, value: &[u8], out: &mut Vec<u8>) {
    let value = value.get(..LONGEST).unwrap_or(value);
    head(level, id, value.len(), out);
    out.extend_from_slice(value);
}

/// Appends an entry with one value.
pub fn write_entry(level: Level, id: u16, value: Value<'_>, out: &mut Vec<u8>) {
    let begin = out.len();
    write_value(value, out);
    out.truncate(begin + LONGEST);
    let end = out.len();
    // Its length is known now, and stands before it.
    head(level, id, end - begin, out);
    let of_head = out.len() - end;
    if let Some(entry) = out.get_mut(begin..) {
        entry.rotate_right(of_head);
    }
}

/// What stands before the value of an entry: its type, its number and the length of the value.
fn head(level: Level, id: u16, length: usize, out: &mut Vec<u8>) {
    let level = match level {
        Level::ObjectInstance => 0,
        Level::ResourceInstance => 1,
        Level::MultipleResource => 2,
        Level::Resource => 3_u8,
    };
    let bytes = match length {
        0..=7 => 0,
        8..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 3_u8,
    };
    let short = if bytes == 0 { length as u8 } else { 0 };
    let wide = if id > 0xff { WIDE_ID } else { 0 };
    out.push(level << 6 | wide | bytes << 3 | short);
    let [high, low] = id.to_be_bytes();
    if wide != 0 {
        out.push(high);
    }
    out.push(low);
    out.extend_from_slice((length as u32).to_be_bytes().get(4 - usize::from(bytes)..).unwrap_or_default());
}

/// Appends a value as the bytes of an entry (appendix C): whole numbers in as few bytes as allowed.
pub fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Integer(number) | Value::Time(number) => {
            if let Ok(number) = i8::try_from(number) {
                out.extend(number.to_be_bytes());
            } else if let Ok(number) = i16::try_from(number) {
                out.extend(number.to_be_bytes());
            } else if let Ok(number) = i32::try_from(number) {
                out.extend(number.to_be_bytes());
            } else {
                out.extend(number.to_be_bytes());
            }
        }
        Value::Float(number) => out.extend(number.to_be_bytes()),
        Value::Boolean(is_true) => out.push(u8::from(is_true)),
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Opaque(bytes) => out.extend_from_slice(bytes),
        Value::ObjectLink(object, instance) => {
            out.extend(object.to_be_bytes());
            out.extend(instance.to_be_bytes());
        }
    }
}

/// The bytes of an entry as a value of that kind; `None` where they are none.
pub fn read_value(bytes: &[u8], kind: Kind) -> Option<Value<'_>> {
    Some(match kind {
        Kind::Integer => Value::Integer(whole(bytes)?),
        Kind::Time => Value::Time(whole(bytes)?),
        Kind::Float => Value::Float(match *bytes {
            [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
            _ => f64::from_be_bytes(bytes.try_into().ok()?),
        }),
        Kind::Boolean => Value::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        Kind::String => Value::String(std::str::from_utf8(bytes).ok()?),
        Kind::Opaque => Value::Opaque(bytes),
        Kind::ObjectLink => match *bytes {
            [a, b, c, d] => Value::ObjectLink(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            _ => return None,
        },
    })
}

/// A whole number of one, two, four or eight bytes.
fn whole(bytes: &[u8]) -> Option<i64> {
    Some(match *bytes {
        [a] => i64::from(i8::from_be_bytes([a])),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        _ => i64::from_be_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_manufacturer_of_the_standard_is_read_and_written() {
        // 1.0 core, section 6.4.3.1: resource 0, 20 bytes, "Open Mobile Alliance".
        let mut expected = vec![0xc8, 0x00, 0x14];
        expected.extend_from_slice(b"Open Mobile Alliance");
        let mut out = Vec::new();
        write(Level::Resource, 0, b"Open Mobile Alliance", &mut out);
        assert_eq!(out, expected);
        let entries: Vec<_> = Entries::new(&expected).collect();
        let entry = Entry { level: Level::Resource, id: 0, value: b"Open Mobile Alliance" };
        assert_eq!(entries, [Ok(entry)]);
    }

    #[test]
    fn several_values_are_entries_in_an_entry() {
        // The same section: available power sources 1 and 5.
        let mut inner = Vec::new();
        write(Level::ResourceInstance, 0, &[1], &mut inner);
        write(Level::ResourceInstance, 1, &[5], &mut inner);
        let mut out = Vec::new();
        write(Level::MultipleResource, 6, &inner, &mut out);
        assert_eq!(out, [0x86, 6, 0x41, 0, 1, 0x41, 1, 5]);
    }

    #[test]
    fn numbers_and_lengths_take_the_bytes_that_they_need() {
        for (length, head) in [(7, vec![0xe7, 0x16, 0x44]), (8, vec![0xe8, 0x16, 0x44, 8])] {
            let mut out = Vec::new();
            write(Level::Resource, 5700, &vec![0; length], &mut out);
            assert_eq!(out[..head.len()], head, "{length}");
        }
        let mut out = Vec::new();
        write(Level::Resource, 1, &vec![0; 0x1_0000], &mut out);
        assert_eq!(out[..5], [0xd8, 1, 1, 0, 0]);
        for (number, bytes) in [(127, 1), (128, 2), (-32_768, 2), (32_768, 4), (1 << 40, 8)] {
            let mut out = Vec::new();
            write_value(Value::Integer(number), &mut out);
            assert_eq!(out.len(), bytes, "{number}");
        }
    }

    #[test]
    fn what_ends_too_soon_is_malformed() {
        for bytes in [&[0xc1][..], &[0xe1, 0], &[0xc8, 0], &[0xc2, 0, 1], &[0xd8, 0, 0, 1]] {
            assert_eq!(Entries::new(bytes).last(), Some(Err(TOO_SHORT)), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn entries_survive(id: u16, value in prop::collection::vec(any::<u8>(), 0..600), level in 0..4_u8) {
            let level = [Level::ObjectInstance, Level::ResourceInstance, Level::MultipleResource, Level::Resource]
                [usize::from(level)];
            let mut out = Vec::new();
            write(level, id, &value, &mut out);
            let entries: Vec<_> = Entries::new(&out).collect();
            prop_assert_eq!(entries, [Ok(Entry { level, id, value: &value })]);
            let mut at_once = b"before".to_vec();
            write_entry(level, id, Value::Opaque(&value), &mut at_once);
            prop_assert_eq!(at_once, [b"before", out.as_slice()].concat());
        }

        #[test]
        fn values_survive(integer: i64, float: f64, is_true: bool, text: String, object: u16) {
            let of = [
                Value::Integer(integer), Value::Time(integer), Value::Float(float), Value::Boolean(is_true),
                Value::String(&text), Value::Opaque(text.as_bytes()), Value::ObjectLink(object, 3),
            ];
            for value in of.into_iter().filter(|_| !float.is_nan()) {
                let mut out = Vec::new();
                write_value(value, &mut out);
                prop_assert_eq!(read_value(&out, value.kind()), Some(value));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for entry in Entries::new(&bytes).flatten() {
                prop_assert!(Kind::ALL.into_iter().any(|kind| read_value(entry.value, kind).is_some()), "bytes are opaque");
            }
        }
    }
}
