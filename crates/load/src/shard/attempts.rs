//! Messages that devices send again by themselves, where the scenario says so: each attempt that is not acknowledged in time, or
//! whose connection is lost, is followed by another one after a pause. All attempts of a message are one message of the ledger.

use crate::driver::{LOST, TIMED_OUT};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::RetryPlan;
use plimsoll_stats::distribution::{Random, random};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Names the stream of random numbers that pauses are drawn from.
const STREAM: u64 = 0x7265_7472_6965_7300;

/// A message: its device and its sequence.
pub type MessageId = (u32, u32);

/// Why a message was sent again, as a cause beside the statuses of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its connection was lost.
    Lost,
    /// It was not acknowledged in time.
    Timeout,
}

impl Cause {
    /// The number that stands for it among statuses.
    pub fn status(self) -> u16 {
        match self {
            Cause::Lost => LOST,
            Cause::Timeout => TIMED_OUT,
        }
    }
}

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A message is to be sent again.
    Again(MessageId),
    /// A message was sent as often as it may be, and nobody acknowledged it in time.
    GivenUp(MessageId),
}

/// The attempts of messages that are not at their end.
pub struct Attempts {
    plan: RetryPlan,
    timeout: Nanos,
    open: FxHashMap<MessageId, Attempt>,
    /// When an attempt times out, or a pause ends.
    timers: BinaryHeap<Reverse<(Nanos, MessageId, u32, bool)>>,
    random: Random,
}

/// The last attempt of a message.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Which it is, from 1.
    number: u32,
    /// Since when and why it has failed; `None` while it is under way.
    failed: Option<(Nanos, Cause)>,
}

impl Attempts {
    /// No message was sent yet; `None` where devices do not send again by themselves.
    pub fn of(plan: Option<RetryPlan>, seed: u64, shard: u32) -> Option<Attempts> {
        let plan = plan?;
        Some(Attempts {
            timeout: plan.timeout?,
            plan,
            open: FxHashMap::default(),
            timers: BinaryHeap::new(),
            random: random(seed, &[STREAM, u64::from(shard)]),
        })
    }

    /// A message was sent; of one that was sent again: why, and how long after the failure of the attempt before.
    pub fn sent(&mut self, message: MessageId, at: Nanos) -> Option<(Cause, Nanos)> {
        let attempt = self.open.entry(message).or_insert(Attempt { number: 0, failed: None });
        let before = attempt.failed.take();
        if attempt.number > 0 && before.is_none() {
            // The driver tells twice: what is under way goes on.
            return None;
        }
        attempt.number += 1;
        self.timers.push(Reverse((at + self.timeout, message, attempt.number, false)));
        before.map(|(since, cause)| (cause, (at - since).max(Nanos::ZERO)))
    }

    /// A message is at its end.
    pub fn ended(&mut self, message: MessageId) {
        self.open.remove(&message);
    }

    /// The attempt under way has failed; whether another one follows.
    pub fn failed(&mut self, message: MessageId, at: Nanos, cause: Cause) -> bool {
        let Some(attempt) = self.open.get_mut(&message) else { return false };
        if attempt.failed.is_some() {
            return true;
        }
        if !self.plan.goes_on(attempt.number) {
            self.open.remove(&message);
            return false;
        }
        attempt.failed = Some((at, cause));
        let pause = self.plan.pause(attempt.number, self.random.fraction());
        self.timers.push(Reverse((at + pause, message, attempt.number, true)));
        true
    }

    /// When the next attempt times out or is due; never where there is none.
    pub fn next(&self) -> Nanos {
        self.timers.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    /// What is due by now, one after the other.
    pub fn due(&mut self, now: Nanos) -> Option<Due> {
        while let Some(&Reverse((at, message, number, again))) = self.timers.peek() {
            if at > now {
                return None;
            }
            self.timers.pop();
            let Some(attempt) = self.open.get(&message).filter(|attempt| attempt.number == number) else {
                continue;
            };
            match (again, attempt.failed.is_some()) {
                (true, true) => return Some(Due::Again(message)),
                (false, false) if !self.failed(message, at, Cause::Timeout) => {
                    return Some(Due::GivenUp(message));
                }
                _ => {}
            }
        }
        None
    }

    /// Forgets all messages: their level is closed.
    pub fn clear(&mut self) {
        self.open.clear();
        self.timers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);
    const MESSAGE: MessageId = (3, 7);

    fn attempts(most: u32) -> Attempts {
        let plan =
            RetryPlan { attempts: most, timeout: Some(SECOND), pauses: (SECOND, SECOND * 8), jitter: 0.0 };
        Attempts::of(Some(plan), 1, 0).unwrap()
    }

    #[test]
    fn a_message_is_sent_again_after_longer_and_longer_pauses_and_then_given_up() {
        let mut attempts = attempts(3);
        assert_eq!(attempts.sent(MESSAGE, Nanos::ZERO), None);
        assert_eq!((attempts.due(SECOND - Nanos(1)), attempts.next()), (None, SECOND));
        assert_eq!(attempts.due(SECOND), None, "it has failed, and waits for its pause");
        assert_eq!(attempts.due(SECOND * 2), Some(Due::Again(MESSAGE)));
        assert_eq!(attempts.sent(MESSAGE, SECOND * 2), Some((Cause::Timeout, SECOND)));
        // The second pause is twice as long.
        assert_eq!(attempts.due(SECOND * 5 - Nanos(1)), None);
        assert_eq!(attempts.due(SECOND * 5), Some(Due::Again(MESSAGE)));
        assert_eq!(attempts.sent(MESSAGE, SECOND * 5), Some((Cause::Timeout, SECOND * 2)));
        assert_eq!(attempts.due(SECOND * 6), Some(Due::GivenUp(MESSAGE)));
        assert_eq!((attempts.due(SECOND * 60), attempts.open.contains_key(&MESSAGE)), (None, false));
    }

    #[test]
    fn an_acknowledgement_ends_a_message_in_its_pause_too() {
        let mut attempts = attempts(3);
        attempts.sent(MESSAGE, Nanos::ZERO);
        assert_eq!(attempts.due(SECOND), None);
        attempts.ended(MESSAGE);
        assert_eq!(attempts.due(SECOND * 60), None);
        assert!(!attempts.failed(MESSAGE, SECOND * 60, Cause::Lost));
    }

    #[test]
    fn a_lost_connection_fails_an_attempt_once() {
        let mut attempts = attempts(2);
        attempts.sent(MESSAGE, Nanos::ZERO);
        assert!(attempts.failed(MESSAGE, SECOND / 2, Cause::Lost));
        assert!(attempts.failed(MESSAGE, SECOND / 2, Cause::Lost), "told for each of its packets");
        assert_eq!(attempts.due(SECOND), None, "what has failed does not time out");
        assert_eq!(attempts.due(SECOND * 2), Some(Due::Again(MESSAGE)));
        assert_eq!(attempts.sent(MESSAGE, SECOND * 2), Some((Cause::Lost, SECOND + SECOND / 2)));
        assert!(!attempts.failed(MESSAGE, SECOND * 2, Cause::Lost), "that was the last");
    }

    #[test]
    fn nothing_is_due_of_a_closed_level() {
        let mut attempts = attempts(2);
        attempts.sent(MESSAGE, Nanos::ZERO);
        attempts.clear();
        assert_eq!((attempts.due(SECOND * 9), attempts.next()), (None, Nanos::MAX));
    }
}
