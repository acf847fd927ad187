//! One look at the clocks of a component's processes, with the time before and after it, and what two looks tell.

use crate::schedstat;
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use plimsoll_model::Nanos;
use procfs::process::{Process, Stat};
use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::ClockId;
use std::collections::HashMap;

/// A look that took longer was interrupted: what it saw belongs to no moment.
const PROMPT: Nanos = Nanos::from_millis(2);
/// The same of threads, for each of which a file is read.
const PROMPT_THREADS: Nanos = Nanos::from_millis(50);
/// How far the kernel's account of a running thread may be behind: its tick, at most 10 ms.
const TICK: Nanos = Nanos::from_millis(10);

/// The time before and after something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bracket {
    pub before: Nanos,
    pub after: Nanos,
}

impl Bracket {
    fn around<T>(read: impl FnOnce() -> T) -> (Bracket, T) {
        let before = monotonic();
        let found = read();
        (Bracket { before, after: monotonic() }, found)
    }

    fn length(self) -> Nanos {
        self.after - self.before
    }
}

/// A process, told apart by its start, since numbers come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub pid: i32,
    /// Clock ticks since the host's boot.
    pub start: u64,
}

/// What was read of all processes together.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub cpu_bracket: Bracket,
    /// Time since the host's boot, at the beginning.
    pub since_boot: Nanos,
    /// Processor time so far, that of ended threads included.
    pub cpu: HashMap<Identity, Nanos>,
    pub threads_bracket: Bracket,
    /// Nanoseconds that each thread ran and waited for a processor so far.
    pub threads: HashMap<i32, (u64, u64)>,
    /// Processors that any of the threads may run on.
    pub processors: usize,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// From before the first reading to after the second: no time that is counted lies outside.
    pub window: Nanos,
    pub cpu: Nanos,
    /// Of the busiest thread.
    pub busiest_thread: Option<Nanos>,
    pub run_delay: Option<Nanos>,
}

impl Reading {
    /// Looks at all of a family's clocks in turn, with nothing in between.
    pub fn take(family: &[(Process, Stat)]) -> Reading {
        let since_boot = boot_time();
        let (cpu_bracket, cpu) = Bracket::around(|| {
            let all = family.iter().filter_map(|(process, stat)| {
                let identity = Identity { pid: process.pid, start: stat.starttime };
                Some((identity, cpu_clock(process.pid).or_else(|| ticks(process))?))
            });
            all.collect()
        });
        let threads: Vec<(i32, i32)> = family.iter().flat_map(|(process, _)| threads(process)).collect();
        let processors = processors(threads.iter().map(|&(_, tid)| tid));
        let (threads_bracket, threads) = Bracket::around(|| {
            let of = |&(pid, tid): &(i32, i32)| {
                let [ran, waited, _] = schedstat::of_thread(pid, tid)?;
                Some((tid, (ran, waited)))
            };
            threads.iter().filter_map(of).collect()
        });
        Reading { cpu_bracket, since_boot, cpu, threads_bracket, threads, processors }
    }

    /// Whether it saw one moment.
    pub fn is_prompt(&self) -> bool {
        self.cpu_bracket.length() <= PROMPT
    }

    /// What was used since an earlier reading; `None` where it cannot be: more than its processors have.
    pub fn since(&self, last: &Reading) -> Option<Usage> {
        let window = self.cpu_bracket.after - last.cpu_bracket.before;
        let tick = Nanos(1_000_000_000 / procfs::ticks_per_second().max(1) as i64);
        let begun = |identity: &Identity| {
            Nanos(tick.0.saturating_mul(identity.start as i64)) + tick >= last.since_boot
        };
        let used = self.cpu.iter().filter_map(|(identity, &cpu)| match last.cpu.get(identity) {
            Some(&before) => Some((cpu - before).max(Nanos::ZERO)),
            // One that was there before and not seen has used its time at no known moment.
            None => begun(identity).then_some(cpu),
        });
        let cpu = Nanos(used.map(|used| used.0).sum());
        // Threads may move between two readings to processors that they share with others then.
        let processors = self.processors.max(last.processors).max(1) as i64;
        let most = window * processors;
        if cpu > most + TICK * processors {
            return None;
        }
        let (busiest_thread, run_delay) = self.threads_since(last).unzip();
        let busiest_thread = busiest_thread.map(|busiest: Nanos| busiest.min(window));
        Some(Usage { window, cpu: cpu.min(most), busiest_thread, run_delay })
    }

    /// How long the busiest thread ran, and how long all waited for a processor.
    fn threads_since(&self, last: &Reading) -> Option<(Nanos, Nanos)> {
        let prompt = |reading: &Reading| reading.threads_bracket.length() <= PROMPT_THREADS;
        if self.threads.is_empty() || !prompt(self) || !prompt(last) {
            return None;
        }
        // A thread that ended meanwhile takes its last times along; a number that came again has run and waited less.
        let spans = self.threads.iter().filter_map(|(thread, (ran, waited))| {
            let (before, waited_before) = last.threads.get(thread).copied().unwrap_or_default();
            Some((ran.checked_sub(before)?, waited.checked_sub(waited_before)?))
        });
        let (busiest, waited) =
            spans.fold((0, 0), |(most, sum): (u64, u64), (ran, waited)| (most.max(ran), sum + waited));
        Some((Nanos(busiest as i64), Nanos(waited as i64)))
    }
}

/// Time on the clock that brackets are read from.
pub(crate) fn monotonic() -> Nanos {
    of_clock(ClockId::Monotonic)
}

fn boot_time() -> Nanos {
    of_clock(ClockId::Boottime)
}

fn of_clock(clock: ClockId) -> Nanos {
    let time = rustix::time::clock_gettime(clock);
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Processor time of a process in nanoseconds, threads that have ended included (clock_getcpuclockid(3)).
fn cpu_clock(pid: i32) -> Option<Nanos> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
    Some(Nanos(clock_gettime(clock).ok()?.num_nanoseconds()))
}

/// The same in clock ticks, where the kernel has no such clock.
fn ticks(process: &Process) -> Option<Nanos> {
    let stat = process.stat().ok()?;
    Some(Nanos::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64))
}

fn threads(process: &Process) -> Vec<(i32, i32)> {
    let Ok(tasks) = process.tasks() else { return Vec::new() };
    tasks.flatten().map(|task| (task.pid, task.tid)).collect()
}

/// How many processors any of the threads may run on; all of the host where none of them can be asked.
fn processors(threads: impl Iterator<Item = i32>) -> usize {
    let mut any = [false; CpuSet::MAX_CPU];
    for thread in threads {
        let Some(set) =
            rustix::process::Pid::from_raw(thread).and_then(|pid| sched_getaffinity(Some(pid)).ok())
        else {
            continue;
        };
        any.iter_mut().enumerate().for_each(|(index, any)| *any |= set.is_set(index));
    }
    match any.iter().filter(|&&any| any).count() {
        0 => CpuSet::MAX_CPU,
        count => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: i64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    /// A look at one process on one processor, from `before` to `after`, at which it had used `cpu`, in ms.
    fn reading([before, after, cpu]: [i64; 3]) -> Reading {
        let bracket = Bracket { before: ms(before), after: ms(after) };
        Reading {
            cpu_bracket: bracket,
            since_boot: ms(100_000 + before),
            cpu: HashMap::from([(Identity { pid: 7, start: 1 }, ms(cpu))]),
            threads_bracket: bracket,
            threads: HashMap::from([(7, (ms(cpu).0 as u64, ms(cpu).0 as u64)), (8, (5, 0))]),
            processors: 1,
        }
    }

    #[test]
    fn no_time_that_is_counted_lies_outside_the_window() {
        let usage = reading([1000, 1001, 1400]).since(&reading([0, 1, 400])).unwrap();
        assert_eq!((usage.window, usage.cpu, usage.run_delay), (ms(1001), ms(1000), Some(ms(1000))));
        assert_eq!(usage.busiest_thread, Some(ms(1000)));
    }

    /// The planted fault: between the stamp and the reading the sampler was kept away for 700 ms.
    #[test]
    fn a_look_that_was_interrupted_is_seen_and_its_time_belongs_to_the_window() {
        let (first, second) = (reading([0, 1, 0]), reading([300, 1000, 990]));
        assert!(first.is_prompt() && !second.is_prompt());
        let usage = second.since(&first).unwrap();
        assert!(usage.cpu <= usage.window && usage.run_delay.is_none(), "{usage:?}");
    }

    #[test]
    fn more_than_its_processors_have_is_a_gap_and_a_tick_more_is_the_kernels_grain() {
        let first = reading([0, 1, 0]);
        assert_eq!(reading([100, 101, 331]).since(&first), None);
        assert_eq!(reading([100, 101, 108]).since(&first).unwrap().cpu, ms(101));
        let two = Reading { processors: 2, ..reading([100, 101, 190]) };
        assert_eq!(two.since(&first).unwrap().cpu, ms(190));
    }

    #[test]
    fn a_process_that_was_overlooked_before_brings_no_old_time_along() {
        let first = reading([0, 1, 50]);
        let mut second = reading([1000, 1001, 60]);
        let tick = 1_000 / procfs::ticks_per_second();
        let old = Identity { pid: 8, start: 100 };
        let young = Identity { pid: 9, start: 100_500 / tick };
        second.cpu.extend([(old, ms(800)), (young, ms(30))]);
        assert_eq!(second.since(&first).unwrap().cpu, ms(40));
    }
}
