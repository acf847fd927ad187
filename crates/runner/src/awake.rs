//! When this host was awake: a thread that wakes up again and again and notes the time. Where every conversation waits, nothing
//! else tells a component that stands still from a host that does.

use plimsoll_load::clock::wall_nanos;
use plimsoll_model::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// From one waking to the next: twice in each tenth of a second.
const PERIOD: Duration = Duration::from_millis(45);
/// Times that are kept: an hour.
const MOST: usize = 80_000;

/// The thread; dropped, it ends.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Nanos>>>,
}

impl Awake {
    /// Begins to note; `None` where the system gives no thread.
    pub fn begin() -> Option<Awake> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let note = move || {
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) && times.len() < MOST {
                times.push(Nanos(wall_nanos()));
                std::thread::sleep(PERIOD);
            }
            times
        };
        let thread = std::thread::Builder::new().name("awake".into()).spawn(note).ok()?;
        Some(Awake { over, thread: Some(thread) })
    }

    /// Ends it: the times at which it was awake, since 1970.
    pub fn end(mut self) -> Vec<Nanos> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_noted_until_the_end_and_lie_between_both_ends() {
        let begun = Nanos(wall_nanos());
        let awake = Awake::begin().unwrap();
        std::thread::sleep(4 * PERIOD);
        let times = awake.end();
        assert!(times.len() >= 2 && times.is_sorted(), "{times:?}");
        assert!(times.iter().all(|&at| (begun..=Nanos(wall_nanos())).contains(&at)), "{times:?}");
    }
}
