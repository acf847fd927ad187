//! What the platform sends to those that observe: answers to registrations, notifications, errors.

use super::{ObserverDriver, State, Wake};
use crate::driver::{Client, Event};
use crate::drivers::coap::channel::Reading;
use crate::drivers::readiness::Ready;
use crate::drivers::words;
use crate::notification::notify;
use plimsoll_codec::coap::{Kind, Message, observe, option};
use plimsoll_model::Nanos;
use std::hash::{DefaultHasher, Hasher};

/// Datagrams read from a socket before others get their turn.
const DATAGRAMS: usize = 64;
/// How long what has no Max-Age is fresh (RFC 7252 section 5.10.5), and how long after that a subscriber registers anew at
/// the soonest (RFC 7641 section 3.3.1).
const MAX_AGE: u32 = 60;
const PATIENCE: Nanos = Nanos::from_secs(5);

/// Unauthorized, 4.01, as a code.
const UNAUTHORIZED: u8 = 0x81;

impl ObserverDriver {
    pub(super) fn ready(&mut self, Ready { slot, generation, .. }: Ready, events: &mut Vec<Event>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            let known =
                self.subscribers.get_mut(slot as usize).filter(|known| known.generation == generation);
            let Some(channel) = known.and_then(|subscriber| subscriber.channel.as_mut()) else { break };
            match channel.read(&mut scratch, self.clock.now(), &mut self.traffic) {
                Ok(Reading::Nothing) => break,
                Ok(Reading::Message(length, lag)) => {
                    let at = self.readiness.received_at(self.clock.now(), lag);
                    match Message::decode(scratch.get(..length).unwrap_or_default()) {
                        Ok(message) => self.take_in(slot, &message, (at, lag), events),
                        Err(_) => events.push(Event::Stray),
                    }
                }
                Ok(Reading::Part) if channel.wakes_at().is_some() => self.go_on(slot, events),
                Ok(Reading::Part) => {}
                Ok(Reading::Secured(took)) => {
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

    fn say(&mut self, slot: u32, kind: Kind, id: u16) {
        let mut out = Vec::with_capacity(4);
        Message::empty(kind, id).encode(&mut out);
        let now = self.clock.now();
        let subscriber = self.subscribers.get_mut(slot as usize);
        // One that finds no room is asked for again.
        if let Some(channel) = subscriber.and_then(|subscriber| subscriber.channel.as_mut()) {
            let _ = channel.send(&out, now, &mut self.traffic);
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
            let (number, place) = (self.number(slot), index % self.resources);
            let device = self.device(slot, place);
            let reason = self.view.hide_captured(refused(message), (device, number));
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
        let mut known = false;
        if newer {
            observation.newest = Some((number, at));
            let holds = hash(message.payload);
            known = observation.held.replace(holds) == Some(holds);
        }
        if message.kind == Kind::Confirmable {
            self.say(slot, Kind::Acknowledgement, message.id);
        }
        let subscriber = self.number(slot);
        if newer && !asked {
            let content = message.payload.len();
            self.traffic.notifications.add(message.header_length() + content, content);
            notify(&self.contents, subscriber, (at, lag), message.payload, events);
        } else if newer && !known {
            // What the resource holds at registration (RFC 7641 section 3.1) is no notification, unless it is a message of
            // this run that did not come before.
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
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// Why a resource is not observed, for people.
fn refused(message: &Message<'_>) -> String {
    let (class, detail) = (message.code >> 5, message.code & 0x1f);
    if class == 2 {
        return "the platform does not let the resource be observed: its answer has no Observe option".into();
    }
    let own = words::own(message.payload);
    format!("the platform answered the request to observe {class}.{detail:02}{own}")
}
