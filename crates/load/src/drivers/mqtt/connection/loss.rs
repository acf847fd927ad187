//! A lost connection: what was in flight, what waits meanwhile, how a session goes on.

use super::super::{Io, Timer};
use super::{Connection, State};
use crate::driver::{Client, Event};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Offline;

impl Connection {
    /// The connection is no more: what was in flight is given up, and the client tries again after a pause.
    pub(super) fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let at = io.stream.clock.now();
        let was_ready = self.state == State::Ready;
        let reason = io.users.hide(reason, self.client);
        let lasting = std::mem::take(&mut self.is_refused);
        if let Some(token) = self.token.take().filter(|_| lasting) {
            io.users.refuse(token);
        }
        let sealed = self.sealed();
        // The last words of TLS: they tell the platform what was wrong with it.
        self.stream.close_with(&[], false, &mut io.stream.traffic);
        if let Some(link) = &mut self.link {
            link.clear();
        }
        self.partial.clear();
        self.parsed = 0;
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        let persistent = self.session.is_persistent();
        if let Client::Device(device) = self.client {
            // Encoded but not sent: it waits again, in front.
            self.out.withdraw(sealed, |sequence| {
                self.session.withdraw(sequence);
                self.queue.push_front(sequence);
            });
            for mark in self.out.take_marks() {
                events.extend(mark.sent(device, at));
                // At QoS 0 nothing is repeated.
                if !persistent {
                    self.session.withdraw(mark.sequence);
                    events.push(Event::Abandoned { device, sequence: mark.sequence, at });
                }
            }
            if !persistent {
                events.extend(self.session.abandon().map(|sequence| Event::Abandoned {
                    device,
                    sequence,
                    at,
                }));
            }
        }
        self.out.clear();
        if persistent {
            self.session.suspend();
        } else {
            self.session.reset();
        }
        self.tell_urgency(io);
        self.put_away(io);
        let client = self.client;
        if was_ready {
            events.push(Event::Disconnected { client, at, reason });
        } else {
            events.push(Event::ConnectFailed { client, reason, lasting });
        }
        if self.was_ready {
            let pause = self.backoff.next(io.stream.pauses, &mut io.jitter);
            self.state = State::Waiting;
            io.timers.set(at + pause, slot, Timer::Reconnect);
        } else {
            self.state = State::Idle;
        }
    }

    /// Takes up a session where its last connection left it.
    pub(super) fn go_on(&mut self, io: &mut Io, events: &mut Vec<Event>) {
        let Client::Device(device) = self.client else { return };
        if self.session.begins() {
            let at = io.stream.clock.now();
            events.extend(self.session.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
            return;
        }
        for (id, message) in self.session.unanswered() {
            let sequence = message.sequence;
            if message.released {
                self.session.release_again(id, self.out.bytes());
                continue;
            }
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic_name.clear();
            io.contents.render_topic(device, sequence, &mut io.topic_name);
            let user = io.contents.user_properties(device, sequence);
            let repeated =
                self.session.repeat((id, sequence), &io.topic_name, &io.content, &user, self.out.bytes());
            if let Err(reason) = repeated {
                events.push(Event::Refused { device, sequence, at: io.stream.clock.now(), reason });
            }
        }
    }

    /// Without a connection: keeps as much of what waits as the scenario says.
    pub(super) fn put_away(&mut self, io: &mut Io) {
        let Client::Device(device) = self.client else { return };
        let kept = match io.connection.offline {
            Offline::Buffer => return,
            Offline::Drop => 0,
            Offline::KeepLatest => 1,
        };
        let dropped = self.queue.len().saturating_sub(kept);
        io.put_away.extend(self.queue.drain(..dropped).map(|sequence| (device, sequence)));
    }
}
