//! The HTTP driver: requests of devices over kept connections, each device's own or shared by all of them.
//!
//! A *lane* is a queue of messages with the connections that take them: one lane for each device, or one for all devices
//! of the shard. [`connection`] is one connection, [`requests`] what goes over it, and [`heads`] what each request begins with.
//! [`listener`] serves subscribers to whom the platform comes; a [`subscriber`] that asks has connections of its own, each a [`receiving`]
//! one.

mod connection;
mod heads;
mod listener;
mod outcome;
mod receiving;
mod requests;
mod since;
mod subscriber;

pub use listener::HttpListenerDriver;

use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Ready;
use crate::drivers::stream::StreamIo;
use crate::drivers::timers::Timers;
use crate::drivers::{BoxedPart, DriverContext, DriverEntry, Part};
use crate::share::Share;
use connection::{Connection, Message, State, Turn};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{HttpReceiveRole, Plan, Protocol, TransportPlan};
use plimsoll_stats::distribution::{Random, random};
use requests::Requests;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 64 * 1024;

/// Devices, queriers, and subscribers that listen.
pub const ENTRY: DriverEntry = DriverEntry {
    listener: Some(listener::ENTRY),
    queriers: Some(|context, queriers| Ok(Box::new(HttpDriver::of_queries(context, queriers)?))),
    ..DriverEntry::of_devices(Protocol::Http, |context| Ok(Box::new(HttpDriver::new(context)?)))
};

/// Subscribers that receive in answers.
///
/// # Errors
/// The kernel refuses an epoll instance, or certificates cannot be used.
pub fn receivers(context: &DriverContext, role: &HttpReceiveRole) -> std::io::Result<BoxedPart> {
    Ok(Box::new(subscriber::SubscriberDriver::new(context, role)?))
}

/// Devices of one shard that speak HTTP.
pub struct HttpDriver {
    share: Share,
    lanes: Vec<Lane>,
    connections: Vec<Connection>,
    /// Connections of a lane.
    width: u32,
    /// Whether all devices have one lane.
    shared: bool,
    io: Io,
    /// Lanes with something to send.
    dirty: Vec<u32>,
    /// Messages that wait for a connection.
    queued: usize,
    /// Whether that was told as urgent.
    urgent: bool,
    /// What happened between two polls.
    early: Vec<Event>,
    /// Which devices of the shard are connected, or connecting.
    wanted: Vec<bool>,
}

/// Messages, and the connections that take them.
#[derive(Default)]
struct Lane {
    queue: VecDeque<Message>,
    /// Connections that take a request now, by slot; some may have been taken or lost since.
    free: Vec<u32>,
}

/// What all connections of a shard use in turn.
struct Io {
    stream: StreamIo,
    requests: Requests,
    timeout: Nanos,
    timers: Timers<u32>,
    /// Messages to be sent again: when, in which lane, which.
    to_repeat: BinaryHeap<Reverse<(Nanos, u32, Message)>>,
    /// Messages whose connection was lost before it had taken them.
    returned: Vec<(u32, Message)>,
    /// Devices that could not be connected and are not tried again by themselves.
    gave_up: Vec<u32>,
    random: Random,
}

impl Io {
    /// Puts a message aside to be sent again after that status, or 0 for a lost connection.
    fn repeat(&mut self, lane: u32, message: Message, status: u16, at: Nanos) {
        let pause = self.requests.retries().pause(message.tries + 1, self.random.fraction());
        let message = Message { tries: message.tries + 1, after: status, since: at, ..message };
        self.to_repeat.push(Reverse((at + pause, lane, message)));
    }
}

impl HttpDriver {
    /// A driver for the devices of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext) -> std::io::Result<HttpDriver> {
        let DriverContext { plan, run, address, run_context, .. } = context;
        let requests = Requests::new(plan, *run, host(plan, *address), run_context)?;
        HttpDriver::with(context, requests, plan.http.pool, &plan.connection.transport)
    }

    /// A driver for the queriers of a share: a query is submitted as if it were a message of the device that it is about.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn of_queries(context: &DriverContext, queriers: u32) -> std::io::Result<HttpDriver> {
        let DriverContext { plan, run, address, run_context, .. } = context;
        let requests = Requests::of_queries(plan, *run, host(plan, *address), run_context)?;
        // What lies below other protocols lies not below the queries.
        let secured = plan.protocol() == Protocol::Http;
        let transport = if secured { plan.connection.transport.clone() } else { TransportPlan::default() };
        HttpDriver::with(context, requests, Some(queriers), &transport)
    }

    fn with(
        context: &DriverContext,
        requests: Requests,
        pool: Option<u32>,
        transport: &TransportPlan,
    ) -> std::io::Result<HttpDriver> {
        let &DriverContext { ref plan, share, .. } = context;
        let owned = share.count(plan.devices);
        let (shared, lanes, width) = match pool {
            // Every shard has its part of them, and at least one.
            Some(connections) => (true, owned.min(1), connections.div_ceil(share.of).max(1)),
            None => (false, owned, plan.http.connections.max(1)),
        };
        let pauses = plan.connection.reconnect;
        let connections = (0..lanes * width).map(|slot| {
            let (lane, within) = (slot / width, slot % width);
            let device = share.number(if shared { within } else { lane });
            Connection::new(lane, share.number(slot), device, pauses)
        });
        let timeout = requests.timeout().unwrap_or(plan.http.timeout);
        let io = Io {
            stream: StreamIo::new(context, transport, READ_SIZE)?,
            requests,
            timeout,
            timers: Timers::new(),
            to_repeat: BinaryHeap::new(),
            returned: Vec::new(),
            gave_up: Vec::new(),
            random: random(plan.seed, &[u64::from(share.index), 0x6874_7470]),
        };
        Ok(HttpDriver {
            share,
            connections: connections.collect(),
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            width,
            shared,
            io,
            dirty: Vec::new(),
            queued: 0,
            urgent: false,
            early: Vec::new(),
            wanted: vec![false; owned as usize],
        })
    }

    fn lane(&self, device: u32) -> u32 {
        if self.shared { 0 } else { self.share.slot(device) }
    }

    /// The connection that stands for a device.
    fn own(&self, device: u32) -> u32 {
        let of = self.share.slot(device);
        if self.shared { of % self.width } else { of * self.width }
    }

    fn enqueue(&mut self, lane: u32, message: Message, first: bool) {
        let Some(state) = self.lanes.get_mut(lane as usize) else { return };
        self.queued += 1;
        match first {
            true => state.queue.push_front(message),
            false => state.queue.push_back(message),
        }
        self.dirty.push(lane);
    }

    /// Gives what waits in the lanes to connections that are free, and opens further ones where there are any.
    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        while let Some(lane) = self.dirty.pop() {
            let Some(state) = self.lanes.get_mut(lane as usize) else { continue };
            while let Some(&message) = state.queue.front() {
                let Some(slot) = state.free.pop() else { break };
                let Some(connection) = self.connections.get_mut(slot as usize) else { continue };
                connection.listed = false;
                if connection.is_free() {
                    state.queue.pop_front();
                    self.queued -= 1;
                    connection.begin(slot, message, &mut self.io, events);
                }
            }
            if !state.queue.is_empty() {
                let wanted = state.queue.len();
                let slots = lane * self.width..(lane + 1) * self.width;
                let closed = slots.filter(|&slot| {
                    self.connections
                        .get(slot as usize)
                        .is_some_and(|connection| connection.state == State::Closed)
                });
                for slot in closed.take(wanted).collect::<Vec<_>>() {
                    if let Some(connection) = self.connections.get_mut(slot as usize) {
                        connection.open(slot, &mut self.io, events);
                    }
                }
            }
        }
        for (lane, message) in std::mem::take(&mut self.io.returned) {
            self.enqueue(lane, message, true);
        }
    }

    fn turned(&mut self, slot: u32, turn: Turn) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        let Some(lane) = self.lanes.get_mut(connection.lane as usize) else { return };
        if turn == Turn::Free && !std::mem::replace(&mut connection.listed, true) {
            lane.free.push(slot);
        }
        if turn != Turn::Same && !lane.queue.is_empty() {
            self.dirty.push(connection.lane);
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.stream.clock.now();
        while let Some((_, slot, generation)) = self.io.timers.due(now) {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.timer(slot, generation, &mut self.io, events);
            }
        }
        while let Some(&Reverse((at, lane, message))) = self.io.to_repeat.peek() {
            if at > now {
                break;
            }
            self.io.to_repeat.pop();
            self.enqueue(lane, message, false);
        }
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let urgent = self.queued > 0;
        self.io.stream.readiness.tell_urgency(&mut self.urgent, urgent);
        self.io.stream.readiness.wait(until.min(self.next_timer()));
        let found = self.io.stream.readiness.found();
        for &Ready { slot, generation, flags } in &found {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                let turn = connection.ready(slot, generation, flags, &mut self.io, events);
                self.turned(slot, turn);
            }
        }
        self.io.stream.readiness.served(found);
    }
}

/// The `Host` of requests: as the user names the platform, with the port.
fn host(plan: &Plan, address: SocketAddr) -> String {
    let endpoint = plan.platform.address.as_ref();
    let host = endpoint.map_or_else(|| address.ip().to_string(), |endpoint| endpoint.host.clone());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("{host}:{}", address.port())
}

impl Part for HttpDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.stream.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.next().min(self.io.to_repeat.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at))
    }

    fn is_urgent(&self) -> bool {
        self.io.stream.readiness.is_urgent()
    }
}

impl Driver for HttpDriver {
    fn now(&self) -> Nanos {
        self.io.stream.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Device(device) = client else { return false };
        match self.wanted.get_mut(self.share.slot(device) as usize) {
            Some(wanted) if !*wanted => *wanted = true,
            _ => return false,
        }
        let slot = self.own(device);
        if let Some(connection) = self.connections.get_mut(slot as usize) {
            connection.open_for(slot, device, &mut self.io, &mut self.early);
        }
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Device(device) = client else { return false };
        let lane = self.lane(device);
        let wanted = self.wanted.get_mut(self.share.slot(device) as usize);
        let was_wanted = wanted.is_some_and(std::mem::take);
        if let Some(state) = self.lanes.get_mut(lane as usize) {
            let before = state.queue.len();
            state.queue.retain(|message| message.device != device);
            self.queued -= before - state.queue.len();
        }
        if self.shared {
            // Its connection is that of others, too.
            let slot = self.own(device);
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.leave(device);
            }
            return was_wanted;
        }
        let slots = lane * self.width..(lane + 1) * self.width;
        let mut connections =
            slots.filter_map(|slot| self.connections.get_mut(slot as usize).map(Connection::goodbye));
        let first = connections.next().unwrap_or_default();
        connections.for_each(drop);
        first
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.enqueue(self.lane(device), Message { device, sequence, ..Message::default() }, false);
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let at = self.io.stream.clock.now();
        let abandoned =
            |message: Message| Event::Abandoned { device: message.device, sequence: message.sequence, at };
        for lane in &mut self.lanes {
            events.extend(lane.queue.drain(..).filter(|message| message.tries > 0).map(abandoned));
        }
        self.queued = 0;
        let waiting = self.io.to_repeat.drain().map(|Reverse((.., message))| abandoned(message));
        events.extend(waiting);
        for slot in 0..self.connections.len() {
            let turn = self.connections.get_mut(slot).map(|connection| connection.withdraw(at, events));
            self.turned(slot as u32, turn.unwrap_or(Turn::Same));
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        for device in self.io.gave_up.drain(..) {
            if let Some(wanted) = self.wanted.get_mut(self.share.slot(device) as usize) {
                *wanted = false;
            }
        }
        self.send_dirty(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_dirty(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.stream.traffic)
    }

    fn disconnect(&mut self) {
        for connection in &mut self.connections {
            connection.goodbye();
        }
    }
}
