//! Ctrl-C and its like: the first asks the run to stop and report, the second ends the program at once.

use crate::exit_code;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Registered first: it acts only when the flag was set by an earlier signal. Guards end the platform's processes then
        // and remove its folder.
        flag::register_conditional_shutdown(signal, i32::from(exit_code::INTERRUPTED), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
