//! How often and when a message is sent again.

use crate::quantity::Quantity;
use plimsoll_model::Nanos;

/// How often a message is sent at most where only the platform's answers ask for it again.
const ATTEMPTS_BY_ANSWER: u32 = 11;
/// The share of a pause that is then drawn at random: as before a client connects again.
const JITTER: f64 = 0.5;
/// A pause that was doubled so often does not grow any more.
const MOST_DOUBLINGS: u32 = 30;

/// How often and when a message is sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPlan {
    /// How often it is sent at most, the first time included.
    pub attempts: u32,
    /// After how long without an acknowledgement an attempt has failed; `None` where only answers of the platform tell that one has.
    pub timeout: Option<Nanos>,
    /// The first pause before it is sent again, and the longest.
    pub pauses: (Nanos, Nanos),
    /// The share of a pause that is drawn at random.
    pub jitter: f64,
}

impl RetryPlan {
    /// What an answer asks for that the profile names, where the scenario says nothing of retries; `pauses` are those before
    /// connecting again.
    pub fn by_answer(pauses: (Nanos, Nanos)) -> RetryPlan {
        RetryPlan { attempts: ATTEMPTS_BY_ANSWER, timeout: None, pauses, jitter: JITTER }
    }

    /// The pause after so many failed attempts, from 1; `random` is drawn from 0 to 1.
    pub fn pause(&self, failed: u32, random: f64) -> Nanos {
        let (first, longest) = self.pauses;
        let doublings = failed.saturating_sub(1).min(MOST_DOUBLINGS);
        let longest_now = Nanos(first.0.saturating_mul(1 << doublings)).min(longest);
        Nanos((longest_now.0 as f64 * (1.0 - self.jitter * random)) as i64)
    }

    /// Whether a message is sent again that was sent so often.
    pub fn goes_on(&self, sent: u32) -> bool {
        sent < self.attempts
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let (first, longest) = (self.pauses.0.show(), self.pauses.1.show());
        let timeout = self.timeout.map(|timeout| format!(" or after {} without an answer", timeout.show()));
        format!(
            "a message is sent up to {} times: again after a lost connection{}; pauses from {first} to {longest}",
            self.attempts,
            timeout.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_a_share_of_them_is_chance() {
        let second = Nanos::from_secs(1);
        let plan = RetryPlan { attempts: 4, timeout: None, pauses: (second, second * 3), jitter: 0.5 };
        let pauses = [1, 2, 3, 90].map(|failed| plan.pause(failed, 0.0));
        assert_eq!(pauses, [second, second * 2, second * 3, second * 3]);
        assert_eq!(plan.pause(2, 1.0), second);
        assert_eq!([1, 3, 4].map(|sent| plan.goes_on(sent)), [true, true, false]);
    }
}
