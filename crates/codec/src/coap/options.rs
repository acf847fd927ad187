//! The options of a message (RFC 7252 section 3.1): read one after the other, written in the order of their numbers.

use super::{Malformed, PAYLOAD_MARKER};

/// Numbers of options (RFC 7252 section 5.10, RFC 7641, RFC 7959).
pub mod option {
    /// The host that a request is for.
    pub const URI_HOST: u16 = 3;
    /// ETag.
    pub const ETAG: u16 = 4;
    /// Observe.
    pub const OBSERVE: u16 = 6;
    /// The port that a request is for.
    pub const URI_PORT: u16 = 7;
    /// A part of the path at which something was created.
    pub const LOCATION_PATH: u16 = 8;
    /// A part of the path.
    pub const URI_PATH: u16 = 11;
    /// Format of the payload.
    pub const CONTENT_FORMAT: u16 = 12;
    /// How long an answer is fresh, in seconds.
    pub const MAX_AGE: u16 = 14;
    /// A part of the query.
    pub const URI_QUERY: u16 = 15;
    /// The format that an answer should have.
    pub const ACCEPT: u16 = 17;
    /// The block of an answer.
    pub const BLOCK2: u16 = 23;
    /// The block of a request.
    pub const BLOCK1: u16 = 27;
    /// Size of the whole answer.
    pub const SIZE2: u16 = 28;
    /// Size of the whole request.
    pub const SIZE1: u16 = 60;
}

/// Longest value that can be written, in bytes.
const LONGEST: usize = 269 + 0xffff;

/// The options of a message that was read, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    number: u16,
}

impl<'a> Options<'a> {
    /// Of bytes that begin with options.
    pub fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { rest: bytes, number: 0 }
    }

    /// The next option's number and value; `None` at the payload or the end.
    fn next_option(&mut self) -> Result<Option<(u16, &'a [u8])>, Malformed> {
        let (first, rest) = match self.rest.split_first() {
            None | Some((&PAYLOAD_MARKER, _)) => return Ok(None),
            Some((&first, rest)) => (first, rest),
        };
        let (delta, rest) = extended(first >> 4, rest)?;
        let (length, rest) = extended(first & 0x0f, rest)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.number = u16::try_from(usize::from(self.number) + delta).map_err(|_| Malformed)?;
        self.rest = rest;
        Ok(Some((self.number, value)))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    /// What is malformed ends them; a message that was decoded has nothing such.
    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        self.next_option().ok().flatten()
    }
}

/// How many of the bytes are options.
pub(super) fn length(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut options = Options::new(bytes);
    while options.next_option()?.is_some() {}
    Ok(bytes.len() - options.rest.len())
}

fn extended(nibble: u8, bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    match nibble {
        13 => bytes.split_first().map(|(&byte, rest)| (usize::from(byte) + 13, rest)).ok_or(Malformed),
        14 => {
            let (&pair, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
            Ok((usize::from(u16::from_be_bytes(pair)) + 269, rest))
        }
        15 => Err(Malformed),
        value => Ok((usize::from(value), bytes)),
    }
}

/// A whole number as the value of an option (section 3.2); `None` beyond four bytes.
pub(super) fn read_number(value: &[u8]) -> Option<u32> {
    (value.len() <= 4).then(|| value.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Options to be written, added in any order; those with the same number keep theirs. Cleared, it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct OptionList {
    /// Number, and where in `values` its value begins and ends.
    entries: Vec<(u16, u32, u32)>,
    values: Vec<u8>,
}

impl OptionList {
    /// None yet.
    pub fn new() -> OptionList {
        OptionList::default()
    }

    /// Puts those of another list in the place of what is there, without new memory where there is room.
    pub fn copy_from(&mut self, other: &OptionList) {
        self.entries.clone_from(&other.entries);
        self.values.clone_from(&other.values);
    }

    /// Takes all of them out.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.values.clear();
    }

    /// Adds an option; what no option can hold (beyond 65,804 bytes) is cut.
    pub fn add(&mut self, number: u16, value: &[u8]) {
        let begin = self.values.len() as u32;
        self.values.extend_from_slice(value.get(..LONGEST).unwrap_or(value));
        self.enter(number, begin);
    }

    /// Adds a whole number, in as few bytes as it needs (section 3.2).
    pub fn add_number(&mut self, number: u16, value: u32) {
        let begin = self.values.len() as u32;
        let bytes = value.to_be_bytes();
        let zeros = value.leading_zeros() as usize / 8;
        self.values.extend_from_slice(bytes.get(zeros..).unwrap_or_default());
        self.enter(number, begin);
    }

    /// Adds the parts of a path and, behind `?`, of a query (section 6.4). They stand as they are: nothing is escaped,
    /// and empty parts are left out.
    pub fn add_target(&mut self, target: &[u8]) {
        let question = target.iter().position(|byte| *byte == b'?');
        let (path, query) = match question.and_then(|at| target.split_at_checked(at)) {
            Some((path, query)) => (path, query.get(1..).unwrap_or_default()),
            None => (target, &[][..]),
        };
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            self.add(option::URI_PATH, part);
        }
        for part in query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
            self.add(option::URI_QUERY, part);
        }
    }

    /// Numbers and values, in the order of writing.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.entries.iter().map(|&(number, begin, end)| {
            (number, self.values.get(begin as usize..end as usize).unwrap_or_default())
        })
    }

    /// Appends them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut before = 0;
        for (number, value) in self.iter() {
            let (delta, length) = (usize::from(number - before), value.len());
            out.push(nibble(delta) << 4 | nibble(length));
            extension(delta, out);
            extension(length, out);
            out.extend_from_slice(value);
            before = number;
        }
    }

    /// Puts the value that stands at the end of `values` into its place in the order.
    fn enter(&mut self, number: u16, begin: u32) {
        let place = self.entries.partition_point(|(known, ..)| *known <= number);
        self.entries.insert(place, (number, begin, self.values.len() as u32));
    }
}

fn nibble(value: usize) -> u8 {
    match value {
        0..=12 => value as u8,
        13..=268 => 13,
        _ => 14,
    }
}

fn extension(value: usize, out: &mut Vec<u8>) {
    match value {
        0..=12 => {}
        13..=268 => out.push((value - 13) as u8),
        _ => out.extend(((value - 269) as u16).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(list: &OptionList) -> Vec<u8> {
        let mut out = Vec::new();
        list.encode(&mut out);
        out
    }

    #[test]
    fn a_target_becomes_path_and_query_and_numbers_are_short() {
        let mut list = OptionList::new();
        list.add_number(option::CONTENT_FORMAT, 50);
        list.add_number(option::OBSERVE, 0);
        list.add_target(b"/cse-in/d1?a=1&b");
        list.add_number(267, 4);
        let options: Vec<(u16, Vec<u8>)> =
            Options::new(&written(&list)).map(|(number, value)| (number, value.to_vec())).collect();
        let expected: [(u16, &[u8]); 7] =
            [(6, b""), (11, b"cse-in"), (11, b"d1"), (12, &[50]), (15, b"a=1"), (15, b"b"), (267, &[4])];
        assert_eq!(options, expected.map(|(number, value)| (number, value.to_vec())));
        assert_eq!(read_number(&[]), Some(0));
        assert_eq!(read_number(&[1, 0]), Some(256));
        assert_eq!(read_number(&[0; 5]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_in_any_order_is_read_in_that_of_the_numbers(
            options in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..400)), 0..12)
        ) {
            let mut list = OptionList::new();
            options.iter().for_each(|(number, value)| list.add(*number, value));
            let bytes = written(&list);
            prop_assert_eq!(length(&bytes), Ok(bytes.len()));
            let mut sorted = options;
            sorted.sort_by_key(|(number, _)| *number);
            let read: Vec<(u16, Vec<u8>)> =
                Options::new(&bytes).map(|(number, value)| (number, value.to_vec())).collect();
            prop_assert_eq!(read, sorted);
        }

        #[test]
        fn whole_numbers_survive(number: u32) {
            let mut list = OptionList::new();
            list.add_number(option::SIZE1, number);
            let bytes = written(&list);
            let value = Options::new(&bytes).next().map(|(_, value)| value.to_vec()).unwrap();
            prop_assert!(value.first() != Some(&0));
            prop_assert_eq!(read_number(&value), Some(number));
        }
    }
}
