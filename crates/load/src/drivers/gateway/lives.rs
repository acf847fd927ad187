//! What the log of a gateway tells of events that devices sent to it by themselves.

use super::log;
use super::manager::Manager;
use crate::driver::{Event, StageOutcome};
use crate::drivers::StageReader;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The lives of the events of one shard's devices.
pub struct Lives {
    manager: Arc<Manager>,
    shard: u32,
    /// Whether the gateway answers each event, so that its log need not stand for that.
    is_answered: bool,
    taken: Vec<log::Life>,
}

impl Lives {
    /// Those of a shard, as that manager reads them.
    pub fn new(manager: Arc<Manager>, shard: u32, is_answered: bool) -> Lives {
        Lives { manager, shard, is_answered, taken: Vec::new() }
    }
}

impl StageReader for Lives {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.manager.wake(self.shard).map(AsFd::as_fd)
    }

    fn level_closed(&mut self, events: &mut Vec<Event>) {
        // What the log said besides events.
        events.extend(self.manager.take_others().told());
    }

    fn read(&mut self, events: &mut Vec<Event>) {
        if !self.manager.has_news(self.shard) {
            return;
        }
        self.manager.take(self.shard, &mut self.taken);
        for life in self.taken.drain(..) {
            events.push(match (self.is_answered, life.failed) {
                (false, _) => life.end(),
                (true, false) => life.told(StageOutcome::Reported),
                (true, true) => life.told(StageOutcome::Failed),
            });
        }
        events.extend(self.manager.take_incidents().into_iter().map(|reason| Event::Incident { reason }));
    }
}
