//! Workers as places: who has one is served, the others wait in the order in which they came.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// See the module.
pub struct Workers(Mutex<Places>);

struct Places {
    free: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    /// Set when the place is the waiter's.
    given: Arc<AtomicBool>,
    thread: Thread,
}

/// A place; dropped, it goes to who waits longest.
pub struct Place<'a>(&'a Workers);

impl Workers {
    /// So many workers, one at least.
    pub fn new(count: usize) -> Workers {
        Workers(Mutex::new(Places { free: count.max(1), waiting: VecDeque::new() }))
    }

    /// Waits for a worker.
    pub fn wait(&self) -> Place<'_> {
        let mut places = self.lock();
        if places.free > 0 {
            places.free -= 1;
            return Place(self);
        }
        let given = Arc::new(AtomicBool::new(false));
        places.waiting.push_back(Waiter { given: Arc::clone(&given), thread: std::thread::current() });
        drop(places);
        // A thread may wake up without having been called.
        while !given.load(Ordering::Acquire) {
            std::thread::park();
        }
        Place(self)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.0.lock();
        match places.waiting.pop_front() {
            Some(Waiter { given, thread }) => {
                given.store(true, Ordering::Release);
                thread.unpark();
            }
            None => places.free += 1,
        }
    }
}
