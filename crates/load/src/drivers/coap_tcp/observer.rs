//! Subscribers that observe over TCP (RFC 8323 section 7.1): each has a connection, over which it asks to be notified of the platform's
//! resources. What comes is in order, and an observation lasts as long as its connection.

use super::connection::{Connection, Incoming, Stamp, State};
use super::log_in::LogIn;
use super::serving::Serving;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::coap::observer::{hash, refusal};
use crate::drivers::coap::requests::add_options;
use crate::drivers::coap::slip;
use crate::drivers::readiness::Ready;
use crate::drivers::stream::{Backoff, StreamIo};
use crate::drivers::timers::Timers;
use crate::drivers::{DriverContext, Part};
use crate::notification::{notify, notify_marked};
use crate::run_context::View;
use crate::share::Share;
use plimsoll_codec::coap::stream;
use plimsoll_codec::coap::{Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{CoapPlan, ObservePlan, SubscriberPlan, Variables};
use plimsoll_stats::distribution::{Random, random};
use rustix::event::epoll::EventFlags;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;
/// Registrations of a subscriber under way at once.
const AT_ONCE: u32 = 32;
/// Names the stream of random numbers of pauses.
const STREAM: u64 = 0x6f62_732b_7463_7000;

/// Subscribers of one shard that observe.
pub struct ObserverDriver {
    io: StreamIo,
    share: Share,
    plan: CoapPlan,
    role: ObservePlan,
    log_in: LogIn,
    /// Subscribers have nothing that could be asked for.
    serving: Serving,
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
    subscribers: Vec<Subscriber>,
    timers: Timers<Wake>,
    random: Random,
    early: Vec<Event>,
    /// Room for what one reading brings.
    came: Vec<Event>,
}

struct Subscriber {
    connection: Connection,
    /// Its observations, by their places.
    observations: Vec<Observation>,
    /// The place of the first that is not asked for, and how many are registered.
    next: u32,
    registered: u32,
    is_ready: bool,
    /// Whether it was ever ready.
    is_known: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    standing: Standing,
    /// What the resource held when it was last told, as a hash; kept when it is registered again.
    held: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Idle,
    /// The request to be notified is under way.
    Asking,
    Registered,
}

/// What a timer is for, with the generation of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// The subscriber is ready by then, or to be connected again.
    Connection(u32),
    /// Whether the platform is still there.
    Ping(u32),
}

/// What one reading of a connection brings to the observations of its subscriber.
struct Notices<'a> {
    subscriber: u32,
    observations: &'a mut [Observation],
    contents: &'a Contents,
    events: Vec<Event>,
    traffic: Traffic,
    /// How many were registered, and when the last of them was.
    registered: u32,
    last_at: Nanos,
    /// The first that the platform does not let be observed, or not any more. Nothing behind it counts.
    refused: Option<Refused>,
}

/// An error, or an answer without a number, which ends an observation (RFC 7641 section 3.2).
struct Refused {
    place: u32,
    code: u8,
    reason: String,
}

impl Notices<'_> {
    fn take(&mut self, message: &Message<'_>, (at, lag): Stamp) {
        let place = place_of(message.token);
        let own = place.and_then(|place| Some((place, self.observations.get_mut(place as usize)?)));
        let known = own.filter(|(_, own)| own.standing != Standing::Idle);
        let Some((place, own)) = known else {
            return slip("an answer to what was never asked", &mut self.events);
        };
        if self.refused.is_some() {
            return;
        }
        if message.code >> 5 != 2 || message.number(option::OBSERVE).is_none() {
            self.refused = Some(Refused { place, code: message.code, reason: refusal(message) });
            return;
        }
        let content = message.payload;
        let holds = hash(content);
        let is_news = own.held.replace(holds) != Some(holds);
        if std::mem::replace(&mut own.standing, Standing::Registered) == Standing::Registered {
            self.traffic.notifications.add(stream::length(message), content.len());
            return notify(self.contents, self.subscriber, (at, lag), content, &mut self.events);
        }
        (self.registered, self.last_at) = (self.registered + 1, at);
        // What the resource holds at registration is no notification, unless it is a message of this run that did not
        // come before.
        if is_news {
            notify_marked(self.contents, self.subscriber, (at, lag), content, &mut self.events);
        }
    }
}

impl ObserverDriver {
    /// Subscribers of a share, none of them registered yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext, role: &ObservePlan) -> std::io::Result<ObserverDriver> {
        let &DriverContext { ref plan, run, subscribers, ref run_context, .. } = context;
        let (share, count) = subscribers;
        let resources = if role.of_each_device { plan.subscribers.followed(plan.devices) } else { 1 };
        let base = plan.platform.address.as_ref().map(|address| address.path.clone().into_bytes());
        let subscriber = |_| Subscriber {
            connection: Connection::new(plan.connection.reconnect, plan.coap.csm),
            observations: vec![Observation::default(); resources as usize],
            next: 0,
            registered: 0,
            is_ready: false,
            is_known: false,
        };
        Ok(ObserverDriver {
            io: StreamIo::new(context, &plan.connection.transport, READ_SIZE)?,
            share,
            plan: plan.coap.clone(),
            role: role.clone(),
            log_in: LogIn::new(context, &role.log_in),
            serving: Serving::new(context, None),
            base: base.unwrap_or_default(),
            run: run.to_string(),
            view: View::of(run_context),
            contents: Contents::new(plan, run),
            resources,
            follows: plan.subscribers.clone(),
            devices: plan.devices,
            first_device: plan.population.first_device,
            subscribers: (0..share.count(count)).map(subscriber).collect(),
            timers: Timers::new(),
            random: random(plan.seed ^ u64::from(run.tag()), &[u64::from(share.index), STREAM]),
            early: Vec::new(),
            came: Vec::new(),
        })
    }

    /// The device that a subscriber follows in that place.
    fn device(&self, slot: u32, place: u32) -> u32 {
        let subscriber = self.share.number(slot) - self.share.first;
        self.first_device + self.follows.follows(subscriber, place, self.devices)
    }

    fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let number = self.share.number(slot);
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        (subscriber.next, subscriber.registered) = (0, 0);
        subscriber.observations.iter_mut().for_each(|own| own.standing = Standing::Idle);
        let connection = &mut subscriber.connection;
        match connection.open(slot, (Client::Subscriber(number), number), &mut self.io) {
            Ok(()) => {
                connection.timer_at = connection.began() + self.io.timeout;
                self.timers.set(connection.timer_at, slot, Wake::Connection(connection.generation()));
            }
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    fn ready(&mut self, Ready { slot, generation, flags }: Ready, events: &mut Vec<Event>) {
        let number = self.share.number(slot);
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let connection = &mut subscriber.connection;
        if !connection.is_of(generation) {
            return;
        }
        let (log_in, asked) = (&self.log_in, connection.asked_to_log_in());
        let mut let_in: Option<Result<(), String>> = None;
        let mut asked_of_us = Vec::new();
        let mut notices = Notices {
            subscriber: number,
            observations: &mut subscriber.observations,
            contents: &self.contents,
            events: std::mem::take(&mut self.came),
            traffic: Traffic::default(),
            registered: 0,
            last_at: Nanos::ZERO,
            refused: None,
        };
        let mut taker = |incoming: Incoming<'_>, at: Stamp| match incoming {
            Incoming::Settled => let_in = Some(Ok(())),
            Incoming::LogIn(message) => match log_in.answered(asked, &message, Client::Subscriber(number)) {
                Some(verdict) if let_in.is_none() => let_in = Some(verdict),
                _ => slip("an answer to what was never asked", &mut notices.events),
            },
            Incoming::Answer(message) => notices.take(&message, at),
            Incoming::Request(message) => asked_of_us.push(message.keep()),
        };
        let now = self.io.clock.now();
        let outcome = match connection.state {
            State::Connecting => connection.connected(now, &mut taker),
            _ if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) => {
                connection.read(&mut self.io, events, &mut taker)
            }
            _ => Ok(()),
        };
        let Notices { events: mut came, traffic, registered, last_at, refused, .. } = notices;
        self.io.traffic += traffic;
        self.serving.answer_all(&asked_of_us, 0, &mut connection.out, &mut came);
        events.append(&mut came);
        self.came = came;
        let outcome = match let_in {
            Some(Ok(())) => match connection.log_in(&mut self.log_in, (0, number)) {
                Ok(true) => {
                    self.let_in(slot, now);
                    outcome
                }
                log_in => outcome.and(log_in.map(drop)),
            },
            Some(verdict) => outcome.and(verdict),
            None => outcome,
        };
        if registered > 0 {
            self.registered(slot, registered, last_at, events);
        }
        let outcome = match refused {
            Some(refused) => Err(self.not_observed(slot, refused)),
            None => outcome,
        };
        match outcome {
            Ok(()) => self.send(slot, events),
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    /// The platform has let a subscriber in, which registers now.
    fn let_in(&mut self, slot: u32, now: Nanos) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        if let Some(interval) = self.plan.ping {
            self.timers.set(now + interval, slot, Wake::Ping(subscriber.connection.generation()));
        }
        self.wait_for_registrations(slot, now);
        self.register_next(slot);
    }

    /// The next registration is answered by then.
    fn wait_for_registrations(&mut self, slot: u32, now: Nanos) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.connection.timer_at = now + self.plan.timeout;
        let wake = Wake::Connection(subscriber.connection.generation());
        self.timers.set(subscriber.connection.timer_at, slot, wake);
    }

    /// Asks to be notified of what is next.
    fn register_next(&mut self, slot: u32) {
        loop {
            let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
            let place = subscriber.next;
            if place >= self.resources || place - subscriber.registered >= AT_ONCE {
                return;
            }
            subscriber.next += 1;
            if let Some(own) = subscriber.observations.get_mut(place as usize) {
                own.standing = Standing::Asking;
            }
            self.register(slot, place);
        }
    }

    fn register(&mut self, slot: u32, place: u32) {
        let device = self.device(slot, place);
        self.view.refresh();
        let variables = Variables {
            run: &self.run,
            device,
            subscriber: self.share.number(slot),
            token: self.view.token(),
            captures: self.view.captures(),
            ..Variables::default()
        };
        let (mut list, mut text) = (OptionList::new(), Vec::new());
        let parts = (&self.role.path, &self.role.options[..]);
        add_options(parts, &self.base, &variables, &mut || 0, (&mut list, &mut text));
        list.add_number(option::OBSERVE, 0);
        if let Some(subscriber) = self.subscribers.get_mut(slot as usize) {
            let out = subscriber.connection.out.bytes();
            stream::append(code::GET, &token_of(place), &list, &[], out);
        }
    }

    /// Why the platform does not let a resource be observed, or not any more, for people.
    fn not_observed(&self, slot: u32, Refused { place, code, reason }: Refused) -> String {
        if code == code::UNAUTHORIZED {
            self.view.refuse(self.view.generation());
        }
        self.view.hide_captured(reason, (self.device(slot, place), self.share.number(slot)))
    }

    /// That requests to observe were not answered in time, for people.
    fn unanswered(&self, slot: u32) -> String {
        let known = self.subscribers.get(slot as usize);
        let (asked, answered) = known.map_or((0, 0), |own| (own.next, own.registered));
        format!(
            "the platform answered {answered} of {asked} requests to observe (GET {}), and no further one within {}",
            self.role.path.text(),
            self.plan.timeout
        )
    }

    /// So many further resources notify a subscriber, the last of them from then on.
    fn registered(&mut self, slot: u32, further: u32, at: Nanos, events: &mut Vec<Event>) {
        let client = Client::Subscriber(self.share.number(slot));
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        subscriber.registered += further;
        if subscriber.registered < self.resources {
            self.wait_for_registrations(slot, at);
            return self.register_next(slot);
        }
        subscriber.connection.timer_at = Nanos::MAX;
        subscriber.connection.was_ready = true;
        subscriber.connection.backoff = Backoff::new(self.io.pauses);
        if !std::mem::replace(&mut subscriber.is_ready, true) {
            let again = std::mem::replace(&mut subscriber.is_known, true);
            events.push(Event::Ready { client, took: at - subscriber.connection.began(), again });
        }
    }

    fn send(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let connection = &mut subscriber.connection;
        if matches!(connection.state, State::Closed | State::Pausing) {
            return;
        }
        let sent = connection.send(slot, &mut self.io, |_, _, _| ());
        let released = connection.released.map(|_| "the platform released the connection".to_owned());
        if let Some(reason) = sent.err().or(released) {
            self.failed(slot, reason, events);
        }
    }

    /// The platform cannot be reached, or does not want to be observed: all is registered anew after a pause.
    fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let (at, number) = (self.io.clock.now(), self.share.number(slot));
        let client = Client::Subscriber(number);
        // A platform may repeat what the connection was let in by.
        let reason = self.view.hide_captured(reason, (0, number));
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return };
        let connection = &mut subscriber.connection;
        let not_before = connection.released.unwrap_or(at);
        connection.fail(&mut self.io);
        events.push(match std::mem::take(&mut subscriber.is_ready) {
            true => Event::Disconnected { client, at, reason },
            false => Event::ConnectFailed { client, reason, lasting: false },
        });
        if connection.was_ready {
            connection.state = State::Pausing;
            let pause = connection.backoff.next(self.io.pauses, &mut self.random);
            connection.timer_at = not_before + pause;
            self.timers.set(connection.timer_at, slot, Wake::Connection(connection.generation()));
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.clock.now();
        while let Some((at, slot, wake)) = self.timers.due(now) {
            let known = self.subscribers.get_mut(slot as usize).map(|own| &mut own.connection);
            match (wake, known, self.plan.ping) {
                (Wake::Ping(generation), Some(own), Some(interval))
                    if own.is_of(generation) && own.state == State::Ready =>
                {
                    match own.look_after(now, interval) {
                        Ok(next) => {
                            self.timers.set(next, slot, Wake::Ping(generation));
                            self.send(slot, events);
                        }
                        Err(reason) => self.failed(slot, reason, events),
                    }
                }
                (Wake::Connection(generation), Some(own), _)
                    if own.timer_at == at && own.generation() == generation =>
                {
                    match own.state {
                        State::Closed => {}
                        State::Pausing => self.open(slot, events),
                        State::Ready => {
                            let reason = self.unanswered(slot);
                            self.failed(slot, reason, events);
                        }
                        _ => {
                            let reason = own.late(self.io.timeout);
                            self.failed(slot, reason, events);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

impl Part for ObserverDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.readiness.epoll().as_fd()
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
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        let slot = self.share.slot(number);
        let known = self.subscribers.get(slot as usize);
        if known.is_none_or(|known| known.connection.state != State::Closed) {
            return false;
        }
        let mut early = std::mem::take(&mut self.early);
        self.open(slot, &mut early);
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        let slot = self.share.slot(number);
        let Some(subscriber) = self.subscribers.get_mut(slot as usize) else { return false };
        subscriber.connection.leave(&mut self.io);
        subscriber.connection.was_ready = false;
        subscriber.is_known = false;
        std::mem::take(&mut subscriber.is_ready)
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.io.readiness.wait(until.min(self.next_timer()));
        let found = self.io.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.io.readiness.served(found);
        self.fire_timers(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        for subscriber in &mut self.subscribers {
            subscriber.connection.leave(&mut self.io);
            subscriber.is_ready = false;
        }
    }
}

/// The token of the observation in that place.
fn token_of(place: u32) -> [u8; 6] {
    let [a, b, c, d] = place.to_be_bytes();
    [0, 0, a, b, c, d]
}

/// The place that a token names.
fn place_of(token: &[u8]) -> Option<u32> {
    let &[0, 0, a, b, c, d] = token else { return None };
    Some(u32::from_be_bytes([a, b, c, d]))
}
