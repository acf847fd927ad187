//! The processors that all stations of a platform share: first come, first served, a time slice each.

use crate::calendar::{Calendar, Hindrance};
use crate::station::Service;
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// The longest that work keeps a processor that others want: about what Linux gives.
const SLICE: Nanos = Nanos::from_millis(4);

/// See the module.
#[derive(Debug)]
pub struct Processors {
    free: usize,
    ready: VecDeque<Service>,
    /// When others hold the processors, all of them at once.
    calendar: Calendar,
}

impl Processors {
    /// So many, and at least one.
    pub fn new(count: usize) -> Processors {
        Processors { free: count.max(1), ready: VecDeque::new(), calendar: Calendar::default() }
    }

    /// Work asks for a processor.
    pub fn ask(&mut self, service: Service) {
        self.ready.push_back(service);
    }

    /// The work whose turn it is, where a processor is free; it no longer waits.
    pub fn take_next(&mut self) -> Option<Service> {
        if self.free == 0 { None } else { self.ready.pop_front() }
    }

    /// Work of that length is put on a processor: when its slice ends, and what is done by then. `until` says how long it
    /// can go on, at most up to a time.
    pub fn begin(&mut self, now: Nanos, work: Nanos, until: impl FnOnce(Nanos) -> Nanos) -> (Nanos, Nanos) {
        self.free -= 1;
        let end = until(self.calendar.finish(now, work.min(SLICE)));
        (end, self.calendar.work_between(now, end))
    }

    /// A slice ends.
    pub fn release(&mut self) {
        self.free += 1;
    }

    /// An order hinders them.
    pub fn hinder(&mut self, from: Nanos, to: Nanos, hindrance: Hindrance) {
        self.calendar.add(from, to, hindrance);
    }

    /// Forgets orders that are over by then.
    pub fn forget(&mut self, before: Nanos) {
        self.calendar.forget(before);
    }
}
