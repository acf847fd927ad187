//! Where messages of a level come from: the arrivals or sessions of its workload model.

use super::Shard;
use crate::arrivals::{Arrivals, Process};
use crate::closed_loop::{Begin, ClosedLoop};
use crate::driver::Driver;
use crate::partly_open::{Behaviour, PartlyOpen};
use crate::recorder::Timeline;
use crate::replay::Playing;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{ArrivalsPer, LevelPlan, Model, Plan};
use plimsoll_stats::distribution::InterArrival;
use std::iter::Peekable;
use std::sync::Arc;

/// Where messages of a level come from.
pub(super) enum Workload {
    Open(Box<Peekable<Arrivals>>),
    Closed(Box<ClosedLoop>),
    PartlyOpen(Box<PartlyOpen>),
    Idle,
}

impl Workload {
    /// Whether nothing can be due any more before `end`. In the closed models an end that is read late may still have
    /// made the next message due then, unless they are counted.
    pub(super) fn is_exhausted(&mut self) -> bool {
        match self {
            Workload::Open(arrivals) => arrivals.peek().is_none(),
            Workload::Closed(slots) => slots.ended().is_some(),
            Workload::PartlyOpen(_) => false,
            Workload::Idle => true,
        }
    }

    /// The next message that is due by then, in a level that began at `start`; whoever sends it says so by `begun`.
    pub(super) fn take_up(&mut self, start: Nanos, by: Nanos) -> Option<Begin> {
        match self {
            Workload::Open(arrivals) => {
                let arrival = arrivals.next_if(|arrival| start + arrival.due <= by)?;
                // Nobody waits for its end.
                Some(Begin { slot: usize::MAX, device: arrival.device.0, due: start + arrival.due })
            }
            Workload::Closed(slots) => slots.take_up(by),
            Workload::PartlyOpen(sessions) => sessions.take_up(by),
            Workload::Idle => None,
        }
    }

    /// That message is on its way.
    pub(super) fn begun(&mut self, begin: Begin, sequence: u32) {
        match self {
            Workload::Closed(slots) => slots.begun(begin, sequence),
            Workload::PartlyOpen(sessions) => sessions.begun(begin, sequence),
            Workload::Open(_) | Workload::Idle => {}
        }
    }

    /// When the next message before `end` was due, which will not be taken up.
    pub(super) fn give_up(&mut self, start: Nanos, end: Nanos) -> Option<Nanos> {
        match self {
            Workload::Open(arrivals) => {
                let arrival = arrivals.next_if(|arrival| start + arrival.due < end)?;
                Some(start + arrival.due)
            }
            Workload::Closed(slots) => slots.take_up(end - Nanos(1)).map(|begin| begin.due),
            Workload::PartlyOpen(sessions) => sessions.give_up(end - Nanos(1)),
            Workload::Idle => None,
        }
    }
}

/// The arrival process of a population in a level of the open model, and in such a one of an experiment; `number` is that of the
/// level.
pub(crate) fn process_of(plan: &Plan, level: LevelPlan, number: u16) -> Option<Process> {
    let (gaps, per) = match (level, &plan.load.model) {
        (_, Model::Open { arrivals, per }) => (*arrivals, *per),
        (LevelPlan::ExperimentRate(_), Model::PartlyOpen { arrivals, .. }) => {
            (*arrivals, ArrivalsPer::Population)
        }
        (LevelPlan::ExperimentRate(_), Model::Closed { .. } | Model::Trace(_)) => {
            (InterArrival::Exponential, ArrivalsPer::Population)
        }
        _ => return None,
    };
    let (rate, devices) = match level {
        LevelPlan::Devices { devices, rate } => (rate, devices),
        LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. } | LevelPlan::ExperimentRate(rate) => {
            (rate, plan.devices)
        }
        LevelPlan::ConnectRate(_) => (0.0, plan.devices),
        LevelPlan::InFlight(_) | LevelPlan::Experiment(_) => return None,
    };
    Some(Process { gaps, per, rate, devices, seed: plan.seed, level: number })
}

impl<D: Driver> Shard<D> {
    /// The source of a level's messages; `messages` says how many of a hold that ends after them are this population's.
    pub(super) fn workload(&self, timeline: &Timeline, level: LevelPlan, messages: Option<u64>) -> Workload {
        if let Some(process) = process_of(&self.plan, level, timeline.level) {
            // Nothing is ever due of idle devices.
            let end = if process.rate > 0.0 { timeline.hold_end - timeline.start } else { Nanos::ZERO };
            let arrivals = match self.plan.load.curve_of(level) {
                Some(curve) => Arrivals::along(process, self.share, curve, self.plan.load.warm_up),
                None => Arrivals::new(process, self.share, end),
            };
            return Workload::Open(Box::new(arrivals.peekable()));
        }
        match (level, &self.plan.load.model) {
            (LevelPlan::InFlight(in_flight), Model::Closed { think_time, timeout }) => {
                let (pace, devices) = ((*think_time, *timeout), self.plan.devices);
                let slots = ClosedLoop::new(in_flight, devices, self.share, pace, timeline.start);
                Workload::Closed(Box::new(match messages {
                    Some(all) => slots.ending_after(self.share.part(all, devices), timeline.hold_start),
                    None => slots,
                }))
            }
            (LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. }, Model::Trace(trace)) => {
                let playing = Playing {
                    rate,
                    devices: self.plan.devices,
                    hold_start: timeline.hold_start - timeline.start,
                    hold_end: timeline.hold_end - timeline.start,
                };
                let arrivals = Arrivals::replayed(Arc::clone(trace), playing, self.share);
                Workload::Open(Box::new(arrivals.peekable()))
            }
            (LevelPlan::Rate(rate), Model::PartlyOpen { arrivals, messages, think_time, timeout }) => {
                let process = Process {
                    gaps: *arrivals,
                    per: ArrivalsPer::Population,
                    rate: rate / f64::from(*messages),
                    devices: self.plan.devices,
                    seed: self.plan.seed,
                    level: timeline.level,
                };
                let starts = Arrivals::new(process, self.share, timeline.hold_end - timeline.start);
                let behaviour = Behaviour { messages: *messages, think_time: *think_time, timeout: *timeout };
                Workload::PartlyOpen(Box::new(PartlyOpen::new(starts, timeline.start, behaviour)))
            }
            (LevelPlan::Experiment(in_flight), _) => {
                let timeout = self.plan.load.experiment.map_or(Nanos::ZERO, |experiment| experiment.timeout);
                let (pace, devices) = ((Nanos::ZERO, timeout), self.plan.devices);
                let slots = ClosedLoop::new(in_flight, devices, self.share, pace, timeline.start);
                Workload::Closed(Box::new(slots))
            }
            // The plan never mixes the models.
            _ => Workload::Idle,
        }
    }
}
