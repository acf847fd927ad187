//! One client's connection: a socket, a session, what waits to be sent.

mod keep_alive;
mod loss;
mod opening;
mod receiving;
mod sending;

use super::session::{Session, Settings};
use super::{Io, Timer};
use crate::driver::{Client, Event};
use crate::drivers::stream::link::Link;
use crate::drivers::stream::outgoing::Outgoing;
use crate::drivers::stream::{Backoff, Stream};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::LinkPlan;
use std::collections::VecDeque;
use std::sync::Arc;

/// A client and what it is doing.
pub struct Connection {
    client: Client,
    state: State,
    stream: Stream,
    /// The emulated network between client and socket.
    link: Option<Box<Link>>,
    session: Session,
    /// Messages that wait for the connection, the window or the socket.
    queue: VecDeque<u32>,
    out: Outgoing,
    partial: Vec<u8>,
    /// How much of it was handled before.
    parsed: usize,
    /// When the first byte of `partial` was read.
    partial_since: Nanos,
    /// When `partial` was read, and how long it had been in the kernel then.
    partial_at: Nanos,
    partial_lag: Option<Nanos>,
    /// When CONNACK came.
    accepted: Option<Nanos>,
    last_write: Nanos,
    /// When something came from the platform last.
    last_read: Nanos,
    ping_sent: Option<Nanos>,
    /// The last message that was given to this connection.
    last: Option<u32>,
    /// Up to which message a ping asks for arrival, and how many answers to earlier pings come before that.
    asked: Option<(u32, u32)>,
    keep_alive_at: Nanos,
    backoff: Backoff,
    was_ready: bool,
    /// Whether another attempt to connect would end the same way.
    is_refused: bool,
    /// The generation of the access token that the user was said with; `None` where none was.
    token: Option<u64>,
    busy_until: Nanos,
    dirty: bool,
    /// Counted among those whose next step waits for the platform.
    urgent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// TCP.
    Connecting,
    /// What lies between TCP and MQTT.
    Layering,
    /// The emulated network delays what has been shaken hands on.
    Travelling,
    /// MQTT.
    Handshaking,
    Ready,
    Waiting,
}

impl Connection {
    /// A client that was never connected; `filters` are what it subscribes to, `pauses` those before
    /// connecting again.
    pub fn new(
        client: Client,
        filters: Vec<String>,
        will: Option<(String, String)>,
        settings: &Arc<Settings>,
        pauses: (Nanos, Nanos),
        link: LinkPlan,
    ) -> Connection {
        Connection {
            client,
            state: State::Idle,
            stream: Stream::default(),
            link: Link::new(link),
            session: Session::new(client, filters, settings).with_will(will),
            queue: VecDeque::new(),
            out: Outgoing::default(),
            partial: Vec::new(),
            parsed: 0,
            partial_since: Nanos::ZERO,
            partial_at: Nanos::ZERO,
            partial_lag: None,
            accepted: None,
            last_write: Nanos::ZERO,
            last_read: Nanos::ZERO,
            ping_sent: None,
            last: None,
            asked: None,
            keep_alive_at: Nanos::ZERO,
            backoff: Backoff::new(pauses),
            was_ready: false,
            is_refused: false,
            token: None,
            busy_until: Nanos::ZERO,
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
        self.out.clear();
        self.partial.clear();
        self.parsed = 0;
        self.session.abandon().for_each(drop);
        self.session.reset();
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        self.asked = None;
        self.backoff = Backoff::new(io.stream.pauses);
        self.was_ready = false;
        self.tell_urgency(io);
        was_ready
    }

    pub fn submit(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        self.queue.push_back(sequence);
        self.last = Some(sequence);
        if self.state != State::Ready {
            return self.put_away(io);
        }
        if !self.dirty {
            self.dirty = true;
            io.dirty.push(slot);
        }
    }

    /// Sends a ping behind all that was sent, whose answer shows that it was read; whether that is possible.
    pub fn ask_for_arrival(&mut self, slot: u32, io: &mut Io) -> bool {
        let Some(last) = self.last.filter(|_| self.state == State::Ready) else { return false };
        self.asked = Some((last, u32::from(self.ping_sent.is_some())));
        self.session.ping(self.out.bytes());
        if !self.dirty {
            self.dirty = true;
            io.dirty.push(slot);
        }
        true
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match timer {
            Timer::Reconnect if self.state == State::Waiting => self.open(slot, io, events),
            Timer::ConnectTimeout => {
                let (what, is_silent) = match self.state {
                    State::Connecting => ("no TCP connection", false),
                    State::Layering => {
                        ("the TCP connection was accepted but its handshake was not answered in full", true)
                    }
                    State::Handshaking if !self.session.awaits_connack() => {
                        ("the platform accepted the client but SUBSCRIBE was not answered", false)
                    }
                    State::Travelling | State::Handshaking => {
                        ("the TCP connection was accepted but MQTT was not answered", true)
                    }
                    State::Idle | State::Ready | State::Waiting => return,
                };
                if at >= self.stream.began() + io.stream.timeout {
                    self.failed(slot, io.stream.late(what, is_silent), io, events);
                }
            }
            // A timer of an earlier connection would start a second row of them.
            Timer::KeepAlive if self.state == State::Ready && at == self.keep_alive_at => {
                self.keep_alive(slot, io, events);
            }
            Timer::WorkDone if self.state == State::Ready && at >= self.busy_until => {
                let now = io.stream.clock.now();
                // What the platform said meanwhile was not read: that is no silence of it.
                self.ping_sent = self.ping_sent.map(|_| now);
                let lag = self.partial_lag.map(|lag| lag + (now - self.partial_at));
                self.parse(slot, &[], now, lag, io, events);
                self.send(slot, io, events);
            }
            Timer::Link => self.arrivals(slot, io, events),
            _ => {}
        }
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = !self.queue.is_empty() || !self.out.is_empty() || self.state != State::Ready;
        io.stream.readiness.tell_urgency(&mut self.urgent, waits && self.stream.is_there());
    }
}
