//! Processor time, memory and descriptors of a component: its process and all descendants.

use plimsoll_model::Nanos;
use plimsoll_model::record::ComponentUsage;
use procfs::process::{Process, Stat, all_processes};
use std::collections::HashMap;

/// Reads one component again and again.
#[derive(Debug)]
pub struct ProcessSampler {
    component: String,
    root: i32,
    last: Option<Reading>,
}

#[derive(Clone, Debug)]
struct Reading {
    at: Nanos,
    /// Processor time of each process so far, in clock ticks; told apart by start time, since pids come again.
    ticks: HashMap<(i32, u64), u64>,
    /// Nanoseconds that each thread waited for a processor so far.
    waits: HashMap<i32, u64>,
}

impl ProcessSampler {
    /// Watches the process `root` and its descendants under the component's name.
    pub fn new(component: String, root: i32) -> ProcessSampler {
        ProcessSampler { component, root, last: None }
    }

    /// What the component used since the last call; `None` at the first call and when its processes are gone.
    /// A reading that fails is a gap, never a zero.
    pub fn sample(&mut self, now: Nanos) -> Option<ComponentUsage> {
        let family = family(self.root);
        if family.is_empty() {
            self.last = None;
            return None;
        }
        let ticks =
            family.iter().map(|(process, stat)| ((process.pid, stat.starttime), stat.utime + stat.stime));
        let waits = family.iter().flat_map(|(process, _)| waits(process)).collect();
        let reading = Reading { at: now, ticks: ticks.collect(), waits };
        let last = self.last.replace(reading.clone())?;
        let used: u64 = reading
            .ticks
            .iter()
            .map(|(process, ticks)| ticks.saturating_sub(last.ticks.get(process).copied().unwrap_or(0)))
            .sum();
        // A thread that ended meanwhile takes its last wait along; a number that came again has waited less.
        let waited = reading
            .waits
            .iter()
            .filter_map(|(thread, wait)| wait.checked_sub(last.waits.get(thread).copied().unwrap_or(0)));
        let waited: u64 = waited.sum();
        let page = procfs::page_size();
        Some(ComponentUsage {
            component: self.component.clone(),
            at: now,
            window: now - last.at,
            cpu: Nanos::from_secs_f64(used as f64 / procfs::ticks_per_second() as f64),
            run_delay: (!reading.waits.is_empty()).then_some(Nanos(waited as i64)),
            held_by_others: None,
            holder: None,
            rss: family.iter().map(|(_, stat)| stat.rss * page).sum(),
            descriptors: family.iter().map(|(process, _)| process.fd_count().unwrap_or(0) as u64).sum(),
        })
    }
}

/// How long each thread of a process waited for a processor (Linux, Documentation/scheduler/sched-stats).
fn waits(process: &Process) -> Vec<(i32, u64)> {
    let Ok(tasks) = process.tasks() else { return Vec::new() };
    let wait = |pid: i32, tid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        Some((tid, text.split_whitespace().nth(1)?.parse().ok()?))
    };
    tasks.flatten().filter_map(|task| wait(task.pid, task.tid)).collect()
}

/// This process, in a form by which [`is_alive`] knows it: the boot of the host, its number, and when it began in clock
/// ticks, since numbers come again. `None` where that cannot be read.
pub fn own_identity() -> Option<String> {
    identity(&Process::myself().ok()?)
}

/// Whether that process runs on this host, as far as can be seen from here: one in another container cannot.
pub fn is_alive(process: &str) -> bool {
    let number = process.split('/').nth(1).and_then(|number| number.parse().ok());
    let found = number.and_then(|number| Process::new(number).ok());
    found.and_then(|found| identity(&found)).is_some_and(|found| found == process)
}

fn identity(process: &Process) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = process.stat().ok().filter(|stat| stat.state != 'Z')?;
    Some(format!("{}/{}/{}", boot.trim(), stat.pid, stat.starttime))
}

/// A process and its descendants, with what the kernel tells of each.
pub(crate) fn family(root: i32) -> Vec<(Process, Stat)> {
    let Ok(all) = all_processes() else { return Vec::new() };
    let all: Vec<(Process, Stat)> = all
        .filter_map(Result::ok)
        .filter_map(|process| process.stat().ok().map(|stat| (process, stat)))
        .collect();
    let parents: HashMap<i32, i32> = all.iter().map(|(process, stat)| (process.pid, stat.ppid)).collect();
    let descends = |mut pid: i32| {
        // Parents form no cycle, but they are read one after another; the bound ends a walk through a torn picture.
        for _ in 0..64 {
            if pid == root {
                return true;
            }
            match parents.get(&pid) {
                Some(&parent) if parent > 0 => pid = parent,
                _ => return false,
            }
        }
        false
    };
    all.into_iter().filter(|(process, stat)| stat.state != 'Z' && descends(process.pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_shows_its_processor_time_memory_and_descriptors() {
        let mut sampler = ProcessSampler::new("self".into(), std::process::id() as i32);
        assert_eq!(sampler.sample(Nanos(0)), None);
        let begin = std::time::Instant::now();
        let mut spun = 0u64;
        // Clock ticks are 10 ms; 50 ms of work show whatever the rounding.
        while procfs::process::Process::myself().unwrap().stat().unwrap().utime < 5
            || begin.elapsed().as_millis() < 50
        {
            spun = spun.wrapping_add(1);
        }
        let usage = sampler.sample(Nanos::from_secs(1)).unwrap();
        assert!(usage.cpu > Nanos::ZERO && usage.rss > 100_000 && usage.descriptors >= 3, "{usage:?} {spun}");
    }

    #[test]
    fn more_busy_threads_than_processors_are_seen_waiting() {
        let mut sampler = ProcessSampler::new("self".into(), std::process::id() as i32);
        sampler.sample(Nanos(0));
        let threads = std::thread::available_parallelism().unwrap().get() * 2;
        let usage = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let begin = std::time::Instant::now();
                    while begin.elapsed().as_millis() < 300 {}
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(250));
            sampler.sample(Nanos::from_millis(250)).unwrap()
        });
        // Each of twice as many threads as processors waits half of the time; a tenth of that is seen at least.
        let least = Nanos::from_millis(250 * threads as i64 / 20);
        assert!(usage.run_delay.is_some_and(|waited| waited > least), "{usage:?}");
    }

    #[test]
    fn a_process_is_known_while_it_lives_and_not_by_its_number_alone() {
        let own = own_identity().unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&format!("{own}1")) && !is_alive("") && !is_alive("boot/1/2"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let its = identity(&Process::new(child.id() as i32).unwrap()).unwrap();
        assert!(is_alive(&its));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&its));
    }

    #[test]
    fn a_process_that_is_gone_is_a_gap() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut sampler = ProcessSampler::new("gone".into(), child.id() as i32);
        sampler.sample(Nanos(0));
        child.wait().unwrap();
        assert_eq!(sampler.sample(Nanos(1)), None);
    }
}
