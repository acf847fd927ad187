//! A queueing system by events: what arrives waits for a worker, is served, perhaps under a lock, and departs. Its
//! departures may depend on later arrivals, which those of [`crate::queue::Queue`] never do. Pure: the caller says when
//! something arrives and how late it is, the system says what has departed by then.
//!
//! Main flow: [`System::advance`] goes from change to change. Between two changes, all that is at work goes on at one
//! speed (`progress`), or stands still (`pace`) for a stall or a used-up `quota`. At a change, jobs end, pass the `lock`
//! on, and leave their worker to those that wait. Changes come at whole nanoseconds: where jobs share processors, the end
//! of each is rounded up, which delays those that share with it by less than that.

mod lock;
mod pace;
mod progress;
mod quota;
#[cfg(test)]
mod tests;

pub use quota::Quota;

use crate::distribution::{Random, random};
use crate::queue::{SERVICE_STREAM, Service, ServiceTime, Settings};
use lock::Lock;
use pace::Pace;
use plimsoll_model::Nanos;
use progress::Progress;
use quota::Budget;
use std::collections::VecDeque;

/// Names the stream of random numbers that times under the lock are drawn from.
const LOCK_STREAM: u64 = 0x6c6f_636b_0000_0000;

/// What hinders workers, beside there being too few of them. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Discipline {
    /// How long each arrival holds a lock at the end of its service, in addition to its service time. One at a time holds
    /// the lock, the others wait for it, each with its worker.
    pub lock: Option<ServiceTime>,
    /// Whether nothing waits for a worker: all that is there is served at once, and the workers' speed is shared among
    /// it. One job never has more than the speed of one worker.
    pub sharing: bool,
    /// How much all workers together may work.
    pub quota: Option<Quota>,
}

/// What one arrival needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Time of a worker without the lock.
    pub work: Nanos,
    /// Time of the same worker under the lock, afterwards; `None` where there is no lock.
    pub locked: Option<Nanos>,
}

/// Draws what arrivals need: arrival n has the n-th draw of each stream, whether it is refused or not.
#[derive(Clone, Debug)]
pub struct Demands {
    service: (ServiceTime, Random),
    lock: Option<(ServiceTime, Random)>,
}

impl Demands {
    /// Those of a system with that seed and those laws.
    pub fn new(settings: &Settings, lock: Option<ServiceTime>) -> Demands {
        let stream = |name| random(settings.seed, &[name]);
        Demands {
            service: (settings.service, stream(SERVICE_STREAM)),
            lock: lock.map(|law| (law, stream(LOCK_STREAM))),
        }
    }

    /// Those of the next arrival.
    pub fn draw(&mut self) -> Demand {
        let (law, random) = &mut self.service;
        let work = law.sample(random);
        Demand { work, locked: self.lock.as_mut().map(|(law, random)| law.sample(random)) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct System {
    settings: Settings,
    sharing: bool,
    demands: Demands,
    now: Nanos,
    waiting: VecDeque<(usize, Demand)>,
    /// Jobs that have a worker or a share of them, at work or not.
    served: usize,
    at_work: Progress<Job>,
    lock: Lock<(Job, Nanos)>,
    budget: Option<Budget>,
    departed: VecDeque<(usize, Service)>,
}

/// Something that is served.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: usize,
    begin: Nanos,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Without the lock, for which it then has that use.
    Free(Option<Nanos>),
    /// Under the lock.
    Locked,
}

impl System {
    /// An empty system at time zero.
    pub fn new(settings: Settings, discipline: Discipline) -> System {
        System {
            settings,
            sharing: discipline.sharing,
            demands: Demands::new(&settings, discipline.lock),
            now: Nanos::ZERO,
            waiting: VecDeque::new(),
            served: 0,
            at_work: Progress::new(settings.workers),
            lock: Lock::default(),
            budget: discipline.quota.map(|quota| Budget::new(quota, settings.workers)),
            departed: VecDeque::new(),
        }
    }

    /// Something arrives, no earlier than what happened before, and is known by that id; whether there is room for it.
    pub fn arrive(&mut self, at: Nanos, id: usize) -> bool {
        let demand = self.demands.draw();
        self.advance(at);
        if self.sharing || self.served < self.settings.workers.max(1) {
            self.begin(id, demand);
            return true;
        }
        let room = self.settings.limit.is_none_or(|limit| self.waiting.len() < limit);
        if room {
            self.waiting.push_back((id, demand));
        }
        room
    }

    /// Something arrives for which its server has no room: it takes its draws, so that those of the others stay the same,
    /// and no service.
    pub fn turn_away(&mut self) {
        let _ = self.demands.draw();
    }

    /// When to advance next so that no departure is taken late; `None` while nothing is served.
    pub fn next_change(&self) -> Option<Nanos> {
        let left = self.at_work.left()?;
        Some(match self.pace() {
            Pace::Stands(until) => until,
            Pace::Works(until) => until.min(self.now + left),
        })
    }

    /// It is that late.
    pub fn advance(&mut self, to: Nanos) {
        while let Some(change) = self.next_change().filter(|change| *change <= to) {
            self.go_on(change);
            while let Some(job) = self.at_work.take_done() {
                self.leave_stage(job);
            }
        }
        self.go_on(to);
    }

    /// Something that has departed, in the order of departures, and when it was served.
    pub fn take_departed(&mut self) -> Option<(usize, Service)> {
        self.departed.pop_front()
    }

    /// Nothing changes until then.
    fn go_on(&mut self, to: Nanos) {
        if to <= self.now {
            return;
        }
        if let Pace::Works(_) = self.pace() {
            let time = to - self.now;
            if let Some(budget) = &mut self.budget {
                budget.spend(self.now, time * self.at_work.busy());
            }
            self.at_work.run(time);
        }
        self.now = to;
    }

    fn pace(&self) -> Pace {
        let stall = self.settings.stall.map(|stall| Pace::of_stall(stall, self.now));
        let quota = self.budget.as_ref().map(|budget| budget.pace(self.now, self.at_work.busy()));
        [stall, quota].into_iter().flatten().fold(Pace::Works(Nanos::MAX), Pace::and)
    }

    fn begin(&mut self, id: usize, demand: Demand) {
        self.served += 1;
        let job = Job { id, begin: self.now, stage: Stage::Free(demand.locked) };
        self.at_work.begin(job, demand.work);
    }

    fn leave_stage(&mut self, job: Job) {
        let holder = match job.stage {
            Stage::Free(None) => {
                self.depart(job);
                None
            }
            Stage::Free(Some(use_of_lock)) => self.lock.take((job, use_of_lock)),
            Stage::Locked => {
                self.depart(job);
                self.lock.release()
            }
        };
        if let Some((job, use_of_lock)) = holder {
            self.at_work.begin(Job { stage: Stage::Locked, ..job }, use_of_lock);
        }
    }

    fn depart(&mut self, job: Job) {
        self.departed.push_back((job.id, Service { begin: job.begin, departure: self.now }));
        self.served -= 1;
        if let Some((id, demand)) = self.waiting.pop_front() {
            self.begin(id, demand);
        }
    }
}
