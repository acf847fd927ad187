//! What processes outside the platform take of the processors that its components may run on: a component that waits for
//! those is not slow. Threads of the platform that wait for each other do not count, nor do threads of the kernel, which
//! work for whoever asked them.
//!
//! A process counts with the processor time that it and its ended children used since the last look, split over processors
//! by where its threads ran last. One that moved on meanwhile, or ended, is thus looked for where it was not: what programs used
//! of a component's processors beyond what the platform used anywhere counts in any case, also of processes that this one cannot
//! see, as those of another container. What the hypervisor takes counts too.

use crate::family::{GUARD, KERNEL_THREAD, Processes};
use crate::processor_times;
use plimsoll_model::Nanos;
use procfs::process::{Process, Stat};
use rustix::thread::{CpuSet, Pid, sched_getaffinity};
use std::collections::{HashMap, HashSet};

/// A process that used less than this share of one processor is not looked at more closely.
const IDLE: f64 = 0.005;

/// Ticks of one processor that a look may book on the wrong side: the kernel counts whole ticks where it interrupts.
const GRAIN: u64 = 2;

/// What others took of one component's processors.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Length of the look back.
    pub window: Nanos,
    /// Time in which others held the processors that the component may run on, averaged over these.
    pub held: Nanos,
    /// Who held them longest, with its process id; `None` where nobody did.
    pub holder: Option<String>,
    /// These processors.
    pub processors: Vec<usize>,
}

/// Looks again and again.
#[derive(Debug, Default)]
pub struct OutsideSampler {
    last: Option<Picture>,
}

#[derive(Debug)]
struct Picture {
    at: Nanos,
    processes: HashMap<i32, Seen>,
    /// Ticks stolen from each processor.
    steal: Vec<u64>,
    /// Ticks that programs used of each processor, without the kernel's work for them.
    used: Vec<u64>,
}

/// One process as it was seen.
#[derive(Clone, Debug)]
struct Seen {
    started: u64,
    parent: i32,
    group: i32,
    name: String,
    /// Ticks of the process itself, and of its children that have ended and were waited for.
    own: u64,
    ended: u64,
    /// Of both together, without the kernel's work for it.
    user: u64,
}

/// A process outside the platform and what it used: its name, and its ticks by processor.
struct Stranger {
    name: String,
    ticks: HashMap<usize, f64>,
}

impl OutsideSampler {
    /// What others took from each component since the last call; nothing at the first. Components are given with the
    /// processes that they began with.
    pub fn sample(&mut self, components: &[(String, i32)], all: &Processes) -> HashMap<String, Held> {
        let Some(last) = self.last.replace(Picture::of(all)) else { return HashMap::new() };
        let Some(now) = &self.last else { return HashMap::new() };
        let window = now.at - last.at;
        if window <= Nanos::ZERO {
            return HashMap::new();
        }
        let platform = now.families(components);
        let strangers = strangers(&last, now, &platform).into_iter();
        let strangers: Vec<Stranger> =
            strangers.map(|(pid, name, used)| Stranger { name, ticks: split(pid, used) }).collect();
        let stolen = |processor: usize| {
            let ticks = |picture: &Picture| picture.steal.get(processor).copied().unwrap_or(0);
            ticks(now).saturating_sub(ticks(&last)) as f64
        };
        let before = last.families(components);
        // What a process of the platform used that has ended may be in nobody's account any more: then others are only those seen.
        let has_ended = before.iter().any(|pid| !now.processes.contains_key(pid));
        let of_platform =
            if has_ended { u64::MAX } else { now.user(&platform).saturating_sub(last.user(&before)) };
        let of = |(name, root): &(String, i32)| {
            let processors = allowed(*root)?;
            let least = beyond(&processors, [&last.used, &now.used], of_platform);
            Some((name.clone(), held(&processors, &strangers, least, stolen, window)))
        };
        components.iter().filter_map(of).collect()
    }
}

impl Picture {
    fn of(all: &Processes) -> Picture {
        let programs = all.stats.values().filter(|stat| stat.flags & KERNEL_THREAD == 0 && stat.state != 'Z');
        let processes = programs.map(|stat| (stat.pid, Seen::of(stat))).collect();
        let processors = processor_times::read().unwrap_or_default();
        let steal = processors.iter().map(|processor| processor.steal).collect();
        let used = processors.iter().map(|processor| processor.user).collect();
        Picture { at: all.at, processes, steal, used }
    }

    /// What these processes and their ended children have used, without the kernel's work for them.
    fn user(&self, processes: &HashSet<i32>) -> u64 {
        processes.iter().filter_map(|pid| self.processes.get(pid)).map(|seen| seen.user).sum()
    }

    /// The processes of all components: descendants of their first ones, and what stayed in their process groups.
    fn families(&self, components: &[(String, i32)]) -> HashSet<i32> {
        let roots: HashSet<i32> = components.iter().map(|(_, root)| *root).collect();
        let own = std::process::id() as i32;
        // What a component has started and left is its guard's child.
        let parents = roots.iter().filter_map(|root| Some(self.processes.get(root)?.parent));
        let is_guard = |pid: &i32| self.processes.get(pid).is_some_and(|seen| seen.name == GUARD);
        let guards: HashSet<i32> = parents.filter(is_guard).collect();
        let belongs = |pid: i32| {
            let mut pid = pid;
            for _ in 0..64 {
                // This program is no part of a component, also where one is above it.
                if pid == own && !roots.contains(&own) {
                    return false;
                }
                let Some(seen) = self.processes.get(&pid) else { return false };
                if roots.contains(&pid) || roots.contains(&seen.group) || guards.contains(&seen.parent) {
                    return true;
                }
                pid = seen.parent;
            }
            false
        };
        self.processes.keys().copied().filter(|&pid| belongs(pid)).collect()
    }
}

impl Seen {
    fn of(stat: &Stat) -> Seen {
        Seen {
            started: stat.starttime,
            parent: stat.ppid,
            group: stat.pgrp,
            own: stat.utime + stat.stime,
            ended: u64::try_from(stat.cutime + stat.cstime).unwrap_or(0),
            user: stat.utime + u64::try_from(stat.cutime).unwrap_or(0),
            name: stat.comm.clone(),
        }
    }
}

/// The processes outside the platform that used a processor between two looks: their numbers, names and ticks.
fn strangers(before: &Picture, now: &Picture, platform: &HashSet<i32>) -> Vec<(i32, String, f64)> {
    // What a child had used when it was seen last is in its parent's sum once it has ended.
    let mut known: HashMap<i32, u64> = HashMap::new();
    for (pid, seen) in &before.processes {
        if now.processes.get(pid).is_none_or(|again| again.started != seen.started) {
            *known.entry(seen.parent).or_default() += seen.own + seen.ended;
        }
    }
    let window = (now.at - before.at).as_secs_f64() * procfs::ticks_per_second() as f64;
    let used = |pid: &i32, seen: &Seen| {
        let last = before.processes.get(pid).filter(|last| last.started == seen.started);
        let (own, ended) = last.map_or((0, 0), |last| (last.own, last.ended));
        let of_children =
            seen.ended.saturating_sub(ended).saturating_sub(known.get(pid).copied().unwrap_or(0));
        (seen.own.saturating_sub(own) + of_children) as f64
    };
    let outside = now.processes.iter().filter(|(pid, _)| !platform.contains(pid));
    let busy = outside.map(|(pid, seen)| (*pid, seen, used(pid, seen)));
    busy.filter(|(.., used)| *used > window * IDLE)
        .map(|(pid, seen, used)| (pid, format!("{}, process {pid}", seen.name), used))
        .collect()
}

/// Ticks by the processors on which the threads of a process ran last, each thread by what it has used so far.
fn split(pid: i32, used: f64) -> HashMap<usize, f64> {
    let threads = Process::new(pid).and_then(|process| process.tasks());
    let mut weights: HashMap<usize, f64> = HashMap::new();
    for stat in threads.into_iter().flatten().flatten().filter_map(|task| task.stat().ok()) {
        let processor = stat.processor.and_then(|processor| usize::try_from(processor).ok()).unwrap_or(0);
        *weights.entry(processor).or_default() += (stat.utime + stat.stime) as f64 + 1e-6;
    }
    let sum: f64 = weights.values().sum();
    weights.values_mut().for_each(|weight| *weight *= used / sum);
    weights
}

/// The processors that a process may run on.
fn allowed(pid: i32) -> Option<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid)).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// Processors in ascending order, as the kernel lists them: `0-3,8`.
pub fn processor_list(processors: &[usize]) -> String {
    let runs = processors.chunk_by(|one, next| one + 1 == *next);
    let shown = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    shown.collect::<Vec<String>>().join(",")
}

/// Ticks that were used of some processors between two looks, less those that the platform used of any, and those by which the
/// kernel's two accounts may differ.
fn beyond(processors: &[usize], [before, now]: [&[u64]; 2], of_platform: u64) -> f64 {
    let ticks = |used: &[u64], processor: &usize| used.get(*processor).copied().unwrap_or(0);
    let used = processors.iter().map(|one| ticks(now, one).saturating_sub(ticks(before, one)));
    let doubtful = GRAIN * processors.len() as u64;
    used.sum::<u64>().saturating_sub(of_platform.saturating_add(doubtful)) as f64
}

/// Others held at least so many ticks, whoever they were.
fn held(
    processors: &[usize],
    strangers: &[Stranger],
    least: f64,
    stolen: impl Fn(usize) -> f64,
    window: Nanos,
) -> Held {
    let a_second = procfs::ticks_per_second() as f64;
    let on = |stranger: &Stranger| -> f64 {
        processors.iter().filter_map(|processor| stranger.ticks.get(processor)).sum()
    };
    let longest = strangers.iter().map(|stranger| (on(stranger), stranger));
    let longest = longest.filter(|(ticks, _)| *ticks > 0.0).max_by(|a, b| a.0.total_cmp(&b.0));
    let stolen: f64 = processors.iter().map(|&processor| stolen(processor)).sum();
    let ticks = strangers.iter().map(on).sum::<f64>().max(least) + stolen;
    let seconds = ticks / a_second / processors.len().max(1) as f64;
    let holder = match longest {
        Some((ticks, _)) if stolen > ticks => Some("the hypervisor".to_owned()),
        Some((_, stranger)) => Some(stranger.name.clone()),
        None => (stolen > 0.0).then(|| "the hypervisor".to_owned()),
    };
    Held { window, held: Nanos::from_secs_f64(seconds).min(window), holder, processors: processors.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Reader;
    use std::process::{Child, Command};
    use std::time::Duration;

    /// A shell that does nothing without end, on that processor.
    fn loops(processor: usize) -> Child {
        let script = format!("taskset -p -c {processor} $$ >/dev/null; while :; do :; done");
        Command::new("sh").args(["-c", &script]).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_stranger_on_a_components_processor_is_seen_and_its_own_work_is_not() {
        let processor = *allowed(std::process::id() as i32).unwrap().last().unwrap();
        let component = loops(processor);
        let components = vec![("component".to_owned(), component.id() as i32)];
        let stranger = loops(processor);
        std::thread::sleep(Duration::from_millis(200));
        let mut sampler = OutsideSampler::default();
        assert!(sampler.sample(&components, &Reader::default().read()).is_empty(), "nothing to compare with");
        std::thread::sleep(Duration::from_millis(1500));
        let with = sampler.sample(&components, &Reader::default().read()).remove("component").unwrap();
        let number = stranger.id();
        end(stranger);
        end(component);
        // The host may be busy with other tests, which take their part of the processor too.
        let share = with.held.as_secs_f64() / with.window.as_secs_f64();
        assert!(share > 0.15, "{with:?}");
        assert!(share < 1.0 || with.holder != Some(format!("sh, process {number}")), "{with:?}");
        assert!(with.holder.is_some());
    }

    #[test]
    fn processors_are_listed_as_the_kernel_does() {
        assert_eq!(processor_list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!((processor_list(&[5]).as_str(), processor_list(&[]).as_str()), ("5", ""));
    }

    #[test]
    fn ticks_on_other_processors_do_not_count_and_the_hypervisors_do() {
        let stranger = |name: &str, ticks: &[(usize, f64)]| Stranger {
            name: name.into(),
            ticks: ticks.iter().copied().collect(),
        };
        let a_second = procfs::ticks_per_second() as f64;
        let all = [stranger("a", &[(0, a_second)]), stranger("b", &[(1, a_second / 4.0)])];
        let window = Nanos::from_secs(1);
        let alone = held(&[1], &all, 0.0, |_| 0.0, window);
        assert_eq!((alone.held, alone.holder.as_deref()), (Nanos::from_millis(250), Some("b")));
        let both = held(&[0, 1], &all, 0.0, |_| 0.0, window);
        assert_eq!((both.held, both.holder.as_deref()), (Nanos::from_millis(625), Some("a")));
        let stolen = held(&[1], &all, 0.0, |_| a_second / 2.0, window);
        assert_eq!(
            (stolen.held, stolen.holder.as_deref()),
            (Nanos::from_millis(750), Some("the hypervisor"))
        );
        assert_eq!(held(&[2], &all, 0.0, |_| 0.0, window).holder, None);
    }

    /// A loop that ran on processor 0 for most of the time and was seen on processor 1 in the end.
    #[test]
    fn who_moved_on_is_not_forgotten_where_he_was() {
        let a_second = procfs::ticks_per_second();
        let all = [Stranger { name: "a".into(), ticks: [(1, a_second as f64)].into() }];
        let least = beyond(&[0], [&[50, 50], &[50 + a_second * 9 / 10, 50 + a_second / 10]], a_second / 10);
        let found = held(&[0], &all, least, |_| 0.0, Nanos::from_secs(1));
        let doubtful = Nanos(1_000_000_000 / a_second as i64 * GRAIN as i64);
        assert_eq!(found.held, Nanos::from_millis(800) - doubtful);
        assert_eq!(beyond(&[0], [&[50], &[60]], a_second), 0.0, "the platform's own work is nobody else's");
    }

    #[test]
    fn a_parent_is_charged_with_children_that_came_and_went() {
        let seen = |parent, own, ended| Seen {
            started: 1,
            parent,
            group: 0,
            name: "p".into(),
            own,
            ended,
            user: own + ended,
        };
        let picture = |at, processes: Vec<(i32, Seen)>| Picture {
            at,
            processes: processes.into_iter().collect(),
            steal: Vec::new(),
            used: Vec::new(),
        };
        // A child with 90 ticks ends after ten more; another one comes and goes unseen with twenty.
        let before = picture(Nanos::ZERO, vec![(-1, seen(0, 0, 0)), (-2, seen(-1, 90, 0))]);
        let after = picture(Nanos::from_secs(1), vec![(-1, seen(0, 5, 120))]);
        let found = strangers(&before, &after, &HashSet::new());
        let used: Vec<f64> = found.iter().map(|(.., used)| *used).collect();
        assert_eq!(used, [5.0 + 120.0 - 90.0]);
        assert!(strangers(&before, &after, &HashSet::from([-1])).is_empty());
    }
}
