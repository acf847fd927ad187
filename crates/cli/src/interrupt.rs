//! Ctrl-C and its like: the first asks the run to stop and report, a second one ends the program at once.

use crate::exit_code;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Signals within so much of the first one are part of it: terminals and service managers send several.
const TOGETHER: Duration = Duration::from_millis(500);

/// A file that grows beyond what `ulimit -f` allows is an error of the write then, and not the end of this program.
pub fn outlive_full_files() {
    // Without it a run that fills its store ends as one that was killed.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Signals that end other programs do not end this one: a guard ends when its work is done, also where a whole service is
/// told to stop.
pub fn outlast() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Where it cannot be done the guard is one that others can end.
        let _ = flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

/// From now on the first signal ends the program: all that was measured is stored.
pub fn end_at_next_signal() {
    let code = i32::from(exit_code::INTERRUPTED);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Where it cannot be done the second signal does it.
        let _ = flag::register_conditional_shutdown(signal, code, Arc::new(AtomicBool::new(true)));
    }
}

/// The flag that the first signal sets.
pub fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let told = Arc::clone(&stop);
    let watch = move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            told.store(true, Ordering::Relaxed);
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if since > TOGETHER {
                // Guards end the platform's processes then and remove its folder.
                low_level::exit(i32::from(exit_code::INTERRUPTED));
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(stop)
}
