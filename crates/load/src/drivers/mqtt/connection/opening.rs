//! How a connection begins and ends in order.

use super::super::{Io, Timer};
use super::{Connection, State};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::layers::hand_over;
use crate::drivers::readiness::data;
use crate::drivers::socket::{Interest, Socket};
use crate::refusal;
use plimsoll_model::Nanos;
use rustix::event::epoll::EventFlags;

impl Connection {
    pub(super) fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.began = io.clock.now();
        self.accepted = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Connecting;
        self.interest = Interest { read: true, write: true };
        let number = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(subscriber) => io.population.saturating_add(subscriber),
        };
        if self.tls.is_none() {
            match io.transport.of_client(self.client) {
                Ok(config) => self.tls = config,
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        }
        match io.transport.layers(self.tls.as_ref(), (number, self.generation)) {
            Ok(layers) => self.layers = layers,
            Err(reason) => return self.failed(slot, reason, io, events),
        }
        let opened = Socket::connect(io.address, io.sources.of(number)).and_then(|socket| {
            socket.register(io.readiness.epoll(), data(slot, self.generation), self.interest)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.socket = Some(socket);
                self.tell_urgency(io);
                let timeout = self.began + io.connection.timeout;
                io.timers.set(timeout, slot, Timer::ConnectTimeout);
            }
            Err(error) => self.failed(slot, refusal::told(error), io, events),
        }
    }

    /// What lies under MQTT is connected: MQTT begins, over an emulated network when that has taken as long as it would.
    pub(super) fn connected(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let Some(link) = &mut self.link else { return self.handshake(slot, io, events) };
        let round_trips = 1 + self.layers.as_ref().map_or(0, |layers| layers.round_trips());
        let delays = (0..2 * round_trips).map(|_| link.draw(&mut io.jitter));
        let at = delays.fold(io.clock.now(), |at, delay| at + delay);
        link.connected_at = Some(at);
        self.state = State::Travelling;
        io.timers.set(at, slot, Timer::Link);
    }

    /// MQTT begins.
    pub(super) fn handshake(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Handshaking;
        if let Err(reason) = self.session.connect(io.run, self.out.bytes()) {
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
        if generation != self.generation || self.socket.is_none() {
            return;
        }
        if self.state == State::Connecting {
            if let Some(Err(error)) = self.socket.as_ref().map(Socket::take_error) {
                return self.failed(slot, refusal::told(error), io, events);
            }
            match &mut self.layers {
                Some(layers) => {
                    layers.begin(io.clock.now());
                    self.state = State::Layering;
                }
                None => self.connected(slot, io, events),
            }
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
        }
        self.send(slot, io, events);
    }

    pub(super) fn became_ready(&mut self, slot: u32, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Ready;
        self.pause = io.connection.reconnect.0;
        self.ping_sent = None;
        let again = std::mem::replace(&mut self.was_ready, true);
        let took = self.accepted.take().unwrap_or(at) - self.began;
        events.push(Event::Ready { client: self.client, took, again });
        self.go_on(io, events);
        self.schedule_keep_alive(slot, at, io);
    }

    pub(super) fn want(&mut self, slot: u32, interest: Interest, io: &mut Io) {
        if interest != self.interest {
            if let Some(socket) = &self.socket {
                // Fails only for a socket that is not registered, which ours is.
                let _ = socket.modify(io.readiness.epoll(), data(slot, self.generation), interest);
            }
            self.interest = interest;
        }
    }

    /// Forgets the socket and what lay above it.
    pub(super) fn close(&mut self) {
        // Closing the descriptor takes it out of the epoll set.
        self.socket = None;
        self.layers = None;
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self) {
        if self.state == State::Ready && self.out.is_empty() {
            self.session.disconnect(self.out.bytes());
            if let Some(socket) = &self.socket {
                // The platform learns of the end by the closed connection all the same.
                let mut traffic = Traffic::default();
                let _ = hand_over(self.out.rest(), socket, self.layers.as_deref_mut(), &mut traffic);
                if let Some(layers) = &mut self.layers {
                    layers.close();
                    let _ = layers.flush(socket, &mut traffic);
                }
            }
        }
        self.close();
        if let Some(link) = &mut self.link {
            link.clear();
        }
        self.state = State::Idle;
    }
}
