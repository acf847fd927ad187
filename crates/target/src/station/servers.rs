//! Who serves: a system whose departures are computed, or threads that burn processor time.

use super::workers::Workers;
use super::{Settings, Work};
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Service;
use plimsoll_stats::system::{Demands, System};
use std::os::fd::OwnedFd;

/// See the module. Jobs are known by their slot.
pub enum Servers {
    /// Their times are since `epoch`.
    Sleeping { system: Box<System>, epoch: Nanos },
    /// `held` jobs wait or are served, `places` at most.
    Spinning { workers: Workers, demands: Demands, places: Option<usize>, held: usize },
}

impl Servers {
    /// Nobody is served yet; stalls and periods count from `epoch`.
    pub fn start(settings: &Settings, epoch: Nanos) -> std::io::Result<Servers> {
        let queue = settings.queue;
        Ok(match settings.work {
            Work::Sleep(discipline) => {
                Servers::Sleeping { system: Box::new(System::new(queue, discipline)), epoch }
            }
            Work::Spin { lock } => Servers::Spinning {
                workers: Workers::start(queue.workers, queue.stall, epoch)?,
                demands: Demands::new(&queue, lock),
                places: queue.limit.map(|limit| limit.saturating_add(queue.workers)),
                held: 0,
            },
        })
    }

    /// A job arrives; whether there is room for it.
    pub fn arrive(&mut self, at: Nanos, slot: usize) -> bool {
        match self {
            Servers::Sleeping { system, epoch } => system.arrive(at - *epoch, slot),
            Servers::Spinning { workers, demands, places, held } => {
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
            Servers::Spinning { demands, .. } => {
                let _ = demands.draw();
            }
        }
    }

    /// When to look for departures next; threads ring the bell instead.
    pub fn next_change(&self) -> Option<Nanos> {
        match self {
            Servers::Sleeping { system, epoch } => system.next_change().map(|at| *epoch + at),
            Servers::Spinning { .. } => None,
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
            Servers::Spinning { workers, held, .. } => {
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
            Servers::Spinning { workers, .. } => Some(&workers.bell),
        }
    }

    /// Makes the bell silent again.
    pub fn silence(&self) {
        if let Servers::Spinning { workers, .. } = self {
            workers.silence();
        }
    }
}
