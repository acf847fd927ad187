//! The closed workload model: a fixed number of operations in flight, each followed by the next one after a think
//! time. One in flight is the sequential case.

use crate::share::Share;
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The slots of one shard.
pub struct ClosedLoop {
    slots: Vec<Slot>,
    /// When slots that think begin their next operations.
    wake: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The same without a think time: in the order in which operations end.
    ready: VecDeque<(Nanos, usize)>,
    /// When it is looked whether the operation of a slot is to be given up: one entry for each slot that is watched. One for each
    /// operation would stay long after its end.
    patience: BinaryHeap<Reverse<(Nanos, usize)>>,
    watched: Vec<bool>,
    in_flight: FxHashMap<(u32, u32), usize>,
    think_time: Nanos,
    timeout: Nanos,
    devices: Vec<u32>,
    next_device: usize,
    /// After how many operations the hold ends.
    count: Option<Count>,
}

/// The operations of a hold that ends after so many of them.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// Those that have not begun.
    left: u64,
    /// When the hold begins: what was due before it does not count.
    from: Nanos,
    /// When the last operation so far ended.
    ended: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Nothing is left to do.
    Resting,
    Thinking(Nanos),
    Busy {
        operation: (u32, u32),
        until: Nanos,
    },
}

/// An operation that a slot begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Which slot.
    pub slot: usize,
    /// Which device sends.
    pub device: u32,
    /// When it was due: at the end of the slot's think time.
    pub due: Nanos,
}

impl ClosedLoop {
    /// Divides `in_flight` slots over the shards; every slot begins at `start`. A shard without devices has none.
    pub fn new(
        in_flight: u32,
        devices: u32,
        share: Share,
        (think_time, timeout): (Nanos, Nanos),
        start: Nanos,
    ) -> ClosedLoop {
        let devices: Vec<u32> = share.numbers(devices).collect();
        let slots = if devices.is_empty() { 0 } else { share.count(in_flight) as usize };
        ClosedLoop {
            slots: vec![Slot::Thinking(start); slots],
            wake: (0..slots).map(|slot| Reverse((start, slot))).collect(),
            ready: VecDeque::new(),
            patience: BinaryHeap::new(),
            watched: vec![false; slots],
            in_flight: FxHashMap::default(),
            think_time,
            timeout,
            devices,
            next_device: 0,
            count: None,
        }
    }

    /// Ends after so many operations that are due from then on.
    #[must_use]
    pub fn ending_after(self, operations: u64, from: Nanos) -> ClosedLoop {
        ClosedLoop { count: Some(Count { left: operations, from, ended: from }), ..self }
    }

    /// When the last of the operations ended after which this one ends; `None` before that.
    pub fn ended(&self) -> Option<Nanos> {
        let over = |count: &Count| count.left == 0 && self.in_flight.is_empty();
        self.count.filter(over).map(|count| count.ended)
    }

    /// When something has to be done next.
    pub fn next_wake(&self) -> Option<Nanos> {
        let timers = [&self.wake, &self.patience].into_iter().filter_map(|timers| timers.peek());
        let ready = self.ready.front().map(|(at, _)| *at);
        timers.map(|Reverse((at, _))| *at).chain(ready).min()
    }

    /// The next slot whose think time is over by then, and when that was.
    fn next_ready(&mut self, now: Nanos) -> Option<(Nanos, usize)> {
        if self.ready.front().is_some_and(|(at, _)| *at <= now) {
            return self.ready.pop_front();
        }
        self.wake.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.wake.pop().map(|Reverse(timer)| timer)
    }

    /// Gives up operations that have taken too long by then.
    fn give_up(&mut self, now: Nanos) {
        while let Some(&Reverse((_, slot))) = self.patience.peek().filter(|Reverse((at, _))| *at <= now) {
            self.patience.pop();
            let state = self.slots.get(slot).copied();
            let later = match state {
                Some(Slot::Busy { until, .. }) if until > now => Some(until),
                _ => None,
            };
            self.patience.extend(later.map(|until| Reverse((until, slot))));
            if let Some(watched) = self.watched.get_mut(slot) {
                *watched = later.is_some();
            }
            if let (Some(Slot::Busy { operation, until }), None) = (state, later) {
                self.finished(operation, until);
            }
        }
    }

    /// The next slot whose think time or patience is over; the caller sends for its device and says so by `begun`.
    pub fn take_up(&mut self, now: Nanos) -> Option<Begin> {
        self.give_up(now);
        while let Some((at, slot)) = self.next_ready(now) {
            if self.slots.get(slot) != Some(&Slot::Thinking(at)) {
                continue;
            }
            if let Some(count) = self.count.as_mut().filter(|count| at >= count.from) {
                let Some(left) = count.left.checked_sub(1) else {
                    if let Some(state) = self.slots.get_mut(slot) {
                        *state = Slot::Resting;
                    }
                    continue;
                };
                count.left = left;
            }
            let device = self.devices.get(self.next_device).copied()?;
            self.next_device = (self.next_device + 1) % self.devices.len();
            return Some(Begin { slot, device, due: at });
        }
        None
    }

    /// The operation of a slot is on its way.
    pub fn begun(&mut self, begin: Begin, sequence: u32) {
        let operation = (begin.device, sequence);
        let until = begin.due + self.timeout;
        if let Some(slot) = self.slots.get_mut(begin.slot) {
            *slot = Slot::Busy { operation, until };
            self.in_flight.insert(operation, begin.slot);
            if let Some(watched) = self.watched.get_mut(begin.slot).filter(|watched| !**watched) {
                *watched = true;
                self.patience.push(Reverse((until, begin.slot)));
            }
        }
    }

    /// An operation came to its end, good or bad; its slot thinks and goes on.
    pub fn finished(&mut self, operation: (u32, u32), at: Nanos) {
        let Some(slot) = self.in_flight.remove(&operation) else { return };
        let next = at + self.think_time;
        if let Some(count) = &mut self.count {
            count.ended = count.ended.max(at);
        }
        if let Some(state) = self.slots.get_mut(slot) {
            *state = Slot::Thinking(next);
            if self.think_time > Nanos::ZERO {
                self.wake.push(Reverse((next, slot)));
            } else {
                self.ready.push_back((next, slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequential(think: i64) -> ClosedLoop {
        ClosedLoop::new(1, 2, Share::WHOLE, (Nanos(think), Nanos(1000)), Nanos(0))
    }

    #[test]
    fn the_next_operation_begins_a_think_time_after_the_end_of_the_last() {
        let mut slots = sequential(10);
        let first = slots.take_up(Nanos(0)).unwrap();
        slots.begun(first, 7);
        assert_eq!(slots.take_up(Nanos(500)), None);
        slots.finished((first.device, 7), Nanos(500));
        assert_eq!(slots.next_wake(), Some(Nanos(510)));
        let second = slots.take_up(Nanos(510)).unwrap();
        assert_eq!((second.device, second.due), (1, Nanos(510)));
    }

    #[test]
    fn an_operation_without_end_is_given_up() {
        let mut slots = sequential(0);
        let first = slots.take_up(Nanos(0)).unwrap();
        slots.begun(first, 0);
        let second = slots.take_up(Nanos(1000)).unwrap();
        assert_eq!(second.due, Nanos(1000));
        slots.begun(second, 0);
        slots.finished((first.device, 0), Nanos(1100));
        assert_eq!(slots.take_up(Nanos(1100)), None, "the end of an operation given up moves nobody");
    }

    #[test]
    fn a_loop_that_is_counted_ends_with_the_last_operation_of_its_hold() {
        let mut slots =
            ClosedLoop::new(2, 3, Share::WHOLE, (Nanos(0), Nanos(1000)), Nanos(0)).ending_after(5, Nanos(10));
        let (mut now, mut of_hold, mut sequence) = (0, Vec::new(), 0);
        while slots.ended().is_none() {
            let mut begun = Vec::new();
            while let Some(begin) = slots.take_up(Nanos(now)) {
                slots.begun(begin, sequence);
                begun.push((begin.device, sequence));
                sequence += 1;
                if now >= 10 {
                    of_hold.push(begin.device);
                }
            }
            now += 4;
            begun.into_iter().for_each(|operation| slots.finished(operation, Nanos(now)));
        }
        // Two each at 0, 4 and 8 belong to the warm-up.
        assert_eq!((of_hold, slots.ended()), (vec![0, 1, 2, 0, 1], Some(Nanos(24))));
        assert_eq!(slots.take_up(Nanos(9999)), None);
    }

    #[test]
    fn slots_are_divided_over_shards() {
        let count = |index| {
            let mut slots =
                ClosedLoop::new(5, 10, Share { index, of: 2, first: 0 }, (Nanos(0), Nanos(9)), Nanos(0));
            let mut begun = 0;
            while let Some(begin) = slots.take_up(Nanos(0)) {
                begun += 1;
                slots.begun(begin, begun);
            }
            begun
        };
        assert_eq!((count(0), count(1)), (3, 2));
    }
}
