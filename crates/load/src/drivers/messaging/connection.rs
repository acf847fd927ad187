//! One client's connection: a socket, a session, what waits to be sent.

mod branching;
mod receiving;

use super::branches::Notice;
use super::session::{Outgoing, Session};
use super::{Io, Timer};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::socket::Interest;
use crate::drivers::stream::outgoing::Outgoing as Encoded;
use crate::drivers::stream::{Backoff, Stream};
use branching::Branching;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Offline;
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// How often the platform may send a client that connects to another server.
const MOST_TURNS: u32 = 4;
/// A platform that holds messages back for less is not complained of: to let more go takes a round trip.
const SHORT_HOLD: Nanos = Nanos::from_millis(10);

/// A client and what it is doing.
pub struct Connection<S> {
    client: Client,
    /// How it belongs with others of the client.
    branching: Option<Box<Branching<S>>>,
    state: State,
    stream: Stream,
    session: S,
    /// Messages that wait for the connection, the window or the socket.
    queue: VecDeque<u32>,
    /// Since when the platform holds them back, and by what.
    held: Option<(Nanos, &'static str)>,
    out: Encoded,
    /// What came of a frame whose end has not, and how much of it was handled before.
    partial: Vec<u8>,
    parsed: usize,
    /// When `partial` was read, and how long it had been in the kernel then.
    partial_at: Nanos,
    partial_lag: Option<Nanos>,
    /// When the platform let the client in.
    accepted: Option<Nanos>,
    last_write: Nanos,
    ping_sent: Option<Nanos>,
    /// When something came last.
    last_heard: Nanos,
    /// Bytes of a delivery's content that came in earlier frames.
    came_before: usize,
    /// The last message that was given to this connection.
    last: Option<u32>,
    /// Up to which message a ping asks for arrival, and how many answers to earlier pings come before that.
    asked: Option<(u32, u32)>,
    keep_alive_at: Nanos,
    /// When the session is woken.
    wake_at: Nanos,
    backoff: Backoff,
    /// How often the platform has sent the client to another server since it began to connect.
    turns: u32,
    was_ready: bool,
    busy_until: Nanos,
    is_dirty: bool,
    /// Counted among those whose next step waits for the platform.
    is_urgent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// TCP.
    Connecting,
    /// What lies between TCP and the session.
    Layering,
    /// The session.
    Opening,
    Ready,
    Waiting,
}

impl<S: Session> Connection<S> {
    /// A client that was never connected; `pauses` are those before connecting again.
    pub fn new(client: Client, session: S, pauses: (Nanos, Nanos)) -> Connection<S> {
        Connection {
            client,
            branching: None,
            state: State::Idle,
            stream: Stream::default(),
            session,
            queue: VecDeque::new(),
            held: None,
            out: Encoded::default(),
            partial: Vec::new(),
            parsed: 0,
            partial_at: Nanos::ZERO,
            partial_lag: None,
            accepted: None,
            last_write: Nanos::ZERO,
            ping_sent: None,
            last_heard: Nanos::ZERO,
            came_before: 0,
            last: None,
            asked: None,
            keep_alive_at: Nanos::ZERO,
            wake_at: Nanos::MAX,
            backoff: Backoff::new(pauses),
            turns: 0,
            was_ready: false,
            busy_until: Nanos::ZERO,
            is_dirty: false,
            is_urgent: false,
        }
    }

    /// Whether the client is connected and let in.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Connects at the driver's next look at its timers; `false` where it does or did so already.
    pub fn schedule_connect(&mut self, slot: u32, io: &mut Io) -> bool {
        let is_idle = self.state == State::Idle;
        if is_idle {
            self.state = State::Waiting;
            io.timers.set(io.stream.clock.now(), slot, Timer::Reconnect);
        }
        is_idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, io: &mut Io) -> bool {
        let was_ready = self.state == State::Ready;
        self.goodbye(false);
        self.queue.clear();
        self.forget_connection(io);
        self.session.abandon();
        self.backoff = Backoff::new(io.stream.pauses);
        self.was_ready = false;
        self.tell_urgency(io);
        was_ready
    }

    /// Says goodbye as well as the socket lets it, and closes. `ends` is whether the run does.
    pub fn goodbye(&mut self, ends: bool) {
        if self.state == State::Ready && self.out.is_empty() {
            self.session.goodbye(ends, self.out.bytes());
            self.stream.close_with(self.out.rest(), true, &mut Traffic::default());
        }
        self.stream.close();
        self.state = State::Idle;
    }

    pub fn submit(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        self.queue.push_back(sequence);
        self.last = Some(sequence);
        match self.state {
            State::Ready => self.soil(slot, io),
            _ => self.put_away(io),
        }
    }

    /// Sends a ping behind all that was sent, whose answer shows that it was read; whether that is possible.
    pub fn ask_for_arrival(&mut self, slot: u32, io: &mut Io) -> bool {
        let Some(last) = self.last.filter(|_| self.state == State::Ready) else { return false };
        self.asked = Some((last, u32::from(self.ping_sent.is_some())));
        self.session.ping(self.out.bytes());
        self.soil(slot, io);
        true
    }

    /// It has something to send at the driver's next turn.
    fn soil(&mut self, slot: u32, io: &mut Io) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            io.dirty.push(slot);
        }
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match timer {
            Timer::Reconnect if self.state == State::Waiting => self.open(slot, io, events),
            Timer::ConnectTimeout if at >= self.stream.began() + io.stream.timeout => {
                let what = match self.state {
                    State::Connecting => "no TCP connection".to_owned(),
                    State::Layering => {
                        "the TCP connection was accepted but its handshake was not answered in full"
                            .to_owned()
                    }
                    State::Opening => {
                        format!("the TCP connection was accepted but {} did not come", self.session.awaited())
                    }
                    State::Idle | State::Ready | State::Waiting => return,
                };
                let is_silent = self.state != State::Connecting && self.last_heard < self.stream.began();
                self.failed(slot, io.stream.late(&what, is_silent), false, io, events);
            }
            // A timer of an earlier connection would start a second row of them.
            Timer::KeepAlive if self.state == State::Ready && at == self.keep_alive_at => {
                self.keep_alive(slot, io, events);
            }
            Timer::Wake if at == self.wake_at && matches!(self.state, State::Opening | State::Ready) => {
                self.wake_at = Nanos::MAX;
                self.session.wake(self.out.bytes());
                self.note_branches(slot, io);
                self.send(slot, io, events);
                self.plan_waking(slot, io.stream.clock.now(), io);
            }
            Timer::WorkDone
                if matches!(self.state, State::Opening | State::Ready) && at >= self.busy_until =>
            {
                self.busy_until = Nanos::ZERO;
                let now = io.stream.clock.now();
                // What the platform said meanwhile was not read: that is no silence of it.
                self.last_heard = now;
                let lag = self.partial_lag.map(|lag| lag + (now - self.partial_at));
                self.parse(slot, &[], now, lag, io, events);
                self.note_branches(slot, io);
                self.send(slot, io, events);
            }
            _ => {}
        }
    }

    /// Wakes the session when it wants that, as it stands then.
    fn plan_waking(&mut self, slot: u32, now: Nanos, io: &mut Io) {
        let wanted = self.session.wakes_after().filter(|_| self.stream.is_there());
        let Some(at) = wanted.map(|after| now + after) else { return };
        if at < self.wake_at {
            self.wake_at = at;
            io.timers.set(at, slot, Timer::Wake);
        }
    }

    /// Goes on with another server of the platform.
    fn turn_to(&mut self, slot: u32, address: SocketAddr, io: &mut Io, events: &mut Vec<Event>) {
        self.turns += 1;
        let reason = match self.state {
            State::Ready => Some("another server of the platform has taken over"),
            _ if self.turns > MOST_TURNS => Some("the platform sends the client from server to server"),
            _ => None,
        };
        if let Some(reason) = reason {
            return self.failed(slot, reason.to_owned(), false, io, events);
        }
        self.stream.close();
        self.forget_connection(io);
        self.open_at(slot, address, io, events);
    }

    fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.turns = 0;
        self.open_at(slot, io.stream.address, io, events);
    }

    pub(super) fn open_at(&mut self, slot: u32, address: SocketAddr, io: &mut Io, events: &mut Vec<Event>) {
        self.accepted = None;
        self.state = State::Connecting;
        let number = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(subscriber) => io.population.saturating_add(subscriber),
        };
        match self.stream.open_at(slot, (self.client, number), address, &mut io.stream) {
            Ok(()) => {
                if S::BEGINS_IN_CLEAR {
                    self.stream.hold_layers();
                }
                self.tell_urgency(io);
                let timeout = self.stream.began() + io.stream.timeout;
                io.timers.set(timeout, slot, Timer::ConnectTimeout);
            }
            Err(reason) => self.failed(slot, reason, false, io, events),
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
                Ok(false) => self.begin(),
                Err(reason) => return self.failed(slot, reason, false, io, events),
            }
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
            self.note_branches(slot, io);
        }
        self.send(slot, io, events);
    }

    /// What lies under the session is connected.
    fn begin(&mut self) {
        self.state = State::Opening;
        self.session.begin(self.out.bytes());
    }

    /// Before a connection is given up that is there. It may be gone by that.
    fn say_last_words(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let before = self.out.bytes().len();
        self.session.last_words(self.out.bytes());
        if self.out.bytes().len() > before {
            self.send(slot, io, events);
        }
    }

    fn became_ready(&mut self, slot: u32, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Ready;
        self.backoff = Backoff::new(io.stream.pauses);
        self.ping_sent = None;
        self.schedule_keep_alive(slot, at, io);
        if let Some(of) = self.trunk() {
            return io.notices.push_back(Notice::Ready { slot, of });
        }
        let again = std::mem::replace(&mut self.was_ready, true);
        let took = self.accepted.take().unwrap_or(at) - self.stream.began();
        events.push(Event::Ready { client: self.client, took, again });
    }

    /// Sends what connection, window and socket allow.
    pub fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.is_dirty = false;
        loop {
            self.encode_waiting(io, events);
            if !self.stream.is_there() {
                return;
            }
            if self.out.is_empty() {
                if self.state == State::Ready {
                    self.session.all_sent(!self.queue.is_empty(), self.out.bytes());
                }
                if self.out.is_empty() {
                    break;
                }
            }
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.stream.clock.now();
            match self.stream.write(self.out.rest(), &mut io.stream.traffic) {
                Ok(0) => break,
                Ok(count) => {
                    self.out.take(count);
                    self.last_write = at;
                    self.report_sent(events);
                }
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), false, io, events),
            }
        }
        if let Err(error) = self.stream.flush(&mut io.stream.traffic) {
            return self.failed(slot, format!("cannot send: {error}"), false, io, events);
        }
        let write = self.state == State::Connecting || self.stream.is_waiting() || !self.out.is_empty();
        // A platform that does not take our acknowledgements gets none of its frames read.
        let is_busy = self.busy_until > Nanos::ZERO && self.is_busy(io.stream.clock.now());
        let read = !is_busy && !self.out.is_stuck();
        self.out.tidy();
        self.stream.want(slot, Interest { read, write }, &io.stream.readiness);
        self.tell_urgency(io);
    }

    /// Whether a subscriber works on a message then.
    fn is_busy(&self, at: Nanos) -> bool {
        self.busy_until > at
    }

    fn encode_waiting(&mut self, io: &mut Io, events: &mut Vec<Event>) {
        self.out.tidy();
        let Client::Device(device) = self.client else { return };
        self.encode_messages(device, io, events);
        let waits = self.state == State::Ready && !self.queue.is_empty() && !self.out.is_full();
        match (self.session.held_back().filter(|_| waits), self.held) {
            (Some(by), None) => self.held = Some((io.stream.clock.now(), by)),
            (None, Some(_)) => self.end_hold(io.stream.clock.now(), io),
            _ => {}
        }
    }

    /// What the platform has held back waits no more, or not for that.
    fn end_hold(&mut self, now: Nanos, io: &mut Io) {
        if let Some((_, by)) = self.held.take().filter(|(since, _)| now - *since >= SHORT_HOLD) {
            io.note_complaints(by.to_owned(), 1);
        }
    }

    fn encode_messages(&mut self, device: u32, io: &mut Io, events: &mut Vec<Event>) {
        while self.state == State::Ready && !self.out.is_full() && self.session.may_publish() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic.clear();
            io.contents.render_topic(device, sequence, &mut io.topic);
            let begin = self.out.bytes().len();
            let message = Outgoing { sequence, topic: &mut io.topic, content: &io.content };
            match self.session.publish(message, self.out.bytes()) {
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

    /// Drops what has not begun to be sent and reports what has.
    pub fn withdraw(&mut self, now: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        self.end_hold(now, io);
        self.queue.clear();
        let Client::Device(device) = self.client else { return };
        self.out.withdraw(self.stream.sealed(), |sequence| self.session.withdraw(sequence));
        self.out.report_begun(device, now, events);
    }

    fn schedule_keep_alive(&mut self, slot: u32, from: Nanos, io: &mut Io) {
        self.keep_alive_at = from + self.session.keep_alive();
        io.timers.set(self.keep_alive_at, slot, Timer::KeepAlive);
    }

    /// Asks after a long silence whether the platform is there, and gives the connection up when it is not.
    fn keep_alive(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let (now, interval) = (io.stream.clock.now(), self.session.keep_alive());
        let silent = |sent: &Nanos| now - (*sent).max(self.last_heard) >= self.session.patience();
        if let Some(sent) = self.ping_sent.filter(silent).filter(|_| !self.is_busy(now)) {
            let reason =
                format!("nothing came from the platform, and a ping was not answered within {}", now - sent);
            return self.failed(slot, reason, false, io, events);
        }
        if now - self.last_write >= interval && self.ping_sent.is_none() {
            self.ping_sent = Some(now);
            self.session.ping(self.out.bytes());
            self.send(slot, io, events);
            return self.schedule_keep_alive(slot, now, io);
        }
        let next = self.ping_sent.map_or(self.last_write, |_| now);
        self.schedule_keep_alive(slot, next.max(now - interval + Nanos(1)), io);
    }

    /// The connection is no more: what was in flight is given up, and a client that was ready before tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, lasting: bool, io: &mut Io, events: &mut Vec<Event>) {
        let at = io.stream.clock.now();
        let was_ready = self.state == State::Ready;
        let sealed = self.stream.sealed();
        // The last words of TLS: they tell the platform what was wrong with it.
        self.stream.close_with(&[], false, &mut io.stream.traffic);
        if let Client::Device(device) = self.client {
            // Encoded but not sent: it waits again, in front.
            self.out.withdraw(sealed, |sequence| {
                self.session.withdraw(sequence);
                self.queue.push_front(sequence);
            });
            for mark in self.out.take_marks() {
                events.extend(mark.sent(device, at));
                self.session.withdraw(mark.sequence);
                events.push(Event::Abandoned { device, sequence: mark.sequence, at });
            }
            let mut given_up = self.session.abandon();
            given_up.sort_unstable();
            let abandoned = |sequence| Event::Abandoned { device, sequence, at };
            events.extend(given_up.into_iter().map(abandoned));
        } else {
            self.session.abandon();
        }
        self.forget_connection(io);
        self.state = State::Idle;
        self.tell_urgency(io);
        if let Some(of) = self.trunk() {
            return io.notices.push_back(Notice::Failed { slot, of, reason, lasting });
        }
        self.put_away(io);
        let client = self.client;
        events.push(match was_ready {
            true => Event::Disconnected { client, at, reason },
            false => Event::ConnectFailed { client, reason, lasting },
        });
        if self.was_ready {
            let pause = self.backoff.next(io.stream.pauses, &mut io.random);
            self.state = State::Waiting;
            io.timers.set(at + pause, slot, Timer::Reconnect);
        }
    }

    /// Nothing of what came or was to go over the last connection holds for the next.
    fn forget_connection(&mut self, io: &mut Io) {
        self.end_branches(io);
        self.end_hold(io.stream.clock.now(), io);
        self.out.clear();
        self.partial.clear();
        self.parsed = 0;
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        self.asked = None;
        self.came_before = 0;
        self.wake_at = Nanos::MAX;
    }

    /// Without a connection: keeps as much of what waits as the scenario says.
    fn put_away(&mut self, io: &mut Io) {
        let Client::Device(device) = self.client else { return };
        let kept = match io.offline {
            Offline::Buffer => return,
            Offline::Drop => 0,
            Offline::KeepLatest => 1,
        };
        let dropped = self.queue.len().saturating_sub(kept);
        io.put_away.extend(self.queue.drain(..dropped).map(|sequence| (device, sequence)));
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = !self.queue.is_empty() || !self.out.is_empty() || self.state != State::Ready;
        io.stream.readiness.tell_urgency(&mut self.is_urgent, waits && self.stream.is_there());
    }
}
