//! One component of the platform: a queue in front of workers, or of one processor that all share.

use crate::calendar::{Calendar, Hindrance};
use crate::spec::{Fault, FaultKind, StationSpec};
use plimsoll_model::Nanos;
use plimsoll_stats::distribution::{Random, random};
use std::collections::VecDeque;

/// Names the streams of random numbers of the stations.
const STREAM: u64 = 0x7374_6174_696f_6e00;
/// The period of a quota, as that of a cgroup.
const PERIOD: Nanos = Nanos::from_millis(100);
/// A cut leaves that share of a quota at least, so that everything comes to an end.
const LEFT_OF_QUOTA: f64 = 0.01;

/// Something that a station is asked to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The device that it comes from.
    pub device: u32,
    /// The message; `None` of a ping, which asks for an answer and for nothing else.
    pub sequence: Option<u32>,
}

/// A job that a worker is busy with, and what is left to be done of it, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Position of the station.
    pub station: usize,
    /// The station's life in which it was begun.
    pub life: u32,
    /// The job.
    pub job: Job,
    /// Work that needs a processor.
    pub run: Nanos,
    /// Waiting for something else.
    pub rest: Nanos,
    /// Both again, under the lock; zero once it has the lock.
    pub locked: (Nanos, Nanos),
    /// Whether it has the lock.
    pub holds: bool,
}

/// What becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A worker begins with it then.
    Begun(Service, Nanos),
    /// It shares the processor with the others: see [`Station::next_shared`].
    Shares,
    /// It waits.
    Waits,
    /// There is no room for it, or nobody is there.
    Lost,
}

/// See the module.
#[derive(Debug)]
pub struct Station {
    spec: StationSpec,
    position: usize,
    calendar: Calendar,
    faults: Vec<Fault>,
    random: Random,
    waiting: VecDeque<Job>,
    serving: usize,
    /// Jobs that share, each with the service per job at which it is done, and its own.
    sharing: Vec<(Nanos, Nanos, Job)>,
    /// Service that each job that shares has had, and up to when that is counted.
    shared: (Nanos, Nanos),
    /// The quota's present period, and what was used of it.
    period: (i64, Nanos),
    /// How long the quota has kept jobs from beginning, and up to when that is counted.
    pub throttled: (Nanos, Nanos),
    /// From when up to when orders cut the quota, and by which share.
    cuts: Vec<(Nanos, Nanos, f64)>,
    /// From when up to when orders delay what is sent to it and comes from it, and by how much each way.
    delays: Vec<(Nanos, Nanos, Nanos)>,
    /// Whether it is there.
    pub alive: bool,
    /// How often it died or what it shares changed: what was planned before is void.
    pub life: u32,
    /// Processor time used.
    pub processor: Nanos,
    /// Time waited for a processor that others held.
    pub starved: Nanos,
}

impl Station {
    /// The station at that position, with those of the faults that are its own.
    pub fn new(spec: StationSpec, position: usize, faults: &[Fault], seed: u64) -> Station {
        let mut calendar = Calendar::default();
        let is_own = |station: Option<usize>| station.is_none_or(|station| station == position);
        let own = |fault: &&Fault| match fault.kind {
            FaultKind::Pause(station)
            | FaultKind::Starve(station, _)
            | FaultKind::Slow(station, _)
            | FaultKind::WarmUp(station, _)
            | FaultKind::Lose(station, _) => is_own(station),
            FaultKind::Die(station) => station == position,
            _ => false,
        };
        let faults: Vec<Fault> = faults.iter().filter(own).cloned().collect();
        for fault in &faults {
            match fault.kind {
                FaultKind::Pause(_) => calendar.add(fault.from, fault.to, Hindrance::Paused),
                FaultKind::Starve(_, share) => {
                    calendar.add(fault.from, fault.to, Hindrance::Starved(share));
                }
                _ => {}
            }
        }
        Station {
            random: random(seed, &[STREAM, position as u64]),
            position,
            calendar,
            faults,
            waiting: VecDeque::new(),
            serving: 0,
            sharing: Vec::new(),
            shared: (Nanos::ZERO, Nanos::ZERO),
            period: (0, Nanos::ZERO),
            throttled: (Nanos::ZERO, Nanos::ZERO),
            cuts: Vec::new(),
            delays: Vec::new(),
            alive: true,
            life: 0,
            processor: Nanos::ZERO,
            starved: Nanos::ZERO,
            spec,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// How many threads use a processor each: those who share one speed share one.
    pub fn threads(&self) -> u16 {
        let threads = if self.spec.sharing { 1 } else { self.spec.workers };
        u16::try_from(threads).unwrap_or(u16::MAX)
    }

    /// A job arrives.
    pub fn arrive(&mut self, job: Job, now: Nanos) -> Fate {
        if !self.alive {
            return Fate::Lost;
        }
        if self.spec.sharing {
            self.serve_shared(now);
            let work = self.work(job, now);
            self.sharing.push((self.shared.0 + work, work, job));
            self.life += 1;
            return Fate::Shares;
        }
        if self.serving < self.spec.workers.max(1) {
            return self.begin(job, now);
        }
        if self.spec.limit.is_some_and(|limit| self.waiting.len() >= limit) {
            return Fate::Lost;
        }
        self.waiting.push_back(job);
        Fate::Waits
    }

    /// A worker is done with a job; what it begins next.
    pub fn next(&mut self, now: Nanos) -> Option<Fate> {
        self.serving = self.serving.saturating_sub(1);
        let job = self.waiting.pop_front()?;
        Some(self.begin(job, now))
    }

    /// Whether all jobs share one worker's speed.
    pub fn is_sharing(&self) -> bool {
        self.spec.sharing
    }

    /// How many jobs are there, those that wait included.
    pub fn jobs(&self) -> usize {
        self.waiting.len() + self.serving + self.sharing.len()
    }

    /// When it works again, from then on.
    pub fn next_work(&self, now: Nanos) -> Nanos {
        self.calendar.next_work(now)
    }

    /// Up to when it works without a break from then on, but no longer than to `most`.
    pub fn works_until(&self, now: Nanos, most: Nanos) -> Nanos {
        self.calendar.works_until(now, most)
    }

    /// A worker runs on a processor of its own: when it is through.
    pub fn run(&mut self, work: Nanos, now: Nanos) -> Nanos {
        let (done, starved) = self.calendar.walk(now, work);
        self.processor += work;
        self.starved += starved;
        done
    }

    /// A worker stays at something that needs no processor: when that is done, where it rests with the station.
    pub fn stay(&mut self, work: Nanos, now: Nanos) -> Nanos {
        let (done, starved) = self.calendar.stay(now, work);
        self.starved += starved;
        done
    }

    /// An order hinders it.
    pub fn hinder(&mut self, from: Nanos, to: Nanos, hindrance: Hindrance) {
        self.calendar.add(from, to, hindrance);
    }

    /// An order cuts its quota by that share, or less: by how much, which is nothing where there is none.
    pub fn cut(&mut self, from: Nanos, to: Nanos, share: f64) -> f64 {
        if self.spec.quota.is_none() {
            return 0.0;
        }
        let share = share.clamp(0.0, 1.0 - LEFT_OF_QUOTA);
        self.cuts.push((from, to, share));
        share
    }

    /// An order delays what is sent to it and comes from it.
    pub fn delay(&mut self, from: Nanos, to: Nanos, each_way: Nanos) {
        self.delays.push((from, to, each_way));
    }

    /// By how much orders delay what is sent to it then, or comes from it.
    pub fn delayed(&self, at: Nanos) -> Nanos {
        let own = self.delays.iter().filter(|(from, to, _)| (*from..*to).contains(&at));
        own.fold(Nanos::ZERO, |sum, (.., each_way)| sum + *each_way)
    }

    /// Forgets orders that are over by then, a time up to which everything has happened.
    pub fn forget(&mut self, before: Nanos) {
        self.serve_shared(before);
        self.calendar.forget(before);
        self.cuts.retain(|(_, to, _)| *to > before);
        self.delays.retain(|(_, to, _)| *to > before);
    }

    /// When the next of those that share is done.
    pub fn next_shared(&self) -> Option<Nanos> {
        let least = self.sharing.iter().map(|(done, ..)| *done).min()?;
        let left = (least - self.shared.0) * self.sharing.len() as i64;
        Some(self.calendar.finish(self.shared.1, left))
    }

    /// Those of the sharing jobs that are done by now.
    pub fn take_shared(&mut self, now: Nanos) -> Vec<Job> {
        self.serve_shared(now);
        let served = self.shared.0;
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sharing).into_iter().partition(|(at, ..)| *at <= served);
        self.sharing = left;
        self.life += 1;
        let work: Nanos = done.iter().map(|(_, work, _)| *work).sum();
        self.processor += Nanos((work.0 as f64 * self.spec.processor) as i64);
        done.into_iter().map(|(.., job)| job).collect()
    }

    /// It ends with all that it holds.
    pub fn die(&mut self) {
        self.alive = false;
        self.life += 1;
        self.waiting.clear();
        self.sharing.clear();
        self.serving = 0;
    }

    /// Whether it loses a message that it has served.
    pub fn loses(&mut self, now: Nanos) -> bool {
        let share = self.faults.iter().filter(|fault| fault.is_on(now)).map(|fault| match fault.kind {
            FaultKind::Lose(_, share) => share,
            _ => 0.0,
        });
        let share: f64 = share.sum();
        share > 0.0 && self.random.fraction() < share
    }

    /// Whether it is planned to be dead then.
    pub fn is_doomed(&self, now: Nanos) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Die(_)) && fault.is_on(now))
    }

    fn begin(&mut self, job: Job, now: Nanos) -> Fate {
        self.serving += 1;
        let work = self.work(job, now);
        let processor = Nanos((work.0 as f64 * self.spec.processor) as i64);
        let locked = Nanos((work.0 as f64 * self.spec.lock) as i64);
        let run = processor.min(work - locked);
        let run_locked = (processor - run).min(locked);
        let begin = self.within_quota(now, processor);
        let service = Service {
            station: self.position,
            life: self.life,
            job,
            run,
            rest: work - locked - run,
            locked: (run_locked, locked - run_locked),
            holds: false,
        };
        // Not even waiting begins while it stands still.
        Fate::Begun(service, self.stay(Nanos::ZERO, begin))
    }

    /// When a job may begin that needs so much processor time: in the next period where this one's quota is used up.
    fn within_quota(&mut self, now: Nanos, processor: Nanos) -> Nanos {
        let Some(quota) = self.spec.quota else { return now };
        let period = now.0 / PERIOD.0;
        if period > self.period.0 {
            self.period = (period, Nanos::ZERO);
        }
        loop {
            let begin = now.max(Nanos(self.period.0 * PERIOD.0));
            let most = Nanos((PERIOD.0 as f64 * quota * self.left_of_quota(begin)) as i64);
            if self.period.1 < most {
                self.period.1 += processor;
                let (so_far, counted) = self.throttled;
                let more = (begin - now.max(counted)).max(Nanos::ZERO);
                self.throttled = (so_far + more, counted.max(begin));
                return begin;
            }
            self.period = (self.period.0 + 1, self.period.1 - most);
        }
    }

    /// The share of its quota that orders leave it then.
    fn left_of_quota(&self, at: Nanos) -> f64 {
        let on = self.cuts.iter().filter(|(from, to, _)| *from <= at && at < *to);
        on.map(|(.., share)| 1.0 - share).product()
    }

    fn work(&mut self, job: Job, now: Nanos) -> Nanos {
        if job.sequence.is_none() {
            return Nanos::ZERO;
        }
        let work = self.spec.service.sample(&mut self.random);
        let factor: f64 = self
            .faults
            .iter()
            .map(|fault| match fault.kind {
                FaultKind::Slow(_, factor) if fault.is_on(now) => factor,
                FaultKind::WarmUp(_, factor) if fault.from <= now => {
                    let length = (fault.to - fault.from).as_secs_f64().max(1e-9);
                    1.0 + (factor - 1.0) * (-(now - fault.from).as_secs_f64() / length).exp()
                }
                _ => 1.0,
            })
            .product();
        Nanos((work.0 as f64 * factor) as i64)
    }

    fn serve_shared(&mut self, now: Nanos) {
        let (served, since) = self.shared;
        let count = self.sharing.len() as i64;
        let each = if count == 0 { Nanos::ZERO } else { self.calendar.work_between(since, now) / count };
        self.shared = (served + each, now);
    }
}
