//! Whether all receipts of a level are where they belong: at the worker that has the device.
//!
//! Each worker counts what it has sent to each other one, and what came of each, since the run began. Once its load threads have passed
//! on what they had, it says its counts to the coordinator. Once all workers have, the coordinator says to each how much is to come. A
//! worker that has that much of each other one is complete: two messages a worker and level, however many workers there are. Both ends
//! are without I/O and without a clock.

use crate::frame::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What was passed on to others, or is to come of them, since the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// How often all load threads have passed on what they had: once a level.
    pub round: u32,
    /// Each other worker to which, or from which, deliveries went, and how many.
    pub deliveries: Vec<(ProcessId, u64)>,
}

/// The end at a worker.
#[derive(Debug, Default)]
pub struct Receipts {
    /// Load threads here, and how many of them have passed on what they had in this round.
    threads: usize,
    passed: usize,
    /// How often all of them have.
    rounds: u32,
    sent: BTreeMap<ProcessId, u64>,
    came: BTreeMap<ProcessId, u64>,
    /// What is still to come, as the coordinator said of the last round of all workers.
    expected: Passed,
    /// Answers of load threads that wait until that has come.
    held_back: usize,
    /// Workers of which nothing comes any more.
    gone: BTreeSet<ProcessId>,
}

impl Receipts {
    /// Of a worker with so many load threads.
    pub fn new(threads: usize) -> Receipts {
        Receipts { threads, ..Receipts::default() }
    }

    /// So many deliveries go to another worker.
    pub fn sent(&mut self, to: ProcessId, deliveries: u64) {
        *self.sent.entry(to).or_default() += deliveries;
    }

    /// So many came from another worker, and are where they belong.
    pub fn came(&mut self, from: ProcessId, deliveries: u64) {
        *self.came.entry(from).or_default() += deliveries;
    }

    /// Another worker is gone: nobody waits for what it has sent.
    pub fn lose(&mut self, other: ProcessId) {
        self.gone.insert(other);
    }

    /// Whether another worker is gone.
    pub fn is_lost(&self, other: ProcessId) -> bool {
        self.gone.contains(&other)
    }

    /// A load thread has passed on what it had. Whether it was the last one of a round: what they left is to be sent then, and
    /// [`Receipts::round`] is for the coordinator.
    pub fn thread_has_passed_on(&mut self) -> bool {
        self.passed += 1;
        let is_whole = self.passed == self.threads;
        if is_whole {
            self.passed = 0;
            self.held_back += self.threads;
            self.rounds += 1;
        }
        is_whole
    }

    /// What went to others until now.
    pub fn round(&self) -> Passed {
        let deliveries = self.sent.iter().map(|(process, count)| (*process, *count)).collect();
        Passed { round: self.rounds, deliveries }
    }

    /// What the coordinator says of all workers.
    pub fn expect(&mut self, expected: Passed) {
        self.expected = expected;
    }

    /// How many answers of load threads may be given now: those of a round of which everything has come. Each is given once.
    pub fn take_complete(&mut self) -> usize {
        let has_come = |(process, count): &(ProcessId, u64)| {
            self.gone.contains(process) || self.came.get(process).is_some_and(|came| came >= count)
        };
        let is_complete = self.expected.round >= self.rounds && self.expected.deliveries.iter().all(has_come);
        if is_complete { std::mem::take(&mut self.held_back) } else { 0 }
    }
}

/// The end at the coordinator.
#[derive(Debug, Default)]
pub struct Rounds {
    /// What each worker has passed on in the round that goes on.
    passed: BTreeMap<ProcessId, Passed>,
}

impl Rounds {
    /// What a worker has passed on.
    pub fn passed(&mut self, from: ProcessId, passed: Passed) {
        self.passed.insert(from, passed);
    }

    /// What is to come to each worker, once all that work have passed on what they had; those without an entry wait for nothing. It is
    /// said once a round.
    pub fn complete(
        &mut self,
        working: impl IntoIterator<Item = ProcessId>,
    ) -> Option<(u32, BTreeMap<ProcessId, Passed>)> {
        let mut working = working.into_iter();
        if self.passed.is_empty() || working.any(|process| !self.passed.contains_key(&process)) {
            return None;
        }
        let passed = std::mem::take(&mut self.passed);
        let round = passed.values().map(|passed| passed.round).max().unwrap_or_default();
        let mut expected: BTreeMap<ProcessId, Passed> = BTreeMap::new();
        for (from, passed) in passed {
            for (to, count) in passed.deliveries {
                let own = expected.entry(to).or_insert_with(|| Passed { round, deliveries: Vec::new() });
                own.deliveries.push((from, count));
            }
        }
        Some((round, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProcessId = ProcessId(1);
    const B: ProcessId = ProcessId(2);

    #[test]
    fn a_round_is_complete_when_all_that_was_sent_has_come() {
        let (mut a, mut b, mut rounds) = (Receipts::new(2), Receipts::new(1), Rounds::default());
        a.sent(B, 5);
        assert!(!a.thread_has_passed_on() && a.thread_has_passed_on());
        rounds.passed(A, a.round());
        assert!(rounds.complete([A, B]).is_none(), "the other one has not passed on what it had");
        assert!(b.thread_has_passed_on());
        rounds.passed(B, b.round());
        let (round, mut expected) = rounds.complete([A, B]).unwrap();
        assert_eq!((round, expected.contains_key(&A)), (1, false));
        assert_eq!(b.take_complete(), 0, "nobody has said what is to come");
        b.expect(expected.remove(&B).unwrap());
        assert_eq!(b.take_complete(), 0);
        b.came(A, 4);
        assert_eq!(b.take_complete(), 0);
        b.came(A, 1);
        assert_eq!((b.take_complete(), b.take_complete()), (1, 0));
        a.expect(Passed { round, deliveries: Vec::new() });
        assert_eq!(a.take_complete(), 2, "one answer for each load thread");
    }

    #[test]
    fn nobody_waits_for_what_one_that_is_gone_has_sent() {
        let (mut a, mut rounds) = (Receipts::new(1), Rounds::default());
        rounds.passed(B, Passed { round: 1, deliveries: vec![(A, 7)] });
        assert!(a.thread_has_passed_on());
        rounds.passed(A, a.round());
        let (_, mut expected) = rounds.complete([A]).unwrap();
        a.expect(expected.remove(&A).unwrap());
        assert_eq!(a.take_complete(), 0);
        a.lose(B);
        assert_eq!(a.take_complete(), 1);
        assert!(rounds.complete([A]).is_none(), "a round is said once");
    }
}
