//! Uses processors for a time, so that a platform on them has less of them.

use crate::clock::{monotonic, processor_time};
use crate::precedence::take_precedence;
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// When processors are used, on the host's monotonic clock in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupation {
    /// From when.
    pub from: i64,
    /// Up to when.
    pub to: i64,
    /// For how long at the beginning of each cycle.
    pub length: i64,
    /// From the beginning of one cycle to that of the next.
    pub cycle: i64,
}

/// Threads that use processors, one for each. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Occupier {
    occupation: Occupation,
    /// What each returns is how long it had its processor, in nanoseconds.
    threads: Vec<JoinHandle<i64>>,
    stop: Arc<AtomicBool>,
}

impl Occupier {
    /// Starts a thread for each of the processors.
    ///
    /// # Errors
    /// The operating system refuses one.
    pub fn start(processors: &[usize], occupation: Occupation) -> io::Result<Occupier> {
        let mut occupier = Occupier { occupation, threads: Vec::new(), stop: Arc::default() };
        for &processor in processors {
            let stop = Arc::clone(&occupier.stop);
            let thread = thread::Builder::new().name(format!("occupier-{processor}"));
            occupier.threads.push(thread.spawn(move || occupy(processor, occupation, &stop))?);
        }
        Ok(occupier)
    }

    /// When it began.
    pub fn from(&self) -> i64 {
        self.occupation.from
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Ends it: the share of each processor's time that it had, the mean of all.
    pub fn end(mut self) -> f64 {
        let count = self.threads.len().max(1);
        let had = self.join() as f64 / count as f64;
        had / (self.occupation.to - self.occupation.from).max(1) as f64
    }

    /// What all threads had, in nanoseconds.
    fn join(&mut self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        // A thread that ended in a panic has had nothing to tell of.
        take(&mut self.threads).into_iter().filter_map(|thread| thread.join().ok()).sum()
    }
}

impl Drop for Occupier {
    fn drop(&mut self) {
        self.join();
    }
}

/// The processors that this process may run on.
pub(crate) fn all_processors() -> Vec<usize> {
    // The first thread speaks for the process: the others may be bound.
    let set = sched_getaffinity(Some(getpid()));
    (0..CpuSet::MAX_CPU).filter(|&processor| set.as_ref().is_ok_and(|set| set.is_set(processor))).collect()
}

/// Uses a processor as it was told: how long it had it, in nanoseconds.
fn occupy(processor: usize, Occupation { from, to, length, cycle }: Occupation, stop: &AtomicBool) -> i64 {
    let mut own = CpuSet::new();
    own.set(processor);
    if sched_setaffinity(None, &own).is_err() {
        // It would take the time of another.
        return 0;
    }
    take_precedence();
    let before = processor_time();
    let goes_on = || !stop.load(Ordering::Relaxed);
    let mut begin = from;
    while begin < to && goes_on() {
        let end = begin.saturating_add(length).min(to);
        while let Ok(rest @ 1..) = u64::try_from(begin - monotonic())
            && goes_on()
        {
            thread::park_timeout(Duration::from_nanos(rest));
        }
        while monotonic() < end && goes_on() {
            std::hint::spin_loop();
        }
        begin = begin.saturating_add(cycle.max(1));
    }
    processor_time() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_once_where_it_is_not_wanted_any_more() {
        let from = monotonic() + 3_600_000_000_000;
        let occupation = Occupation { from, to: from + 1_000_000_000, length: 1_000_000, cycle: 2_000_000 };
        let occupier = Occupier::start(&all_processors(), occupation).unwrap();
        assert!(!occupier.is_over() && !occupier.threads.is_empty());
        assert!(occupier.end() < 0.01);
    }

    #[test]
    fn the_dose_is_what_it_had() {
        let from = monotonic();
        let occupation = Occupation { from, to: from + 200_000_000, length: 10_000_000, cycle: 40_000_000 };
        let processors = all_processors();
        let occupier = Occupier::start(&processors[..1], occupation).unwrap();
        while !occupier.is_over() {
            thread::sleep(Duration::from_millis(1));
        }
        let dose = occupier.end();
        // A busy machine gives less.
        assert!((0.02..=0.26).contains(&dose), "{dose}");
    }
}
