//! What the clients of a shard want to be woken for, and when.

use plimsoll_model::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers of clients, who are known by their slots. They are not taken back: who is woken looks whether there is still a
/// reason.
pub struct Timers<T>(BinaryHeap<Reverse<(Nanos, u32, T)>>);

impl<T: Ord> Timers<T> {
    /// None yet.
    pub fn new() -> Timers<T> {
        Timers(BinaryHeap::new())
    }

    /// Wakes a client at that time.
    pub fn set(&mut self, at: Nanos, slot: u32, what: T) {
        self.0.push(Reverse((at, slot, what)));
    }

    /// When the next one is due; never without any.
    pub fn next(&self) -> Nanos {
        self.0.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    /// Takes the next one that is due by then: its time, client and reason.
    pub fn due(&mut self, by: Nanos) -> Option<(Nanos, u32, T)> {
        if self.next() > by {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}
