//! Subscribers that observe (RFC 7641): each registers at the platform's resources and is notified over its own socket.

use crate::arrivals::Share;
use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::Part;
use crate::drivers::listener::notify;
use crate::drivers::readiness::{Readiness, Ready, data};
use crate::drivers::socket::{Interest, Socket};
use crate::drivers::timers::Timers;
use crate::given::{Given, View};
use crate::refusal;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, observe, option};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::Variables;
use plimsoll_scenario::plan::{CoapPlan, ObservePlan, OptionValue, Plan};
use plimsoll_stats::distribution::{Random, random};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Bytes read at once: the largest datagram.
const READ_SIZE: usize = 64 * 1024;
/// Unauthorized, 4.01, as a code.
const UNAUTHORIZED: u8 = 0x81;
/// Datagrams read from a socket before others get their turn.
const DATAGRAMS: usize = 64;
/// Registrations of a subscriber under way at once.
const AT_ONCE: usize = 8;
/// How long what has no Max-Age is fresh (RFC 7252 section 5.10.5), and how long after that a subscriber registers anew at
/// the soonest (RFC 7641 section 3.3.1).
const MAX_AGE: u32 = 60;
const PATIENCE: Nanos = Nanos::from_secs(5);
/// Characters of the platform's words that are shown.
const LONGEST_REASON: usize = 160;

/// Subscribers of one shard that observe.
pub struct ObserverDriver {
    share: Share,
    plan: CoapPlan,
    role: ObservePlan,
    clock: Clock,
    readiness: Readiness,
    address: SocketAddr,
    /// Path before that of every resource.
    base: Vec<u8>,
    run: String,
    view: View,
    contents: Contents,
    /// Resources of each subscriber: one for each device, or one.
    resources: u32,
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
    socket: Option<Socket>,
    generation: u32,
    /// Observations that wait for their turn to be registered, and those that are being.
    waiting: VecDeque<u32>,
    under_way: usize,
    registered: u32,
    began: Nanos,
    ready: bool,
    was_ready: bool,
    next_id: u16,
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
}

impl ObserverDriver {
    /// Subscribers of a share, none of them registered yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        plan: &Plan,
        role: &ObservePlan,
        run: RunId,
        address: SocketAddr,
        share: Share,
        clock: Clock,
        given: &Arc<Given>,
    ) -> std::io::Result<ObserverDriver> {
        let owned = (0..plan.subscribers.count).filter(|&subscriber| share.owns(subscriber)).count();
        let resources = if role.of_each_device { plan.devices } else { 1 };
        let base = plan.platform.address.as_ref().map(|address| address.path.clone().into_bytes());
        Ok(ObserverDriver {
            share,
            plan: plan.coap,
            role: role.clone(),
            clock,
            readiness: Readiness::new(clock, &plan.load)?,
            address,
            base: base.unwrap_or_default(),
            run: run.to_string(),
            view: View::of(given),
            contents: Contents::new(plan, run),
            resources,
            pauses: plan.mqtt.reconnect,
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
        slot * self.share.of + self.share.index
    }

    fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let (now, first_id) = (self.clock.now(), self.random.below(1 << 16) as u16);
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.generation = subscriber.generation.wrapping_add(1);
        subscriber.began = now;
        subscriber.next_id = first_id;
        let first = slot * self.resources;
        subscriber.waiting = (first..first + self.resources).collect();
        (subscriber.under_way, subscriber.registered) = (0, 0);
        let epoll = self.readiness.epoll();
        let opened = Socket::datagrams(self.address, None).and_then(|socket| {
            let data = data(slot, subscriber.generation);
            socket.register(epoll, data, Interest { read: true, write: false })?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                subscriber.socket = Some(socket);
                self.register_next(slot, events);
            }
            Err(error) => self.failed(slot, refusal::told(error), events),
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
        let id = subscriber.next_id;
        subscriber.next_id = id.wrapping_add(1);
        let datagram = self.request(index, id, Kind::Confirmable, 0);
        let Some(observation) = self.observations.get_mut(index as usize) else { return };
        *observation = Observation {
            state: State::Asking,
            id,
            datagram,
            timeout: Nanos::from_secs_f64(timeout),
            newest: observation.newest,
            ..Observation::default()
        };
        self.send(index, events);
    }

    /// The request to be told of a resource, or (1) not to be told any more.
    fn request(&mut self, index: u32, id: u16, kind: Kind, observe: u32) -> Vec<u8> {
        let (slot, device) = (index / self.resources, index % self.resources);
        self.view.refresh();
        let variables = Variables {
            run: &self.run,
            device,
            subscriber: self.number(slot),
            token: self.view.token(),
            captures: self.view.captures(),
            ..Variables::default()
        };
        let (mut list, mut text) = (OptionList::new(), self.base.clone());
        self.role.path.render(&variables, &mut || 0, &mut text);
        list.add_target(&text);
        list.add_number(option::OBSERVE, observe);
        for option in &self.role.options {
            match &option.value {
                OptionValue::Number(number) => list.add_number(option.number, *number),
                OptionValue::Text(template) => {
                    text.clear();
                    template.render(&variables, &mut || 0, &mut text);
                    list.add(option.number, &text);
                }
            }
        }
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
            (self.subscribers.get(slot as usize), self.observations.get_mut(index as usize))
        else {
            return;
        };
        let Some(socket) = &subscriber.socket else { return };
        // What finds no room is sent again when its wait is over.
        match socket.write(&observation.datagram) {
            Ok(count) => self.traffic.sent += count as u64,
            Err(error) => return self.failed(slot, refusal::told_of_datagram(error), events),
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
                    let known = self.subscribers.get(slot as usize);
                    if known.is_some_and(|known| known.generation == generation && known.socket.is_none()) {
                        self.open(slot, events);
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
                let reason = "the platform does not answer the request to observe".to_owned();
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
        subscriber.socket = None;
        subscriber.generation = subscriber.generation.wrapping_add(1);
        subscriber.waiting.clear();
        events.push(match std::mem::take(&mut subscriber.ready) {
            true => Event::Disconnected { client, at, reason },
            false => Event::ConnectFailed { client, reason },
        });
        if subscriber.was_ready {
            let pause = self.pauses.0.as_secs_f64() * (1.0 + self.random.fraction());
            let wake = Wake::Subscriber(subscriber.generation);
            self.timers.set(at + Nanos::from_secs_f64(pause), slot, wake);
        }
        let first = slot * self.resources;
        for index in first..first + self.resources {
            if let Some(observation) = self.observations.get_mut(index as usize) {
                *observation = Observation::default();
            }
        }
    }

    fn ready(&mut self, Ready { slot, generation, .. }: Ready, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            let known = self.subscribers.get(slot as usize).filter(|known| known.generation == generation);
            let Some(socket) = known.and_then(|subscriber| subscriber.socket.as_ref()) else { break };
            match socket.read(&mut scratch) {
                Ok(None) => break,
                Ok(Some(reading)) => {
                    self.traffic.received += reading.length as u64;
                    let at = self.readiness.received_at(self.clock.now(), reading.lag);
                    let datagram = scratch.get(..reading.length).unwrap_or_default();
                    match Message::decode(datagram) {
                        Ok(message) => self.take_in(slot, &message, (at, reading.lag), events),
                        Err(_) => events.push(Event::Stray),
                    }
                }
                Err(error) => {
                    self.failed(slot, refusal::told_of_datagram(error), events);
                    break;
                }
            }
        }
        self.scratch = scratch;
    }

    fn say(&mut self, slot: u32, kind: Kind, id: u16) {
        let mut out = Vec::with_capacity(4);
        Message::empty(kind, id).encode(&mut out);
        let socket = self.subscribers.get(slot as usize).and_then(|subscriber| subscriber.socket.as_ref());
        // One that finds no room is asked for again.
        if let Some(Ok(count)) = socket.map(|socket| socket.write(&out)) {
            self.traffic.sent += count as u64;
        }
    }

    fn take_in(
        &mut self,
        slot: u32,
        message: &Message<'_>,
        (at, lag): (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
        let first = slot * self.resources;
        if message.kind == Kind::Reset {
            let mut asked = first..first + self.resources;
            let one = asked.find(|index| {
                let known = self.observations.get(*index as usize);
                known.is_some_and(|known| known.state == State::Asking && known.id == message.id)
            });
            if one.is_some() {
                self.failed(slot, "the platform reset the request to observe".into(), events);
            }
            return;
        }
        if message.code >> 5 == 0 {
            if message.kind == Kind::Confirmable {
                self.say(slot, Kind::Reset, message.id);
            }
            // An empty acknowledgement: the answer comes by itself, or the request again.
            return;
        }
        let index = message.token.try_into().map_or(u32::MAX, u32::from_be_bytes);
        let ours = (first..first + self.resources).contains(&index);
        let Some(observation) = self.observations.get_mut(index as usize).filter(|_| ours) else {
            if message.kind == Kind::Confirmable {
                self.say(slot, Kind::Reset, message.id);
            }
            return events.push(Event::Stray);
        };
        let asked = observation.state == State::Asking;
        let number = message.number(option::OBSERVE);
        if message.code >> 5 != 2 || number.is_none() {
            let reason = self.view.hide(refused(message));
            if message.code == UNAUTHORIZED {
                // With the generation of the newest request, since few are under way: registrations are rare.
                self.view.refuse(self.view.generation());
            }
            if message.kind == Kind::Confirmable {
                self.say(slot, Kind::Acknowledgement, message.id);
            }
            // An error ends an observation (section 3.2), and so does an answer without a number.
            return self.failed(slot, reason, events);
        }
        let number = number.unwrap_or_default();
        let before = observation.newest;
        let newer = before
            .is_none_or(|(before, came)| observe::is_newer(number, before, (at - came).0 / 1_000_000_000));
        let max_age = message.number(option::MAX_AGE).unwrap_or(MAX_AGE);
        let spread = Nanos::from_secs_f64(10.0 * self.random.fraction());
        observation.state = State::Registered;
        observation.look_at = at + Nanos::from_secs(i64::from(max_age)) + PATIENCE + spread;
        // One timer looks after an observation, however often it is told.
        if observation.timer_at <= at {
            observation.timer_at = observation.look_at;
            self.timers.set(observation.look_at, index, Wake::Observation);
        }
        if newer {
            observation.newest = Some((number, at));
        }
        if message.kind == Kind::Confirmable {
            self.say(slot, Kind::Acknowledgement, message.id);
        }
        let subscriber = self.number(slot);
        if newer && !asked {
            notify(&self.contents, subscriber, (at, lag), message.payload, events);
        } else if newer {
            // What the resource held before is no notification, unless it is a message of this run.
            let mut content = message.payload.len() as u32;
            self.contents.each_marker(message.payload, &mut |marker| {
                let (marker, content) = (Some(marker), std::mem::take(&mut content));
                events.push(Event::Received { subscriber, marker, at, lag, retained: false, content });
            });
        }
        if asked {
            self.registered(slot, events);
        }
    }

    fn registered(&mut self, slot: u32, events: &mut Vec<Event>) {
        let (now, client) = (self.clock.now(), Client::Subscriber(self.number(slot)));
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.under_way = subscriber.under_way.saturating_sub(1);
        subscriber.registered += 1;
        if subscriber.registered == self.resources && !subscriber.ready {
            subscriber.ready = true;
            let again = std::mem::replace(&mut subscriber.was_ready, true);
            events.push(Event::Ready { client, took: now - subscriber.began, again });
        }
        self.register_next(slot, events);
    }

    /// Asks not to be told any more, and closes.
    fn goodbye(&mut self, slot: u32) -> bool {
        let first = slot * self.resources;
        for index in first..first + self.resources {
            let known = self.observations.get(index as usize);
            if known.is_some_and(|known| known.state == State::Registered) {
                let id = self.random.below(1 << 16) as u16;
                let datagram = self.request(index, id, Kind::NonConfirmable, 1);
                let subscriber = self.subscribers.get(slot as usize);
                // Whoever does not hear it is told by ICMP when it notifies.
                if let Some(socket) = subscriber.and_then(|subscriber| subscriber.socket.as_ref()) {
                    let _ = socket.write(&datagram);
                }
            }
            if let Some(observation) = self.observations.get_mut(index as usize) {
                *observation = Observation::default();
            }
        }
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return false };
        let was_ready = subscriber.ready;
        let generation = subscriber.generation.wrapping_add(1);
        *subscriber = Subscriber { generation, ..Subscriber::default() };
        was_ready
    }
}

/// Why a resource is not observed, for people.
fn refused(message: &Message<'_>) -> String {
    let (class, detail) = (message.code >> 5, message.code & 0x1f);
    if class == 2 {
        return "the platform does not let the resource be observed: its answer has no Observe option".into();
    }
    let words = message.payload.get(..LONGEST_REASON).unwrap_or(message.payload);
    let words: String =
        String::from_utf8_lossy(words).chars().filter(|character| !character.is_control()).collect();
    let words = if words.is_empty() { words } else { format!(": {words}") };
    format!("the platform answered the request to observe {class}.{detail:02}{words}")
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
        let slot = number / self.share.of;
        if self.subscribers.get(slot as usize).is_none_or(|known| known.socket.is_some()) {
            return false;
        }
        let mut early = std::mem::take(&mut self.early);
        self.open(slot, &mut early);
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        self.goodbye(number / self.share.of)
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
