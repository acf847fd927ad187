//! A quota of processor time, as `cpu.max` of a control group: when it is used up, everything stands still until the
//! next period begins.

use super::pace::Pace;
use plimsoll_model::Nanos;

/// How much all workers together may work in each period. Periods begin at multiples of their length, counted from time
/// zero; what was not used in one is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Time that workers are busy, summed over all of them.
    pub work: Nanos,
    /// Length of a period.
    pub period: Nanos,
}

/// What is left of a quota.
#[derive(Clone, Debug)]
pub struct Budget {
    quota: Quota,
    /// The period, counted from time zero, and what is left in it.
    last: (i64, Nanos),
}

impl Budget {
    /// Nothing is used yet. A quota in which `workers` cannot work a nanosecond each counts as one in which they can:
    /// nothing would ever be done.
    pub fn new(quota: Quota, workers: usize) -> Budget {
        let least = Nanos(i64::try_from(workers.max(1)).unwrap_or(i64::MAX));
        let quota = Quota { work: quota.work.max(least), period: quota.period.max(Nanos(1)) };
        Budget { quota, last: (0, quota.work) }
    }

    /// How workers go on from `now` where `busy` of them work. They stand where what is left does not give each of them
    /// a nanosecond, so that no period has more work than its quota.
    pub fn pace(&self, now: Nanos, busy: i64) -> Pace {
        let (period, left) = self.at(now);
        let end = self.quota.period * (period + 1);
        let each = left / busy.max(1);
        if each.0 == 0 { Pace::Stands(end) } else { Pace::Works(end.min(now + each)) }
    }

    /// Workers have worked for so long together, from `now` on and within its period.
    pub fn spend(&mut self, now: Nanos, work: Nanos) {
        let (period, left) = self.at(now);
        self.last = (period, left - work);
    }

    fn at(&self, now: Nanos) -> (i64, Nanos) {
        let period = now.0.div_euclid(self.quota.period.0);
        if period > self.last.0 { (period, self.quota.work) } else { self.last }
    }
}
