//! A histogram in little memory: its occupied buckets alone, as a rule in two to four bytes each.

use std::iter::Peekable;

/// Values below this have a bucket each; above, buckets are twice as wide with each power of two (HdrHistogram's layout
/// with three significant digits).
const FINE: u64 = 2048;

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

    /// The mean of the middles of the buckets.
    pub fn mean(&self) -> f64 {
        let part = |(value, count)| {
            let middle = lowest_equivalent(value) + width(value) / 2;
            middle as f64 * count as f64 / self.total as f64
        };
        self.buckets().map(part).sum()
    }

    /// The smallest value of the lowest occupied bucket.
    pub fn min(&self) -> u64 {
        self.buckets().next().map_or(0, |(value, _)| lowest_equivalent(value))
    }

    /// The largest value of the highest occupied bucket.
    pub fn max(&self) -> u64 {
        self.buckets().last().map_or(0, |(value, _)| value)
    }

    /// The highest value of the bucket in which the fraction `q` of the observations is reached.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = ((q.min(1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0u64;
        let reached = self.buckets().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        });
        let value = reached.map_or_else(|| self.max(), |(value, _)| value);
        if q == 0.0 { lowest_equivalent(value) } else { value }
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

/// How far the values of a bucket are apart, as a power of two.
fn shift(value: u64) -> u32 {
    (value / (FINE / 2)).checked_ilog2().unwrap_or(0)
}

fn width(value: u64) -> u64 {
    1 << shift(value)
}

fn lowest_equivalent(value: u64) -> u64 {
    value & !(width(value) - 1)
}

fn index_of(value: u64) -> u64 {
    u64::from(shift(value)) * (FINE / 2) + (value >> shift(value))
}

/// The highest value of a bucket.
fn highest(index: u64) -> u64 {
    let shift = (index / (FINE / 2)).saturating_sub(1);
    let lowest = (index - shift * (FINE / 2)) << shift;
    lowest + ((1 << shift) - 1)
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
