//! One device's connection: TCP, TLS where there is, the WebSocket, its messages and their answers.

use super::unanswered::Unanswered;
use super::{Io, Timer};
use crate::driver::{Client, Event, Traffic};
use crate::drivers::layers::websocket::WebSocket;
use crate::drivers::layers::{Layers, hand_over};
use crate::drivers::outgoing::Outgoing;
use crate::drivers::readiness::data;
use crate::drivers::socket::{Interest, Socket};
use crate::refusal;
use plimsoll_codec::websocket::header_length;
use plimsoll_model::Nanos;
use plimsoll_stats::distribution::random;
use rustix::event::epoll::EventFlags;
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::sync::Arc;

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
    socket: Option<Socket>,
    /// TLS; `None` for nothing.
    layers: Option<Box<Layers>>,
    /// What this device keeps over its secured connections.
    tls: Option<Arc<ClientConfig>>,
    websocket: Option<WebSocket>,
    /// Tells events of this socket from those of the one before.
    generation: u32,
    interest: Interest,
    /// Messages that wait for the connection or the socket.
    queue: VecDeque<u32>,
    out: Outgoing,
    unanswered: Unanswered,
    /// Whether a timer looks after the oldest unanswered message.
    watched: bool,
    /// What came of a message that is not whole yet.
    partial: Vec<u8>,
    began: Nanos,
    pause: Nanos,
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
    /// A device that was never connected; `first_pause` is that before connecting again.
    pub fn new(number: u32, first_pause: Nanos) -> Device {
        Device {
            number,
            state: State::Idle,
            socket: None,
            layers: None,
            tls: None,
            websocket: None,
            generation: 0,
            interest: Interest { read: true, write: true },
            queue: VecDeque::new(),
            out: Outgoing::default(),
            unanswered: Unanswered::default(),
            watched: false,
            partial: Vec::new(),
            began: Nanos::ZERO,
            pause: first_pause,
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
            io.timers.set(io.clock.now(), slot, Timer::Reconnect);
        }
        idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, io: &mut Io) -> bool {
        let was_ready = self.state == State::Ready;
        self.goodbye();
        self.queue.clear();
        self.unanswered.abandon().for_each(drop);
        self.pause = io.pauses.0;
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
        self.out.report_begun(self.number, io.clock.now(), events);
        // An answer that is still to come would be taken for one to a message of the next level.
        if self.state == State::Ready && self.unanswered.goes_by_order() {
            let reason = "messages were not answered before their level was closed, and answers without markers are \
                          told apart by their order alone";
            self.failed(slot, reason.into(), io, events);
        }
    }

    /// Bytes of `out` beyond those taken that cannot be called back.
    fn sealed(&self) -> usize {
        self.layers.as_ref().map_or(0, |layers| layers.sealed())
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
                if at >= self.began + io.connect_timeout {
                    let reason = format!("{what} within {}", io.connect_timeout);
                    self.failed(slot, reason, io, events);
                }
            }
            Timer::Answer => self.give_up_overdue(slot, io, events),
        }
    }

    /// Gives up messages that wait too long for their answers: where those have markers, they alone.
    fn give_up_overdue(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.watched = false;
        let (at, device, by_order) = (io.clock.now(), self.number, self.unanswered.goes_by_order());
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
        self.began = io.clock.now();
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Connecting;
        self.interest = Interest { read: true, write: true };
        if self.tls.is_none() {
            match io.transport.of_client(Client::Device(self.number)) {
                Ok(config) => self.tls = config,
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        }
        match io.transport.layers(self.tls.as_ref(), (self.number, self.generation)) {
            Ok(layers) => self.layers = layers,
            Err(reason) => return self.failed(slot, reason, io, events),
        }
        let masks = random(io.seed, &[MASKS, u64::from(self.number), u64::from(self.generation)]);
        self.websocket = Some(WebSocket::new(masks, None));
        let opened = Socket::connect(io.address, io.sources.of(self.number)).and_then(|socket| {
            socket.register(io.readiness.epoll(), data(slot, self.generation), self.interest)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.socket = Some(socket);
                self.tell_urgency(io);
                io.timers.set(self.began + io.connect_timeout, slot, Timer::ConnectTimeout);
            }
            Err(error) => self.failed(slot, refusal::told(error), io, events),
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
                    self.state = State::Securing;
                }
                None => self.ask(io),
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
            let Some(socket) = &self.socket else { return };
            if self.out.is_empty() || matches!(self.state, State::Connecting | State::Securing) {
                break;
            }
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.clock.now();
            match hand_over(self.out.rest(), socket, self.layers.as_deref_mut(), &mut io.traffic) {
                Ok(0) => break,
                Ok(count) => {
                    self.out.take(count);
                    self.report_sent(at, events);
                }
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
            }
        }
        if let (Some(layers), Some(socket)) = (&mut self.layers, &self.socket)
            && let Err(error) = layers.flush(socket, &mut io.traffic)
        {
            return self.failed(slot, format!("cannot send: {error}"), io, events);
        }
        self.watch(slot, io);
        let below = self.layers.as_ref().is_some_and(|layers| layers.is_waiting());
        let write = self.state == State::Connecting || below || !self.out.is_empty();
        // A platform that does not take our answers to its pings gets none of them read.
        let read = !self.out.is_stuck();
        self.out.tidy();
        self.want(slot, Interest { read, write }, io);
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

    fn want(&mut self, slot: u32, interest: Interest, io: &Io) {
        if interest != self.interest {
            if let Some(socket) = &self.socket {
                // Fails only for a socket that is not registered, which ours is.
                let _ = socket.modify(io.readiness.epoll(), data(slot, self.generation), interest);
            }
            self.interest = interest;
        }
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = !self.queue.is_empty() || !self.out.is_empty() || self.state != State::Ready;
        io.readiness.tell_urgency(&mut self.urgent, waits && self.socket.is_some());
    }

    fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        for _ in 0..READINGS {
            let Some(socket) = &self.socket else { return };
            let mut scratch = std::mem::take(&mut io.scratch);
            let outcome = match socket.read(&mut scratch) {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => {
                    Err(self.lost("the platform closed the connection".into()))
                }
                Ok(Some(reading)) => {
                    let (at, lag) = io.readiness.received(io.clock.now(), reading.lag);
                    io.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    self.take_in(bytes, at, lag, io, events).map(|()| reading.length == scratch.len())
                }
                Err(error) => Err(self.lost(format!("connection lost: {error}"))),
            };
            io.scratch = scratch;
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
        let Some(layers) = &mut self.layers else { return self.frames(bytes, at, lag, io, events) };
        let mut clear = std::mem::take(&mut io.clear);
        clear.clear();
        let taken = layers.incoming(bytes, at, &mut clear);
        if let Ok(Some(handshake)) = taken {
            events.push(Event::Secured { took: handshake.took, resumed: handshake.resumed });
        }
        if self.state == State::Securing && layers.is_open() {
            self.ask(io);
        }
        // What came before the end may have been an answer.
        let read = self.frames(&clear, at, lag, io, events);
        io.clear = clear;
        taken.map(drop).and(read)
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
        let Io { contents, tag, wanted, traffic, .. } = &mut *io;
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
                traffic.answers.add(header_length(length, false) + length, length);
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
            self.pause = io.pauses.0;
            let again = std::mem::replace(&mut self.was_ready, true);
            let ready = Event::Ready { client: Client::Device(device), took: at - self.began, again };
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
        if self.state == State::Ready
            && let (Some(websocket), Some(socket)) = (&mut self.websocket, &self.socket)
            && self.out.is_empty()
        {
            websocket.close(self.out.bytes());
            // The platform learns of the end by the closed connection all the same.
            let mut traffic = Traffic::default();
            let _ = hand_over(self.out.rest(), socket, self.layers.as_deref_mut(), &mut traffic);
            if let Some(layers) = &mut self.layers {
                layers.close();
                let _ = layers.flush(socket, &mut traffic);
            }
        }
        self.close();
        self.state = State::Idle;
    }

    /// Forgets the connection and what was on its way.
    fn close(&mut self) {
        // Closing the descriptor takes it out of the epoll set.
        self.socket = None;
        self.layers = None;
        self.websocket = None;
        self.out.clear();
        self.partial = Vec::new();
    }

    /// The connection is no more: what was in flight is given up, and the device tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let (at, device, was_ready) = (io.clock.now(), self.number, self.state == State::Ready);
        // Encoded but not sent: it waits again, in front.
        let sealed = self.sealed();
        self.out.withdraw(sealed, |sequence| self.queue.push_front(sequence));
        for mark in self.out.take_marks() {
            events.extend(mark.sent(device, at));
            events.push(Event::Abandoned { device, sequence: mark.sequence, at });
        }
        events.extend(self.unanswered.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
        if let Some(socket) = &self.socket {
            // The last words: the answer to a close, or what was wrong with TLS.
            let _ = hand_over(self.out.rest(), socket, self.layers.as_deref_mut(), &mut io.traffic);
            if let Some(layers) = &mut self.layers {
                let _ = layers.flush(socket, &mut io.traffic);
            }
        }
        self.close();
        self.tell_urgency(io);
        let client = Client::Device(device);
        if was_ready {
            events.push(Event::Disconnected { client, at, reason });
        } else {
            events.push(Event::ConnectFailed { client, reason, lasting: false });
        }
        if self.was_ready {
            let pause = Nanos::from_secs_f64(self.pause.as_secs_f64() * (0.5 + 0.5 * io.random.fraction()));
            self.pause = (self.pause * 2).min(io.pauses.1);
            self.state = State::Waiting;
            io.timers.set(at + pause, slot, Timer::Reconnect);
        } else {
            self.state = State::Idle;
        }
    }
}
