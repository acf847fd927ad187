//! For tests: work that takes a known processor time, whatever else runs on the host.

use plimsoll_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Returns after the calling thread has used so much processor time.
pub(crate) fn spin(processor_time: Nanos) {
    let used = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Nanos::from_secs(now.tv_sec) + Nanos(now.tv_nsec)
    };
    let begin = used();
    while used() - begin < processor_time {
        // To ask for the time is the kernel's work; this is the program's.
        (0..100_000).for_each(|number| {
            std::hint::black_box(number);
        });
    }
}
