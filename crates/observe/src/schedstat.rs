//! What the scheduler knows of a thread (Linux, Documentation/scheduler/sched-stats).

use std::fs;

/// Time on a processor and time of waiting for one, in nanoseconds, and how often it was put on one.
pub(crate) fn of_thread(process: i32, thread: i32) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?])
}
