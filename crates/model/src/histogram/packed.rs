//! A histogram in little memory: its occupied buckets alone, as a rule in two to four bytes each.

use super::layout::{highest, index_of};
use std::iter::Peekable;

/// The occupied buckets of a histogram in rising order: for each the distance from the one before and its count, as
/// variable-length integers (LEB128).
#[derive(Clone, Debug, Default)]
pub struct Packed {
    bytes: Box<[u8]>,
    total: u64,
}

impl Packed {
    /// Packs buckets that come in rising order: any value of each, and its count.
    pub fn of(buckets: impl Iterator<Item = (u64, u64)>) -> Packed {
        let (mut bytes, mut total, mut last) = (Vec::new(), 0u64, 0);
        for (value, count) in buckets.filter(|&(_, count)| count > 0) {
            let index = index_of(value);
            write(&mut bytes, index - last);
            write(&mut bytes, count);
            last = index;
            total = total.saturating_add(count);
        }
        Packed { bytes: bytes.into_boxed_slice(), total }
    }

    /// Adds buckets that come in rising order.
    pub fn add(&mut self, buckets: impl Iterator<Item = (u64, u64)>) {
        let merged = Merged { left: self.buckets().peekable(), right: buckets.peekable() };
        *self = Packed::of(merged);
    }

    /// Observations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The highest value of each occupied bucket and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut index) = (&*self.bytes, 0);
        std::iter::from_fn(move || {
            index += read(&mut rest)?;
            Some((highest(index), read(&mut rest)?))
        })
    }
}

/// Two rows of buckets as one.
struct Merged<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<L, R> Iterator for Merged<L, R>
where
    L: Iterator<Item = (u64, u64)>,
    R: Iterator<Item = (u64, u64)>,
{
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let index = |bucket: Option<&(u64, u64)>| bucket.map_or(u64::MAX, |&(value, _)| index_of(value));
        let (left, right) = (index(self.left.peek()), index(self.right.peek()));
        if left < right {
            self.left.next()
        } else if right < left {
            self.right.next()
        } else {
            let ((value, count), (_, other)) = self.left.next().zip(self.right.next())?;
            Some((value, count.saturating_add(other)))
        }
    }
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// `None` at the end.
fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut position) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << position;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        position += 7;
    }
}
