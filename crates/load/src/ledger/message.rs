//! What is known of one message, and who lacks it.

use crate::contract::Contract;
use crate::driver::Stages;
use crate::recorder::{Recorder, SampleSlot};
use crate::throttle::Throttle;
use crate::topology::Receivers;
use plimsoll_model::message::{Fate, MessageRecord};
use plimsoll_model::{Metric, Nanos};
use std::collections::VecDeque;

/// The stamp of what has not happened.
pub(super) const NOT_YET: Nanos = Nanos(i64::MIN);

/// A message of which something is still awaited, or was lost.
pub(super) struct Message {
    pub(super) slot: SampleSlot,
    pub(super) due: Nanos,
    pub(super) ready: Nanos,
    pub(super) sent: Nanos,
    pub(super) done: Nanos,
    pub(super) first_received: Nanos,
    /// Where a component's log tells of its stages.
    pub(super) retrieved: Nanos,
    pub(super) dispatched: Nanos,
    /// Nobody waits for its acknowledgement any more.
    pub(super) settled: bool,
    /// Nobody waits any more for what a component's log tells of it.
    pub(super) staged: bool,
    pub(super) refused: bool,
    pub(super) undelivered: Bits,
    /// Who had a newer one of the device in time, where a contract allows that.
    pub(super) replaced: Bits,
    pub(super) number_in_hold: u64,
}

impl Message {
    /// Nothing of it is awaited any more.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.settled && self.staged && self.undelivered.is_empty()
    }

    pub(super) fn book_stages(&mut self, recorder: &mut Recorder, stages: Stages) {
        self.retrieved = stages.retrieved.unwrap_or(NOT_YET);
        self.dispatched = stages.dispatched.unwrap_or(NOT_YET);
        let slot = self.slot;
        recorder.time(slot, Metric::WaitTime, self.sent - self.due);
        if let Some(retrieved) = stages.retrieved {
            // The clocks are known to within some microseconds.
            recorder.time(slot, Metric::TransferTime, (retrieved - self.sent).max(Nanos::ZERO));
            recorder.time(slot, Metric::ProcessingTime, stages.done - retrieved);
        }
        if let Some((retrieved, dispatched)) = stages.retrieved.zip(stages.dispatched) {
            recorder.time(slot, Metric::DispatchTime, dispatched - retrieved);
        }
    }

    /// Puts away what the contract allows to be left out; how many deliveries that is.
    pub(super) fn superseded(&mut self, receivers: &Receivers, contract: &Contract) -> u64 {
        let before = self.undelivered.count();
        self.undelivered.take_all(&self.replaced);
        let replaced = u64::from(before - self.undelivered.count());
        replaced + contract.throttle.as_ref().map_or(0, |throttle| self.excused(receivers, throttle) as u64)
    }

    /// Puts away what a silence excuses; how many deliveries that is.
    fn excused(&mut self, receivers: &Receivers, throttle: &Throttle) -> usize {
        if self.undelivered.is_empty() {
            return 0;
        }
        let subscribers = (0..throttle.subscribers()).filter(|&subscriber| {
            let excused = || throttle.excuses(subscriber, self.sent, self.done);
            receivers
                .position(subscriber)
                .is_some_and(|position| excused() && self.undelivered.take(position))
        });
        subscribers.count()
    }

    pub(super) fn record(
        &self,
        device: u32,
        sequence: u32,
        receivers: u32,
        acknowledges: bool,
    ) -> MessageRecord {
        let stamp = |at: Nanos| (at != NOT_YET).then_some(at);
        let missing = if self.sent == NOT_YET { 0 } else { self.undelivered.count() };
        let acknowledged = !acknowledges || self.done != NOT_YET;
        let fate = if self.sent == NOT_YET {
            Fate::Unsent
        } else if self.refused {
            Fate::Refused
        } else if !acknowledged && self.settled {
            Fate::Abandoned
        } else if !acknowledged {
            Fate::Unacknowledged
        } else if missing > 0 {
            Fate::Lost
        } else {
            Fate::Complete
        };
        MessageRecord {
            level: self.slot.level,
            sample: self.slot.sample,
            device,
            sequence,
            due: self.due,
            ready: self.ready,
            sent: stamp(self.sent),
            done: stamp(self.done),
            first_received: stamp(self.first_received),
            retrieved: stamp(self.retrieved),
            dispatched: stamp(self.dispatched),
            receivers,
            missing,
            fate,
        }
    }
}

/// Marks the older messages of a device that the one at that index has replaced for the receiver at that position, when it
/// came at `at`. Those before one that the receiver had, or that was marked, were looked at when that happened.
pub(super) fn replace_older(
    messages: &mut VecDeque<Message>,
    (index, position): (usize, usize),
    at: Nanos,
    contract: &Contract,
) {
    let index = index.min(messages.len());
    for older in messages.range_mut(..index).rev().filter(|older| older.sent != NOT_YET) {
        let is_awaited = older.undelivered.has(position) && !older.replaced.has(position);
        if !is_awaited || !contract.replaces(older.sent, at) {
            return;
        }
        older.replaced.put(position);
    }
}

/// A set of receivers, by position.
pub(super) enum Bits {
    Few(u64),
    Many(Box<[u64]>),
}

impl Bits {
    pub(super) fn full(length: usize) -> Bits {
        if length <= 64 {
            return Bits::Few(if length == 64 { u64::MAX } else { (1 << length) - 1 });
        }
        let mut words = vec![u64::MAX; length.div_ceil(64)].into_boxed_slice();
        if let (Some(last), true) = (words.last_mut(), !length.is_multiple_of(64)) {
            *last = (1 << (length % 64)) - 1;
        }
        Bits::Many(words)
    }

    pub(super) fn none(length: usize) -> Bits {
        if length <= 64 { Bits::Few(0) } else { Bits::Many(vec![0; length.div_ceil(64)].into_boxed_slice()) }
    }

    pub(super) fn has(&self, position: usize) -> bool {
        let word = match self {
            Bits::Few(word) => Some(word),
            Bits::Many(words) => words.get(position / 64),
        };
        word.is_some_and(|word| *word & (1 << (position % 64)) != 0)
    }

    pub(super) fn put(&mut self, position: usize) {
        let word = match self {
            Bits::Few(word) => Some(word),
            Bits::Many(words) => words.get_mut(position / 64),
        };
        if let Some(word) = word {
            *word |= 1 << (position % 64);
        }
    }

    /// Takes out what is in the other set of as many receivers.
    pub(super) fn take_all(&mut self, other: &Bits) {
        match (self, other) {
            (Bits::Few(word), Bits::Few(other)) => *word &= !other,
            (Bits::Many(words), Bits::Many(others)) => {
                words.iter_mut().zip(others).for_each(|(word, other)| *word &= !other);
            }
            _ => {}
        }
    }

    /// Takes a position out; whether it was in.
    #[inline]
    pub(super) fn take(&mut self, position: usize) -> bool {
        let word = match self {
            Bits::Few(word) => Some(word),
            Bits::Many(words) => words.get_mut(position / 64),
        };
        let mask = 1 << (position % 64);
        word.is_some_and(|word| {
            let was_in = *word & mask != 0;
            *word &= !mask;
            was_in
        })
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Bits::Few(word) => word.count_ones(),
            Bits::Many(words) => words.iter().map(|word| word.count_ones()).sum(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Bits::Few(word) => *word == 0,
            Bits::Many(words) => words.iter().all(|&word| word == 0),
        }
    }
}
