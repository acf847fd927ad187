//! Work that goes on side by side at one speed: as many jobs as there are processors have one each, and more of them
//! share the processors equally (egalitarian processor sharing).

use plimsoll_model::Nanos;
use std::collections::BTreeMap;

/// Parts of a nanosecond in which progress is counted, so that shares of it can be.
const PARTS: i128 = 1 << 32;

/// Jobs at work. All of them make the same progress, so that each is done when one common counter reaches the value
/// that was noted when it began: no job is touched until then.
#[derive(Clone, Debug)]
pub struct Progress<T> {
    processors: i128,
    /// What a job that is at work all the time has had, in [`PARTS`] of a nanosecond.
    had: i128,
    /// By the counter at which they are done, then in the order in which they began.
    jobs: BTreeMap<(i128, u64), T>,
    begun: u64,
}

impl<T> Progress<T> {
    /// Nothing at work, on so many processors, one at least.
    pub fn new(processors: usize) -> Progress<T> {
        Progress { processors: processors.max(1) as i128, had: 0, jobs: BTreeMap::new(), begun: 0 }
    }

    /// A job begins that takes so long on a processor of its own.
    pub fn begin(&mut self, job: T, work: Nanos) {
        let done = self.had + i128::from(work.0.max(0)) * PARTS;
        self.jobs.insert((done, self.begun), job);
        self.begun += 1;
    }

    /// Processors that work.
    pub fn busy(&self) -> i64 {
        self.processors.min(self.jobs.len() as i128) as i64
    }

    /// How long it takes until a job is done, rounded up to the nanosecond; `None` where nothing is at work.
    pub fn left(&self) -> Option<Nanos> {
        let ((done, _), _) = self.jobs.first_key_value()?;
        let (jobs, speed) = (self.jobs.len() as i128, i128::from(self.busy()) * PARTS);
        let nanos = ((done - self.had) * jobs + speed - 1) / speed;
        Some(Nanos(i64::try_from(nanos.max(0)).unwrap_or(i64::MAX)))
    }

    /// All jobs go on for that time: [`Progress::left`] at most, so that as many are at work all along.
    pub fn run(&mut self, time: Nanos) {
        if !self.jobs.is_empty() {
            self.had += i128::from(time.0) * PARTS * i128::from(self.busy()) / self.jobs.len() as i128;
        }
    }

    /// A job that is done by now.
    pub fn take_done(&mut self) -> Option<T> {
        let first = self.jobs.first_entry()?;
        (first.key().0 <= self.had).then(|| first.remove())
    }
}
