//! What a connection sends: what connection, window and socket allow.

use super::super::{Io, Timer};
use super::{Connection, State};
use crate::driver::{Client, Event};
use crate::drivers::socket::Interest;
use plimsoll_model::Nanos;
use rustix::io::Errno;

impl Connection {
    /// Sends what connection, window and socket allow.
    pub fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.dirty = false;
        loop {
            self.encode_waiting(io, events);
            if !self.stream.is_there() {
                return;
            }
            if self.out.is_empty() {
                break;
            }
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.stream.clock.now();
            let taken = match &mut self.link {
                Some(link) if link.up.is_full() => Ok(0),
                Some(link) => {
                    let arrives = at + link.draw(&mut io.jitter);
                    link.up.send(self.out.rest(), arrives, None);
                    io.timers.set(arrives, slot, Timer::Link);
                    Ok(self.out.rest().len())
                }
                None => self.stream.write(self.out.rest(), &mut io.stream.traffic),
            };
            match taken {
                Ok(0) => break,
                Ok(count) => {
                    self.out.take(count);
                    self.last_write = at;
                    self.report_sent(events);
                }
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
            }
        }
        let blocked = match self.pass_on(io) {
            Ok(blocked) => blocked,
            Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
        };
        if let Err(error) = self.stream.flush(&mut io.stream.traffic) {
            return self.failed(slot, format!("cannot send: {error}"), io, events);
        }
        let connecting = self.state == State::Connecting;
        let write = connecting
            || self.stream.is_waiting()
            || if self.link.is_some() { blocked } else { !self.out.is_empty() };
        // A platform that does not take our acknowledgements gets none of its packets read.
        let full = self.link.as_ref().is_some_and(|link| link.down.is_full());
        let is_busy = self.busy_until > Nanos::ZERO && self.is_busy(io.stream.clock.now());
        let read = !is_busy && !full && !self.out.is_stuck();
        self.out.tidy();
        self.stream.want(slot, Interest { read, write }, &io.stream.readiness);
        self.tell_urgency(io);
    }

    /// Whether a subscriber works on a message then.
    pub(super) fn is_busy(&self, at: Nanos) -> bool {
        self.busy_until > at
    }

    fn encode_waiting(&mut self, io: &mut Io, events: &mut Vec<Event>) {
        self.out.tidy();
        let Client::Device(device) = self.client else { return };
        while self.state == State::Ready && !self.out.is_full() && self.session.may_publish() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic_name.clear();
            io.contents.render_topic(device, sequence, &mut io.topic_name);
            let begin = self.out.bytes().len();
            let user = io.contents.user_properties(device, sequence);
            match self.session.publish(sequence, &io.topic_name, &io.content, &user, self.out.bytes()) {
                Ok(()) => self.out.mark(begin, sequence, io.content.len()),
                Err(reason) => {
                    let at = io.stream.clock.now();
                    events.push(Event::Refused { device, sequence, at, reason });
                }
            }
        }
    }

    fn report_sent(&mut self, events: &mut Vec<Event>) {
        let Client::Device(device) = self.client else { return };
        while let Some(mark) = self.out.next_taken() {
            events.extend(mark.sent(device, self.last_write));
        }
    }

    /// Hands to the kernel what has come over the emulated network by now; whether the kernel took not all of it.
    fn pass_on(&mut self, io: &mut Io) -> Result<bool, Errno> {
        let Some(link) = self.link.as_mut().filter(|_| self.stream.is_there()) else { return Ok(false) };
        let now = io.stream.clock.now();
        while let Some(mut chunk) = link.up.arrived(now) {
            let count = self.stream.write(&chunk.bytes, &mut io.stream.traffic)?;
            if count < chunk.bytes.len() {
                chunk.bytes.drain(..count);
                link.up.put_back(chunk);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops what has not begun to be sent and reports what has.
    pub fn withdraw(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.queue.clear();
        let Client::Device(device) = self.client else { return };
        let sealed = self.sealed();
        self.out.withdraw(sealed, |sequence| self.session.withdraw(sequence));
        self.out.report_begun(device, now, events);
    }

    /// Bytes of `out` beyond those taken that cannot be called back.
    pub(super) fn sealed(&self) -> usize {
        // What goes over an emulated network has left `out` before it is secured.
        if self.link.is_none() { self.stream.sealed() } else { 0 }
    }
}
