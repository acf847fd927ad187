//! Ctrl-C and its like: the first asks the run to stop and report, the second ends the program at once.

use crate::exit_code;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The flag that the first signal sets.
pub fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Registered first: it acts only when the flag was set by an earlier signal. The platform's processes die
        // with this one.
        flag::register_conditional_shutdown(signal, i32::from(exit_code::INTERRUPTED), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
