//! What the platform sends to those that observe: answers to registrations, notifications, errors.

use super::{ObserverDriver, State, Wake};
use crate::driver::{Client, Event};
use crate::drivers::coap::channel::Peer;
use crate::drivers::coap::endpoint::Incoming;
use crate::drivers::readiness::Ready;
use crate::drivers::words;
use crate::notification::{notify, notify_marked};
use plimsoll_codec::coap::{Kind, Message, code, observe, option};
use plimsoll_model::Nanos;
use std::hash::{DefaultHasher, Hasher};

/// Datagrams read from a socket before others get their turn.
const DATAGRAMS: usize = 64;
/// How long what has no Max-Age is fresh (RFC 7252 section 5.10.5), and how long after that a subscriber registers anew at
/// the soonest (RFC 7641 section 3.3.1).
const MAX_AGE: u32 = 60;
const PATIENCE: Nanos = Nanos::from_secs(5);

impl ObserverDriver {
    pub(super) fn ready(&mut self, Ready { slot, generation, .. }: Ready, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            let known = self.subscribers.get_mut(slot as usize);
            let Some(subscriber) = known.filter(|known| known.endpoint.generation() == generation) else {
                break;
            };
            match subscriber.endpoint.read(&mut scratch, self.clock.now(), &mut self.traffic) {
                Ok(Incoming::Nothing) => break,
                Ok(Incoming::Message { message, lag, .. }) => {
                    let at = self.readiness.received_at(self.clock.now(), lag);
                    self.take_in(slot, &message, (at, lag), events);
                }
                Ok(Incoming::Malformed(_)) => events.push(Event::Stray),
                Ok(Incoming::Part) if subscriber.endpoint.wakes_at().is_some() => self.go_on(slot, events),
                // These subscribers answer no requests, so none is repeated.
                Ok(Incoming::Part | Incoming::Repeated) => {}
                Ok(Incoming::Secured(took)) => {
                    events.push(Event::Secured { took, resumed: false });
                    self.go_on(slot, events);
                }
                Err(reason) => {
                    self.failed(slot, reason, events);
                    break;
                }
            }
        }
        self.scratch = scratch;
    }

    /// Handles what the platform sent.
    fn take_in(
        &mut self,
        slot: u32,
        message: &Message<'_>,
        stamp: (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
        if message.kind == Kind::Reset {
            return self.was_reset(slot, message.id, events);
        }
        if message.code >> 5 == 0 {
            // A ping, or a request to a client that serves nothing. An empty acknowledgement means that the answer comes by
            // itself, or the request again.
            return self.confirm(slot, Kind::Reset, message);
        }
        let Some(index) = self.whose(slot, message.token) else {
            self.confirm(slot, Kind::Reset, message);
            return events.push(Event::Stray);
        };
        match message.number(option::OBSERVE).filter(|_| message.code >> 5 == 2) {
            Some(number) => self.told(index, number, message, stamp, events),
            // An error ends an observation (section 3.2), and so does an answer without a number.
            None => self.refused(index, message, events),
        }
    }

    /// The observation that a token names, if it is one of that subscriber.
    fn whose(&self, slot: u32, token: &[u8]) -> Option<u32> {
        let first = slot * self.resources;
        let index = u32::from_be_bytes(token.try_into().ok()?);
        (first..first + self.resources).contains(&index).then_some(index)
    }

    /// Acknowledges or rejects a message that wants to be.
    fn confirm(&mut self, slot: u32, kind: Kind, message: &Message<'_>) {
        let confirmable = message.kind == Kind::Confirmable;
        if let (true, Some(subscriber)) = (confirmable, self.subscribers.get_mut(slot as usize)) {
            let now = self.clock.now();
            subscriber.endpoint.say(kind, message.id, Peer::Connected, now, &mut self.traffic);
        }
    }

    fn was_reset(&mut self, slot: u32, id: u16, events: &mut Vec<Event>) {
        let first = slot * self.resources;
        let is_asked = |index: u32| {
            let known = self.observations.get(index as usize);
            known.is_some_and(|known| known.state == State::Asking && known.id == id)
        };
        if (first..first + self.resources).any(is_asked) {
            self.failed(slot, "the platform reset the request to observe".into(), events);
        }
    }

    /// The platform does not let a resource be observed, or not any more.
    fn refused(&mut self, index: u32, message: &Message<'_>, events: &mut Vec<Event>) {
        let (slot, place) = (index / self.resources, index % self.resources);
        let device = self.device(slot, place);
        let reason = self.view.hide_captured(refusal(message), (device, self.number(slot)));
        if message.code == code::UNAUTHORIZED {
            // With the generation of the newest request, since few are under way: registrations are rare.
            self.view.refuse(self.view.generation());
        }
        self.confirm(slot, Kind::Acknowledgement, message);
        self.failed(slot, reason, events);
    }

    /// A resource holds something: what it does at registration, or a notification.
    fn told(
        &mut self,
        index: u32,
        number: u32,
        message: &Message<'_>,
        (at, lag): (Nanos, Option<Nanos>),
        events: &mut Vec<Event>,
    ) {
        let slot = index / self.resources;
        let subscriber = self.number(slot);
        let asked = self.keep_fresh(index, message, at);
        let news = self.compare(index, number, message.payload, at);
        self.confirm(slot, Kind::Acknowledgement, message);
        if news != News::Old && !asked {
            let content = message.payload.len();
            self.traffic.notifications.add(message.header_length() + content, content);
            notify(&self.contents, subscriber, (at, lag), message.payload, events);
        } else if news == News::Changed {
            // What the resource holds at registration (RFC 7641 section 3.1) is no notification, unless it is a message of
            // this run that did not come before.
            notify_marked(&self.contents, subscriber, (at, lag), message.payload, events);
        }
        if asked {
            self.registered(slot, events);
        }
    }

    /// Notes that an observation is registered, and for how long what came is fresh; whether its request was under way.
    fn keep_fresh(&mut self, index: u32, message: &Message<'_>, at: Nanos) -> bool {
        let max_age = message.number(option::MAX_AGE).unwrap_or(MAX_AGE);
        let spread = Nanos::from_secs_f64(10.0 * self.random.fraction());
        let Some(observation) = self.observations.get_mut(index as usize) else { return false };
        observation.look_at = at + Nanos::from_secs(i64::from(max_age)) + PATIENCE + spread;
        // One timer looks after an observation, however often it is told.
        if observation.timer_at <= at {
            observation.timer_at = observation.look_at;
            self.timers.set(observation.look_at, index, Wake::Observation);
        }
        std::mem::replace(&mut observation.state, State::Registered) == State::Asking
    }

    /// What a notification of that number says beside those before it, and remembers it where it is the newest.
    fn compare(&mut self, index: u32, number: u32, content: &[u8], at: Nanos) -> News {
        let Some(observation) = self.observations.get_mut(index as usize) else { return News::Old };
        let before = observation.newest;
        if before
            .is_some_and(|(before, came)| !observe::is_newer(number, before, (at - came).0 / 1_000_000_000))
        {
            return News::Old;
        }
        observation.newest = Some((number, at));
        let holds = hash(content);
        match observation.held.replace(holds) == Some(holds) {
            true => News::Same,
            false => News::Changed,
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
}

/// What a notification says beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// A newer one came before it.
    Old,
    /// It is the newest, and the resource holds what it held.
    Same,
    /// It is the newest, and the resource holds something else.
    Changed,
}

/// What a resource holds, as a hash.
pub fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// Why a resource is not observed, for people.
pub fn refusal(message: &Message<'_>) -> String {
    if message.code >> 5 == 2 {
        return "the platform does not let the resource be observed: its answer has no Observe option".into();
    }
    let (answer, own) = (code::dotted(message.code), words::own(message.payload));
    format!("the platform answered the request to observe {answer}{own}")
}
