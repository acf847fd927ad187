//! The loop of a station: who is connected, what is being served, what is due.

use super::coap::{Endpoint, Request};
use super::connection::Connection;
use super::faults::Draws;
use super::jobs::{Job, Jobs, Publisher};
use super::next::{Answered, Next};
use super::servers::Servers;
use super::session::{Message, Served};
use super::truth::{Fate, Truth};
use super::{Settings, StationError, StationProtocol};
use crate::clock::monotonic;
use crate::tcp::{Door, Peer, Slots};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The id of the listening socket in epoll.
pub const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;
const ENDPOINT: u64 = u64::MAX - 2;
const NEXT: u64 = u64::MAX - 3;
/// Datagrams read before others get their turn.
const DATAGRAMS: usize = 256;
/// Longest wait, so that a wish to stop is seen in time.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Longest time that a message is held back for a later one to pass it.
const LONGEST_HOLD: Nanos = Nanos::from_millis(500);
/// Bytes of messages being served beyond which the queue counts as full.
const MOST_HELD: usize = 256 * 1024 * 1024;
const SCRATCH: usize = 256 * 1024;
/// Readings of one socket before others get their turn.
const READINGS: usize = 4;

/// See the module.
pub struct Server {
    protocol: StationProtocol,
    /// CoAP's socket.
    endpoint: Option<Endpoint>,
    /// The next station of the chain.
    next: Option<Next>,
    servers: Servers,
    connections: Slots<Connection>,
    jobs: Jobs,
    /// When the message that is held back of a connection is released at the latest.
    timers: BinaryHeap<Reverse<(Nanos, u64)>>,
    publishers: HashMap<u64, Publisher>,
    draws: Draws,
    truth: Truth,
    /// Connections with something to send.
    dirty: BTreeSet<u64>,
    scratch: Vec<u8>,
}

impl Server {
    pub fn new(settings: &Settings, endpoint: Option<Endpoint>) -> Result<Server, StationError> {
        Ok(Server {
            protocol: settings.protocol,
            endpoint,
            next: settings.next.map(Next::connect).transpose()?,
            servers: Servers::start(settings, monotonic())?,
            connections: Slots::default(),
            jobs: Jobs::default(),
            timers: BinaryHeap::new(),
            publishers: HashMap::new(),
            draws: Draws::new(settings.faults, settings.queue.seed),
            truth: Truth::begin(settings.truth.as_deref())?,
            dirty: BTreeSet::new(),
            scratch: vec![0; SCRATCH],
        })
    }

    /// Prepares the loop.
    pub fn begin(&mut self, epoll: &OwnedFd, door: Option<&Door>) -> Result<(), StationError> {
        // Without it every wake-up is 50 µs late; where it is refused, the record still tells the truth.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        if let Some(door) = door {
            door.register(epoll)?;
        }
        if let Some(endpoint) = &self.endpoint {
            epoll::add(epoll, endpoint.socket(), EventData::new_u64(ENDPOINT), EventFlags::IN)?;
        }
        if let Some(next) = &self.next {
            next.register(epoll, NEXT)?;
        }
        if let Some(bell) = self.servers.bell() {
            epoll::add(epoll, bell, EventData::new_u64(BELL), EventFlags::IN)?;
        }
        Ok(())
    }

    /// Waits for the network or a departure and does what there is to do.
    pub fn turn(&mut self, epoll: &OwnedFd, mut door: Option<&mut Door>) -> Result<(), StationError> {
        let release = self.timers.peek().map(|Reverse((at, _))| *at);
        let next = release.into_iter().chain(self.servers.next_change()).min().unwrap_or(Nanos::MAX);
        let wait = (next - monotonic()).0.clamp(0, PATIENCE.0);
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait };
        let none = epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut ready = [none; 256];
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let count = epoll::wait(epoll, &mut ready[..], Some(&timeout)).unwrap_or(0);
        for event in &ready[..count] {
            match event.data.u64() {
                LISTENER => door.iter_mut().for_each(|door| self.accept(epoll, door)),
                ENDPOINT => self.receive()?,
                NEXT => self.take_answers()?,
                BELL => self.servers.silence(),
                id => self.ready(id, event.flags)?,
            }
        }
        if let Some(door) = door {
            door.resume(epoll, monotonic())?;
        }
        self.take_departed()?;
        self.fire()?;
        self.send_dirty(epoll)?;
        if let Some(next) = &mut self.next {
            next.send(epoll, NEXT)?;
        }
        Ok(self.truth.flush()?)
    }

    /// Writes down what was not served, and ends.
    pub fn finish(mut self) -> Result<(), StationError> {
        for job in self.jobs.into_left() {
            self.truth.write(job.marker, job.arrival, job.service, Fate::Unserved)?;
        }
        Ok(self.truth.flush()?)
    }

    fn accept(&mut self, epoll: &OwnedFd, door: &mut Door) {
        while let Some(stream) = door.accept(epoll, monotonic()) {
            let id = self.connections.insert(Connection::new(self.protocol));
            match (Peer::new(stream, id, epoll), self.connections.get_mut(id)) {
                (Ok(peer), Some(connection)) => connection.peer = Some(peer),
                _ => drop(self.connections.remove(id)),
            }
        }
    }

    fn ready(&mut self, id: u64, flags: EventFlags) -> Result<(), StationError> {
        self.dirty.insert(id);
        if !flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return Ok(());
        }
        let mut messages = Vec::new();
        for _ in 0..READINGS {
            let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
            let Some(peer) = &mut connection.peer else { return Ok(()) };
            let read = peer.read(&mut self.scratch);
            let arrival = monotonic();
            let outcome = match read {
                Ok(Some(count)) => {
                    connection.take_in(self.scratch.get(..count).unwrap_or_default(), &mut messages)
                }
                Ok(None) => Ok(()),
                Err(gone) => Err(gone),
            };
            let more = matches!(read, Ok(Some(count)) if count == self.scratch.len());
            for message in messages.drain(..) {
                self.arrive(id, None, message, arrival)?;
            }
            if outcome.is_err() {
                return self.close(id);
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Takes datagrams.
    fn receive(&mut self) -> Result<(), StationError> {
        for _ in 0..DATAGRAMS {
            let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
            match endpoint.receive(&mut self.scratch, monotonic()) {
                Ok(Some(Request { peer, from, message })) => {
                    self.arrive(peer, Some(from), message, monotonic())?
                }
                Ok(None) => {}
                // Nothing is there, or an earlier answer of ours found nobody: the next look tells.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn arrive(
        &mut self,
        id: u64,
        from: Option<SocketAddr>,
        message: Message,
        arrival: Nanos,
    ) -> Result<(), StationError> {
        let marker = Marker::read_binary(&message.payload).or_else(|| Marker::find_ascii(&message.payload));
        let fault = self.draws.next();
        let publisher = self.publishers.entry(id).or_default();
        let number = publisher.arrived;
        publisher.arrived += 1;
        let room = self.jobs.bytes() + message.payload.len() < MOST_HELD;
        let job = Job {
            message: Arc::new(message),
            connection: id,
            from,
            number,
            marker,
            arrival,
            service: None,
            fault,
        };
        if !room {
            self.servers.turn_away();
            return self.refuse(&job);
        }
        let slot = self.jobs.put(job);
        if self.servers.arrive(arrival, slot) {
            return Ok(());
        }
        self.jobs.take(slot).map_or(Ok(()), |job| self.refuse(&job))
    }

    fn refuse(&mut self, job: &Job) -> Result<(), StationError> {
        self.answer_datagram(job.from, job.message.id, Served::Refused, 1);
        if let Some(Connection { session, out, .. }) = self.connections.get_mut(job.connection) {
            session.answer(&job.message, Served::Refused, out.bytes());
        }
        Ok(self.truth.write(job.marker, job.arrival, job.service, Fate::Refused)?)
    }

    fn fire(&mut self) -> Result<(), StationError> {
        let now = monotonic();
        while let Some(&Reverse((at, id))) = self.timers.peek().filter(|Reverse((at, _))| *at <= now) {
            self.timers.pop();
            // The timer of an earlier message must not release a later one.
            let due = |publisher: &Publisher| publisher.held.is_some_and(|(_, until)| until <= at);
            if self.publishers.get(&id).is_some_and(due) {
                self.release(id)?;
            }
        }
        Ok(())
    }

    fn take_departed(&mut self) -> Result<(), StationError> {
        let now = monotonic();
        while let Some((slot, service)) = self.servers.take_departed(now) {
            if let Some(job) = self.jobs.get(slot) {
                job.service = Some(service);
            }
            self.depart(slot)?;
        }
        Ok(())
    }

    /// The service of a message is over: the next station has it, or it is answered.
    fn depart(&mut self, slot: usize) -> Result<(), StationError> {
        let Some(job) = self.jobs.get(slot) else { return Ok(()) };
        match &mut self.next {
            // What is dropped here never gets there.
            Some(next) if !job.fault.drop => {
                next.forward(slot, Arc::clone(&job.message));
                Ok(())
            }
            _ => self.complete(slot),
        }
    }

    fn take_answers(&mut self) -> Result<(), StationError> {
        let mut answered = Vec::new();
        if let Some(next) = &mut self.next {
            next.read(&mut answered)?;
        }
        for Answered { job, accepted } in answered {
            if accepted {
                self.complete(job)?;
            } else if let Some(job) = self.jobs.take(job) {
                self.refuse(&job)?;
            }
        }
        Ok(())
    }

    /// A message is acknowledged, and delivered unless a fault befalls it.
    fn complete(&mut self, slot: usize) -> Result<(), StationError> {
        let Some(job) = self.jobs.get(slot) else { return Ok(()) };
        let (id, fault, message) = (job.connection, job.fault, Arc::clone(&job.message));
        if let Some(Connection { session, out, .. }) = self.connections.get_mut(id) {
            let served = if fault.drop { Served::Lost } else { Served::Well };
            session.answer(&message, served, out.bytes());
            self.dirty.insert(id);
        }
        if fault.drop {
            let Some(job) = self.jobs.take(slot) else { return Ok(()) };
            return Ok(self.truth.write(job.marker, job.arrival, job.service, Fate::Dropped)?);
        }
        if fault.reorder
            && let Some(publisher) = self.publishers.get_mut(&id)
            && publisher.held.is_none()
        {
            let until = monotonic() + LONGEST_HOLD;
            publisher.held = Some((slot, until));
            self.timers.push(Reverse((until, id)));
            return Ok(());
        }
        self.deliver(slot)?;
        self.release(id)
    }

    /// Delivers the message that a connection's later ones were to pass.
    fn release(&mut self, id: u64) -> Result<(), StationError> {
        let held = self.publishers.get_mut(&id).and_then(|publisher| publisher.held.take());
        held.map_or(Ok(()), |(slot, _)| self.deliver(slot))
    }

    fn answer_datagram(&mut self, from: Option<SocketAddr>, id: u16, served: Served, times: u32) {
        if let (Some(endpoint), Some(from)) = (&mut self.endpoint, from) {
            endpoint.answer(from, id, served, times);
        }
    }

    fn deliver(&mut self, slot: usize) -> Result<(), StationError> {
        let Some(job) = self.jobs.take(slot) else { return Ok(()) };
        self.answer_datagram(job.from, job.message.id, Served::Well, 1 + u32::from(job.fault.duplicate));
        for (id, Connection { session, out, .. }) in self.connections.iter_mut() {
            let before = out.waiting();
            for _ in 0..1 + u8::from(job.fault.duplicate) {
                session.deliver(&job.message, id == job.connection, out.bytes());
            }
            if out.waiting() > before {
                self.dirty.insert(id);
            }
        }
        let behind = match self.publishers.get_mut(&job.connection) {
            Some(publisher) => {
                let behind = job.number < publisher.highest;
                publisher.highest = publisher.highest.max(job.number + 1);
                behind
            }
            None => false,
        };
        let fate = Fate::Served { twice: job.fault.duplicate, behind };
        Ok(self.truth.write(job.marker, job.arrival, job.service, fate)?)
    }

    fn send_dirty(&mut self, epoll: &OwnedFd) -> Result<(), StationError> {
        while let Some(id) = self.dirty.pop_first() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if connection.send(epoll).is_err() {
                self.close(id)?;
            }
        }
        Ok(())
    }

    /// Forgets a client; what it had published is served all the same.
    fn close(&mut self, id: u64) -> Result<(), StationError> {
        drop(self.connections.remove(id));
        self.release(id)?;
        self.publishers.remove(&id);
        Ok(())
    }
}
