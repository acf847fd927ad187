//! A state machine for each connection on one loop: the serial dispatcher, whose loop tells of one socket at a time, and the
//! cooperative one.

use super::conversation::{BACKLOG, Conversation, Crowd};
use super::{LINGER, LOOK, PAUSE, Slots};
use crate::configuration::PushProtocol;
use crate::dispatcher::cooperative::Handler;
use crate::handler::{Event, Shared};
use crate::push::Said;
use crate::reactor::{Happened, Reactor, ReactorError};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

/// The slots of timers: who looks at all connections, and who accepts again.
const LOOKING: usize = 0;
const ACCEPTING: usize = 1;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The device may say something.
    Open,
    /// Its event is being handled.
    Handling,
    /// The same, but the device has gone.
    Gone,
    /// The last word was said to it at that time, and it has not closed yet.
    Parting(Instant),
}

struct Connection<'a> {
    conversation: Conversation<'a>,
    state: State,
    is_held: bool,
    /// The device says nothing more, and may still wait for answers.
    has_ended: bool,
}

struct Loop<'a> {
    shared: &'a Shared,
    protocol: PushProtocol,
    reactor: Box<dyn Reactor>,
    handler: Handler,
    crowd: &'a Crowd,
    connections: Vec<Option<Connection<'a>>>,
    slots: Slots,
    /// Slots whose connections ended in this turn: what is still told of them means nobody else.
    left: Vec<usize>,
}

pub(super) fn run(
    shared: &Arc<Shared>,
    protocol: PushProtocol,
    listener: TcpListener,
    mut reactor: Box<dyn Reactor>,
) -> Result<(), ReactorError> {
    shared.wakes(reactor.waker());
    let handler = Handler::of(shared)?;
    reactor.listen(listener)?;
    let slots = Slots::new(shared.devices());
    let (connections, left, crowd) = (Vec::new(), Vec::new(), Crowd::new());
    Loop { shared, protocol, reactor, handler, crowd: &crowd, connections, slots, left }.run();
    Ok(())
}

impl<'a> Loop<'a> {
    fn run(&mut self) {
        self.reactor.after(LOOKING, LOOK);
        let mut happened = Vec::new();
        let mut freed = Vec::new();
        while !self.shared.ends() || self.is_busy() {
            // One event of each connection in a turn, however many have come already.
            self.reactor.turn(freed.is_empty(), &mut happened);
            for one in happened.drain(..) {
                self.take(one);
            }
            for slot in freed.drain(..) {
                self.go_on(slot);
            }
            for slot in self.left.drain(..) {
                self.slots.give(slot);
            }
            freed = self.shared.freed();
        }
        // What was sent last goes on its way.
        self.reactor.turn(false, &mut happened);
    }

    fn is_busy(&self) -> bool {
        self.connections.iter().flatten().any(|one| matches!(one.state, State::Handling | State::Gone))
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Incoming | Happened::Elapsed(ACCEPTING) => self.accept(),
            Happened::Data(slot, bytes) => self.data(slot, &bytes),
            Happened::Ended(slot) => self.ended(slot),
            Happened::Closed(slot, reason) => self.closed(slot, &reason),
            Happened::Written(number, result) => self.handler.written(self.shared, number, &result),
            Happened::Elapsed(_) => self.look_at_all(),
            // Only who connects is told of that.
            Happened::Connected(_) => {}
        }
    }

    fn connection(&mut self, slot: usize) -> Option<&mut Connection<'a>> {
        self.connections.get_mut(slot)?.as_mut()
    }

    fn accept(&mut self) {
        if self.shared.ends() {
            return;
        }
        // Who finds no slot is let in and sent away: else they would wait, and be told of again and again.
        let slot = self.slots.take();
        let place = slot.unwrap_or(self.connections.len());
        let accepted = self.reactor.accept(place);
        match (slot, accepted) {
            (Some(slot), Ok(true)) => {
                if self.connections.len() <= slot {
                    self.connections.resize_with(slot + 1, || None);
                }
                let conversation = Conversation::new(self.protocol, self.crowd);
                let (state, is_held, has_ended) = (State::Open, false, false);
                self.connections[slot] = Some(Connection { conversation, state, is_held, has_ended });
                return;
            }
            (None, Ok(true)) => {
                self.reactor.close(place);
                self.shared.refused("there are as many connections as there may be");
            }
            (_, Ok(false)) => {}
            (_, Err(error)) => {
                self.shared.refused(&error.to_string());
                self.reactor.after(ACCEPTING, PAUSE);
            }
        }
        if let Some(slot) = slot {
            self.slots.give(slot);
        }
    }

    fn data(&mut self, slot: usize, bytes: &[u8]) {
        let Some(connection) = self.connection(slot) else { return };
        match connection.state {
            State::Gone | State::Parting(_) => {}
            State::Open => {
                connection.conversation.add(bytes);
                self.proceed(slot);
            }
            State::Handling => {
                connection.conversation.add(bytes);
                self.hold(slot);
            }
        }
    }

    /// Reads of a device, or lets it wait until there is room for what it says behind its event.
    fn hold(&mut self, slot: usize) {
        let Some(connection) = self.connection(slot) else { return };
        let is_held = connection.state == State::Handling && connection.conversation.is_full();
        if std::mem::replace(&mut connection.is_held, is_held) != is_held {
            self.reactor.hold(slot, is_held);
        }
    }

    /// Takes what a device has said, up to its next event.
    fn proceed(&mut self, slot: usize) {
        while !self.shared.ends() {
            let Some(connection) = self.connection(slot) else { return };
            let Some(said) = connection.conversation.next() else { return self.judge(slot) };
            match said {
                Said::Call(answer) => self.answer(slot, &answer),
                Said::Event(name) => return self.dispatch(slot, name),
                Said::Refused(answer, reason) => {
                    self.shared.complain(slot, &reason);
                    return self.part(slot, &answer);
                }
                Said::Farewell => return self.leave(slot),
            }
        }
    }

    /// Whether a device that has said nothing more as a whole may stay.
    fn judge(&mut self, slot: usize) {
        let Some(connection) = self.connection(slot) else { return };
        if connection.has_ended {
            if connection.conversation.is_begun() {
                self.shared.complain(slot, "within a message: the connection was closed");
            }
            self.part(slot, &[]);
        } else if let Some(fault) = connection.conversation.fault() {
            self.shared.complain(slot, fault);
            self.leave(slot);
        }
    }

    fn dispatch(&mut self, slot: usize, name: Option<Arc<str>>) {
        if let Some(connection) = self.connection(slot) {
            connection.state = State::Handling;
        }
        let event = Event { device: slot, id: name.unwrap_or_else(|| self.shared.name()) };
        self.shared.retrieved(&event);
        self.handler.handle(self.shared, &mut *self.reactor, event);
    }

    /// The event of a connection is over.
    fn go_on(&mut self, slot: usize) {
        let is_done = self.shared.is_done(slot);
        let Some(connection) = self.connection(slot) else { return };
        if connection.state == State::Gone {
            return self.forget(slot);
        }
        let reply = connection.conversation.over(is_done);
        connection.state = State::Open;
        if reply.is_last {
            return self.part(slot, &reply.bytes);
        }
        if !reply.bytes.is_empty() {
            self.answer(slot, &reply.bytes);
        }
        self.proceed(slot);
        self.hold(slot);
    }

    fn answer(&mut self, slot: usize, bytes: &[u8]) {
        self.reactor.send(slot, bytes);
        if self.reactor.unsent(slot) > BACKLOG {
            self.shared.complain(slot, "it does not read its answers");
            self.leave(slot);
        }
    }

    /// Says the last word to a device, if there is one. What it says from now on means nothing.
    fn part(&mut self, slot: usize, bytes: &[u8]) {
        let Some(connection) = self.connection(slot) else { return };
        connection.state = State::Parting(Instant::now());
        let has_ended = connection.has_ended;
        self.hold(slot);
        if !bytes.is_empty() {
            self.answer(slot, bytes);
        }
        // Who goes on talking may lose the last word when the connection is closed at once.
        if (has_ended || bytes.is_empty()) && self.reactor.unsent(slot) == 0 {
            self.leave(slot);
        }
    }

    fn leave(&mut self, slot: usize) {
        self.reactor.close(slot);
        self.forget(slot);
    }

    fn forget(&mut self, slot: usize) {
        if self.connections[slot].take().is_some() {
            self.left.push(slot);
        }
    }

    /// A device says nothing more. What it has said is answered.
    fn ended(&mut self, slot: usize) {
        let Some(connection) = self.connection(slot) else { return };
        connection.has_ended = true;
        let state = connection.state;
        match state {
            State::Open => self.judge(slot),
            State::Parting(_) if self.reactor.unsent(slot) == 0 => self.leave(slot),
            State::Handling | State::Gone | State::Parting(_) => {}
        }
    }

    fn closed(&mut self, slot: usize, reason: &str) {
        let Some(connection) = self.connection(slot) else { return };
        match connection.state {
            State::Handling => connection.state = State::Gone,
            State::Gone => {}
            State::Open if connection.conversation.is_begun() => {
                self.shared.complain(slot, &format!("within a message: {reason}"));
                self.forget(slot);
            }
            State::Open | State::Parting(_) => self.forget(slot),
        }
    }

    fn look_at_all(&mut self) {
        for slot in 0..self.connections.len() {
            match self.connection(slot).map(|connection| connection.state) {
                Some(State::Open) => self.judge(slot),
                Some(State::Parting(since)) if since.elapsed() > LINGER => self.leave(slot),
                _ => {}
            }
        }
        self.reactor.after(LOOKING, LOOK);
    }
}
