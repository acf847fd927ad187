//! The CoAP driver over TCP and TLS (RFC 8323): each device has a connection, or many share some, and any number of requests
//! is under way over each.
//!
//! [`connection`] is one connection and what comes over it; [`log_in`] how it is let in; [`exchanges`] the messages of devices and what
//! answers mean; [`serving`] what devices answer themselves; [`observer`] subscribers. What a message is as requests is the same as over datagrams ([`super::coap`]).

mod connection;
mod exchanges;
mod log_in;
mod observer;
pub mod reasons;
mod serving;

use super::coap::devices::Devices;
use super::coap::requests::Requests;
use super::coap::slip;
use super::coap::transfer::Order;
use super::readiness::Ready;
use super::stream::{Backoff, StreamIo};
use super::timers::Timers;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::{DriverContext, DriverEntry, Part};
use crate::share::Share;
use connection::{Connection, Incoming, Stamp, State};
use exchanges::Exchanges;
use log_in::LogIn;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Protocol, ServePlan};
use plimsoll_stats::distribution::random;
use rustix::event::epoll::EventFlags;
use serving::Serving;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;
/// Names the stream of random numbers of tokens and pauses.
const STREAM: u64 = 0x636f_6170_2b74_6370;

/// Devices, queriers, and subscribers that observe.
pub const ENTRY: DriverEntry = DriverEntry {
    observers: Some(|context, role| Ok(Box::new(observer::ObserverDriver::new(context, role)?))),
    queriers: Some(|context, queriers| Ok(Box::new(CoapTcpDriver::of_queries(context, queriers)?))),
    ..DriverEntry::of_devices(Protocol::CoapTcp, |context| Ok(Box::new(CoapTcpDriver::new(context)?)))
};

/// Devices of one shard that speak CoAP over TCP, or its queriers.
pub struct CoapTcpDriver {
    io: StreamIo,
    share: Share,
    connections: Vec<Connection>,
    exchanges: Exchanges,
    log_in: LogIn,
    serving: Serving,
    /// Whether nobody asks for connections, which queries need all the same.
    opens_by_itself: bool,
    timers: Timers<Wake>,
    /// Connections with something to send.
    unsent: Vec<u32>,
    urgent: bool,
    /// What happened between two polls.
    early: Vec<Event>,
    /// Room for what one reading brings.
    came: Vec<Event>,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// A place, whoever is there.
    Place,
    /// A connection of that generation.
    Connection(u32),
    /// Whether the platform is still there at the other end of a connection of that generation.
    Ping(u32),
}

impl CoapTcpDriver {
    /// A driver for the devices of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext) -> std::io::Result<CoapTcpDriver> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        let owned = share.count(plan.devices) as usize;
        // Every shard has its part of shared connections, and at least one.
        let count = plan.coap.sockets.map_or(owned, |all| (all.div_ceil(share.of) as usize).min(owned));
        let log_in = LogIn::new(context, &plan.platform.roles.device.log_in);
        let requests = Requests::new(plan, run, run_context)?;
        let serves = plan.platform.roles.device.serves.clone();
        let sizes = (owned, count, plan.coap.outstanding);
        CoapTcpDriver::with(context, (requests, log_in, serves), sizes, false)
    }

    /// A driver for so many queriers in all shards, which share a connection in each: a query is submitted as if it were a message.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn of_queries(context: &DriverContext, queriers: u32) -> std::io::Result<CoapTcpDriver> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        let query = plan.platform.roles.query.as_ref();
        let log_in = LogIn::new(context, query.map_or(&[][..], |query| &query.log_in));
        let requests = Requests::of_queries(plan, run, run_context)?;
        let sizes = (1, 1, queriers.div_ceil(share.of).max(1));
        CoapTcpDriver::with(context, (requests, log_in, None), sizes, true)
    }

    fn with(
        context: &DriverContext,
        (requests, log_in, serves): (Requests, LogIn, Option<ServePlan>),
        (devices, connections, outstanding): (usize, usize, u32),
        opens_by_itself: bool,
    ) -> std::io::Result<CoapTcpDriver> {
        let &DriverContext { ref plan, run, share, .. } = context;
        let pauses = plan.connection.reconnect;
        let random = random(plan.seed ^ u64::from(run.tag()), &[u64::from(share.index), STREAM]);
        let devices = Devices::new(share, devices, outstanding, (plan.retries(), plan.seed));
        Ok(CoapTcpDriver {
            io: StreamIo::new(context, &plan.connection.transport, READ_SIZE)?,
            share,
            connections: (0..connections).map(|_| Connection::new(pauses, plan.coap.csm)).collect(),
            exchanges: Exchanges::new(plan.coap.clone(), requests, devices, connections, random),
            log_in,
            serving: Serving::new(context, serves),
            opens_by_itself,
            timers: Timers::new(),
            unsent: Vec::new(),
            urgent: false,
            early: Vec::new(),
            came: Vec::new(),
        })
    }

    fn connection_of(&self, device: u32) -> u32 {
        device % (self.connections.len().max(1) as u32)
    }

    fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let number = self.share.number(slot);
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        match connection.open(slot, (Client::Device(number), number), &mut self.io) {
            Ok(()) => {
                connection.timer_at = connection.began() + self.io.timeout;
                let wake = Wake::Connection(connection.generation());
                self.timers.set(connection.timer_at, slot, wake);
            }
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    fn ready(&mut self, Ready { slot, generation, flags }: Ready, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        if !connection.is_of(generation) {
            return;
        }
        let (exchanges, now) = (&mut self.exchanges, self.io.clock.now());
        let device = self.share.number(connection.first());
        let (log_in, asked) = (&self.log_in, connection.asked_to_log_in());
        let (mut traffic, mut came) = (Traffic::default(), std::mem::take(&mut self.came));
        let mut let_in: Option<(Nanos, Result<(), String>)> = None;
        let (mut asked_of_us, mut is_answered) = (Vec::new(), false);
        let mut taker = |incoming: Incoming<'_>, (at, _): Stamp| match incoming {
            Incoming::Settled => let_in = Some((at, Ok(()))),
            Incoming::LogIn(message) => match log_in.answered(asked, &message, Client::Device(device)) {
                Some(verdict) if let_in.is_none() => let_in = Some((at, verdict)),
                _ => slip("an answer to what was never asked", &mut came),
            },
            Incoming::Answer(message) => {
                is_answered = true;
                exchanges.answered(slot, &message, at, &mut traffic, &mut came);
            }
            Incoming::Request(message) => asked_of_us.push(message.keep()),
        };
        let outcome = match connection.state {
            State::Connecting => connection.connected(now, &mut taker),
            _ if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) => {
                connection.read(&mut self.io, events, &mut taker)
            }
            _ => Ok(()),
        };
        self.io.traffic += traffic;
        if is_answered {
            // A platform that only greets is not there again: it may end each connection at once.
            connection.backoff = Backoff::new(self.io.pauses);
        }
        self.serving.answer_all(&asked_of_us, device, &mut connection.out, &mut came);
        let outcome = match let_in {
            Some((at, Ok(()))) => match connection.log_in(&mut self.log_in, (device, 0)) {
                Ok(true) => {
                    self.opened(slot, at, events);
                    outcome
                }
                log_in => outcome.and(log_in.map(drop)),
            },
            Some((_, verdict)) => outcome.and(verdict),
            None => outcome,
        };
        events.append(&mut came);
        self.came = came;
        if let Err(reason) = outcome {
            return self.failed(slot, reason, events);
        }
        self.go_on();
        self.send(slot, events);
    }

    /// Requests may go over a connection.
    fn opened(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        connection.timer_at = Nanos::MAX;
        let is_new = !std::mem::replace(&mut connection.is_looked_after, true);
        if let Some(interval) = self.exchanges.plan.ping.filter(|_| is_new) {
            self.timers.set(at + interval, slot, Wake::Ping(connection.generation()));
        }
        connection.was_ready = true;
        let took = at - connection.began();
        let waiting = std::mem::take(&mut connection.waiting);
        self.exchanges.devices.are_ready(&waiting, took, events);
        connection.members.extend(waiting);
    }

    /// Writes what devices may begin, and what is next of exchanges in blocks.
    fn go_on(&mut self) {
        while let Some(slot) = self.exchanges.next.pop() {
            self.write(slot);
        }
        while let Some(device) = self.exchanges.devices.dirty.pop() {
            let slot = self.connection_of(device);
            let Some(connection) = self.connections.get_mut(slot as usize) else { continue };
            if connection.out.is_full() {
                connection.crowded.push(device);
                continue;
            }
            if connection.state != State::Ready || connection.released.is_some() {
                continue;
            }
            let settings = connection.settings;
            let Some(order) = self.exchanges.devices.begin(device) else { continue };
            let place = self.exchanges.begin(slot, order, settings);
            self.write(place);
            self.exchanges.devices.dirty.push(device);
        }
    }

    /// Writes the next request of a place.
    fn write(&mut self, place: u32) {
        let Some(state) = self.exchanges.places.get(place as usize) else { return };
        let slot = state.connection;
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        let begin = connection.out.bytes().len();
        let Some(turn) = self.exchanges.write(place, connection.out.bytes()) else { return };
        connection.out.mark(begin, place, 0);
        connection.written.push_back((place, turn));
        if !std::mem::replace(&mut connection.is_unsent, true) {
            self.unsent.push(slot);
        }
    }

    /// Sends what stands in a connection.
    fn send(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        if connection.state == State::Closed || connection.state == State::Pausing {
            return;
        }
        let (exchanges, timers) = (&mut self.exchanges, &mut self.timers);
        let gone = |place: (u32, u32), at, io: &mut StreamIo| {
            io.traffic.request_packets += 1;
            if let Some(look_at) = exchanges.was_sent(place, at, events) {
                timers.set(look_at, place.0, Wake::Place);
            }
        };
        if let Err(reason) = connection.send(slot, &mut self.io, gone) {
            return self.failed(slot, reason, events);
        }
        if !connection.out.is_full() {
            self.exchanges.devices.dirty.append(&mut connection.crowded);
        }
        if connection.released.is_some() && self.exchanges.over(slot).is_empty() {
            self.failed(slot, "the platform released the connection".into(), events);
        }
    }

    fn send_all(&mut self, events: &mut Vec<Event>) {
        self.go_on();
        while let Some(slot) = self.unsent.pop() {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.is_unsent = false;
            }
            self.send(slot, events);
            self.go_on();
        }
    }

    /// The connection is no more: what was under way is given up, and it is opened again after a pause.
    fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let at = self.io.clock.now();
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        let exchanges = &mut self.exchanges;
        // A platform may repeat what the connection was let in by.
        let whom = (self.share.number(connection.first()), 0);
        let reason = exchanges.requests.view().hide_captured(reason, whom);
        // Written but not sent: these wait again, in front.
        connection.withdraw(|place| {
            exchanges.abandon_written(place, at, true, events);
            true
        });
        for place in connection.written.drain(..) {
            exchanges.has_begun(place, at, events);
        }
        let not_before = connection.released.unwrap_or(at);
        let members = std::mem::take(&mut connection.members);
        let waiting = if connection.was_ready { Vec::new() } else { std::mem::take(&mut connection.waiting) };
        connection.fail(&mut self.io);
        connection.waiting.extend(&members);
        if connection.was_ready {
            connection.state = State::Pausing;
            let pause = connection.backoff.next(self.io.pauses, &mut exchanges.random);
            connection.timer_at = not_before + pause;
            let wake = Wake::Connection(connection.generation());
            self.timers.set(connection.timer_at, slot, wake);
        }
        let waits = connection.waiting.first().copied().filter(|_| members.is_empty() && waiting.is_empty());
        while let Some(&place) = exchanges.over(slot).last() {
            exchanges.abandon(place, at, true, events);
        }
        exchanges.devices.are_lost((&members, &waiting), at, &reason, events);
        if let Some(device) = waits {
            // Trying again has failed.
            let client = Client::Device(self.share.number(device));
            events.push(Event::ConnectFailed { client, reason, lasting: false });
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.clock.now();
        while let Some((at, slot, wake)) = self.timers.due(now) {
            match wake {
                Wake::Place => {
                    match self.exchanges.look_after(slot, at, now, events) {
                        Some(next) => self.timers.set(next, slot, Wake::Place),
                        // A connection that the platform has released may wait for the end of this exchange alone.
                        None => self
                            .unsent
                            .extend(self.exchanges.places.get(slot as usize).map(|own| own.connection)),
                    }
                }
                Wake::Ping(generation) => self.ping(slot, generation, now, events),
                Wake::Connection(generation) => {
                    let known = self.connections.get(slot as usize);
                    let known = known.filter(|own| own.timer_at == at && own.generation() == generation);
                    match known.map(|own| own.state) {
                        None | Some(State::Closed | State::Ready) => {}
                        Some(State::Pausing) => self.open(slot, events),
                        Some(_) => {
                            let reason = known.map(|own| own.late(self.io.timeout)).unwrap_or_default();
                            self.failed(slot, reason, events);
                        }
                    }
                }
            }
        }
        self.exchanges.devices.repeat(now);
    }

    /// Looks whether the platform is still there.
    fn ping(&mut self, slot: u32, generation: u32, now: Nanos, events: &mut Vec<Event>) {
        let known = self.connections.get_mut(slot as usize);
        let known = known.filter(|own| own.is_of(generation) && own.state == State::Ready);
        let (Some(connection), Some(interval)) = (known, self.exchanges.plan.ping) else { return };
        match connection.look_after(now, interval) {
            Ok(next) => {
                self.timers.set(next, slot, Wake::Ping(generation));
                self.unsent.push(slot);
            }
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let urgent = self.exchanges.devices.have_waiting() || self.exchanges.in_blocks > 0;
        self.io.readiness.tell_urgency(&mut self.urgent, urgent);
        self.io.readiness.wait(until.min(self.next_timer()));
        let found = self.io.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.io.readiness.served(found);
    }
}

impl Part for CoapTcpDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.timers.next().min(self.exchanges.devices.next_repetition())
    }

    fn is_urgent(&self) -> bool {
        self.io.readiness.is_urgent()
    }
}

impl Driver for CoapTcpDriver {
    fn now(&self) -> Nanos {
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        let device = self.share.slot(number);
        let slot = self.connection_of(device);
        if !self.exchanges.devices.wants_connection(device) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(slot as usize) else { return false };
        connection.waiting.push(device);
        let mut early = std::mem::take(&mut self.early);
        match connection.state {
            State::Closed => self.open(slot, &mut early),
            State::Ready => {
                let at = connection.began();
                self.opened(slot, at, &mut early);
            }
            _ => {}
        }
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        let device = self.share.slot(number);
        let slot = self.connection_of(device);
        let exchanges = &mut self.exchanges;
        if exchanges.devices.has_under_way(device) {
            exchanges.forget(number, slot);
        }
        let was_ready = exchanges.devices.forget(device);
        if let Some(connection) = self.connections.get_mut(slot as usize) {
            // What others wrote still goes.
            connection.withdraw(|place| !exchanges.is_under_way(place));
            connection.members.retain(|member| *member != device);
            connection.waiting.retain(|member| *member != device);
            if connection.members.is_empty() && connection.waiting.is_empty() {
                connection.leave(&mut self.io);
                connection.was_ready = false;
            }
        }
        was_ready
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.exchanges.devices.enqueue(Order { device, sequence, ..Order::default() });
        if self.opens_by_itself {
            // Nothing changes where it is open, or about to be.
            self.connect(Client::Device(self.share.first));
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let at = self.io.clock.now();
        let exchanges = &mut self.exchanges;
        exchanges.devices.withdraw(at, events);
        for connection in &mut self.connections {
            connection.withdraw(|place| {
                exchanges.abandon_written(place, at, false, events);
                true
            });
            for &place in &connection.written {
                exchanges.has_begun(place, at, events);
            }
        }
        for place in 0..exchanges.places.len() as u32 {
            exchanges.abandon(place, at, false, events);
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.send_all(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_all(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        for connection in &mut self.connections {
            connection.leave(&mut self.io);
        }
        self.exchanges.devices.are_disconnected();
    }
}
