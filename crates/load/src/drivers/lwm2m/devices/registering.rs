//! How devices register, renew their registration, and register again when their server has lost them.

use super::posting::Posted;
use super::{Devices, Event, Outgoing, Purpose, Standing};
use crate::drivers::lwm2m::firmware::{STATE, State};
use crate::drivers::lwm2m::operations::registered;
use crate::drivers::lwm2m::own;
use crate::drivers::lwm2m::registration;
use plimsoll_codec::coap::{Kind, Message, code};
use plimsoll_codec::lwm2m::{Given, Path};
use plimsoll_model::Nanos;

/// Longest lifetime that is kept: a century.
const LONGEST_LIFETIME: i64 = 100 * 366 * 86_400;

impl Devices {
    /// Sends a registration.
    pub(super) fn register(&mut self, slot: u32, now: Nanos) {
        self.register_in_blocks(slot, (self.block_size, now), now);
    }

    /// The same, in blocks of at most so many bytes where its links are longer; it has begun then.
    pub(super) fn register_in_blocks(&mut self, slot: u32, blocks: (u16, Nanos), now: Nanos) {
        let device = self.number(slot);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        own.standing = Standing::Registering;
        own.sleep();
        // What a server wanted to be told of ends with its registration (section 5.5).
        own.observations.clear();
        self.count(slot);
        let lifetime = self.lifetime(slot);
        registration::register(&self.plan, (&self.run, device, lifetime), &mut self.options);
        let links = self.values(slot, now, &[]).map(|values| registered(&values)).unwrap_or_default();
        self.post_links((slot, Purpose::Register), links.into_bytes(), blocks, now);
    }

    /// Renews a registration, with the list of its objects where that has changed. While an update is under way, the next one waits for
    /// its answer: a server takes them in the order in which they come.
    pub(super) fn update(&mut self, slot: u32, lists_objects: bool, now: Nanos) {
        self.update_in_blocks(slot, lists_objects, (self.block_size, now), now);
    }

    /// The same, in blocks of at most so many bytes where its links are longer; it has begun then.
    pub(super) fn update_in_blocks(
        &mut self,
        slot: u32,
        lists_objects: bool,
        blocks: (u16, Nanos),
        now: Nanos,
    ) {
        let is_under_way = self.is_renewing(slot);
        let own = self.devices.get_mut(slot as usize);
        let Some(own) = own.filter(|own| own.standing == Standing::Registered) else { return };
        if is_under_way {
            own.updates_again = Some(lists_objects || own.updates_again == Some(true));
            return;
        }
        let location = own.location.clone();
        registration::update(&location, self.lifetime(slot), &mut self.options, lists_objects);
        let values = self.values(slot, now, &[]).filter(|_| lists_objects);
        let links = values.map(|values| registered(&values)).unwrap_or_default();
        self.post_links((slot, Purpose::Update), links.into_bytes(), blocks, now);
    }

    /// Whether an update of a device is under way.
    fn is_renewing(&self, slot: u32) -> bool {
        let is_update =
            |place: &u32| self.exchanges.get(*place).is_some_and(|own| own.purpose == Purpose::Update);
        self.devices.get(slot as usize).is_some_and(|own| own.under_way.iter().any(is_update))
    }

    /// Sends a request to the server of a device whose options were made; its place.
    pub(super) fn post(&mut self, slot: u32, purpose: Purpose, payload: &[u8], now: Nanos) -> u32 {
        let port = self.devices.get(slot as usize).map_or(self.port, |own| own.port);
        self.request((slot, port), (purpose, code::POST), payload, now)
    }

    /// Sends a request to a port of the server whose options were made; its place.
    pub(super) fn request(
        &mut self,
        of: (u32, u16),
        (purpose, code): (Purpose, u8),
        payload: &[u8],
        now: Nanos,
    ) -> u32 {
        let (place, id) = self.open(of, purpose, now);
        let token = self.exchanges.token(place);
        self.encoded.clear();
        self.options.encode(&mut self.encoded);
        if let Some(exchange) = self.exchanges.get_mut(place) {
            exchange.content = payload.len() as u32;
            let (kind, options) = (Kind::Confirmable, self.encoded.as_slice());
            Message { kind, code, id, token: &token, options, payload }.encode(&mut exchange.datagram);
        }
        self.send(place);
        place
    }

    /// Takes a place for a request to a port of the server, and its message id.
    pub(super) fn open(&mut self, (slot, port): (u32, u16), purpose: Purpose, now: Nanos) -> (u32, u16) {
        let (place, id) = (self.exchanges.take(slot, purpose, now), self.take_id(slot, now));
        if let Some(exchange) = self.exchanges.get_mut(place) {
            (exchange.id, exchange.port, exchange.is_confirmable) = (id, port, true);
        }
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.under_way.push(place);
        }
        (place, id)
    }

    /// The server has answered a request of a device.
    pub(super) fn answered(&mut self, place: u32, answer: &Message<'_>, at: Nanos, events: &mut Vec<Event>) {
        let Some(exchange) = self.exchanges.get(place) else { return };
        let posted = Posted { content: exchange.content, begun_at: exchange.begun_at };
        let Some((slot, purpose)) = self.end(place) else { return };
        let is_posted = matches!(purpose, Purpose::Register | Purpose::Update);
        if is_posted && self.goes_on((slot, purpose), posted, answer, at) {
            return;
        }
        match (purpose, answer.code) {
            (Purpose::Download, _) => self.downloaded(slot, answer, at, events),
            (Purpose::Send(sequence), code::CHANGED) => {
                let size = answer.header_length() + answer.payload.len();
                self.traffic.answers.add(size, answer.payload.len());
                events.push(Event::Acknowledged { device: self.number(slot), sequence, at });
            }
            (Purpose::Send(sequence), answered) => {
                let reason = format!("the server answered {} to what a device sent", code::dotted(answered));
                events.push(Event::Refused { device: self.number(slot), sequence, at, reason });
                // The answer to an update shows whether the server has lost the registration.
                if answered == code::NOT_FOUND && !self.is_renewing(slot) {
                    self.update(slot, false, at);
                }
            }
            (Purpose::Bootstrap, code::CHANGED) => self.is_being_bootstrapped(slot, at),
            (Purpose::Register, code::CREATED) => match registration::location(answer) {
                Some(location) => self.registered_at(slot, location, at, events),
                None => {
                    let reason =
                        "the answer to a registration does not say where it is (Location-Path)".to_owned();
                    self.failed(slot, reason, at, events);
                }
            },
            (Purpose::Update, code::CHANGED) => {
                self.renew_later(slot, at);
                let own = self.devices.get_mut(slot as usize);
                if let Some(lists_objects) = own.and_then(|own| own.updates_again.take()) {
                    self.update(slot, lists_objects, at);
                }
            }
            // It has lost the registration, as after a restart.
            (Purpose::Update, code::NOT_FOUND) => {
                let reason = "the server has lost the registration: 4.04 to an update".to_owned();
                self.failed(slot, reason, at, events);
            }
            (_, _) => {
                let what = match purpose {
                    Purpose::Register => "a registration",
                    Purpose::Bootstrap => "a request to be bootstrapped",
                    _ => "an update",
                };
                let reason = format!("the server answered {} to {what}", code::dotted(answer.code));
                self.failed(slot, reason, at, events);
            }
        }
    }

    fn registered_at(&mut self, slot: u32, location: Box<str>, at: Nanos, events: &mut Vec<Event>) {
        let (pause, message) = (self.pauses.0, self.plan.message);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        (own.standing, own.location, own.took) = (Standing::Registered, location, at - own.began);
        own.pause = pause;
        // It is told as ready when somebody observes it, or when nobody did for so long.
        own.turns_at = at + self.plan.observed_within;
        // The request to observe may have overtaken the answer to the registration.
        let may_send = self.plan.send || own.observations.cover(message);
        // So may values that it is to look at.
        self.dirty.push(slot);
        self.count(slot);
        self.renew_later(slot, at);
        if may_send {
            self.ready(slot, events);
        }
    }

    /// How long a registration holds: what a server wrote, else what is planned.
    fn lifetime(&self, slot: u32) -> Nanos {
        let seconds = |(path, value): &(Path, Given<'_>)| match value {
            Given::Integer(seconds) if path.resource_id() == Some(own::LIFETIME) && *seconds > 0 => {
                Some(*seconds)
            }
            _ => None,
        };
        let own = self.devices.get(slot as usize);
        let written = own.and_then(|own| own.own.of_object(own::SERVER).find_map(seconds));
        written.map_or(self.plan.lifetime, |seconds| Nanos::from_secs(seconds.min(LONGEST_LIFETIME)))
    }

    fn renew_later(&mut self, slot: u32, now: Nanos) {
        let after = registration::renewed_after(self.lifetime(slot), self.random.fraction());
        if let Some(own) = self.devices.get_mut(slot as usize).filter(|_| self.plan.update) {
            own.renews_at = now + after;
        }
        self.wake(slot);
    }

    /// A device is registered and observed, or has waited for that: its messages may go.
    pub(super) fn ready(&mut self, slot: u32, events: &mut Vec<Event>) {
        let client = self.client(slot);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        if own.standing != Standing::Registered || std::mem::replace(&mut own.is_ready, true) {
            return;
        }
        let again = std::mem::replace(&mut own.was_ready, true);
        own.turns_at = Nanos::MAX;
        events.push(Event::Ready { client, took: own.took, again });
        self.dirty.push(slot);
        self.wake(slot);
    }

    /// The time has come for which a device wanted to be woken: does what is due.
    pub(super) fn look_after(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        (own.look_at, own.later_at) = (own.later_at, Nanos::MAX);
        let due = |at: &mut Nanos| *at <= now && std::mem::replace(at, Nanos::MAX) < Nanos::MAX;
        let (turns, renews) = (due(&mut own.turns_at), due(&mut own.renews_at));
        let installs = own.rare.as_mut().and_then(|rare| rare.installs_at.take_if(|at| *at <= now)).is_some();
        let looks = due(&mut own.values_at);
        own.owes |= looks;
        if due(&mut own.notifies_at) || looks {
            self.dirty.push(slot);
        }
        let (standing, is_ready) = (own.standing, own.is_ready);
        if installs {
            self.installed(slot, now);
        }
        match standing {
            Standing::Pausing if turns => self.begin(slot, now),
            Standing::Bootstrapping if turns => {
                let reason = "the bootstrap server did not say that it was done".to_owned();
                self.failed(slot, reason, now, events);
            }
            Standing::Registered => {
                if turns && !is_ready {
                    let within = self.plan.observed_within;
                    let reason = format!(
                        "a device registered and nobody observed it within {within}: it sends nothing"
                    );
                    events.push(Event::Incident { reason });
                    self.ready(slot, events);
                }
                if renews {
                    self.update(slot, false, now);
                }
            }
            _ => {}
        }
        self.wake(slot);
    }

    /// What a device has under way is given up, and whoever observed it is forgotten; whether it was ready.
    pub(super) fn part(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) -> bool {
        // What is put back stands in its order again.
        self.under_way(slot).into_iter().rev().for_each(|place| self.give_up(place, at, true, events));
        let Some(own) = self.devices.get_mut(slot as usize) else { return false };
        own.observations.clear();
        own.sleep();
        let was_ready = std::mem::take(&mut own.is_ready);
        self.forget_upload(slot);
        self.forget_transfer(slot);
        self.count(slot);
        was_ready
    }

    /// The server has the device restart: it registers anew at once.
    pub(super) fn restart(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) {
        let is_registered = |own: &super::Device| own.standing == Standing::Registered;
        if !self.devices.get(slot as usize).is_some_and(is_registered) {
            return;
        }
        if self.part(slot, at, events) {
            let (client, reason) = (self.client(slot), "the server restarted the device (3/0/4)".to_owned());
            events.push(Event::Disconnected { client, at, reason });
        }
        self.begin(slot, at);
    }

    /// A registration failed or was lost: what is under way is given up, and the device registers again after a pause if it was
    /// ever ready.
    pub(super) fn failed(&mut self, slot: u32, reason: String, at: Nanos, events: &mut Vec<Event>) {
        let client = self.client(slot);
        let was_ready = self.part(slot, at, events);
        events.push(match was_ready {
            true => Event::Disconnected { client, at, reason },
            false => Event::ConnectFailed { client, reason, lasting: false },
        });
        let (chance, longest) = (self.random.fraction(), self.pauses.1);
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        // Where it cannot register, it asks to be bootstrapped once more (1.1 core, section 6.1.4).
        own.knows_server &= !matches!(own.standing, Standing::Registering | Standing::Securing);
        if !own.was_ready {
            own.standing = Standing::Idle;
            return self.count(slot);
        }
        own.standing = Standing::Pausing;
        own.turns_at = at + Nanos::from_secs_f64(own.pause.as_secs_f64() * (0.5 + 0.5 * chance));
        own.pause = (own.pause * 2).min(longest);
        self.count(slot);
        self.wake(slot);
    }

    /// Says goodbye where that is wanted, and forgets what a device was about to send; whether it was ready.
    pub fn release(&mut self, slot: u32, now: Nanos) -> bool {
        self.under_way(slot).into_iter().for_each(|place| _ = self.end(place));
        self.forget_upload(slot);
        let id = self.take_id(slot, now);
        let Some(own) = self.devices.get_mut(slot as usize) else { return false };
        self.waiting -= own.queue.len();
        own.queue.clear();
        own.observations.clear();
        (own.was_ready, own.knows_server) = (false, false);
        own.sleep();
        if own.rare.take().is_some_and(|rare| rare.download.is_some() || rare.installs_at.is_some()) {
            own.own.write(STATE, Given::Integer(State::Idle as i64));
        }
        let standing = std::mem::take(&mut own.standing);
        if standing == Standing::Registered && self.plan.deregister {
            registration::deregister(&own.location, &mut self.options);
            self.encoded.clear();
            self.options.encode(&mut self.encoded);
            let begin = self.answers.len();
            // Its answer is not awaited: nobody is there any more who would repeat it.
            let (kind, options, token) =
                (Kind::NonConfirmable, self.encoded.as_slice(), &id.to_be_bytes()[..]);
            Message { kind, code: code::DELETE, id, token, options, payload: &[] }.encode(&mut self.answers);
            self.outgoing.push(Outgoing::Answer(slot, own.port, begin..self.answers.len()));
        }
        let was_ready = std::mem::take(&mut own.is_ready);
        self.count(slot);
        was_ready
    }

    /// Says goodbye for all devices.
    pub fn disconnect(&mut self, now: Nanos) {
        (0..self.devices.len() as u32).for_each(|slot| _ = self.release(slot, now));
    }

    /// A datagram could not be sent, or what was sent found nobody.
    pub fn failed_to_send(&mut self, slot: u32, reason: String, at: Nanos, events: &mut Vec<Event>) {
        let is_there = |own: &super::Device| !matches!(own.standing, Standing::Idle | Standing::Pausing);
        if self.devices.get(slot as usize).is_some_and(is_there) {
            self.failed(slot, reason, at, events);
        }
    }
}
