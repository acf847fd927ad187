//! What the broker has to do at a time.

use plimsoll_model::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due. Timers are not taken back: who set one looks whether it still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A connection must have sent CONNECT, or something within its keep alive.
    Silence(u64),
    /// The will of a session is to be published.
    Will(u64),
    /// A session that nobody resumed ends.
    Session(u64),
}

/// Timers by their times.
#[derive(Default)]
pub struct Timers(BinaryHeap<Reverse<(Nanos, Timer)>>);

impl Timers {
    /// Sets a timer.
    pub fn set(&mut self, at: Nanos, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Nanos> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one that is due.
    pub fn take(&mut self, now: Nanos) -> Option<Timer> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse((_, timer))| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_taken_first_and_none_before_its_time() {
        let mut timers = Timers::default();
        timers.set(Nanos(7), Timer::Will(1));
        timers.set(Nanos(5), Timer::Session(2));
        assert_eq!((timers.next(), timers.take(Nanos(4))), (Some(Nanos(5)), None));
        assert_eq!(timers.take(Nanos(7)), Some(Timer::Session(2)));
        assert_eq!(timers.take(Nanos(7)), Some(Timer::Will(1)));
        assert_eq!((timers.next(), timers.take(Nanos::MAX)), (None, None));
    }
}
