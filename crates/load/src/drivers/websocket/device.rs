//! One device's connection: TCP, TLS where there is, the WebSocket, its messages and their answers.

use super::unanswered::Unanswered;
use super::{Io, Timer};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::socket::Interest;
use crate::drivers::stream::layers::websocket::WebSocket;
use crate::drivers::stream::outgoing::Outgoing;
use crate::drivers::stream::{Backoff, Stream};
use plimsoll_codec::websocket::header_length;
use plimsoll_model::Nanos;
use plimsoll_stats::distribution::random;
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;

/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// Largest message that a platform may send us, twice the largest content of a scenario; a longer one is a lie or an
/// attack, and would have to be kept in memory until it is whole.
const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;
/// Distinguishes the random numbers of masks from others.
const MASKS: u64 = 0x706c_6169_6e77_7300;
/// Who receives what answers nothing: no subscriber.
const NOBODY: u32 = u32::MAX;

/// A device and what it is doing.
pub struct Device {
    number: u32,
    state: State,
    /// TCP, and TLS where there is.
    stream: Stream,
    websocket: Option<WebSocket>,
    /// Messages that wait for the connection or the socket.
    queue: VecDeque<u32>,
    out: Outgoing,
    unanswered: Unanswered,
    /// Whether a timer looks after the oldest unanswered message.
    watched: bool,
    /// What came of a message that is not whole yet.
    partial: Vec<u8>,
    backoff: Backoff,
    was_ready: bool,
    dirty: bool,
    /// Counted among those whose next step waits for the platform.
    urgent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// TCP.
    Connecting,
    /// TLS.
    Securing,
    /// The request for a WebSocket.
    Asking,
    Ready,
    Waiting,
}

impl Device {
    /// A device that was never connected; `pauses` are those before connecting again.
    pub fn new(number: u32, pauses: (Nanos, Nanos)) -> Device {
        Device {
            number,
            state: State::Idle,
            stream: Stream::default(),
            websocket: None,
            queue: VecDeque::new(),
            out: Outgoing::default(),
            unanswered: Unanswered::default(),
            watched: false,
            partial: Vec::new(),
            backoff: Backoff::new(pauses),
            was_ready: false,
            dirty: false,
            urgent: false,
        }
    }

    /// Connects at the driver's next look at its timers; `false` where it does or did so already.
    pub fn schedule_connect(&mut self, slot: u32, io: &mut Io) -> bool {
        let idle = self.state == State::Idle;
        if idle {
            self.state = State::Waiting;
            io.timers.set(io.stream.clock.now(), slot, Timer::Reconnect);
        }
        idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, io: &mut Io) -> bool {
        let was_ready = self.state == State::Ready;
        self.goodbye();
        self.queue.clear();
        self.unanswered.abandon().for_each(drop);
        self.backoff = Backoff::new(io.stream.pauses);
        self.was_ready = false;
        self.tell_urgency(io);
        was_ready
    }

    pub fn submit(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        self.queue.push_back(sequence);
        if self.state == State::Ready && !self.dirty {
            self.dirty = true;
            io.dirty.push(slot);
        }
    }

    /// Drops what has not begun to be sent and reports what has.
    pub fn withdraw(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.queue.clear();
        let sealed = self.sealed();
        self.out.withdraw(sealed, drop);
        self.out.report_begun(self.number, io.stream.clock.now(), events);
        // An answer that is still to come would be taken for one to a message of the next level.
        if self.state == State::Ready && self.unanswered.goes_by_order() {
            let reason = "messages were not answered before their level was closed, and answers without markers are \
                          distinguished by their order alone";
            self.failed(slot, reason.into(), io, events);
        }
    }

    /// Bytes of `out` beyond those taken that cannot be called back.
    fn sealed(&self) -> usize {
        self.stream.sealed()
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match timer {
            Timer::Reconnect if self.state == State::Waiting => self.open(slot, io, events),
            Timer::Reconnect => {}
            Timer::ConnectTimeout => {
                let what = match self.state {
                    State::Connecting => "no TCP connection",
                    State::Securing => {
                        "the TCP connection was accepted but its handshake was not answered in full"
                    }
                    State::Asking => {
                        "the TCP connection was accepted but the WebSocket request was not answered"
                    }
                    State::Idle | State::Ready | State::Waiting => return,
                };
                if at >= self.stream.began() + io.stream.timeout {
                    let reason = format!("{what} within {}", io.stream.timeout);
                    self.failed(slot, reason, io, events);
                }
            }
            Timer::Answer => self.give_up_overdue(slot, io, events),
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
        self.state = State::Connecting;
        let opened = self.stream.open(slot, (Client::Device(self.number), self.number), &mut io.stream);
        let masks = random(io.seed, &[MASKS, u64::from(self.number), u64::from(self.stream.generation())]);
        self.websocket = Some(WebSocket::new(masks, None));
        match opened {
            Ok(()) => {
                self.tell_urgency(io);
                let timeout = self.stream.began() + io.stream.timeout;
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
        if !self.stream.is_of(generation) {
            return;
        }
        if self.state == State::Connecting {
            match self.stream.connected(io.stream.clock.now()) {
                Ok(true) => self.state = State::Securing,
                Ok(false) => self.ask(io),
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
        }
        self.send(slot, io, events);
    }

    /// What lies under the WebSocket is connected.
    fn ask(&mut self, io: &Io) {
        self.state = State::Asking;
        if let Some(websocket) = &self.websocket {
            websocket.request(&io.wanted, self.out.bytes());
        }
    }

    /// Sends what connection and socket allow.
    pub fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.dirty = false;
        loop {
            self.encode_waiting(io);
            if !self.stream.is_there() {
                return;
            }
            if self.out.is_empty() || matches!(self.state, State::Connecting | State::Securing) {
                break;
            }
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.stream.clock.now();
            match self.stream.write(self.out.rest(), &mut io.stream.traffic) {
                Ok(0) => break,
                Ok(count) => {
                    self.out.take(count);
                    self.report_sent(at, events);
                }
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
            }
        }
        if let Err(error) = self.stream.flush(&mut io.stream.traffic) {
            return self.failed(slot, format!("cannot send: {error}"), io, events);
        }
        self.watch(slot, io);
        let write = self.state == State::Connecting || self.stream.is_waiting() || !self.out.is_empty();
        // A platform that does not take our answers to its pings gets none of them read.
        let read = !self.out.is_stuck();
        self.out.tidy();
        self.stream.want(slot, Interest { read, write }, &io.stream.readiness);
        self.tell_urgency(io);
    }

    fn encode_waiting(&mut self, io: &mut Io) {
        self.out.tidy();
        let Some(websocket) = &mut self.websocket else { return };
        while self.state == State::Ready && !self.out.is_full() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.render(self.number, sequence, &mut io.content);
            let begin = self.out.bytes().len();
            websocket.message(io.opcode, &io.content, self.out.bytes());
            self.out.mark(begin, sequence, io.content.len());
        }
    }

    fn report_sent(&mut self, at: Nanos, events: &mut Vec<Event>) {
        while let Some(mark) = self.out.next_taken() {
            events.extend(mark.sent(self.number, at));
            self.unanswered.sent(mark.sequence, at);
        }
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = !self.queue.is_empty() || !self.out.is_empty() || self.state != State::Ready;
        io.stream.readiness.tell_urgency(&mut self.urgent, waits && self.stream.is_there());
    }

    fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        for _ in 0..READINGS {
            if !self.stream.is_there() {
                return;
            }
            let mut scratch = std::mem::take(&mut io.stream.scratch);
            let outcome = match self.stream.read(&mut scratch) {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => {
                    Err(self.lost("the platform closed the connection".into()))
                }
                Ok(Some(reading)) => {
                    let (at, lag) = io.stream.readiness.received(io.stream.clock.now(), reading.lag);
                    io.stream.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    self.take_in(bytes, at, lag, io, events).map(|()| reading.length == scratch.len())
                }
                Err(error) => Err(self.lost(format!("connection lost: {error}"))),
            };
            io.stream.scratch = scratch;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        }
    }

    /// Why a connection was lost, and what may be behind it.
    fn lost(&self, what: String) -> String {
        match self.state {
            State::Securing | State::Asking => {
                format!("{what}, before there was a WebSocket; is it the port for this kind of address?")
            }
            _ => what,
        }
    }

    /// Takes TLS off the bytes that came, where there is.
    fn take_in(
        &mut self,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        if !self.stream.is_layered() {
            return self.frames(bytes, at, lag, io, events);
        }
        let mut clear = std::mem::take(&mut io.stream.clear);
        clear.clear();
        let taken = self.stream.unwrap(bytes, at, &mut clear, events);
        if self.state == State::Securing && self.stream.is_open() {
            self.ask(io);
        }
        // What came before the end may have been an answer.
        let read = self.frames(&clear, at, lag, io, events);
        io.stream.clear = clear;
        taken.and(read)
    }

    fn frames(
        &mut self,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let Some(websocket) = &mut self.websocket else { return Ok(()) };
        let (device, unanswered) = (self.number, &mut self.unanswered);
        let Io { contents, tag, wanted, stream, .. } = &mut *io;
        let mut taker = |_, content: &mut Vec<u8>| {
            let marker = contents.marker(content).filter(|marker| marker.run == *tag);
            let answered = match marker {
                Some(marker) if marker.device == device => unanswered.answered(Some(marker.sequence)),
                // Somebody else's.
                Some(_) => None,
                None => unanswered.answered(None),
            };
            if answered.is_some() {
                let length = content.len();
                stream.traffic.answers.add(header_length(length, false) + length, length);
            }
            events.push(match answered {
                Some(sequence) => Event::Acknowledged { device, sequence, at },
                None => Event::Received {
                    subscriber: NOBODY,
                    marker: None,
                    at,
                    lag,
                    retained: false,
                    content: content.len() as u32,
                },
            });
            content.clear();
            Ok(())
        };
        let read = websocket.incoming(wanted, bytes, &mut self.partial, self.out.bytes(), &mut taker);
        if self.state == State::Asking && websocket.is_open() {
            self.state = State::Ready;
            self.backoff = Backoff::new(io.stream.pauses);
            let again = std::mem::replace(&mut self.was_ready, true);
            let ready =
                Event::Ready { client: Client::Device(device), took: at - self.stream.began(), again };
            events.push(ready);
        }
        read?;
        if self.partial.len() > LARGEST_MESSAGE {
            return Err(format!("a message of more than {LARGEST_MESSAGE} bytes was sent to us"));
        }
        if self.partial.is_empty() && self.partial.capacity() > super::READ_SIZE {
            self.partial = Vec::new();
        }
        Ok(())
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self) {
        let is_idle = self.state == State::Ready && self.out.is_empty();
        if let Some(websocket) = self.websocket.as_mut().filter(|_| is_idle) {
            websocket.close(self.out.bytes());
            self.stream.close_with(self.out.rest(), true, &mut Traffic::default());
        }
        self.close();
        self.state = State::Idle;
    }

    /// Forgets the connection and what was on its way.
    fn close(&mut self) {
        self.stream.close();
        self.websocket = None;
        self.out.clear();
        self.partial = Vec::new();
    }

    /// The connection is no more: what was in flight is given up, and the device tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let (at, device, was_ready) = (io.stream.clock.now(), self.number, self.state == State::Ready);
        // Encoded but not sent: it waits again, in front.
        let sealed = self.sealed();
        self.out.withdraw(sealed, |sequence| self.queue.push_front(sequence));
        for mark in self.out.take_marks() {
            events.extend(mark.sent(device, at));
            events.push(Event::Abandoned { device, sequence: mark.sequence, at });
        }
        events.extend(self.unanswered.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
        // The last words: the answer to a close, or what was wrong with TLS.
        self.stream.close_with(self.out.rest(), false, &mut io.stream.traffic);
        self.close();
        self.tell_urgency(io);
        let client = Client::Device(device);
        if was_ready {
            events.push(Event::Disconnected { client, at, reason });
        } else {
            events.push(Event::ConnectFailed { client, reason, lasting: false });
        }
        if self.was_ready {
            let pause = self.backoff.next(io.stream.pauses, &mut io.random);
            self.state = State::Waiting;
            io.timers.set(at + pause, slot, Timer::Reconnect);
        } else {
            self.state = State::Idle;
        }
    }
}
