//! What the platform sends to devices: answers, acknowledgements, resets.

use super::channel::Peer;
use super::device_socket::State;
use super::endpoint::Incoming;
use super::tokens::{self, Age};
use super::transfer::{Order, Step};
use super::{CoapDriver, Place, slip};
use crate::driver::Event;
use crate::drivers::readiness::Ready;
use crate::drivers::words;
use plimsoll_codec::coap::{Kind, Message, code};
use plimsoll_model::Nanos;
use rustix::event::epoll::EventFlags;

/// Datagrams read from a socket before others get their turn.
const DATAGRAMS: usize = 64;

impl CoapDriver {
    pub(super) fn ready(&mut self, Ready { slot, generation, flags }: Ready, events: &mut Vec<Event>) {
        let known = self.sockets.get_mut(slot as usize);
        let Some(socket) = known.filter(|socket| socket.generation() == generation) else { return };
        if flags.contains(EventFlags::OUT) {
            socket.endpoint.wants_room(slot, false, self.readiness.epoll());
            for slot in std::mem::take(&mut socket.blocked) {
                if self.places.get_mut(slot as usize).is_some_and(Place::stop_waiting) {
                    self.send(slot, events);
                }
            }
        }
        if !flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for _ in 0..DATAGRAMS {
            let Some(socket) = self.sockets.get_mut(slot as usize) else { break };
            match socket.endpoint.read(&mut scratch, self.clock.now(), &mut self.traffic) {
                Ok(Incoming::Nothing) => break,
                Ok(Incoming::Message { message, lag, .. }) => {
                    let at = self.readiness.received_at(self.clock.now(), lag);
                    self.take_in(slot, &message, at, events);
                }
                Ok(Incoming::Malformed(error)) => {
                    slip(&format!("a datagram that is no CoAP message: {error}"), events);
                }
                Ok(Incoming::Part) if socket.state == State::Asking => self.watch_opening(slot),
                // These devices answer no requests, so none is repeated.
                Ok(Incoming::Part | Incoming::Repeated) => {}
                Ok(Incoming::Secured(took)) => {
                    events.push(Event::Secured { took, resumed: false });
                    socket.pause = self.pauses.0;
                    self.opened(slot, events);
                }
                Err(reason) => {
                    self.failed(slot, reason, events);
                    break;
                }
            }
            // Most often that was all; a further look would cost a call.
            if self.sockets.get(slot as usize).is_none_or(|socket| !socket.expects()) {
                break;
            }
        }
        self.scratch = scratch;
    }

    /// Handles what the platform sent.
    fn take_in(&mut self, slot: u32, message: &Message<'_>, at: Nanos, events: &mut Vec<Event>) {
        let pauses = self.pauses;
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        socket.pause = pauses.0;
        if socket.state == State::Asking {
            self.opened(slot, events);
        }
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        let by_id = socket.exchanges.get(&message.id).copied();
        match (message.kind, message.code) {
            (Kind::Reset, _) => {
                // Otherwise it answers our ping, or an acknowledgement of ours.
                if let Some((_, order)) = by_id.and_then(|place| self.free(place)) {
                    let Order { device, sequence, .. } = order;
                    let reason = words::refusal("the platform reset the request", self.requests.target());
                    events.push(Event::Refused { device, sequence, at, reason });
                }
            }
            // Some take our ping for a request, and answer it in place of resetting it.
            (Kind::Acknowledgement, _)
                if by_id.is_none() && socket.ping == Some(message.id) && message.token.is_empty() => {}
            (Kind::Acknowledgement, code::EMPTY) => {
                let place = by_id.and_then(|place| self.places.get_mut(place as usize));
                self.traffic.answers.add_part(message.header_length(), 0);
                if let Some(took) = place.and_then(|place| place.exchange.acknowledge(at)) {
                    events.push(Event::RoundTrip { took });
                }
            }
            // A ping, or a request to a client that serves nothing.
            (Kind::Confirmable, code) if code >> 5 == 0 => {
                let now = self.clock.now();
                socket.endpoint.say(Kind::Reset, message.id, Peer::Connected, now, &mut self.traffic);
            }
            (Kind::NonConfirmable, code::EMPTY) => {}
            (_, code) if code >> 5 == 0 => slip("a request to a client", events),
            _ => self.answered(slot, message, at, events),
        }
    }

    fn answered(&mut self, slot: u32, message: &Message<'_>, at: Nanos, events: &mut Vec<Event>) {
        let (place, age) = self.whose(slot, message.token);
        let confirmable = message.kind == Kind::Confirmable;
        if let (true, Some(socket)) = (confirmable, self.sockets.get_mut(slot as usize)) {
            // Also one that is repeated because our acknowledgement was lost (section 4.2).
            let kind = if age == Age::Foreign { Kind::Reset } else { Kind::Acknowledgement };
            socket.endpoint.say(kind, message.id, Peer::Connected, self.clock.now(), &mut self.traffic);
        }
        match age {
            Age::Foreign => return slip("an answer to what was never asked", events),
            Age::Past => return,
            Age::Now => {}
        }
        let Some(state) = self.places.get_mut(place as usize) else { return };
        let size = message.header_length() + message.payload.len();
        self.traffic.answers.add_part(size, message.payload.len());
        let exchange = &mut state.exchange;
        if message.kind == Kind::Acknowledgement {
            if message.id != exchange.id {
                return slip("an acknowledgement with another id than that of its request", events);
            }
            if let Some(took) = exchange.acknowledge(at) {
                events.push(Event::RoundTrip { took });
            }
        }
        let (was_in_blocks, id) = (exchange.transfer.is_in_blocks(), exchange.id);
        let step = exchange.transfer.answer(message, |status| self.requests.is_success(status));
        let (order, generation) = (exchange.transfer.order, exchange.transfer.generation);
        let refused = match step {
            Step::Next => {
                self.in_blocks += usize::from(!was_in_blocks);
                state.turn = tokens::next(state.turn);
                if let Some(socket) = self.sockets.get_mut(slot as usize) {
                    socket.exchanges.remove(&id);
                }
                return self.next_request(place, events);
            }
            Step::Done => None,
            Step::Refused(status, reason) => {
                Some((status, self.requests.refusal(status, &reason, order.device, generation)))
            }
        };
        self.traffic.answers.count += 1;
        self.free(place);
        self.devices.answered(order, at, refused, &self.requests, events);
    }

    /// The place that a token names, and whether its exchange is under way now over that socket.
    fn whose(&self, slot: u32, token: &[u8]) -> (u32, Age) {
        let Some((number, turn)) = tokens::named(token) else { return (0, Age::Foreign) };
        let Some(place) = self.places.get(number as usize).filter(|place| place.socket == slot) else {
            return (0, Age::Foreign);
        };
        (number, tokens::age(turn, place.turn, place.taken))
    }
}
