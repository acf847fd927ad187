//! The clock of records and timers.

use plimsoll_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// The host's monotonic clock, that of a generator's stamps.
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// The processor time that this thread has used.
pub fn thread_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
