//! The clock of orders and doses.

use rustix::time::{ClockId, clock_gettime};

/// What the host's monotonic clock shows, in nanoseconds.
pub(crate) fn monotonic() -> i64 {
    nanoseconds(ClockId::Monotonic)
}

/// How long this thread has used a processor, in nanoseconds.
pub(crate) fn processor_time() -> i64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
