//! Clients of message brokers: sessions over non-blocking TCP [`connection`]s, one epoll a shard. A protocol brings its
//! [`Session`] and has the rest from here. (MQTT has connections of its own, which also go over TLS, WebSocket and emulated networks.)

mod branches;
mod connection;
mod flight;
#[cfg(test)]
pub mod hostile;
mod names;
mod session;

pub use flight::Flight;
pub use names::Names;
pub use session::{Failure, Happened, KEPT, LARGEST_CONTENT, Outgoing, Session, malformed};

use super::readiness::Ready;
use super::stream::StreamIo;
use super::timers::Timers;
use super::{DriverContext, Part};
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::share::Share;
use crate::topology::filters_of;
use branches::Notice;
use connection::Connection;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Offline;
use plimsoll_stats::distribution::{Random, random};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;
/// Kinds of complaints that are counted apart.
const MOST_COMPLAINTS: usize = 32;
/// Distinguishes the random numbers of pauses from others.
const PAUSES: u64 = 0x7061_7573_6573_0002;

/// Devices and subscribers of one shard.
pub struct MessagingDriver<S> {
    share: Share,
    subscribers: Share,
    devices: usize,
    /// Those of clients, and behind them their branches.
    connections: Vec<Connection<S>>,
    /// Slots of branches that are no more.
    free: Vec<u32>,
    io: Io,
}

/// What all connections of a shard use in turn.
struct Io {
    stream: StreamIo,
    /// Devices of the whole population: subscribers are numbered after them.
    population: u32,
    contents: Contents,
    offline: Offline,
    /// Time that a subscriber spends on a message.
    work: Nanos,
    timers: Timers<Timer>,
    /// Connections with something to send.
    dirty: Vec<u32>,
    /// What connections have to do with each other.
    notices: VecDeque<Notice>,
    /// Deliveries that came packed together in this turn.
    together: i64,
    /// Messages put away because their device had no connection.
    put_away: Vec<(u32, u32)>,
    content: Vec<u8>,
    topic: Vec<u8>,
    random: Random,
    /// What the platform complained of, and how often, since the last level was closed.
    complaints: Vec<(String, u64)>,
    /// Acknowledgements that nothing in flight awaited, since the last level was closed.
    unknown_acks: u64,
}

impl Io {
    fn note_complaints(&mut self, complaint: String, times: u64) {
        match self.complaints.iter().position(|(known, _)| *known == complaint) {
            Some(at) => self.complaints[at].1 += times,
            // A platform that invents ever more of them fills no memory.
            None if self.complaints.len() < MOST_COMPLAINTS => self.complaints.push((complaint, times)),
            None => {}
        }
    }
}

/// What a connection wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ConnectTimeout,
    KeepAlive,
    Reconnect,
    WorkDone,
    /// The session wants to be woken.
    Wake,
}

impl<S: Session> MessagingDriver<S> {
    /// A driver for the clients of a share, none of them connected yet. `session` makes that of each, with its filters.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(
        context: &DriverContext,
        session: impl Fn(Client, &[String]) -> S,
    ) -> std::io::Result<MessagingDriver<S>> {
        let &DriverContext {
            ref plan,
            run,
            share,
            subscribers: (of_subscribers, count),
            ref run_context,
            ..
        } = context;
        let clients: Vec<Client> = share.numbers(plan.devices).map(Client::Device).collect();
        let devices = clients.len();
        let subscribers = of_subscribers.numbers(count).map(Client::Subscriber);
        let connection = |client| {
            let filters = match client {
                Client::Device(_) => Vec::new(),
                Client::Subscriber(subscriber) => filters_of(plan, run, subscriber),
            };
            Connection::new(client, session(client, &filters), plan.connection.reconnect)
        };
        let connections = clients.into_iter().chain(subscribers).map(connection).collect();
        let io = Io {
            stream: StreamIo::new(context, &plan.connection.transport, READ_SIZE)?,
            population: plan.population.first_device.saturating_add(plan.devices),
            contents: Contents::new(plan, run).in_context(run_context),
            offline: plan.connection.offline,
            work: plan.subscribers.work,
            timers: Timers::new(),
            dirty: Vec::new(),
            notices: VecDeque::new(),
            together: 0,
            put_away: Vec::new(),
            content: Vec::new(),
            topic: Vec::new(),
            random: random(plan.seed, &[PAUSES, u64::from(share.index)]),
            complaints: Vec::new(),
            unknown_acks: 0,
        };
        Ok(MessagingDriver { share, subscribers: of_subscribers, devices, connections, free: Vec::new(), io })
    }

    fn slot(&self, client: Client) -> usize {
        match client {
            Client::Device(device) => self.share.slot(device) as usize,
            Client::Subscriber(subscriber) => self.devices + self.subscribers.slot(subscriber) as usize,
        }
    }

    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for slot in dirty.drain(..) {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.send(slot, &mut self.io, events);
                self.tend_branches(events);
            }
        }
        self.io.dirty = dirty;
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.io.stream.readiness.wait(until.min(self.io.timers.next()));
        let found = self.io.stream.readiness.found();
        for &Ready { slot, generation, flags } in &found {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.ready(slot, generation, flags, &mut self.io, events);
                self.tend_branches(events);
            }
        }
        self.io.stream.readiness.served(found);
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.stream.clock.now();
        while let Some((at, slot, timer)) = self.io.timers.due(now) {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.timer(slot, timer, at, &mut self.io, events);
                self.tend_branches(events);
            }
        }
    }
}

impl<S: Session> Part for MessagingDriver<S> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.stream.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.io.stream.readiness.is_urgent()
    }
}

impl<S: Session> Driver for MessagingDriver<S> {
    fn now(&self) -> Nanos {
        self.io.stream.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let slot = self.slot(client);
        let connection = self.connections.get_mut(slot);
        connection.is_some_and(|connection| connection.schedule_connect(slot as u32, &mut self.io))
    }

    fn release(&mut self, client: Client) -> bool {
        let slot = self.slot(client);
        self.connections.get_mut(slot).is_some_and(|connection| connection.release(&mut self.io))
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        let slot = self.slot(Client::Device(device));
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.submit(slot as u32, sequence, &mut self.io);
        }
    }

    fn ask_for_arrival(&mut self, device: u32) -> bool {
        let slot = self.slot(Client::Device(device));
        let connection = self.connections.get_mut(slot);
        connection.is_some_and(|connection| connection.ask_for_arrival(slot as u32, &mut self.io))
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let now = self.io.stream.clock.now();
        for connection in &mut self.connections {
            connection.withdraw(now, &mut self.io, events);
        }
        events.extend(self.io.complaints.drain(..).map(|(complaint, times)| {
            let reason = format!("the platform complained: {complaint}");
            Event::Incidents { reason, times }
        }));
        let times = std::mem::take(&mut self.io.unknown_acks);
        if times > 0 {
            let reason = "the platform sent an acknowledgement that no message awaited".to_owned();
            events.push(Event::Incidents { reason, times });
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.io.together = 0;
        self.tend_branches(events);
        self.send_dirty(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_dirty(events);
        if !self.io.put_away.is_empty() {
            let at = self.io.stream.clock.now();
            let abandoned = |(device, sequence)| Event::Abandoned { device, sequence, at };
            events.extend(self.io.put_away.drain(..).map(abandoned));
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.stream.traffic)
    }

    fn disconnect(&mut self) {
        let mut is_said = false;
        for connection in &mut self.connections {
            let ends = !is_said && connection.is_ready() && !connection.is_branch();
            connection.goodbye(ends);
            is_said |= ends;
        }
    }
}
