//! When subscribers were notified, for a platform that notifies each of them at most once a period: what it leaves out in
//! between was not lost.

use plimsoll_model::Nanos;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stamps kept within a period: more of them tell nothing more, and their number is bounded.
const KEPT: i64 = 16;

/// The part of a period for which a notification may be under way to its subscriber: one tenth.
const UNDER_WAY: i64 = 10;

/// The notifications of every subscriber, which the shards share: one shard reads those of a subscriber, all ask for them
/// when a level is closed.
#[derive(Debug)]
pub struct Throttle {
    period: Nanos,
    notified: Vec<Mutex<VecDeque<Nanos>>>,
}

impl Throttle {
    /// Of so many subscribers, none of them notified yet.
    pub fn new(period: Nanos, subscribers: u32) -> Throttle {
        Throttle { period, notified: (0..subscribers).map(|_| Mutex::default()).collect() }
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> u32 {
        self.notified.len() as u32
    }

    /// A notification has reached a subscriber.
    pub fn notified(&self, subscriber: u32, at: Nanos) {
        let Some(mut stamps) = self.stamps(subscriber) else { return };
        if stamps.back().is_none_or(|&last| at - last > self.period / KEPT) {
            stamps.push_back(at);
        }
    }

    /// No message that was due before is asked for any more.
    pub fn forget_before(&self, due: Nanos) {
        for subscriber in 0..self.notified.len() as u32 {
            if let Some(mut stamps) = self.stamps(subscriber) {
                let first = stamps.partition_point(|&at| at <= due - self.period);
                stamps.drain(..first);
            }
        }
    }

    /// Whether a message may have been left out: its subscriber was notified less than a period before it was sent, or
    /// while the platform had it, which answered at `done`. A notification that comes later excuses nothing, since the
    /// platform was free to notify when it got the message; only one that may have been under way then does.
    pub fn excuses(&self, subscriber: u32, sent: Nanos, done: Nanos) -> bool {
        let Some(stamps) = self.stamps(subscriber) else { return false };
        let next = stamps.partition_point(|&at| at <= sent - self.period);
        stamps.get(next).is_some_and(|&at| at <= done.max(sent) + self.period / UNDER_WAY)
    }

    fn stamps(&self, subscriber: u32) -> Option<MutexGuard<'_, VecDeque<Nanos>>> {
        let stamps = self.notified.get(subscriber as usize)?;
        // A stamp that was half written does not exist.
        Some(stamps.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: i64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    #[test]
    fn what_lies_in_the_silence_around_a_notification_is_excused() {
        let throttle = Throttle::new(ms(100), 2);
        throttle.notified(0, ms(1000));
        let excuses = |sent, done| throttle.excuses(0, ms(sent), ms(done));
        // Just after it, up to a period; and shortly before it, when it was under way.
        assert!(excuses(1001, 1002) && excuses(1099, 1100) && excuses(991, 992));
        assert!(!excuses(1100, 1101) && !excuses(901, 902));
        // A platform that took long to answer had the message when it notified.
        assert!(excuses(700, 1000));
        // Another subscriber was told nothing; one that does not exist neither.
        assert!(!throttle.excuses(1, ms(1001), ms(1002)) && !throttle.excuses(9, ms(1001), ms(1002)));
    }

    /// A platform that keeps silent for one and a half periods has left out what came in the last half.
    #[test]
    fn a_longer_silence_than_was_promised_is_not_excused() {
        let throttle = Throttle::new(ms(100), 1);
        throttle.notified(0, ms(1000));
        throttle.notified(0, ms(1150));
        let left_out: Vec<i64> =
            (1001..1150).filter(|&at| !throttle.excuses(0, ms(at), ms(at + 1))).collect();
        assert_eq!(left_out, (1100..1139).collect::<Vec<_>>());
    }

    #[test]
    fn stamps_are_bounded_and_forgotten() {
        let throttle = Throttle::new(ms(160), 1);
        (0..1000).for_each(|at| throttle.notified(0, ms(at)));
        assert!(throttle.stamps(0).unwrap().len() <= 100);
        throttle.forget_before(ms(900));
        assert!(throttle.stamps(0).unwrap().front().is_some_and(|&at| at > ms(740)));
        assert!(throttle.excuses(0, ms(900), ms(901)));
    }
}
