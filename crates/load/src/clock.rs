//! The run's clock.

use plimsoll_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Readings of both clocks of which the shortest counts: a thread may lose its processor between the two.
const READINGS: u32 = 3;

/// Reads the kernel's monotonic clock relative to the run's epoch. Copies tell the same time on every thread.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: i64,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Clock {
        Clock { epoch: read(ClockId::Monotonic) }
    }

    /// A clock whose epoch was when `CLOCK_MONOTONIC` showed so many nanoseconds.
    pub fn at(epoch: i64) -> Clock {
        Clock { epoch }
    }

    /// A clock that shows that time now: of a run that is continued.
    pub fn showing(now: Nanos) -> Clock {
        Clock { epoch: read(ClockId::Monotonic) - now.0 }
    }

    /// What `CLOCK_MONOTONIC` showed at the run's epoch, in nanoseconds; of a run that is continued, what it would have shown.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Time since the run's epoch.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(read(ClockId::Monotonic) - self.epoch)
    }
}

/// What `CLOCK_MONOTONIC` shows.
pub fn monotonic() -> Nanos {
    Nanos(read(ClockId::Monotonic))
}

/// Wall-clock time in nanoseconds since 1970, for kernel receive stamps and `{time}` in templates.
#[inline]
pub fn wall_nanos() -> i64 {
    read(ClockId::Realtime)
}

/// By how many nanoseconds the wall clock is ahead of `CLOCK_MONOTONIC`: of a few readings, the one that took the least time.
pub fn wall_ahead() -> i64 {
    let reading = |_| {
        let (before, wall, after) = (read(ClockId::Monotonic), wall_nanos(), read(ClockId::Monotonic));
        (after - before, wall - before.midpoint(after))
    };
    (0..READINGS).map(reading).min().map_or(0, |(_, ahead)| ahead)
}

#[inline]
fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
