//! A lock: one job holds it, the others wait for it in the order in which they came to it.

use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug)]
pub struct Lock<T> {
    held: bool,
    waiting: VecDeque<T>,
}

impl<T> Default for Lock<T> {
    fn default() -> Lock<T> {
        Lock { held: false, waiting: VecDeque::new() }
    }
}

impl<T> Lock<T> {
    /// A job comes to the lock: it is given back where it holds the lock now, and waits otherwise.
    pub fn take(&mut self, job: T) -> Option<T> {
        if self.held {
            self.waiting.push_back(job);
            return None;
        }
        self.held = true;
        Some(job)
    }

    /// The holder lets go of it: the job that holds it now.
    pub fn release(&mut self) -> Option<T> {
        let next = self.waiting.pop_front();
        self.held = next.is_some();
        next
    }
}
