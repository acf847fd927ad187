//! A histogram to record in: a counter for each bucket up to the highest that was seen.

use super::layout::{highest, index_of};
use std::ops::Range;

/// The counters of all buckets. Only those between the lowest and the highest that was seen are ever looked at, since hardly any
/// histogram spans more than some powers of two.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    counts: Vec<u64>,
    /// The buckets from the lowest that was seen to behind the highest.
    seen: Range<usize>,
    total: u64,
}

impl Spread {
    /// Counts a value so many times.
    #[inline]
    pub fn add(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        let index = index_of(value) as usize;
        if index >= self.counts.len() {
            // Up to the end of a power of two, so that few values make it grow.
            self.counts.resize((index + 1).next_multiple_of(1024), 0);
        }
        self.counts[index] = self.counts[index].saturating_add(count);
        self.total = self.total.saturating_add(count);
        self.seen = if self.seen.is_empty() {
            index..index + 1
        } else {
            self.seen.start.min(index)..self.seen.end.max(index + 1)
        };
    }

    /// Forgets everything but keeps the memory.
    pub fn reset(&mut self) {
        self.counts[self.seen.clone()].fill(0);
        self.seen = 0..0;
        self.total = 0;
    }

    /// Observations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The highest value of each occupied bucket and its count, in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.seen.clone().zip(&self.counts[self.seen.clone()]);
        counts.filter(|(_, count)| **count > 0).map(|(index, &count)| (highest(index as u64), count))
    }

    /// The highest value of the highest occupied bucket.
    pub fn max(&self) -> Option<u64> {
        self.seen.end.checked_sub(1).map(|last| highest(last as u64))
    }
}
