//! Queriers that are clients of a protocol's own driver: whose turn a query is, and when a querier connects for one.

use crate::driver::Event;
use plimsoll_model::Nanos;

/// They connect by themselves, with the queries that are given to them.
#[derive(Default)]
pub struct Queriers {
    /// When one connects again at the earliest.
    not_before: Nanos,
}

impl Queriers {
    /// The place of the querier whose turn a query is, among so many.
    pub fn turn(query: u32, queriers: usize) -> u32 {
        query % (queriers.max(1) as u32)
    }

    /// Whether one that is not connected may connect: whoever was not let in waits a little.
    pub fn may_connect(&self, now: Nanos) -> bool {
        now >= self.not_before
    }

    /// Looks at what happened last: after a connection that failed, the next one has to wait.
    pub fn saw(&mut self, events: &[Event], now: Nanos, pause: Nanos) {
        if events.iter().any(|event| matches!(event, Event::ConnectFailed { .. })) {
            self.not_before = now + pause;
        }
    }
}
