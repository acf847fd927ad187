//! What this host does right now, found by trying: how late a thread wakes up, whether it may go first, and how much of
//! the processors others take.

use plimsoll_model::{Histogram, Nanos};
use procfs::{CurrentSI, KernelStats};
use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// What a load thread would ask for ("nice" value).
const PRECEDENCE: i32 = -15;
/// The shortest sleep tried, and by how much each of a round is longer than the one before: due times have no rhythm.
const SHORTEST: Duration = Duration::from_micros(150);
const LONGER: Duration = Duration::from_micros(37);
const ROUND: u32 = 16;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probe {
    /// By how much wake-ups were later than asked for.
    pub wake_up: Histogram,
    /// Whether a thread may ask to go before others.
    pub precedence: bool,
    /// Share of the processors' time that the hypervisor took; `None` where it cannot be read.
    pub steal: Option<f64>,
    /// Processors' worth of time that somebody used, this probe (a few per cent of one) included.
    pub busy: Option<f64>,
}

impl Probe {
    /// Watches for so long, on a thread of its own that behaves as a load thread does.
    pub fn take(time: Duration) -> Probe {
        let before = processors();
        let begin = Instant::now();
        let (wake_up, precedence) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(time));
            // A thread that ends in a panic has nothing to tell, which shows as no observations.
            watching.join().unwrap_or_default()
        });
        let (elapsed, after) = (begin.elapsed().as_secs_f64(), processors());
        let used = before.zip(after).map(|(before, after)| {
            let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
            let all = after.count.max(1) as f64 * elapsed;
            let steal = seconds(after.steal.saturating_sub(before.steal)) / all;
            (steal, seconds(after.busy.saturating_sub(before.busy)) / elapsed)
        });
        Probe { wake_up, precedence, steal: used.map(|used| used.0), busy: used.map(|used| used.1) }
    }
}

fn watch(time: Duration) -> (Histogram, bool) {
    let precedence = setpriority_process(Some(gettid()), PRECEDENCE).is_ok();
    // Without it wake-ups are up to 50 µs later, as those of a load thread would be.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
    let mut late = Histogram::new();
    let end = Instant::now() + time;
    for step in (0..ROUND).cycle() {
        let begin = Instant::now();
        if begin >= end {
            break;
        }
        let pause = SHORTEST + LONGER * step;
        std::thread::sleep(pause);
        late.record(Nanos::from(begin.elapsed().saturating_sub(pause)));
    }
    (late, precedence)
}

/// Ticks of all processors together.
struct Processors {
    count: usize,
    busy: u64,
    steal: u64,
}

fn processors() -> Option<Processors> {
    let stats = KernelStats::current().ok()?;
    let total = stats.total;
    let busy = total.user + total.nice + total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0);
    Some(Processors { count: stats.cpu_time.len(), busy, steal: total.steal.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_seen_and_never_early() {
        let probe = Probe::take(Duration::from_millis(200));
        // The longest sleep is 705 µs; a machine that stalls has fewer wake-ups.
        assert!(probe.wake_up.count() >= 10, "{probe:?}");
        assert!(probe.wake_up.min() > Some(Nanos::ZERO), "a wake-up takes time: {probe:?}");
        assert!(probe.steal.is_some_and(|share| (0.0..=1.5).contains(&share)), "{probe:?}");
    }
}
