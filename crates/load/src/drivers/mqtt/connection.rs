//! One client's connection: a socket, a session, what waits to be sent.

use super::session::{Happened, Session};
use super::socket::{Interest, Socket};
use super::{Io, Timer};
use crate::driver::{Client, Event};
use plimsoll_codec::mqtt::{QoS, packet_length};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{MqttPlan, Offline};
use rustix::event::epoll::EventFlags;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Encoded bytes beyond which further messages wait unencoded, so that they can still be withdrawn.
const OUT_LIMIT: usize = 64 * 1024;
/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// Largest packet that a platform may send us, twice the largest content of a scenario; a longer one is a lie or an
/// attack, and would have to be kept in memory until it is whole.
const LARGEST_PACKET: usize = 2 * 1024 * 1024;

/// A client and what it is doing.
pub struct Connection {
    client: Client,
    state: State,
    socket: Option<Socket>,
    /// Tells events of this socket from those of the one before.
    generation: u32,
    interest: Interest,
    session: Session,
    /// Messages that wait for the connection, the window or the socket.
    queue: VecDeque<u32>,
    out: Vec<u8>,
    written: usize,
    marks: VecDeque<Mark>,
    partial: Vec<u8>,
    /// When `partial` was read, and how long it had been in the kernel then.
    partial_at: Nanos,
    partial_lag: Option<Nanos>,
    /// When the present attempt to connect began, and when CONNACK came.
    began: Nanos,
    accepted: Option<Nanos>,
    last_write: Nanos,
    ping_sent: Option<Nanos>,
    keep_alive_at: Nanos,
    pause: Nanos,
    was_ready: bool,
    busy_until: Nanos,
    dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Connecting,
    Handshaking,
    Ready,
    Waiting,
}

/// Where in `out` a message ends.
struct Mark {
    begin: usize,
    end: usize,
    sequence: u32,
    content: u32,
    /// Already reported as sent, when its level was closed in the middle of it.
    reported: bool,
}

impl Mark {
    fn sent(&self, device: u32, at: Nanos) -> Event {
        let packet = (self.end - self.begin) as u32;
        Event::Sent { device, sequence: self.sequence, at, content: self.content, packet }
    }
}

impl Connection {
    /// A client that was never connected; `filters` are what it subscribes to.
    pub fn new(client: Client, filters: Vec<String>, subscribe_qos: QoS, mqtt: &MqttPlan) -> Connection {
        Connection {
            client,
            state: State::Idle,
            socket: None,
            generation: 0,
            interest: Interest { read: true, write: true },
            session: Session::new(client, filters, subscribe_qos, mqtt),
            queue: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            marks: VecDeque::new(),
            partial: Vec::new(),
            partial_at: Nanos::ZERO,
            partial_lag: None,
            began: Nanos::ZERO,
            accepted: None,
            last_write: Nanos::ZERO,
            ping_sent: None,
            keep_alive_at: Nanos::ZERO,
            pause: mqtt.reconnect.0,
            was_ready: false,
            busy_until: Nanos::ZERO,
            dirty: false,
        }
    }

    /// Connects at the driver's next look at its timers; `false` where it does or did so already.
    pub fn schedule_connect(&mut self, slot: u32, io: &mut Io) -> bool {
        let idle = self.state == State::Idle;
        if idle {
            self.state = State::Waiting;
            io.timers.push(Reverse((io.clock.now(), slot, Timer::Reconnect)));
        }
        idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, mqtt: &MqttPlan) -> bool {
        let was_ready = self.state == State::Ready;
        self.goodbye();
        self.queue.clear();
        self.out.clear();
        self.written = 0;
        self.marks.clear();
        self.partial.clear();
        self.session.abandon().for_each(drop);
        self.session.reset();
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        self.pause = mqtt.reconnect.0;
        self.was_ready = false;
        was_ready
    }

    pub fn submit(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        self.queue.push_back(sequence);
        if self.state != State::Ready {
            return self.put_away(io);
        }
        if !self.dirty {
            self.dirty = true;
            io.dirty.push(slot);
        }
    }

    /// Without a connection: keeps as much of what waits as the scenario says.
    fn put_away(&mut self, io: &mut Io) {
        let Client::Device(device) = self.client else { return };
        let kept = match io.mqtt.offline {
            Offline::Buffer => return,
            Offline::Drop => 0,
            Offline::KeepLatest => 1,
        };
        let dropped = self.queue.len().saturating_sub(kept);
        io.put_away.extend(self.queue.drain(..dropped).map(|sequence| (device, sequence)));
    }

    /// Drops what has not begun to be sent and reports what has.
    pub fn withdraw(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.queue.clear();
        let Client::Device(device) = self.client else { return };
        let begun = self.marks.iter().filter(|mark| mark.begin < self.written).count();
        // From the back, so that the positions of the others stay true; what stands between messages is kept.
        for withdrawn in self.marks.drain(begun..).rev() {
            self.session.withdraw(withdrawn.sequence);
            self.out.drain(withdrawn.begin..withdrawn.end);
        }
        for mark in self.marks.iter_mut().filter(|mark| !mark.reported) {
            mark.reported = true;
            events.push(mark.sent(device, now));
        }
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match timer {
            Timer::Reconnect if self.state == State::Waiting => self.open(slot, io, events),
            Timer::ConnectTimeout => {
                let waiting = matches!(self.state, State::Connecting | State::Handshaking);
                if waiting && at >= self.began + io.mqtt.connect_timeout {
                    let what = if self.state == State::Connecting {
                        "no TCP connection"
                    } else {
                        "the TCP connection was accepted but MQTT was not answered"
                    };
                    let reason = format!("{what} within {}", io.mqtt.connect_timeout);
                    self.failed(slot, reason, io, events);
                }
            }
            // A timer of an earlier connection would start a second row of them.
            Timer::KeepAlive if self.state == State::Ready && at == self.keep_alive_at => {
                self.keep_alive(slot, io, events);
            }
            Timer::WorkDone if self.state == State::Ready && at >= self.busy_until => {
                let now = io.clock.now();
                let lag = self.partial_lag.map(|lag| lag + (now - self.partial_at));
                let bytes = std::mem::take(&mut self.partial);
                self.parse(slot, &bytes, now, lag, io, events);
                self.send(slot, io, events);
            }
            _ => {}
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
                return self.failed(slot, format!("cannot connect: {error}"), io, events);
            }
            self.state = State::Handshaking;
            if let Err(reason) = self.session.connect(io.run, &mut self.out) {
                return self.failed(slot, reason, io, events);
            }
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
        }
        self.send(slot, io, events);
    }

    /// Sends what connection, window and socket allow.
    pub fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.dirty = false;
        loop {
            self.encode_waiting(io, events);
            let Some(socket) = &self.socket else { return };
            if self.written == self.out.len() {
                break;
            }
            match socket.write(&self.out[self.written..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.written += count;
                    io.traffic.sent += count as u64;
                    self.last_write = io.clock.now();
                    self.report_sent(events);
                }
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
            }
        }
        let waiting = self.out.len() - self.written;
        let write = waiting > 0 || self.state == State::Connecting;
        // A platform that does not take our acknowledgements gets none of its packets read.
        let read = self.busy_until <= io.clock.now() && waiting <= 2 * OUT_LIMIT;
        if self.marks.is_empty() && self.written > OUT_LIMIT {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.want(slot, Interest { read, write }, io);
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self) {
        if self.state == State::Ready && self.written == self.out.len() {
            self.out.clear();
            self.session.disconnect(&mut self.out);
            if let Some(socket) = &self.socket {
                // The platform learns of the end by the closed connection all the same.
                let _ = socket.write(&self.out);
            }
        }
        self.socket = None;
        self.state = State::Idle;
    }

    fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.began = io.clock.now();
        self.accepted = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Connecting;
        self.interest = Interest { read: true, write: true };
        let opened = Socket::connect(io.address).and_then(|socket| {
            socket.register(&io.epoll, self.data(slot), self.interest)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.socket = Some(socket);
                let timeout = self.began + io.mqtt.connect_timeout;
                io.timers.push(Reverse((timeout, slot, Timer::ConnectTimeout)));
            }
            Err(error) => self.failed(slot, format!("cannot connect: {error}"), io, events),
        }
    }

    fn data(&self, slot: u32) -> u64 {
        u64::from(slot) << 32 | u64::from(self.generation)
    }

    fn want(&mut self, slot: u32, interest: Interest, io: &mut Io) {
        if interest != self.interest {
            if let Some(socket) = &self.socket {
                // Fails only for a socket that is not registered, which ours is.
                let _ = socket.modify(&io.epoll, self.data(slot), interest);
            }
            self.interest = interest;
        }
    }

    fn encode_waiting(&mut self, io: &mut Io, events: &mut Vec<Event>) {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        let Client::Device(device) = self.client else { return };
        while self.state == State::Ready && self.out.len() < OUT_LIMIT && self.session.may_publish() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic_name.clear();
            io.contents.render_topic(device, sequence, &mut io.topic_name);
            let begin = self.out.len();
            match self.session.publish(sequence, &io.topic_name, &io.content, &mut self.out) {
                Ok(()) => self.marks.push_back(Mark {
                    begin,
                    end: self.out.len(),
                    sequence,
                    content: io.content.len() as u32,
                    reported: false,
                }),
                Err(reason) => {
                    let at = io.clock.now();
                    events.push(Event::Refused { device, sequence, at, reason });
                }
            }
        }
    }

    fn report_sent(&mut self, events: &mut Vec<Event>) {
        let Client::Device(device) = self.client else { return };
        while self.marks.front().is_some_and(|mark| mark.end <= self.written) {
            let Some(mark) = self.marks.pop_front() else { return };
            if !mark.reported {
                events.push(mark.sent(device, self.last_write));
            }
        }
    }

    fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        for _ in 0..READINGS {
            let Some(socket) = &self.socket else { return };
            let mut scratch = std::mem::take(&mut io.scratch);
            let reading = socket.read(&mut scratch);
            let outcome = match reading {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => {
                    Err("the platform closed the connection".to_owned())
                }
                Ok(Some(reading)) => {
                    let at = io.clock.now();
                    io.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    self.parse(slot, bytes, at, reading.lag, io, events);
                    Ok(reading.length == scratch.len())
                }
                Err(error) => Err(format!("connection lost: {error}")),
            };
            io.scratch = scratch;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        }
    }

    /// Handles every whole packet and keeps the rest.
    fn parse(
        &mut self,
        slot: u32,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(bytes);
            joined = whole;
            &joined
        };
        while self.busy_until <= at {
            let packet = match packet_length(rest) {
                Ok(Some(length)) if length > LARGEST_PACKET => {
                    let reason = format!("a packet of {length} bytes was sent to us, more than we take");
                    return self.failed(slot, reason, io, events);
                }
                Ok(Some(length)) => match rest.split_at_checked(length) {
                    Some((packet, after)) => {
                        rest = after;
                        packet
                    }
                    None => break,
                },
                Ok(None) => break,
                Err(error) => return self.failed(slot, format!("malformed packet: {error}"), io, events),
            };
            if let Err(reason) = self.packet(slot, packet, at, lag, io, events) {
                return self.failed(slot, reason, io, events);
            }
        }
        if !rest.is_empty() {
            self.partial = rest.to_vec();
            self.partial_at = at;
            self.partial_lag = lag;
        }
    }

    fn packet(
        &mut self,
        slot: u32,
        packet: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let device = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(_) => u32::MAX,
        };
        match self.session.receive(packet, &io.limits, &mut self.out)? {
            Happened::Nothing => {}
            Happened::Subscribing => self.accepted = Some(at),
            Happened::Ready => self.became_ready(slot, at, io, events),
            Happened::Acknowledged(sequence) => events.push(Event::Acknowledged { device, sequence, at }),
            Happened::Refused(sequence, reason) => {
                events.push(Event::Refused { device, sequence, at, reason })
            }
            Happened::Pong => self.ping_sent = None,
            Happened::Delivered { payload, retained } => {
                // What a platform sends to a device that never subscribed belongs to no subscriber.
                let (subscriber, marker) = match self.client {
                    Client::Subscriber(subscriber) => (subscriber, io.contents.marker(payload)),
                    Client::Device(_) => (u32::MAX, None),
                };
                let content = payload.len() as u32;
                events.push(Event::Received { subscriber, marker, at, lag, retained, content });
                if io.work > Nanos::ZERO {
                    self.busy_until = at + io.work;
                    io.timers.push(Reverse((self.busy_until, slot, Timer::WorkDone)));
                }
            }
        }
        Ok(())
    }

    fn became_ready(&mut self, slot: u32, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Ready;
        self.pause = io.mqtt.reconnect.0;
        self.ping_sent = None;
        let again = std::mem::replace(&mut self.was_ready, true);
        let took = self.accepted.take().unwrap_or(at) - self.began;
        events.push(Event::Ready { client: self.client, took, again });
        self.schedule_keep_alive(slot, at, io);
    }

    fn schedule_keep_alive(&mut self, slot: u32, from: Nanos, io: &mut Io) {
        let interval = self.session.keep_alive();
        if interval > Nanos::ZERO {
            self.keep_alive_at = from + interval;
            io.timers.push(Reverse((self.keep_alive_at, slot, Timer::KeepAlive)));
        }
    }

    fn keep_alive(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let (now, interval) = (io.clock.now(), self.session.keep_alive());
        if let Some(sent) = self.ping_sent.filter(|sent| now - *sent >= interval) {
            let reason = format!("PINGREQ was not answered within {}", now - sent);
            return self.failed(slot, reason, io, events);
        }
        if now - self.last_write >= interval && self.ping_sent.is_none() {
            self.ping_sent = Some(now);
            self.session.ping(&mut self.out);
            self.send(slot, io, events);
            return self.schedule_keep_alive(slot, now, io);
        }
        let next = self.ping_sent.unwrap_or(self.last_write);
        self.schedule_keep_alive(slot, next.max(now - interval + Nanos(1)), io);
    }

    /// The connection is no more: what was in flight is given up, and the client tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let at = io.clock.now();
        let was_ready = self.state == State::Ready;
        // Closing the descriptor takes it out of the epoll set.
        self.socket = None;
        let written = std::mem::take(&mut self.written);
        self.out.clear();
        self.partial.clear();
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        if let Client::Device(device) = self.client {
            // Encoded but not sent: it waits again, in front.
            for mark in self.marks.drain(..).rev() {
                self.session.withdraw(mark.sequence);
                if mark.begin < written {
                    if !mark.reported {
                        events.push(mark.sent(device, at));
                    }
                    events.push(Event::Abandoned { device, sequence: mark.sequence, at });
                } else {
                    self.queue.push_front(mark.sequence);
                }
            }
            events.extend(self.session.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
        }
        self.session.reset();
        self.put_away(io);
        let client = self.client;
        if was_ready {
            events.push(Event::Disconnected { client, at, reason });
        } else {
            events.push(Event::ConnectFailed { client, reason });
        }
        if self.was_ready {
            let pause = Nanos::from_secs_f64(self.pause.as_secs_f64() * (0.5 + 0.5 * io.jitter.fraction()));
            self.pause = (self.pause * 2).min(io.mqtt.reconnect.1);
            self.state = State::Waiting;
            io.timers.push(Reverse((at + pause, slot, Timer::Reconnect)));
        } else {
            self.state = State::Idle;
        }
    }
}
