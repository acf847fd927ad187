//! The uppermost keys of a BSON document (BSON specification, version 1.1), which may be cut short.

use memchr::memchr;
use plimsoll_model::wire::Label;

/// An element: its name, its type, and its value's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub name: &'a [u8],
    pub kind: u8,
    pub value: &'a [u8],
}

/// Walks over the elements of a document, as far as they are whole.
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

/// The elements of a document, that stands at the beginning of those bytes.
pub(super) fn elements(document: &[u8]) -> Elements<'_> {
    let length = number(document, 0).unwrap_or(0) as usize;
    let end = length.saturating_sub(1).min(document.len());
    Elements { rest: document.get(4..end).unwrap_or_default() }
}

/// The first key of a document, its value not needed.
pub(super) fn first_key(document: &[u8]) -> Option<&[u8]> {
    let named = document.get(5..)?;
    named.get(..memchr(0, named)?)
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, named) = self.rest.split_first()?;
        let end = memchr(0, named)?;
        let (name, value) = (&named[..end], &named[end + 1..]);
        let text = || memchr(0, value).map(|end| end + 1);
        let sized = |more: usize| number(value, 0).map(|size| (size as usize).saturating_add(more));
        let length = match kind {
            0x06 | 0x0a | 0x7f | 0xff => Some(0),
            0x08 => Some(1),
            0x10 => Some(4),
            0x01 | 0x09 | 0x11 | 0x12 => Some(8),
            0x07 => Some(12),
            0x13 => Some(16),
            // Text, code, symbol, binary.
            0x02 | 0x0d | 0x0e => sized(4),
            0x05 => sized(5),
            0x03 | 0x04 | 0x0f => sized(0).filter(|&size| size >= 5),
            // A pointer, and a regular expression.
            0x0c => sized(16),
            0x0b => text().and_then(|first| Some(first + memchr(0, &value[first..])? + 1)),
            _ => None,
        };
        let length = length.filter(|&length| length <= value.len());
        self.rest = length.map_or(&[], |length| &value[length..]);
        Some(Element { name, kind, value: &value[..length?] })
    }
}

impl Element<'_> {
    /// A number, as far as an integer can tell it.
    pub fn integer(&self) -> Option<i64> {
        match self.kind {
            0x01 => Some(f64::from_le_bytes(*self.value.first_chunk()?) as i64),
            0x08 => self.value.first().map(|&truth| i64::from(truth)),
            0x10 => Some(i64::from(i32::from_le_bytes(*self.value.first_chunk()?))),
            0x12 => Some(i64::from_le_bytes(*self.value.first_chunk()?)),
            _ => None,
        }
    }

    /// A text, as far as a label holds it.
    pub fn text(&self) -> Option<Label> {
        let text = self.value.get(4..self.value.len().checked_sub(1)?).filter(|_| self.kind == 0x02)?;
        Some(Label::from_bytes(text))
    }
}

/// Four bytes, the lowest first.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_of_all_types_are_stepped_over() {
        let mut document = vec![0; 4];
        for (kind, value) in [
            (1_u8, &1.5_f64.to_le_bytes()[..]),
            (2, b"\x03\0\0\0hi\0"),
            (3, b"\x05\0\0\0\0"),
            (4, b"\x05\0\0\0\0"),
            (5, b"\x02\0\0\0\0xy"),
            (7, &[0; 12]),
            (8, &[1]),
            (9, &[0; 8]),
            (10, b""),
            (11, b"a\0i\0"),
            (12, b"\x02\0\0\0x\0aaaaaaaaaaaa"),
            (13, b"\x02\0\0\0x\0"),
            (15, b"\x05\0\0\0\0"),
            (16, &7_i32.to_le_bytes()),
            (17, &[0; 8]),
            (18, &8_i64.to_le_bytes()),
            (19, &[0; 16]),
            (255, b""),
        ] {
            document.extend([&[kind], format!("k{kind}\0").as_bytes(), value].concat());
        }
        document.push(0);
        let length = document.len() as u32;
        document[..4].copy_from_slice(&length.to_le_bytes());
        let seen: Vec<(u8, Option<i64>)> =
            elements(&document).map(|found| (found.kind, found.integer())).collect();
        assert_eq!(seen.len(), 18);
        assert_eq!(seen.iter().filter_map(|(_, integer)| *integer).collect::<Vec<_>>(), [1, 1, 7, 8]);
        assert_eq!(elements(&document).find_map(|found| found.text()), Some(Label::new("hi")));
        assert_eq!(first_key(&document), Some(&b"k1"[..]));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            elements(&bytes).for_each(|found| {
                found.integer();
                found.text();
            });
            first_key(&bytes);
        }
    }
}
