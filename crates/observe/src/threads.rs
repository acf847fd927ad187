//! What the host gives and takes from the load threads: processor time, waiting for a processor (schedstat), and
//! time that the hypervisor took (steal).

use crate::processor_times;
use crate::schedstat;
use plimsoll_model::Nanos;
use plimsoll_model::record::ThreadUsage;

/// Reads the load threads of this process again and again.
#[derive(Debug)]
pub struct ThreadSampler {
    /// Kernel thread ids and the processors they are bound to.
    threads: Vec<(i32, Option<usize>)>,
    last: Option<Reading>,
}

#[derive(Clone, Debug)]
struct Reading {
    at: Nanos,
    /// Processor time (ns), waiting time (ns) and time slices of each thread; `None` where it could not be read.
    threads: Vec<Option<[u64; 3]>>,
    /// Ticks stolen from each processor.
    steal: Vec<u64>,
}

impl ThreadSampler {
    /// Watches the given threads of this process.
    pub fn new(threads: Vec<(i32, Option<usize>)>) -> ThreadSampler {
        ThreadSampler { threads, last: None }
    }

    /// Forgets the last reading, so that the next one begins anew.
    pub fn restart(&mut self, now: Nanos) {
        self.last = Some(self.read(now));
    }

    /// What each thread was given since the last reading, booked under a level's sample. Threads that could not be
    /// read at both ends are left out.
    pub fn sample(&mut self, now: Nanos, level: u16, sample: u16) -> Vec<ThreadUsage> {
        let reading = self.read(now);
        let Some(last) = self.last.replace(reading.clone()) else { return Vec::new() };
        let threads = last.threads.iter().zip(&reading.threads).zip(&self.threads);
        (0..)
            .zip(threads)
            .filter_map(|(thread, ((before, after), &(_, processor)))| {
                let ([cpu, run_delay, timeslices], [cpu_now, run_delay_now, timeslices_now]) =
                    ((*before)?, (*after)?);
                Some(ThreadUsage {
                    level,
                    sample,
                    thread,
                    wall: reading.at - last.at,
                    cpu: Nanos(cpu_now.saturating_sub(cpu) as i64),
                    run_delay: Nanos(run_delay_now.saturating_sub(run_delay) as i64),
                    timeslices: timeslices_now.saturating_sub(timeslices),
                    steal: stolen(&last.steal, &reading.steal, processor),
                })
            })
            .collect()
    }

    fn read(&self, now: Nanos) -> Reading {
        let own = std::process::id() as i32;
        let threads = self.threads.iter().map(|&(id, _)| schedstat::of_thread(own, id)).collect();
        let processors = processor_times::read().unwrap_or_default();
        Reading { at: now, threads, steal: processors.iter().map(|processor| processor.steal).collect() }
    }
}

/// Stolen from the thread's processor, or, for a thread that may run anywhere, from the average one.
fn stolen(before: &[u64], after: &[u64], processor: Option<usize>) -> Nanos {
    // Where one of the two could not be read, nothing is known.
    let difference = |index: usize| {
        let ends = before.get(index).zip(after.get(index));
        ends.map_or(0, |(before, after)| after.saturating_sub(*before))
    };
    let ticks = match processor {
        Some(index) => difference(index) as f64,
        None => (0..after.len()).map(difference).sum::<u64>() as f64 / after.len().max(1) as f64,
    };
    Nanos::from_secs_f64(ticks / procfs::ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_seen_working() {
        let own = procfs::process::Process::myself().unwrap();
        let ids: Vec<(i32, Option<usize>)> =
            own.tasks().unwrap().flatten().map(|task| (task.tid, None)).collect();
        let mut sampler = ThreadSampler::new(ids);
        sampler.restart(Nanos(0));
        crate::spinning::spin(Nanos::from_millis(20));
        let usages = sampler.sample(Nanos::from_millis(30), 1, 2);
        assert!(usages.iter().any(|usage| usage.cpu >= Nanos::from_millis(19)), "{usages:?}");
        assert!(usages.iter().all(|usage| (usage.level, usage.sample) == (1, 2)));
    }

    #[test]
    fn a_thread_that_is_gone_is_left_out() {
        let mut sampler = ThreadSampler::new(vec![(-1, None)]);
        sampler.restart(Nanos(0));
        assert!(sampler.sample(Nanos(1), 0, 0).is_empty());
    }
}
