//! Who serves: a system whose departures are computed, or threads that take the time in fact.

use super::workers::Workers;
use super::{Settings, StationError, Work};
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Service;
use plimsoll_stats::system::{Demands, System};
use std::os::fd::OwnedFd;

/// See the module. Jobs are known by their slot.
pub enum Servers {
    /// Their times are since `epoch`.
    Sleeping { system: Box<System>, epoch: Nanos },
    /// `held` jobs wait or are served, `places` at most.
    Threads { workers: Workers, demands: Demands, places: Option<usize>, held: usize },
}

impl Servers {
    /// Nobody is served yet; stalls and periods count from `epoch`.
    pub fn start(settings: &Settings, epoch: Nanos) -> Result<Servers, StationError> {
        let queue = settings.queue;
        Ok(match &settings.work {
            Work::Sleep(discipline) => {
                Servers::Sleeping { system: Box::new(System::new(queue, *discipline)), epoch }
            }
            Work::Thread { busy, lock } => Servers::Threads {
                workers: Workers::start(queue.workers, *busy, queue.stall, epoch, lock.as_ref())?,
                demands: Demands::new(&queue, lock.as_ref().map(|lock| lock.time)),
                places: queue.limit.map(|limit| limit.saturating_add(queue.workers)),
                held: 0,
            },
        })
    }

    /// A job arrives; whether there is room for it.
    pub fn arrive(&mut self, at: Nanos, slot: usize) -> bool {
        match self {
            Servers::Sleeping { system, epoch } => system.arrive(at - *epoch, slot),
            Servers::Threads { workers, demands, places, held } => {
                let demand = demands.draw();
                let room = places.is_none_or(|places| *held < places);
                if room {
                    *held += 1;
                    workers.order(slot, demand);
                }
                room
            }
        }
    }

    /// Something arrives for which the station has no room: it takes its draws all the same.
    pub fn turn_away(&mut self) {
        match self {
            Servers::Sleeping { system, .. } => system.turn_away(),
            Servers::Threads { demands, .. } => {
                let _ = demands.draw();
            }
        }
    }

    /// When to look for departures next; threads ring the bell instead.
    pub fn next_change(&self) -> Option<Nanos> {
        match self {
            Servers::Sleeping { system, epoch } => system.next_change().map(|at| *epoch + at),
            Servers::Threads { .. } => None,
        }
    }

    /// A job that has departed by now, and when it was served.
    pub fn take_departed(&mut self, now: Nanos) -> Option<(usize, Service)> {
        match self {
            Servers::Sleeping { system, epoch } => {
                system.advance(now - *epoch);
                let (slot, Service { begin, departure }) = system.take_departed()?;
                Some((slot, Service { begin: *epoch + begin, departure: *epoch + departure }))
            }
            Servers::Threads { workers, held, .. } => {
                let done = workers.take_done()?;
                *held -= 1;
                Some(done)
            }
        }
    }

    /// What becomes readable when threads are done with something.
    pub fn bell(&self) -> Option<&OwnedFd> {
        match self {
            Servers::Sleeping { .. } => None,
            Servers::Threads { workers, .. } => Some(&workers.bell),
        }
    }

    /// Makes the bell silent again.
    pub fn silence(&self) {
        if let Servers::Threads { workers, .. } = self {
            workers.silence();
        }
    }
}
