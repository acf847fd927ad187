//! Dispatchers of devices that send their events of their own accord.
//!
//! An event is answered when it is over, and until then nothing more is taken of its connection: so the events of a device
//! stay in their order, and who sends them sees how long each took.

mod conversation;
mod event_loop;
mod preemptive;

use super::room;
use crate::configuration::{Configuration, Model, PushProtocol};
use crate::handler::Shared;
use crate::reactor::epoll::Epoll;
use crate::reactor::{self, Reactor, ReactorError};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// How often it is seen who was silent for too long.
const LOOK: Duration = Duration::from_millis(200);
/// How long nobody is accepted after that has failed.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the other side may take to read the last word and to close; else the kernel might take that word back, since what
/// the other side had sent was never read (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);

/// How many devices may be connected at once: as many as the configuration says, and as there may be open files.
pub fn most_connections(configuration: &Configuration) -> usize {
    match (configuration.sockets, room(configuration)) {
        (0, room) => room,
        (sockets, room) => sockets.min(room),
    }
}

/// Takes events until the end is asked for; what is being handled then is finished and answered.
pub fn run(shared: &Arc<Shared>, protocol: PushProtocol, listener: TcpListener) -> Result<(), ReactorError> {
    let configuration = &shared.configuration;
    let made = |kind| reactor::make(kind, configuration.pool_size);
    let reactor: Box<dyn Reactor> = match (configuration.dispatcher, configuration.event_handler) {
        (Model::Preemptive, _) => return preemptive::run(shared, protocol, listener),
        // Whoever waits for files on the same thread waits for both in one place.
        (Model::Cooperative, _) | (Model::Serial, Model::Cooperative) => made(configuration.event_loop)?,
        // One connection is looked at at a time, and what it says is dispatched before the next one.
        (Model::Serial, _) => Box::new(Epoll::new(0, 1)?),
    };
    event_loop::run(shared, protocol, listener, reactor)
}

/// The numbers of connections: the lowest that is free is the next one.
struct Slots {
    free: std::collections::BTreeSet<usize>,
    next: usize,
    most: usize,
}

impl Slots {
    fn new(most: usize) -> Slots {
        Slots { free: std::collections::BTreeSet::new(), next: 0, most }
    }

    fn take(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop_first() {
            return Some(slot);
        }
        (self.next < self.most).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn give(&mut self, slot: usize) {
        self.free.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_are_not_more_than_there_may_be() {
        let mut slots = Slots::new(2);
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(0), Some(1), None]);
        slots.give(0);
        assert_eq!([slots.take(), slots.take()], [Some(0), None]);
    }
}
