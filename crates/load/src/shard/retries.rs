//! Clients that could not connect before the first level, and when each tries again.

use crate::driver::Client;
use plimsoll_model::Nanos;
use std::collections::HashMap;

/// How long a client tries again after its first attempt has failed.
pub const PATIENCE: Nanos = Nanos::from_secs(5);
/// The first pause between two attempts, doubled each time, and the longest.
const PAUSES: (Nanos, Nanos) = (Nanos::from_millis(100), Nanos::from_secs(1));

/// See the module.
#[derive(Debug, Default)]
pub struct Retries {
    failing: HashMap<Client, Failing>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Nanos,
    pause: Nanos,
    /// When the next attempt is due; `None` while one is made.
    next: Option<Nanos>,
}

impl Retries {
    /// An attempt failed; whether the client tries again.
    pub fn failed(&mut self, client: Client, now: Nanos) -> bool {
        let failing =
            self.failing.entry(client).or_insert(Failing { since: now, pause: PAUSES.0, next: None });
        if now - failing.since >= PATIENCE {
            return false;
        }
        failing.next = Some(now + failing.pause);
        failing.pause = (failing.pause * 2).min(PAUSES.1);
        true
    }

    /// Whether an earlier attempt failed.
    pub fn has_failed(&self, client: Client) -> bool {
        self.failing.contains_key(&client)
    }

    /// The client is connected, or not wanted any more.
    pub fn forget(&mut self, client: Client) {
        self.failing.remove(&client);
    }

    /// When the next attempt is due; never where nobody waits.
    pub fn next(&self) -> Nanos {
        self.failing.values().filter_map(|failing| failing.next).min().unwrap_or(Nanos::MAX)
    }

    /// A client whose next attempt is due.
    pub fn due(&mut self, now: Nanos) -> Option<Client> {
        let is_due = |failing: &Failing| failing.next.is_some_and(|next| next <= now);
        let (&client, failing) = self.failing.iter_mut().find(|(_, failing)| is_due(failing))?;
        failing.next = None;
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_tries_again_after_longer_and_longer_pauses_for_a_bounded_time() {
        let (client, mut retries) = (Client::Device(3), Retries::default());
        let mut now = Nanos::from_secs(10);
        let mut attempts = Vec::new();
        while retries.failed(client, now) {
            assert_eq!(retries.due(retries.next() - Nanos(1)), None);
            now = retries.next();
            attempts.push(now.0 / 1_000_000 - 10_000);
            assert_eq!((retries.due(now), retries.next()), (Some(client), Nanos::MAX));
        }
        assert_eq!(attempts, [100, 300, 700, 1500, 2500, 3500, 4500, 5500]);
    }

    /// An attempt may take longer than the patience: there is a second one all the same.
    #[test]
    fn patience_counts_from_the_first_failure_and_success_ends_it() {
        let mut retries = Retries::default();
        assert!(retries.failed(Client::Device(0), Nanos::from_secs(60)));
        retries.forget(Client::Device(0));
        assert_eq!((retries.due(Nanos::MAX), retries.next()), (None, Nanos::MAX));
        assert!(retries.failed(Client::Device(0), Nanos::from_secs(600)));
    }
}
