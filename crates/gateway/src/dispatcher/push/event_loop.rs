//! A state machine for each connection on one loop: the serial dispatcher, whose loop tells of one socket at a time, and the
//! cooperative one.

use super::{BACKLOG, LINGER, LOOK, PAUSE, Slots};
use crate::configuration::Protocol;
use crate::dispatcher::cooperative::Handler;
use crate::handler::{Event, Shared};
use crate::push::{Said, Session, session};
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
    /// The last word was said to it, and it has not closed yet.
    Parting,
}

struct Connection {
    session: Box<dyn Session>,
    state: State,
    /// When it became silent, began a message, or was parted with.
    since: Instant,
    is_held: bool,
}

struct Loop<'a> {
    shared: &'a Shared,
    protocol: Protocol,
    reactor: Box<dyn Reactor>,
    handler: Handler,
    connections: Vec<Option<Connection>>,
    slots: Slots,
    /// Slots whose connections ended in this turn: what is still told of them means nobody else.
    left: Vec<usize>,
}

pub(super) fn run(
    shared: &Arc<Shared>,
    protocol: Protocol,
    listener: TcpListener,
    mut reactor: Box<dyn Reactor>,
) -> Result<(), ReactorError> {
    shared.wakes(reactor.waker());
    let handler = Handler::of(shared)?;
    reactor.listen(listener)?;
    let slots = Slots::new(shared.devices());
    let (connections, left) = (Vec::new(), Vec::new());
    Loop { shared, protocol, reactor, handler, connections, slots, left }.run();
    Ok(())
}

impl Loop<'_> {
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
            Happened::Closed(slot, reason) => self.closed(slot, &reason),
            Happened::Written(number, result) => self.handler.written(self.shared, number, &result),
            Happened::Elapsed(_) => self.look_at_all(),
            // Only who connects is told of that.
            Happened::Connected(_) => {}
        }
    }

    fn connection(&mut self, slot: usize) -> Option<&mut Connection> {
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
                let session = session(self.protocol);
                let (state, since) = (State::Open, Instant::now());
                self.connections[slot] = Some(Connection { session, state, since, is_held: false });
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
            State::Gone | State::Parting => {}
            State::Open => {
                if connection.session.waiting() == 0 {
                    connection.since = Instant::now();
                }
                connection.session.add(bytes);
                self.proceed(slot);
            }
            State::Handling => {
                connection.session.add(bytes);
                if connection.session.waiting() > BACKLOG && !connection.is_held {
                    connection.is_held = true;
                    self.reactor.hold(slot, true);
                }
            }
        }
    }

    /// Takes what a device has said, up to its next event.
    fn proceed(&mut self, slot: usize) {
        while !self.shared.ends() {
            let Some(connection) = self.connection(slot) else { return };
            let Some(said) = connection.session.next() else { return };
            connection.since = Instant::now();
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
        let reply = connection.session.over(is_done);
        connection.state = State::Open;
        connection.since = Instant::now();
        if reply.is_last {
            return self.part(slot, &reply.bytes);
        }
        if !reply.bytes.is_empty() {
            self.answer(slot, &reply.bytes);
        }
        self.proceed(slot);
        let Some(connection) = self.connection(slot) else { return };
        if connection.is_held && connection.session.waiting() <= BACKLOG {
            connection.is_held = false;
            self.reactor.hold(slot, false);
        }
    }

    fn answer(&mut self, slot: usize, bytes: &[u8]) {
        self.reactor.send(slot, bytes);
        if self.reactor.unsent(slot) > BACKLOG {
            self.shared.complain(slot, "it does not read its answers");
            self.leave(slot);
        }
    }

    /// Says the last word to a device. What it says from now on means nothing.
    fn part(&mut self, slot: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return self.leave(slot);
        }
        if let Some(connection) = self.connection(slot) {
            (connection.state, connection.since) = (State::Parting, Instant::now());
            if std::mem::take(&mut connection.is_held) {
                self.reactor.hold(slot, false);
            }
        }
        self.answer(slot, bytes);
    }

    fn leave(&mut self, slot: usize) {
        self.reactor.close(slot);
        self.forget(slot);
    }

    fn forget(&mut self, slot: usize) {
        self.connections[slot] = None;
        self.left.push(slot);
    }

    fn closed(&mut self, slot: usize, reason: &str) {
        let Some(connection) = self.connection(slot) else { return };
        match connection.state {
            State::Handling => connection.state = State::Gone,
            State::Gone => {}
            State::Open if connection.session.waiting() > 0 => {
                self.shared.complain(slot, &format!("within a message: {reason}"));
                self.forget(slot);
            }
            State::Open | State::Parting => self.forget(slot),
        }
    }

    fn look_at_all(&mut self) {
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connection(slot) else { continue };
            let patience = match connection.state {
                State::Open => connection.session.patience(),
                State::Parting => Some(LINGER),
                State::Handling | State::Gone => None,
            };
            if patience.is_some_and(|patience| connection.since.elapsed() > patience) {
                if connection.state == State::Open {
                    self.shared.complain(slot, "it was silent for too long");
                }
                self.leave(slot);
            }
        }
        self.reactor.after(LOOKING, LOOK);
    }
}
