//! The clock of records and timers.

use plimsoll_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The host's monotonic clock, that of a generator's stamps.
pub fn monotonic() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
