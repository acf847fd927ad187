//! Work that cannot be broken off, such as asking a name server: whoever waits for it can be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

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

/// Waits so long, or until `stop` is set: whether it is not.
pub fn pause(stop: &AtomicBool, length: Duration) -> bool {
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match length.checked_sub(begin.elapsed()) {
            Some(rest) if !rest.is_zero() => thread::sleep(rest.min(LOOK)),
            _ => return true,
        }
    }
    false
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

    #[test]
    fn a_pause_ends_with_the_users_word() {
        let stop = AtomicBool::new(false);
        assert!(pause(&stop, Duration::from_millis(1)));
        stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        assert!(!pause(&stop, Duration::from_secs(3600)) && begin.elapsed() < Duration::from_secs(60));
    }
}
