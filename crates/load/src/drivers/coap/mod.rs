//! The CoAP driver over UDP (RFC 7252): requests of devices, confirmable or not, in blocks where they must be.
//!
//! An [`endpoint`] is what everybody here sends and reads with: devices, subscribers that observe ([`observer`]), and those
//! that listen ([`listener`]). [`channel`] is its socket and how that is secured, [`message_ids`] what its messages are known
//! by, [`answered`] what it answered.
//!
//! Devices: a [`device_socket`] is each device's own or shared by many; [`exchange`] is a request under way; [`transfer`]
//! a message as requests; [`requests`] what is in them; [`sending`] when they go. Tokens tell exchanges apart, so that any number of devices can share
//! a socket.

pub(super) mod answered;
mod certificates;
mod channel;
mod connecting;
mod device_socket;
pub(super) mod devices;
pub(super) mod dtls;
mod endpoint;
mod exchange;
mod listener;
pub(super) mod message_ids;
pub(super) mod observer;
mod receiving;
pub(super) mod requests;
mod sending;
pub(super) mod tokens;
pub(super) mod transfer;

pub use certificates::check_certificates;
pub use listener::CoapListenerDriver;
pub use observer::ObserverDriver;

use crate::clock::Clock;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Readiness;
use crate::drivers::timers::Timers;
use crate::drivers::{DriverContext, DriverEntry, Part};
use crate::share::Share;
use crate::sources::Sources;
use device_socket::{DeviceSocket, State};
use devices::Devices;
use dtls::Terms;
use exchange::Exchange;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{CoapPlan, Protocol};
use plimsoll_stats::distribution::{Random, random};
use requests::Requests;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tokens::TURNS;
use transfer::Order;

/// Bytes read from a socket at once: the largest datagram.
const READ_SIZE: usize = 64 * 1024;

/// Devices, queriers, and subscribers that observe or listen.
pub const ENTRY: DriverEntry = DriverEntry {
    queriers: Some(|context, queriers| Ok(Box::new(CoapDriver::of_queries(context, queriers)?))),
    listener: Some(listener::ENTRY),
    observers: Some(|context, role| Ok(Box::new(ObserverDriver::new(context, role)?))),
    ..DriverEntry::of_devices(Protocol::Coap, |context| Ok(Box::new(CoapDriver::new(context)?)))
};

/// Devices of one shard that speak CoAP.
pub struct CoapDriver {
    share: Share,
    plan: CoapPlan,
    clock: Clock,
    readiness: Readiness,
    address: SocketAddr,
    sources: Sources,
    /// How datagrams are secured, where they are.
    terms: Option<Terms>,
    requests: Requests,
    pauses: (Nanos, Nanos),
    devices: Devices,
    sockets: Vec<DeviceSocket>,
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// Whether what goes over one socket in one turn is handed to the kernel together, and the sockets where some waits for that.
    gathers: bool,
    gathering: Vec<u32>,
    timers: Timers<Wake>,
    /// Exchanges in blocks: their next step waits for the platform.
    in_blocks: usize,
    urgent: bool,
    scratch: Vec<u8>,
    random: Random,
    traffic: Traffic,
    /// What happened between two polls.
    early: Vec<Event>,
    /// Whether nobody asks for the socket, which queries need all the same.
    opens_by_itself: bool,
}

/// Room for an exchange, used again and again.
struct Place {
    exchange: Exchange,
    /// Whether one is under way.
    taken: bool,
    socket: u32,
    /// Whether its datagram waits, for the end of the turn or for room.
    waits: bool,
    /// The turn of this place: the number of its present request.
    turn: u32,
    /// When its timer is due; never where it has none.
    watched: Nanos,
}

impl Place {
    /// Notes that its datagram is about to be sent; whether it waited for that.
    fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// A place, whoever is there.
    Place,
    /// A socket of that generation.
    Socket(u32),
}

impl CoapDriver {
    /// A driver for the devices of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(context: &DriverContext) -> std::io::Result<CoapDriver> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        let owned = share.count(plan.devices) as usize;
        // Every shard has its part of shared sockets, and at least one.
        let sockets = plan.coap.sockets.map_or(owned, |all| (all.div_ceil(share.of) as usize).min(owned));
        let terms = plan.coap.dtls.as_deref().map(Terms::of_devices).transpose();
        let terms = terms.map_err(std::io::Error::other)?;
        let requests = Requests::new(plan, run, run_context)?;
        CoapDriver::with(context, (requests, terms), (owned, sockets, plan.coap.outstanding))
    }

    /// A driver for so many queriers in all shards, which share a socket in each: a query is submitted as if it were a message.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn of_queries(context: &DriverContext, queriers: u32) -> std::io::Result<CoapDriver> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        let requests = Requests::of_queries(plan, run, run_context)?;
        let sizes = (1, 1, queriers.div_ceil(share.of).max(1));
        let driver = CoapDriver::with(context, (requests, None), sizes)?;
        Ok(CoapDriver { opens_by_itself: true, ..driver })
    }

    fn with(
        context: &DriverContext,
        (requests, terms): (Requests, Option<Terms>),
        (owned, sockets, outstanding): (usize, usize, u32),
    ) -> std::io::Result<CoapDriver> {
        let &DriverContext { ref plan, run, address, share, clock, .. } = context;
        Ok(CoapDriver {
            share,
            plan: plan.coap.clone(),
            clock,
            readiness: Readiness::new(clock, &plan.load)?,
            address,
            sources: Sources::new(plan.connection.source_addresses.clone(), address),
            terms,
            requests,
            pauses: plan.connection.reconnect,
            devices: Devices::new(share, owned, outstanding, (plan.retries(), plan.seed)),
            sockets: (0..sockets).map(|_| DeviceSocket::new(plan.connection.reconnect.0)).collect(),
            places: Vec::new(),
            vacant: Vec::new(),
            // Captures would show them as one datagram.
            gathers: plan.coap.sockets.is_some() && plan.record.capture.is_none(),
            gathering: Vec::new(),
            timers: Timers::new(),
            in_blocks: 0,
            urgent: false,
            scratch: vec![0; READ_SIZE],
            random: random(plan.seed ^ u64::from(run.tag()), &[u64::from(share.index), 0x636f_6170]),
            traffic: Traffic::default(),
            early: Vec::new(),
            opens_by_itself: false,
        })
    }

    fn socket_of(&self, device: u32) -> u32 {
        device % (self.sockets.len().max(1) as u32)
    }

    fn number(&self, device: u32) -> u32 {
        self.share.number(device)
    }

    /// Ends an exchange without an answer; one of which nothing was sent is put back, or forgotten.
    fn abandon(&mut self, place: u32, at: Nanos, put_back: bool, events: &mut Vec<Event>) {
        let Some(exchange) = self.free(place) else { return };
        self.devices.abandon(exchange.1, exchange.0, at, put_back, events);
    }

    /// Gives a place back; whether its message was told as sent, and which it was.
    fn free(&mut self, slot: u32) -> Option<(bool, Order)> {
        let place = self.places.get_mut(slot as usize).filter(|place| place.taken)?;
        (place.taken, place.waits) = (false, false);
        place.turn = tokens::next(place.turn);
        self.vacant.push(slot);
        if place.exchange.transfer.is_in_blocks() {
            self.in_blocks -= 1;
        }
        let (told, order, id) =
            (place.exchange.transfer.told, place.exchange.transfer.order, place.exchange.id);
        if let Some(socket) = self.sockets.get_mut(place.socket as usize) {
            socket.exchanges.remove(&id);
            self.devices.dirty.append(&mut socket.crowded);
        }
        self.devices.ended(order);
        Some((told, order))
    }

    /// Begins what devices may begin.
    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        while let Some(device) = self.devices.dirty.pop() {
            let slot = self.socket_of(device);
            while self.devices.may_begin(device) {
                if let Some(socket) = self.sockets.get_mut(slot as usize).filter(|one| one.is_full()) {
                    // The platform has to answer first.
                    socket.crowded.push(device);
                    break;
                }
                let Some(order) = self.devices.begin(device) else { break };
                self.begin(slot, order, events);
            }
        }
    }

    fn begin(&mut self, socket: u32, order: Order, events: &mut Vec<Event>) {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            let turn = self.random.below(u64::from(TURNS)) as u32;
            let exchange = Exchange::default();
            let watched = Nanos::MAX;
            self.places.push(Place { exchange, taken: false, socket, waits: false, turn, watched });
            self.places.len() as u32 - 1
        });
        let now = self.clock.now();
        let code = self.requests.code();
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        (place.taken, place.socket) = (true, socket);
        let exchange = &mut place.exchange;
        self.requests.write(
            order.device,
            order.sequence,
            &mut exchange.transfer.options,
            &mut exchange.transfer.body,
        );
        exchange.transfer.generation = self.requests.view().generation();
        exchange.begin(order, code, now, &self.plan);
        self.in_blocks += usize::from(exchange.transfer.is_in_blocks());
        self.next_request(slot, events);
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        while let Some((at, slot, wake)) = self.timers.due(now) {
            match wake {
                Wake::Place => self.look_after(slot, at, now, events),
                Wake::Socket(generation) => {
                    let is_wanted =
                        |known: &&DeviceSocket| known.timer_at == at && known.generation() == generation;
                    match self.sockets.get(slot as usize).filter(is_wanted).map(|known| known.state) {
                        Some(State::Asking) => self.still_asking(slot, now, events),
                        Some(State::Pausing) => self.open(slot, events),
                        _ => {}
                    }
                }
            }
        }
        self.devices.repeat(now);
    }

    fn look_after(&mut self, slot: u32, at: Nanos, now: Nanos, events: &mut Vec<Event>) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        if at != place.watched {
            return;
        }
        place.watched = Nanos::MAX;
        if !place.taken || place.exchange.sendings == 0 {
            return;
        }
        let next = place.exchange.next_at;
        if next > now {
            place.watched = next;
            self.timers.set(next, slot, Wake::Place);
        } else if place.exchange.is_over(now, &self.plan) {
            let (socket, since) = (place.socket, place.exchange.sent_at);
            self.abandon(slot, now, false, events);
            self.given_up(socket, since, events);
        } else {
            self.send(slot, events);
        }
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let urgent = self.devices.have_waiting() || self.in_blocks > 0;
        self.readiness.tell_urgency(&mut self.urgent, urgent);
        self.readiness.wait(until.min(self.next_timer()));
        let found = self.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.readiness.served(found);
    }
}

impl Part for CoapDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.timers.next().min(self.devices.next_repetition())
    }

    fn is_urgent(&self) -> bool {
        self.readiness.is_urgent()
    }
}

impl Driver for CoapDriver {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        let device = self.share.slot(number);
        let slot = self.socket_of(device);
        if !self.devices.wants_connection(device) {
            return false;
        }
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return false };
        socket.waiting.push(device);
        let mut early = std::mem::take(&mut self.early);
        match socket.state {
            State::Closed => self.open(slot, &mut early),
            State::Ready => {
                socket.began = self.clock.now();
                self.opened(slot, &mut early);
            }
            State::Asking | State::Pausing => {}
        }
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Device(number) = client else { return false };
        let device = self.share.slot(number);
        let slot = self.socket_of(device);
        if self.devices.has_under_way(device) {
            let places = (0..).zip(&self.places);
            let its_own =
                places.filter(|(_, place)| place.taken && place.exchange.transfer.order.device == number);
            for place in its_own.map(|(place, _)| place).collect::<Vec<u32>>() {
                self.free(place);
            }
        }
        let was_ready = self.devices.forget(device);
        if let Some(socket) = self.sockets.get_mut(slot as usize) {
            socket.members.retain(|member| *member != device);
            socket.waiting.retain(|member| *member != device);
            if socket.members.is_empty() && socket.waiting.is_empty() {
                socket.leave(self.clock.now(), &mut self.traffic);
                socket.was_ready = false;
            }
        }
        was_ready
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.devices.enqueue(Order { device, sequence, ..Order::default() });
        if self.opens_by_itself {
            // Nothing changes where it is open, or about to be.
            self.connect(Client::Device(self.share.first));
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let at = self.clock.now();
        self.devices.withdraw(at, events);
        for place in 0..self.places.len() as u32 {
            self.abandon(place, at, false, events);
        }
        for socket in &mut self.sockets {
            socket.blocked.clear();
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.send_dirty(events);
        self.send_gathered(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_dirty(events);
        self.send_gathered(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {
        let now = self.clock.now();
        for socket in &mut self.sockets {
            socket.leave(now, &mut self.traffic);
        }
        self.devices.are_disconnected();
    }
}

/// What came from the platform and belongs to nothing.
pub(super) fn slip(what: &str, events: &mut Vec<Event>) {
    events.push(Event::Stray);
    events.push(Event::Incident { reason: format!("the platform sent {what}") });
}
