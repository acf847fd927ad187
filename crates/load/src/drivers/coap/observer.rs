//! Subscribers that observe (RFC 7641): each registers at the platform's resources and is notified over its own socket.

mod receiving;

pub use receiving::{hash, refusal};

use super::channel::Peer;
use super::dtls::Terms;
use super::endpoint::{Endpoint, Remote};
use super::message_ids::MessageIds;
use super::requests::add_options;
use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Readiness;
use crate::drivers::timers::Timers;
use crate::drivers::{DriverContext, Part};
use crate::run_context::View;
use crate::share::Share;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{CoapPlan, ObservePlan, SubscriberPlan};
use plimsoll_stats::distribution::{Random, random};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read at once: the largest datagram.
const READ_SIZE: usize = 64 * 1024;
/// Registrations of a subscriber under way at once.
const AT_ONCE: usize = 8;

/// Subscribers of one shard that observe.
pub struct ObserverDriver {
    share: Share,
    plan: CoapPlan,
    role: ObservePlan,
    clock: Clock,
    readiness: Readiness,
    address: SocketAddr,
    /// How datagrams are secured, where they are.
    terms: Option<Terms>,
    /// Path before that of every resource.
    base: Vec<u8>,
    run: String,
    view: View,
    contents: Contents,
    /// Resources of each subscriber: one for each device, or one.
    resources: u32,
    /// Which devices they are.
    follows: SubscriberPlan,
    devices: u32,
    first_device: u32,
    pauses: (Nanos, Nanos),
    subscribers: Vec<Subscriber>,
    observations: Vec<Observation>,
    timers: Timers<Wake>,
    scratch: Vec<u8>,
    random: Random,
    traffic: Traffic,
    early: Vec<Event>,
}

#[derive(Default)]
struct Subscriber {
    endpoint: Endpoint,
    /// When its handshake is looked at; a timer that fires at another time is of an earlier wish.
    timer_at: Nanos,
    /// Observations that wait for their turn to be registered, and those that are being.
    waiting: VecDeque<u32>,
    under_way: usize,
    registered: u32,
    began: Nanos,
    ready: bool,
    was_ready: bool,
}

#[derive(Default)]
struct Observation {
    state: State,
    id: u16,
    datagram: Vec<u8>,
    sendings: u32,
    timeout: Nanos,
    /// The number of the newest notification, and when it came.
    newest: Option<(u32, Nanos)>,
    /// What the resource held then, as a hash; kept when it is registered anew.
    held: Option<u64>,
    /// When it is looked at; later wishes take the place of earlier ones.
    look_at: Nanos,
    /// When its timer fires; one that fires at another time is of an earlier wish.
    timer_at: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The request to be told is under way.
    Asking,
    Registered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Observation,
    /// A subscriber of that generation connects again.
    Subscriber(u32),
    /// The handshake of a subscriber of that generation.
    Handshake(u32),
}

impl Subscriber {
    /// A message id for a request. Few of them are under way, so that those of an earlier round have long ended.
    fn take_id(&mut self, now: Nanos) -> Option<u16> {
        self.endpoint.take_id(now, |_| false)
    }
}

impl ObserverDriver {
    /// Subscribers of a share, none of them registered yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(context: &DriverContext, role: &ObservePlan) -> std::io::Result<ObserverDriver> {
        let &DriverContext { ref plan, run, address, subscribers, clock, ref run_context, .. } = context;
        let (share, count) = subscribers;
        let owned = share.count(count) as usize;
        let resources = if role.of_each_device { plan.subscribers.followed(plan.devices) } else { 1 };
        let base = plan.platform.address.as_ref().map(|address| address.path.clone().into_bytes());
        Ok(ObserverDriver {
            share,
            plan: plan.coap.clone(),
            role: role.clone(),
            clock,
            readiness: Readiness::new(clock, &plan.load)?,
            address,
            terms: plan
                .coap
                .dtls
                .as_deref()
                .map(Terms::of_subscribers)
                .transpose()
                .map_err(std::io::Error::other)?,
            base: base.unwrap_or_default(),
            run: run.to_string(),
            view: View::of(run_context),
            contents: Contents::new(plan, run),
            resources,
            follows: plan.subscribers.clone(),
            devices: plan.devices,
            first_device: plan.population.first_device,
            pauses: plan.connection.reconnect,
            subscribers: (0..owned).map(|_| Subscriber::default()).collect(),
            observations: (0..owned * resources as usize).map(|_| Observation::default()).collect(),
            timers: Timers::new(),
            scratch: vec![0; READ_SIZE],
            random: random(plan.seed ^ u64::from(run.tag()), &[u64::from(share.index), 0x6f62_7365]),
            traffic: Traffic::default(),
            early: Vec::new(),
        })
    }

    fn number(&self, slot: u32) -> u32 {
        self.share.number(slot)
    }

    /// The device that a subscriber follows in that place.
    fn device(&self, slot: u32, place: u32) -> u32 {
        let subscriber = self.number(slot) - self.share.first;
        self.first_device + self.follows.follows(subscriber, place, self.devices)
    }

    /// A subscriber, if its socket is still that one.
    fn of_generation(&self, slot: u32, generation: u32) -> Option<&Subscriber> {
        let known = self.subscribers.get(slot as usize);
        known.filter(|known| known.endpoint.generation() == generation)
    }

    fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let (now, first_id) = (self.clock.now(), self.random.below(1 << 16) as u16);
        let number = self.number(slot);
        let session = self.terms.as_ref().map(|terms| terms.session(number, now)).transpose();
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        (subscriber.began, subscriber.timer_at) = (now, Nanos::ZERO);
        let first = slot * self.resources;
        subscriber.waiting = (first..first + self.resources).collect();
        (subscriber.under_way, subscriber.registered) = (0, 0);
        let opened = session.and_then(|session| {
            let remote = Remote { address: self.address, source: None, session, gathers: false };
            let ids = MessageIds::beginning_at(first_id, now);
            subscriber.endpoint.connect(remote, ids, (self.readiness.epoll(), slot))?;
            subscriber.endpoint.tick(now, &mut self.traffic)
        });
        match opened {
            Ok(()) => self.go_on(slot, events),
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    /// Waits for the handshake where one is under way, else registers.
    fn go_on(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        match subscriber.endpoint.wakes_at() {
            Some(at) if at == subscriber.timer_at => {}
            Some(at) => {
                subscriber.timer_at = at;
                self.timers.set(at, slot, Wake::Handshake(subscriber.endpoint.generation()));
            }
            None => self.register_next(slot, events),
        }
    }

    /// Repeats what of the handshake was not answered.
    fn tick(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.timer_at = Nanos::ZERO;
        if subscriber.endpoint.wakes_at().is_none() {
            return;
        }
        match subscriber.endpoint.tick(now, &mut self.traffic) {
            Ok(()) => self.go_on(slot, events),
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    fn register_next(&mut self, slot: u32, events: &mut Vec<Event>) {
        loop {
            let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
            if subscriber.under_way >= AT_ONCE {
                return;
            }
            let Some(observation) = subscriber.waiting.pop_front() else { return };
            subscriber.under_way += 1;
            self.register(observation, events);
        }
    }

    /// Asks to be told of a resource.
    fn register(&mut self, index: u32, events: &mut Vec<Event>) {
        let slot = index / self.resources;
        let timeout = self.plan.ack_timeout.as_secs_f64() * (1.0 + 0.5 * self.random.fraction());
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let Some(id) = subscriber.take_id(self.clock.now()) else { return };
        let datagram = self.request(index, id, Kind::Confirmable, 0);
        let Some(observation) = self.observations.get_mut(index as usize) else { return };
        *observation = Observation {
            state: State::Asking,
            id,
            datagram,
            timeout: Nanos::from_secs_f64(timeout),
            newest: observation.newest,
            held: observation.held,
            ..Observation::default()
        };
        self.send(index, events);
    }

    /// The request to be told of a resource, or (1) not to be told any more.
    fn request(&mut self, index: u32, id: u16, kind: Kind, observe: u32) -> Vec<u8> {
        let (slot, place) = (index / self.resources, index % self.resources);
        let device = self.device(slot, place);
        self.view.refresh();
        let variables = Variables {
            run: &self.run,
            device,
            subscriber: self.number(slot),
            token: self.view.token(),
            captures: self.view.captures(),
            ..Variables::default()
        };
        let (mut list, mut text) = (OptionList::new(), Vec::new());
        let parts = (&self.role.path, &self.role.options[..]);
        add_options(parts, &self.base, &variables, &mut || 0, (&mut list, &mut text));
        list.add_number(option::OBSERVE, observe);
        let (mut options, mut out) = (Vec::new(), Vec::new());
        list.encode(&mut options);
        let token = index.to_be_bytes();
        Message { kind, code: code::GET, id, token: &token, options: &options, payload: &[] }
            .encode(&mut out);
        out
    }

    fn send(&mut self, index: u32, events: &mut Vec<Event>) {
        let slot = index / self.resources;
        let now = self.clock.now();
        let (Some(subscriber), Some(observation)) =
            (self.subscribers.get_mut(slot as usize), self.observations.get_mut(index as usize))
        else {
            return;
        };
        if !subscriber.endpoint.is_open() {
            return;
        }
        let sent = subscriber.endpoint.send(&observation.datagram, Peer::Connected, now, &mut self.traffic);
        // What finds no room is sent again when its wait is over.
        if let Err(reason) = sent {
            return self.failed(slot, reason, events);
        }
        if observation.sendings > 0 {
            observation.timeout = observation.timeout * 2;
        }
        observation.sendings += 1;
        observation.look_at = now + observation.timeout;
        observation.timer_at = observation.look_at;
        self.timers.set(observation.look_at, index, Wake::Observation);
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.clock.now();
        while let Some((at, slot, wake)) = self.timers.due(now) {
            match wake {
                Wake::Subscriber(generation) => {
                    let known = self.of_generation(slot, generation);
                    if known.is_some_and(|known| !known.endpoint.is_open()) {
                        self.open(slot, events);
                    }
                }
                Wake::Handshake(generation) => {
                    if self.of_generation(slot, generation).is_some_and(|known| known.timer_at == at) {
                        self.tick(slot, now, events);
                    }
                }
                Wake::Observation => self.look_after(slot, at, events),
            }
        }
    }

    fn look_after(&mut self, index: u32, at: Nanos, events: &mut Vec<Event>) {
        let Some(observation) = self.observations.get_mut(index as usize) else { return };
        if observation.timer_at != at {
            return;
        }
        if observation.look_at > at {
            observation.timer_at = observation.look_at;
            return self.timers.set(observation.look_at, index, Wake::Observation);
        }
        match observation.state {
            State::Idle => {}
            State::Asking if observation.sendings > self.plan.max_retransmit => {
                let (times, path) = (observation.sendings, self.role.path.text());
                let reason = format!("the platform did not answer {times} requests to observe (GET {path})");
                self.failed(index / self.resources, reason, events);
            }
            State::Asking => self.send(index, events),
            // Nothing came for longer than the last notification was fresh (RFC 7641 section 3.3.1).
            State::Registered => self.again(index, events),
        }
    }

    /// Registers anew what was registered before.
    fn again(&mut self, index: u32, events: &mut Vec<Event>) {
        if let Some(subscriber) = self.subscribers.get_mut((index / self.resources) as usize) {
            subscriber.registered = subscriber.registered.saturating_sub(1);
            subscriber.under_way += 1;
        }
        self.register(index, events);
    }

    /// The platform cannot be reached, or does not want to be observed: all is registered anew after a pause.
    fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let (at, client) = (self.clock.now(), Client::Subscriber(self.number(slot)));
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.endpoint.close();
        subscriber.waiting.clear();
        events.push(match std::mem::take(&mut subscriber.ready) {
            true => Event::Disconnected { client, at, reason },
            false => Event::ConnectFailed { client, reason, lasting: false },
        });
        if subscriber.was_ready {
            let pause = self.pauses.0.as_secs_f64() * (1.0 + self.random.fraction());
            let wake = Wake::Subscriber(subscriber.endpoint.generation());
            self.timers.set(at + Nanos::from_secs_f64(pause), slot, wake);
        }
        let first = slot * self.resources;
        for index in first..first + self.resources {
            if let Some(observation) = self.observations.get_mut(index as usize) {
                *observation = Observation { held: observation.held, ..Observation::default() };
            }
        }
    }

    /// Asks not to be told any more, and closes.
    fn goodbye(&mut self, slot: u32) -> bool {
        let now = self.clock.now();
        let first = slot * self.resources;
        for index in first..first + self.resources {
            let known = self.observations.get(index as usize);
            if known.is_some_and(|known| known.state == State::Registered) {
                let id = self.subscribers.get_mut(slot as usize).and_then(|known| known.take_id(now));
                let datagram = self.request(index, id.unwrap_or_default(), Kind::NonConfirmable, 1);
                if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
                    // Whoever does not hear it is told by ICMP when it notifies.
                    let _ = subscriber.endpoint.send(&datagram, Peer::Connected, now, &mut self.traffic);
                }
            }
            if let Some(observation) = self.observations.get_mut(index as usize) {
                *observation = Observation::default();
            }
        }
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return false };
        subscriber.endpoint.leave(now, &mut self.traffic);
        let was_ready = subscriber.ready;
        let endpoint = std::mem::take(&mut subscriber.endpoint);
        *subscriber = Subscriber { endpoint, ..Subscriber::default() };
        was_ready
    }
}

impl Part for ObserverDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    fn is_urgent(&self) -> bool {
        false
    }
}

impl Driver for ObserverDriver {
    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        let slot = self.share.slot(number);
        if self.subscribers.get(slot as usize).is_none_or(|known| known.endpoint.is_open()) {
            return false;
        }
        let mut early = std::mem::take(&mut self.early);
        self.open(slot, &mut early);
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        self.goodbye(self.share.slot(number))
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.readiness.wait(until.min(self.next_timer()));
        let found = self.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.readiness.served(found);
        self.fire_timers(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn disconnect(&mut self) {
        for slot in 0..self.subscribers.len() as u32 {
            self.goodbye(slot);
        }
    }
}
