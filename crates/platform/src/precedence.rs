//! Threads that go before all others, for the moments in which they do something.

use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use std::num::NonZeroU64;

/// Scheduling priority ("nice" value) of such a thread; root alone may ask for it.
const PRECEDENCE: i32 = -20;

/// Lets this thread go first and wake up on time, where the system grants it.
pub(crate) fn take_precedence() {
    let _ = setpriority_process(Some(gettid()), PRECEDENCE);
    // Without it every wake-up is 50 µs late.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}
