//! How a connection begins and ends in order.

use super::super::{Io, Timer};
use super::{Connection, State};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::stream::Backoff;
use plimsoll_model::Nanos;
use rustix::event::epoll::EventFlags;

impl Connection {
    pub(super) fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.accepted = None;
        self.state = State::Connecting;
        let number = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(subscriber) => io.population.saturating_add(subscriber),
        };
        match self.stream.open(slot, (self.client, number), &mut io.stream) {
            Ok(()) => {
                self.tell_urgency(io);
                let timeout = self.stream.began() + io.stream.timeout;
                io.timers.set(timeout, slot, Timer::ConnectTimeout);
            }
            Err(reason) => self.failed(slot, reason, io, events),
        }
    }

    /// What lies under MQTT is connected: MQTT begins, over an emulated network when that has taken as long as it would.
    pub(super) fn connected(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let Some(link) = &mut self.link else { return self.handshake(slot, io, events) };
        let round_trips = 1 + self.stream.round_trips();
        let delays = (0..2 * round_trips).map(|_| link.draw(&mut io.jitter));
        let at = delays.fold(io.stream.clock.now(), |at, delay| at + delay);
        link.connected_at = Some(at);
        self.state = State::Travelling;
        io.timers.set(at, slot, Timer::Link);
    }

    /// MQTT begins.
    pub(super) fn handshake(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Handshaking;
        let user = io.users.user(self.client);
        self.token = user.as_ref().and_then(|user| user.token);
        if let Err(reason) = self.session.connect(io.run, user.as_ref(), self.out.bytes()) {
            self.failed(slot, reason, io, events);
        }
    }

    pub fn ready(
        &mut self,
        slot: u32,
        generation: u32,
        flags: EventFlags,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        if !self.stream.is_of(generation) {
            return;
        }
        if self.state == State::Connecting {
            match self.stream.connected(io.stream.clock.now()) {
                Ok(true) => self.state = State::Layering,
                Ok(false) => self.connected(slot, io, events),
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
        }
        self.send(slot, io, events);
    }

    pub(super) fn became_ready(&mut self, slot: u32, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Ready;
        self.backoff = Backoff::new(io.stream.pauses);
        self.ping_sent = None;
        let again = std::mem::replace(&mut self.was_ready, true);
        let took = self.accepted.take().unwrap_or(at) - self.stream.began();
        events.push(Event::Ready { client: self.client, took, again });
        self.go_on(io, events);
        self.schedule_keep_alive(slot, at, io);
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self) {
        if self.state == State::Ready && self.out.is_empty() {
            self.session.disconnect(self.out.bytes());
            self.stream.close_with(self.out.rest(), true, &mut Traffic::default());
        }
        self.stream.close();
        if let Some(link) = &mut self.link {
            link.clear();
        }
        self.state = State::Idle;
    }
}
