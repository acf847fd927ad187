//! Subscribers that receive over HTTP, in an answer that does not end or in answers that wait for messages. Each has a connection, or
//! one for each device that it follows.

use super::heads::Heads;
use super::host;
use super::receiving::{Io, Receiving, State, Step};
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::readiness::Ready;
use crate::drivers::stream::StreamIo;
use crate::drivers::timers::Timers;
use crate::drivers::whom::{Following, Whom};
use crate::drivers::{DriverContext, Part};
use crate::run_context::View;
use crate::share::Share;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{HttpReceiveRole, Piece, Protocol, TransportPlan};
use plimsoll_stats::distribution::random;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 64 * 1024;
/// A poll that is not refused within this time is one that waits.
const SETTLED: Nanos = Nanos::from_millis(100);
/// Names the stream of random numbers in pauses and requests.
const STREAM: u64 = 0x7265_6365_6976_6500;

/// Subscribers of one shard.
pub struct SubscriberDriver {
    share: Share,
    subscribers: Vec<Subscriber>,
    /// Those of each subscriber stand together.
    connections: Vec<Receiving>,
    /// Connections of a subscriber.
    width: u32,
    io: Io,
    following: Following,
    timers: Timers<Timer>,
    /// What happened between two polls.
    early: Vec<Event>,
}

/// One subscriber.
#[derive(Clone, Default)]
struct Subscriber {
    /// Its connections over which something would be delivered now.
    counted: u32,
    /// Whether all of them were there, and it was told.
    is_ready: bool,
    was_ready: bool,
    /// Since when it connects.
    began: Nanos,
}

/// What a connection wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Late,
    Ask,
    Settled,
    Reconnect,
}

impl SubscriberDriver {
    /// Subscribers of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext, role: &HttpReceiveRole) -> std::io::Result<SubscriberDriver> {
        let &DriverContext { ref plan, run, address, subscribers, ref run_context, .. } = context;
        let (share, count) = subscribers;
        let following = Following::new(context);
        let width = if role.of_each_device { following.followed().max(1) } else { 1 };
        let own = share.count(count);
        // What lies below other protocols lies not below these requests, as with queries.
        let tls = plan.connection.transport.tls.clone().filter(|_| plan.protocol() == Protocol::Http);
        let mut texts = role.request.texts().chain(role.next_path());
        let io = Io {
            heads: Heads::new(plan, (host(plan, address), tls.is_some()), role.request.clone()),
            stream: StreamIo::new(context, &TransportPlan { tls, websocket: None }, READ_SIZE)?,
            has_token: texts.any(|text| text.has(&|piece| *piece == Piece::Token)),
            role: role.clone(),
            run: run.to_string(),
            view: View::of(run_context),
            contents: Contents::new(plan, run),
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
        };
        Ok(SubscriberDriver {
            share,
            subscribers: vec![Subscriber::default(); own as usize],
            connections: (0..own * width).map(|_| Receiving::new(plan.connection.reconnect)).collect(),
            width,
            io,
            following,
            timers: Timers::new(),
            early: Vec::new(),
        })
    }

    fn client(&self, slot: u32) -> Client {
        Client::Subscriber(self.share.number(slot / self.width))
    }

    fn whom(&self, slot: u32) -> Whom {
        self.following.whom(self.share, slot / self.width, slot % self.width)
    }

    /// The slots of the connections of a subscriber.
    fn slots(&self, subscriber: u32) -> std::ops::Range<u32> {
        subscriber * self.width..(subscriber + 1) * self.width
    }

    /// Begins to connect; whether that goes on.
    fn open(&mut self, slot: u32, events: &mut Vec<Event>) -> bool {
        let client = self.client(slot);
        let Some(connection) = self.connections.get_mut(slot as usize) else { return false };
        let opened = connection.open(slot, (client, slot), &mut self.io);
        match opened {
            Ok(()) => self.watch(slot),
            Err(reason) => {
                self.failed(slot, reason, events);
                return false;
            }
        }
        true
    }

    /// What is not refused within this time is not refused at all.
    fn settles_within(&self) -> Nanos {
        self.io.role.ready_after.unwrap_or(SETTLED)
    }

    /// Has a timer look whether a connection is late, where none does by then.
    fn watch(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        if let Some(deadline) = connection.deadline(&self.io)
            && deadline < connection.watched
        {
            connection.watched = deadline;
            self.timers.set(deadline, slot, Timer::Late);
        }
    }

    fn ready(&mut self, Ready { slot, generation, flags }: Ready, events: &mut Vec<Event>) {
        let whom = self.whom(slot);
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        if connection.is_of(generation) {
            let outcome = connection.progress((slot, flags), whom, &mut self.io, events);
            self.stepped(slot, outcome, events);
        }
    }

    /// What a turn of a connection has led to.
    fn stepped(&mut self, slot: u32, outcome: Result<Step, String>, events: &mut Vec<Event>) {
        match outcome {
            Ok(Step::Same) => {}
            // A refusal comes sooner than what a poll waits for.
            Ok(Step::Asked) => {
                let settled = self.io.stream.clock.now() + self.settles_within();
                if self.connections.get(slot as usize).is_some_and(|connection| !connection.is_counted) {
                    self.timers.set(settled, slot, Timer::Settled);
                }
            }
            Ok(Step::Receives) => self.count(slot, self.io.stream.clock.now(), events),
            Ok(Step::Ended) => {
                self.count(slot, self.io.stream.clock.now(), events);
                self.open(slot, events);
                return;
            }
            Err(reason) => return self.failed(slot, reason, events),
        }
        let resting = self.connections.get(slot as usize).map(|connection| connection.state);
        if let Some(State::Resting(at)) = resting {
            self.timers.set(at, slot, Timer::Ask);
        }
        self.watch(slot);
    }

    /// From that time on, what comes over a connection is delivered.
    fn count(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) {
        let client = self.client(slot);
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        let Some(own) = self.subscribers.get_mut((slot / self.width) as usize) else { return };
        if std::mem::replace(&mut connection.is_counted, true) {
            return;
        }
        own.counted += 1;
        if own.counted == self.width {
            let again = std::mem::replace(&mut own.was_ready, true);
            own.is_ready = true;
            // The pause before is none of connecting.
            let began = if again { connection.began() } else { own.began };
            events.push(Event::Ready { client, took: at - began, again });
        }
    }

    /// A connection is no more. It is made again, if its subscriber was ever ready.
    fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let (client, whom, at) = (self.client(slot), self.whom(slot), self.io.stream.clock.now());
        let reason = self.io.view.hide_captured(reason, (whom.device, whom.subscriber));
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        let Some(own) = self.subscribers.get_mut((slot / self.width) as usize) else { return };
        let was_counted = std::mem::take(&mut connection.is_counted);
        own.counted -= u32::from(was_counted);
        let was_ready = std::mem::take(&mut own.is_ready);
        events.push(match (was_ready, was_counted) {
            (true, _) => Event::Disconnected { client, at, reason },
            // Another one was lost before.
            (false, true) if own.was_ready => Event::Incident { reason },
            (false, _) => Event::ConnectFailed { client, reason, lasting: false },
        });
        if own.was_ready {
            let again = connection.pause(at, &mut self.io);
            self.timers.set(again, slot, Timer::Reconnect);
        } else {
            self.leave(slot / self.width);
        }
    }

    /// Closes all connections of a subscriber; whether it was ready.
    fn leave(&mut self, subscriber: u32) -> bool {
        for slot in self.slots(subscriber) {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.leave(&mut self.io);
            }
        }
        let own = self.subscribers.get_mut(subscriber as usize);
        own.is_some_and(|own| std::mem::take(own).is_ready)
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let (now, settles_within) = (self.io.stream.clock.now(), self.settles_within());
        while let Some((at, slot, timer)) = self.timers.due(now) {
            let whom = self.whom(slot);
            let Some(connection) = self.connections.get_mut(slot as usize) else { continue };
            match (timer, connection.state) {
                (Timer::Reconnect, State::Pausing) => {
                    self.open(slot, events);
                }
                (Timer::Ask, State::Resting(due)) if due <= now => {
                    if connection.is_there() {
                        let outcome = connection.ask(slot, whom, &mut self.io);
                        self.stepped(slot, outcome, events);
                    } else {
                        self.open(slot, events);
                    }
                }
                (Timer::Settled, State::Receiving | State::Asking) => {
                    if let Some(asked_at) = connection.waits_since(now - settles_within, &self.io) {
                        self.count(slot, asked_at, events);
                    }
                }
                (Timer::Late, _) if connection.watched == at => {
                    connection.watched = Nanos::MAX;
                    match connection.deadline(&self.io) {
                        Some(deadline) if deadline <= now => {
                            let reason = connection.late(&self.io);
                            self.failed(slot, reason, events);
                        }
                        _ => self.watch(slot),
                    }
                }
                _ => {}
            }
        }
    }
}

impl Part for SubscriberDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.stream.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.io.stream.readiness.is_urgent()
    }
}

impl Driver for SubscriberDriver {
    fn now(&self) -> Nanos {
        self.io.stream.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        let subscriber = self.share.slot(number);
        let is_idle = |slot: u32| {
            self.connections.get(slot as usize).is_some_and(|connection| connection.state == State::Idle)
        };
        if !self.slots(subscriber).all(is_idle) {
            return false;
        }
        let Some(own) = self.subscribers.get_mut(subscriber as usize) else { return false };
        own.began = self.io.stream.clock.now();
        let mut early = std::mem::take(&mut self.early);
        // One that cannot connect gives up the others.
        self.slots(subscriber).all(|slot| self.open(slot, &mut early));
        self.early = early;
        true
    }

    fn release(&mut self, client: Client) -> bool {
        let Client::Subscriber(number) = client else { return false };
        self.leave(self.share.slot(number))
    }

    fn submit(&mut self, _: u32, _: u32) {}

    fn withdraw(&mut self, _: &mut Vec<Event>) {}

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        events.append(&mut self.early);
        self.io.stream.readiness.wait(until.min(self.timers.next()));
        let found = self.io.stream.readiness.found();
        for &ready in &found {
            self.ready(ready, events);
        }
        self.io.stream.readiness.served(found);
        self.fire_timers(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.stream.traffic)
    }

    fn disconnect(&mut self) {
        for subscriber in 0..self.subscribers.len() as u32 {
            self.leave(subscriber);
        }
    }
}
