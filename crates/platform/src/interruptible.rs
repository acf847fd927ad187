//! Work that cannot be broken off, such as asking a name server: whoever waits for it can be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Does some work in a thread of its own and waits for it; `None` where `stop` is set before it is done. The work goes on then,
/// and nobody hears of it.
pub fn unless_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = channel();
    thread::spawn(move || {
        // Nobody listens who does not wait any more.
        let _ = done.send(work());
    });
    loop {
        match result.recv_timeout(LOOK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_done_is_heard_and_what_takes_too_long_is_left_alone() {
        let stop = Arc::new(AtomicBool::new(false));
        assert_eq!(unless_stopped(&stop, || 7), Some(7));
        let (release, held) = channel::<()>();
        let seen = Arc::clone(&stop);
        let work = move || {
            seen.store(true, Ordering::Relaxed);
            let _ = held.recv();
        };
        assert_eq!(unless_stopped(&stop, work), None);
        drop(release);
    }
}
