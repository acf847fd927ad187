//! Subscribers that receive over WebSockets of their own: each says at first what it wants, and what comes with markers is delivered.

use super::asking::{self, Asking};
use super::connection::{Came, Connection, READ_SIZE, State};
use super::opening::{Opening, Speaker};
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::answers::refusal;
use crate::drivers::readiness::Ready;
use crate::drivers::stream::StreamIo;
use crate::drivers::timers::Timers;
use crate::drivers::whom::{Following, Whom};
use crate::drivers::{DriverContext, Part};
use crate::notification::notify;
use crate::share::Share;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{AnswerPlan, TransportPlan, WebSocketPlan, WebSocketRole};
use plimsoll_stats::distribution::{Random, random};
use std::os::fd::{AsFd, BorrowedFd};

/// Distinguishes the random numbers of pauses from others.
const PAUSES: u64 = 0x7061_7573_6573_0001;

/// Subscribers of one shard.
pub struct SubscriberDriver {
    share: Share,
    subscribers: Vec<Subscriber>,
    stream: StreamIo,
    wanted: WebSocketPlan,
    asking: Asking,
    opening: Opening,
    /// How messages of devices are answered: what refuses one of those may refuse what a subscriber says.
    of_devices: Option<AnswerPlan>,
    contents: Contents,
    seed: u64,
    following: Following,
    timers: Timers<Timer>,
    random: Random,
    /// What happened between two polls.
    early: Vec<Event>,
    /// What one reading has brought.
    came: Vec<Event>,
}

struct Subscriber {
    connection: Connection,
    /// The place of the message at first that is said next, or whose answer is awaited.
    place: u32,
    /// Since when an answer is awaited.
    since: Nanos,
    /// Whether all was said, of which the kernel may not have everything.
    is_said: bool,
}

/// What a subscriber wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ConnectTimeout,
    Reconnect,
}

impl SubscriberDriver {
    /// Subscribers of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext, role: &WebSocketRole) -> std::io::Result<SubscriberDriver> {
        let &DriverContext { ref plan, run, address, subscribers, .. } = context;
        let (share, count) = subscribers;
        let TransportPlan { tls, websocket } = plan.connection.transport.clone();
        let below = TransportPlan { tls, websocket: None };
        let subscriber = |_| {
            let connection = Connection::new(plan.connection.reconnect);
            Subscriber { connection, place: 0, since: Nanos::ZERO, is_said: false }
        };
        Ok(SubscriberDriver {
            share,
            subscribers: (0..share.count(count)).map(subscriber).collect(),
            stream: StreamIo::new(context, &below, READ_SIZE)?,
            wanted: asking::place(&websocket.unwrap_or_else(|| asking::at(address)), role),
            asking: Asking::new(context, role),
            opening: Opening::new(context, &role.opening),
            of_devices: plan.platform.roles.device.answer.clone(),
            contents: Contents::new(plan, run),
            seed: plan.seed,
            following: Following::new(context),
            timers: Timers::new(),
            random: random(plan.seed, &[PAUSES, u64::from(share.index)]),
            early: Vec::new(),
            came: Vec::new(),
        })
    }

    fn client(&self, slot: u32) -> Client {
        Client::Subscriber(self.share.number(slot))
    }

    fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let (client, number) = (self.client(slot), self.share.number(slot));
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return };
        let connection = own.connection.next_generation();
        let asked = self.asking.of((client, Whom { device: 0, subscriber: number }), connection, self.seed);
        (own.place, own.is_said) = (0, false);
        match own.connection.open(slot, (client, number), asked, &mut self.stream) {
            Ok(()) => {
                own.since = own.connection.began();
                own.connection.tell_urgency(false, &mut self.stream);
                self.timers.set(own.since + self.stream.timeout, slot, Timer::ConnectTimeout);
            }
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    fn ready(&mut self, Ready { slot, generation, flags }: Ready, events: &mut Vec<Event>) {
        let subscriber = self.share.number(slot);
        let whom = |position| self.following.whom(self.share, slot, position);
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return };
        if !own.connection.is_of(generation) {
            return;
        }
        let speaker = Speaker { devices: self.following.followed(), whom: &whom };
        let (place, is_opening) = (own.place, own.connection.state == State::Opening);
        let is_let_in = own.connection.state == State::Ready;
        let token = own.connection.token;
        let mut let_in: Option<(Nanos, Result<(), String>)> = None;
        let (mut came, mut traffic) = (std::mem::take(&mut self.came), Traffic::default());
        let (opening, contents, of_devices) = (&self.opening, &self.contents, &self.of_devices);
        let mut taker = |content: &mut Vec<u8>, Came { stamp, wire_bytes, .. }: Came| {
            if is_opening && let_in.is_none() {
                let_in = opening.read(place, speaker, token, content).map(|verdict| (stamp.0, verdict));
                if let_in.is_some() {
                    return;
                }
            }
            let before = came.len();
            notify(contents, subscriber, stamp, content, &mut came);
            if let Some([Event::Received { marker: None, .. }]) = came.get(before..) {
                let refused = refusal(opening.answers().chain(of_devices), content);
                // What has no marker before the subscriber is ready is an answer or a greeting.
                if refused.is_some() || !is_let_in {
                    came.truncate(before);
                    // Who refuses may close next, and say less then.
                    let hidden = |reason| opening.hide(reason, opening.whom(place, speaker));
                    came.extend(refused.map(|reason| Event::Incident { reason: hidden(reason) }));
                    return;
                }
            }
            traffic.notifications.add(wire_bytes, content.len());
        };
        let outcome = own.connection.progress(flags, &self.wanted, &mut self.stream, events, &mut taker);
        let own_opened_at = own.connection.opened_at();
        self.stream.traffic += traffic;
        events.append(&mut came);
        self.came = came;
        match (outcome, let_in) {
            (Ok(false), None) => {}
            (Ok(true), None) => self.say_next(slot, own_opened_at),
            (Ok(_), Some((at, Ok(())))) => {
                if let Some(own) = self.subscribers.get_mut(slot as usize) {
                    own.place += 1;
                }
                self.say_next(slot, at);
            }
            // A platform that refuses may close at once: the refusal says more.
            (_, Some((_, Err(reason)))) | (Err(reason), _) => return self.failed(slot, reason, events),
        }
        self.send(slot, events);
    }

    /// Says what is next of the messages at first, since what came at that time.
    fn say_next(&mut self, slot: u32, at: Nanos) {
        let whom = |position| self.following.whom(self.share, slot, position);
        let speaker = Speaker { devices: self.following.followed(), whom: &whom };
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return };
        own.is_said = self.opening.say(&mut own.place, speaker, &mut own.connection);
        // Each answer shows that the platform goes on: the next one may take as long once more.
        own.since = at;
        self.timers.set(at + self.stream.timeout, slot, Timer::ConnectTimeout);
    }

    /// Sends what waits; with the last message at first, the subscriber is ready.
    fn send(&mut self, slot: u32, events: &mut Vec<Event>) {
        let client = self.client(slot);
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return };
        let outcome = loop {
            if !own.connection.is_there() {
                return;
            }
            match own.connection.write(&mut self.stream, |_, _| ()) {
                Ok(true) => {}
                Ok(false) => break own.connection.written(slot, false, &mut self.stream),
                Err(reason) => break Err(reason),
            }
        };
        match outcome {
            Err(reason) => self.failed(slot, reason, events),
            Ok(()) => {
                if own.connection.out.is_empty() && std::mem::take(&mut own.is_said) {
                    let at = self.stream.clock.now();
                    events.push(own.connection.let_in(client, at, self.stream.pauses));
                    own.connection.tell_urgency(false, &mut self.stream);
                }
            }
        }
    }

    /// The connection is no more: all is said anew after a pause.
    fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let (at, client) = (self.stream.clock.now(), self.client(slot));
        let whom = |position| self.following.whom(self.share, slot, position);
        let speaker = Speaker { devices: self.following.followed(), whom: &whom };
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return };
        let reason = self.opening.hide(reason, self.opening.whom(own.place, speaker));
        if let Some(token) = own.connection.refused_token() {
            self.asking.refuse(token);
        }
        let told = (client, reason);
        let (told, again) = own.connection.fail(told, at, &mut self.stream, &mut self.random);
        events.push(told);
        if let Some(at) = again {
            self.timers.set(at, slot, Timer::Reconnect);
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.stream.clock.now();
        while let Some((at, slot, timer)) = self.timers.due(now) {
            let Some(own) = self.subscribers.get(slot as usize) else { continue };
            match (timer, own.connection.state) {
                (Timer::Reconnect, State::Pausing) => self.open(slot, events),
                (Timer::Reconnect, _) | (_, State::Idle | State::Ready | State::Pausing) => {}
                (Timer::ConnectTimeout, _) => {
                    if at >= own.since + self.stream.timeout {
                        let reason = own.connection.late(self.stream.timeout);
                        self.failed(slot, reason, events);
                    }
                }
            }
        }
    }
}

impl Part for SubscriberDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.stream.readiness.is_urgent()
    }
}

impl Driver for SubscriberDriver {
    fn now(&self) -> Nanos {
        self.stream.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        let slot = self.share.slot(number);
        let is_idle = |own: &Subscriber| own.connection.state == State::Idle;
        if !self.subscribers.get(slot as usize).is_some_and(is_idle) {
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
        let Some(own) = self.subscribers.get_mut(slot as usize) else { return false };
        let was_ready = own.connection.leave(&mut self.stream);
        own.connection.forget(self.stream.pauses);
        was_ready
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.stream.readiness.wait(until.min(self.timers.next()));
        let found = self.stream.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.stream.readiness.served(found);
        self.fire_timers(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.stream.traffic)
    }

    fn disconnect(&mut self) {
        for own in &mut self.subscribers {
            own.connection.leave(&mut self.stream);
        }
    }
}
