//! One device's WebSocket: what it says at first, its messages, and what answers them.

use super::connection::{Came, Connection, State};
use super::opening::Speaker;
use super::unanswered::Unanswered;
use super::{Io, Timer};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::answers::{Answer, AnswerTo};
use crate::drivers::stream::outgoing::Mark;
use crate::drivers::whom::Whom;
use plimsoll_model::Nanos;
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;

/// Who receives what answers nothing: no subscriber.
const NOBODY: u32 = u32::MAX;
/// What an answer has whose message is not awaited.
const STRAY: &str =
    "the platform answered a message that was not awaited: with a wrong name, twice, or too late";

/// A device says each message once.
fn speaker(whom: &dyn Fn(u32) -> Whom) -> Speaker<'_> {
    Speaker { devices: 1, whom }
}

/// A device and what it is doing.
pub struct Device {
    number: u32,
    connection: Connection,
    /// The place of the message at first that is said next, or whose answer is awaited.
    place: u32,
    /// Messages that wait for the connection or the socket.
    queue: VecDeque<u32>,
    unanswered: Unanswered,
    /// Whether a timer looks after the oldest unanswered message.
    watched: bool,
    dirty: bool,
}

impl Device {
    /// A device that was never connected; `pauses` are those before connecting again.
    pub fn new(number: u32, pauses: (Nanos, Nanos), unanswered: Unanswered) -> Device {
        Device {
            number,
            connection: Connection::new(pauses),
            place: 0,
            queue: VecDeque::new(),
            unanswered,
            watched: false,
            dirty: false,
        }
    }

    fn client(&self) -> Client {
        Client::Device(self.number)
    }

    fn whom(&self) -> Whom {
        Whom { device: self.number, subscriber: 0 }
    }

    /// Connects at the driver's next look at its timers; `false` where it does or did so already.
    pub fn schedule_connect(&mut self, slot: u32, io: &mut Io) -> bool {
        let idle = self.connection.state == State::Idle;
        if idle {
            self.connection.state = State::Pausing;
            io.timers.set(io.stream.clock.now(), slot, Timer::Reconnect);
        }
        idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, io: &mut Io) -> bool {
        let was_ready = self.connection.leave(&mut io.stream);
        self.queue.clear();
        self.unanswered.abandon().for_each(drop);
        self.connection.forget(io.stream.pauses);
        was_ready
    }

    pub fn submit(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        self.queue.push_back(sequence);
        if self.connection.state == State::Ready && !self.dirty {
            self.dirty = true;
            io.dirty.push(slot);
        }
    }

    /// Drops what has not begun to be sent and reports what has.
    pub fn withdraw(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.queue.clear();
        let sealed = self.connection.sealed();
        self.connection.out.withdraw(sealed, drop);
        self.connection.out.report_begun(self.number, io.stream.clock.now(), events);
        // An answer that is still to come would be taken for one to a message of the next level.
        if self.connection.state == State::Ready && self.unanswered.goes_by_order() {
            let reason = "messages were not answered before their level was closed, and answers without markers are \
                          distinguished by their order alone";
            self.failed(slot, reason.into(), io, events);
        }
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match (timer, self.connection.state) {
            (Timer::Reconnect, State::Pausing) => self.open(slot, io, events),
            (Timer::Reconnect, _) => {}
            (Timer::ConnectTimeout, State::Idle | State::Ready | State::Pausing) => {}
            (Timer::ConnectTimeout, _) => {
                if at >= self.connection.began() + io.stream.timeout {
                    let reason = self.connection.late(io.stream.timeout);
                    self.failed(slot, reason, io, events);
                }
            }
            (Timer::Answer, _) => self.give_up_overdue(slot, io, events),
        }
    }

    /// Gives up messages that wait too long for their answers: where those have markers, they alone.
    fn give_up_overdue(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.watched = false;
        let (at, device, by_order) = (io.stream.clock.now(), self.number, self.unanswered.goes_by_order());
        let before = events.len();
        while let Some(sequence) = self.unanswered.overdue(at) {
            events.push(Event::Abandoned { device, sequence, at });
        }
        if by_order && events.len() > before {
            let reason = format!("a message was not answered within {}", super::unanswered::PATIENCE);
            return self.failed(slot, reason, io, events);
        }
        self.watch(slot, io);
    }

    /// Sees to it that somebody looks after the oldest unanswered message.
    fn watch(&mut self, slot: u32, io: &mut Io) {
        if let Some(at) = self.unanswered.next_overdue().filter(|_| !self.watched) {
            self.watched = true;
            io.timers.set(at, slot, Timer::Answer);
        }
    }

    fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.place = 0;
        let connection = self.connection.next_generation();
        let asked = io.asking.of((self.client(), self.whom()), connection, io.seed);
        match self.connection.open(slot, (self.client(), self.number), asked, &mut io.stream) {
            Ok(()) => {
                self.tell_urgency(io);
                let timeout = self.connection.began() + io.stream.timeout;
                io.timers.set(timeout, slot, Timer::ConnectTimeout);
            }
            Err(reason) => self.failed(slot, reason, io, events),
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
        if !self.connection.is_of(generation) {
            return;
        }
        let (whom, place, is_opening) = (self.whom(), self.place, self.connection.state == State::Opening);
        let (device, unanswered, token) = (self.number, &mut self.unanswered, self.connection.token);
        let (mut came, mut traffic) = (std::mem::take(&mut io.came), Traffic::default());
        let Io { contents, answers, opening, tag, wanted, stream, is_unanswered, are_acknowledged, .. } =
            &mut *io;
        let mut let_in: Option<(Nanos, Result<(), String>)> = None;
        let mut taker = |content: &mut Vec<u8>, Came { stamp: (at, lag), wire_bytes, acknowledges }: Came| {
            if is_opening && let_in.is_none() {
                let_in = opening.read(place, speaker(&|_| whom), token, content).map(|verdict| (at, verdict));
                if let_in.is_some() {
                    return;
                }
            }
            let (answered, refused) = match answers {
                _ if acknowledges.is_some() => {
                    (acknowledges.and_then(|named| unanswered.of_name(named)), None)
                }
                Some(answers) => match answers.read(device, content) {
                    Some(Answer { to, refused }) => {
                        let answered = match to {
                            AnswerTo::Sequence(named) => unanswered.of_name(named),
                            AnswerTo::Oldest => unanswered.oldest(),
                            AnswerTo::Nothing => None,
                        };
                        // What is said at first may be answered, and nobody awaits that.
                        let is_stray = answered.is_none()
                            && match to {
                                AnswerTo::Sequence(_) => true,
                                AnswerTo::Nothing => opening.awaits_all(),
                                AnswerTo::Oldest => false,
                            };
                        (answered, refused.or_else(|| is_stray.then(|| STRAY.to_owned())))
                    }
                    None => (None, None),
                },
                None if *is_unanswered || *are_acknowledged => (None, None),
                None => {
                    let marker = contents.marker(content).filter(|marker| marker.run == *tag);
                    // With the marker of another device it is somebody else's.
                    let is_ours = marker.is_none_or(|marker| marker.device == device);
                    let sequence = marker.map(|marker| marker.sequence);
                    (is_ours.then(|| unanswered.answered(sequence)).flatten(), None)
                }
            };
            // A querier's answer is about another device.
            let about = answered.and_then(|query| contents.asked_about(query));
            let about = about.map_or(whom, |device| Whom { device, ..whom });
            let refused = refused.map(|reason| opening.hide(reason, about));
            answered.into_iter().for_each(|query| contents.forget_query(query));
            if answered.is_some() {
                traffic.answers.add(wire_bytes, content.len());
            }
            came.push(match (answered, refused) {
                (Some(sequence), None) => Event::Acknowledged { device, sequence, at },
                (Some(sequence), Some(reason)) => Event::Refused { device, sequence, at, reason },
                // It refuses something, and says not what.
                (None, Some(reason)) => Event::Incident { reason },
                (None, None) => Event::Received {
                    subscriber: NOBODY,
                    marker: None,
                    at,
                    lag,
                    retained: false,
                    content: content.len() as u32,
                    partition: 0,
                },
            });
        };
        let outcome = self.connection.progress(flags, wanted, stream, events, &mut taker);
        stream.traffic += traffic;
        events.append(&mut came);
        io.came = came;
        let outcome = match (outcome, let_in) {
            (Ok(false), None) => self.unanswered.doubt().map_or(Ok(()), Err),
            (Ok(true), None) => {
                self.say_next(self.connection.opened_at(), io, events);
                Ok(())
            }
            (Ok(_), Some((at, Ok(())))) => {
                self.place += 1;
                self.say_next(at, io, events);
                Ok(())
            }
            // A platform that refuses may close at once: the refusal says more.
            (_, Some((_, Err(reason)))) | (Err(reason), _) => Err(reason),
        };
        match outcome {
            Ok(()) => self.send(slot, io, events),
            Err(reason) => self.failed(slot, reason, io, events),
        }
    }

    /// Says what is next of the messages at first, since what came at that time; after the last one, the device is ready.
    fn say_next(&mut self, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        let (client, whom) = (self.client(), self.whom());
        if io.opening.say(&mut self.place, speaker(&|_| whom), &mut self.connection) {
            events.push(self.connection.let_in(client, at, io.stream.pauses));
        }
    }

    /// Sends what connection and socket allow.
    pub fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.dirty = false;
        let outcome = loop {
            self.encode_waiting(io);
            if !self.connection.is_there() {
                return;
            }
            let (device, unanswered, is_unanswered) = (self.number, &mut self.unanswered, io.is_unanswered);
            let gone = |mark: Mark, at| {
                events.extend(mark.sent(device, at));
                if !is_unanswered {
                    unanswered.sent(mark.sequence, at);
                }
            };
            match self.connection.write(&mut io.stream, gone) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(reason) => break Err(reason),
            }
        };
        let waits = !self.queue.is_empty();
        let outcome = outcome.and_then(|()| self.connection.written(slot, waits, &mut io.stream));
        match outcome {
            Ok(()) => self.watch(slot, io),
            Err(reason) => self.failed(slot, reason, io, events),
        }
    }

    fn encode_waiting(&mut self, io: &mut Io) {
        self.connection.out.tidy();
        while self.connection.state == State::Ready && !self.connection.out.is_full() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.refresh();
            io.contents.render(self.number, sequence, &mut io.content);
            let acknowledged = io.are_acknowledged.then_some(sequence);
            self.connection.message(io.opcode, &io.content, Some(sequence), acknowledged);
        }
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        self.connection.tell_urgency(!self.queue.is_empty(), &mut io.stream);
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self, io: &mut Io) {
        self.connection.leave(&mut io.stream);
    }

    /// The connection is no more: what was in flight is given up, and the device tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let (at, device) = (io.stream.clock.now(), self.number);
        let reason = io.opening.hide(reason, self.whom());
        if let Some(token) = self.connection.refused_token() {
            io.asking.refuse(token);
        }
        // Encoded but not sent: it waits again, in front.
        let sealed = self.connection.sealed();
        self.connection.out.withdraw(sealed, |sequence| self.queue.push_front(sequence));
        for mark in self.connection.out.take_marks() {
            events.extend(mark.sent(device, at));
            events.push(Event::Abandoned { device, sequence: mark.sequence, at });
        }
        events.extend(self.unanswered.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
        let told = (self.client(), reason);
        let (told, again) = self.connection.fail(told, at, &mut io.stream, &mut io.random);
        events.push(told);
        if let Some(at) = again {
            io.timers.set(at, slot, Timer::Reconnect);
        }
    }
}
