//! How sockets of devices are opened, secured where they are to be, and opened again.

use super::device_socket::State;
use super::{CoapDriver, Wake};
use crate::driver::{Client, Event};
use plimsoll_model::Nanos;

impl CoapDriver {
    pub(super) fn open(&mut self, slot: u32, events: &mut Vec<Event>) {
        let number = self.share.number(slot);
        let way = (self.address, self.sources.of(number));
        let (first_id, now) = (self.random.below(1 << 16) as u16, self.clock.now());
        // Secured sockets belong to one device each.
        let session = self.terms.as_ref().map(|terms| terms.session(number, now)).transpose();
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        socket.began = now;
        let epoll = self.readiness.epoll();
        let opened = session.and_then(|session| {
            socket.open(slot, way, (first_id, session, self.gathers), epoll, &mut self.traffic)
        });
        match opened {
            Ok(()) => self.watch_opening(slot),
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    /// Sets the timer of a socket that is being opened.
    pub(super) fn watch_opening(&mut self, slot: u32) {
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        let at = socket.endpoint.wakes_at().unwrap_or(socket.began + self.plan.ack_timeout);
        if socket.timer_at != at {
            socket.timer_at = at;
            self.timers.set(at, slot, Wake::Socket(socket.generation()));
        }
    }

    /// Nobody has answered so far.
    pub(super) fn still_asking(&mut self, slot: u32, now: Nanos, events: &mut Vec<Event>) {
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        socket.timer_at = Nanos::MAX;
        if socket.endpoint.wakes_at().is_none() {
            // Whoever does not answer pings may still answer requests; nobody there would be told.
            return self.opened(slot, events);
        }
        match socket.endpoint.tick(now, &mut self.traffic) {
            Ok(()) => self.watch_opening(slot),
            Err(reason) => self.failed(slot, reason, events),
        }
    }

    /// A request was given up. Where nothing at all came over a session since then, the platform may have lost it, which
    /// it does not say: it puts away what it cannot read (RFC 6347 section 4.1.2.7). So a new one is made.
    pub(super) fn given_up(&mut self, slot: u32, since: Nanos, events: &mut Vec<Event>) {
        if self.sockets.get(slot as usize).is_some_and(|socket| socket.endpoint.is_silent_since(since)) {
            self.failed(slot, "the platform does not answer over its DTLS session".into(), events);
        }
    }

    /// Somebody is there, or does not say: requests go out.
    pub(super) fn opened(&mut self, slot: u32, events: &mut Vec<Event>) {
        let now = self.clock.now();
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        socket.state = State::Ready;
        socket.was_ready = true;
        let took = now - socket.began;
        let waiting = std::mem::take(&mut socket.waiting);
        self.devices.are_ready(&waiting, took, events);
        socket.members.extend(waiting);
    }

    /// The platform cannot be reached over a socket: what was sent is given up, and the socket is opened again later.
    pub(super) fn failed(&mut self, slot: u32, reason: String, events: &mut Vec<Event>) {
        let at = self.clock.now();
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        let under_way: Vec<u32> = socket.exchanges.values().copied().collect();
        let (members, pause) = (std::mem::take(&mut socket.members), socket.pause);
        let waiting = if socket.was_ready { Vec::new() } else { std::mem::take(&mut socket.waiting) };
        socket.close();
        socket.waiting.extend(&members);
        if socket.was_ready {
            socket.state = State::Pausing;
            socket.pause = (pause * 2).min(self.pauses.1);
            let pause = Nanos::from_secs_f64(pause.as_secs_f64() * (0.5 + 0.5 * self.random.fraction()));
            socket.timer_at = at + pause;
            self.timers.set(at + pause, slot, Wake::Socket(socket.generation()));
        }
        for place in under_way {
            self.abandon(place, at, true, events);
        }
        self.devices.are_lost((&members, &waiting), at, &reason, events);
        let waits = self.sockets.get(slot as usize).and_then(|socket| socket.waiting.first().copied());
        if let (true, Some(device)) = (members.is_empty() && waiting.is_empty(), waits) {
            // Trying again has failed.
            let client = Client::Device(self.number(device));
            events.push(Event::ConnectFailed { client, reason, lasting: false });
        }
    }
}
