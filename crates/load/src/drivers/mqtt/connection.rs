//! One client's connection: a socket, a session, what waits to be sent.

use super::layers::Layers;
use super::link::Link;
use super::session::{Happened, Session, Settings};
use super::socket::{Interest, Socket};
use super::{Io, Timer};
use crate::driver::{Client, Event, Traffic};
use crate::refusal;
use plimsoll_codec::mqtt::{packet_length, topic};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{LinkPlan, Offline};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustls::ClientConfig;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

/// Encoded bytes beyond which further messages wait unencoded, so that they can still be withdrawn.
const OUT_LIMIT: usize = 64 * 1024;
/// Room for encoded bytes that a connection keeps when it has nothing to send.
const OUT_KEPT: usize = 16 * 1024;
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
    /// What lies between session and socket; `None` for nothing.
    layers: Option<Box<Layers>>,
    /// What this client keeps over its secured connections.
    tls: Option<Arc<ClientConfig>>,
    /// The emulated network between client and socket.
    link: Option<Box<Link>>,
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
    /// A client that was never connected; `filters` are what it subscribes to, `first_pause` is that before
    /// connecting again.
    pub fn new(
        client: Client,
        filters: Vec<String>,
        will: Option<(String, String)>,
        settings: &Arc<Settings>,
        first_pause: Nanos,
        link: LinkPlan,
    ) -> Connection {
        Connection {
            client,
            state: State::Idle,
            socket: None,
            layers: None,
            tls: None,
            link: Link::new(link),
            generation: 0,
            interest: Interest { read: true, write: true },
            session: Session::new(client, filters, settings).with_will(will),
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
            pause: first_pause,
            was_ready: false,
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
            io.timers.push(Reverse((io.clock.now(), slot, Timer::Reconnect)));
        }
        idle
    }

    /// Says goodbye and becomes as if it had never been connected; whether it was.
    pub fn release(&mut self, io: &mut Io) -> bool {
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
        self.pause = io.mqtt.reconnect.0;
        self.was_ready = false;
        self.tell_urgency(io);
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
        let gone = self.gone();
        let begun = self.marks.iter().filter(|mark| mark.begin < gone).count();
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

    /// Bytes of `out` that cannot be called back.
    fn gone(&self) -> usize {
        // What goes over an emulated network has left `out` before it is secured.
        let layers = self.layers.as_ref().filter(|_| self.link.is_none());
        self.written + layers.map_or(0, |layers| layers.sealed())
    }

    pub fn timer(&mut self, slot: u32, timer: Timer, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        match timer {
            Timer::Reconnect if self.state == State::Waiting => self.open(slot, io, events),
            Timer::ConnectTimeout => {
                let what = match self.state {
                    State::Connecting => "no TCP connection",
                    State::Layering => {
                        "the TCP connection was accepted but its handshake was not answered in full"
                    }
                    State::Travelling | State::Handshaking => {
                        "the TCP connection was accepted but MQTT was not answered"
                    }
                    State::Idle | State::Ready | State::Waiting => return,
                };
                if at >= self.began + io.mqtt.connect_timeout {
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
            Timer::Link => self.arrivals(slot, io, events),
            _ => {}
        }
    }

    /// Handles what has come over the emulated network by now.
    fn arrivals(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let now = io.clock.now();
        let Some(link) = &mut self.link else { return };
        if link.connected_at.is_some_and(|at| at <= now) {
            link.connected_at = None;
            self.handshake(slot, io, events);
        }
        self.deliver(slot, now, io, events);
        self.send(slot, io, events);
    }

    /// Hands over what has come from the platform by then.
    fn deliver(&mut self, slot: u32, by: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        while let Some(chunk) = self.link.as_mut().and_then(|link| link.down.arrived(by)) {
            self.parse(slot, &chunk.bytes, chunk.arrives, chunk.lag, io, events);
        }
    }

    /// What lies under MQTT is connected: MQTT begins, over an emulated network when that has taken as long as it would.
    fn connected(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let Some(link) = &mut self.link else { return self.handshake(slot, io, events) };
        let round_trips = 1 + self.layers.as_ref().map_or(0, |layers| layers.round_trips());
        let delays = (0..2 * round_trips).map(|_| link.draw(&mut io.jitter));
        let at = delays.fold(io.clock.now(), |at, delay| at + delay);
        link.connected_at = Some(at);
        self.state = State::Travelling;
        io.timers.push(Reverse((at, slot, Timer::Link)));
    }

    /// MQTT begins.
    fn handshake(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.state = State::Handshaking;
        if let Err(reason) = self.session.connect(io.run, &mut self.out) {
            self.failed(slot, reason, io, events);
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
                    self.state = State::Layering;
                }
                None => self.connected(slot, io, events),
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
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.clock.now();
            let taken = match &mut self.link {
                Some(link) if link.up.is_full() => Ok(0),
                Some(link) => {
                    let arrives = at + link.draw(&mut io.jitter);
                    link.up.send(&self.out[self.written..], arrives, None);
                    io.timers.push(Reverse((arrives, slot, Timer::Link)));
                    Ok(self.out.len() - self.written)
                }
                None => {
                    hand_over(&self.out[self.written..], socket, self.layers.as_deref_mut(), &mut io.traffic)
                }
            };
            match taken {
                Ok(0) => break,
                Ok(count) => {
                    self.written += count;
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
        if let (Some(layers), Some(socket)) = (&mut self.layers, &self.socket)
            && let Err(error) = layers.flush(socket, &mut io.traffic)
        {
            return self.failed(slot, format!("cannot send: {error}"), io, events);
        }
        let waiting = self.out.len() - self.written;
        let connecting = self.state == State::Connecting;
        let below = self.layers.as_ref().is_some_and(|layers| layers.is_waiting());
        let write = connecting || below || if self.link.is_some() { blocked } else { waiting > 0 };
        // A platform that does not take our acknowledgements gets none of its packets read.
        let busy = self.busy_until > Nanos::ZERO && self.busy_until > io.clock.now();
        let full = self.link.as_ref().is_some_and(|link| link.down.is_full());
        let read = !busy && !full && waiting <= 2 * OUT_LIMIT;
        if self.marks.is_empty() && self.written > OUT_LIMIT {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.want(slot, Interest { read, write }, io);
        self.tell_urgency(io);
    }

    /// Hands to the kernel what has come over the emulated network by now; whether the kernel took not all of it.
    fn pass_on(&mut self, io: &mut Io) -> Result<bool, Errno> {
        let (Some(link), Some(socket)) = (&mut self.link, &self.socket) else { return Ok(false) };
        let now = io.clock.now();
        while let Some(mut chunk) = link.up.arrived(now) {
            let count = hand_over(&chunk.bytes, socket, self.layers.as_deref_mut(), &mut io.traffic)?;
            if count < chunk.bytes.len() {
                chunk.bytes.drain(..count);
                link.up.put_back(chunk);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = !self.queue.is_empty() || self.written < self.out.len() || self.state != State::Ready;
        let urgent = waits && self.socket.is_some();
        if urgent != std::mem::replace(&mut self.urgent, urgent) {
            io.urgent = if urgent { io.urgent + 1 } else { io.urgent.saturating_sub(1) };
        }
    }

    /// Says goodbye as well as the socket lets it, and closes.
    pub fn goodbye(&mut self) {
        if self.state == State::Ready && self.written == self.out.len() {
            self.out.clear();
            self.session.disconnect(&mut self.out);
            if let Some(socket) = &self.socket {
                // The platform learns of the end by the closed connection all the same.
                let mut traffic = Traffic::default();
                let _ = hand_over(&self.out, socket, self.layers.as_deref_mut(), &mut traffic);
                if let Some(layers) = &mut self.layers {
                    layers.close();
                    let _ = layers.flush(socket, &mut traffic);
                }
            }
        }
        self.close();
        if let Some(link) = &mut self.link {
            link.clear();
        }
        self.state = State::Idle;
    }

    /// Forgets the socket and what lay above it.
    fn close(&mut self) {
        // Closing the descriptor takes it out of the epoll set.
        self.socket = None;
        self.layers = None;
    }

    fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.began = io.clock.now();
        self.accepted = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Connecting;
        self.interest = Interest { read: true, write: true };
        let number = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(subscriber) => io.population.saturating_add(subscriber),
        };
        if self.tls.is_none() {
            match io.transport.of_client(self.client) {
                Ok(config) => self.tls = config,
                Err(reason) => return self.failed(slot, reason, io, events),
            }
        }
        match io.transport.layers(self.tls.as_ref(), (number, self.generation)) {
            Ok(layers) => self.layers = layers,
            Err(reason) => return self.failed(slot, reason, io, events),
        }
        let opened = Socket::connect(io.address, io.sources.of(number)).and_then(|socket| {
            socket.register(&io.epoll, self.data(slot), self.interest)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.socket = Some(socket);
                self.tell_urgency(io);
                let timeout = self.began + io.mqtt.connect_timeout;
                io.timers.push(Reverse((timeout, slot, Timer::ConnectTimeout)));
            }
            Err(error) => self.failed(slot, refusal::told(error), io, events),
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
            if self.out.capacity() > OUT_KEPT {
                self.out = Vec::new();
            }
        }
        let Client::Device(device) = self.client else { return };
        while self.state == State::Ready && self.out.len() < OUT_LIMIT && self.session.may_publish() {
            let Some(sequence) = self.queue.pop_front() else { return };
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic_name.clear();
            io.contents.render_topic(device, sequence, &mut io.topic_name);
            let begin = self.out.len();
            let user = io.contents.user_properties(device, sequence);
            match self.session.publish(sequence, &io.topic_name, &io.content, &user, &mut self.out) {
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
                    self.deliver(slot, Nanos::MAX, io, events);
                    Err(self.lost("the platform closed the connection".into()))
                }
                Ok(Some(reading)) => {
                    let read_at = io.clock.now();
                    // Bytes count from when the kernel had them, but not from before the last look, when nothing was there
                    // to be read: what was lost on the way and came again has the stamp of what overtook it. A subscriber
                    // that works has them when it reads them.
                    let works = io.work > Nanos::ZERO && matches!(self.client, Client::Subscriber(_));
                    let unread = read_at - io.looked_at;
                    let lag = if works { Nanos::ZERO } else { reading.lag.unwrap_or_default().min(unread) };
                    io.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    let at = read_at - lag;
                    let taken = if self.layers.is_some() {
                        self.unwrap(slot, bytes, at, reading.lag, io, events)
                    } else {
                        self.arrive(slot, bytes, at, reading.lag, io, events);
                        Ok(())
                    };
                    taken.map(|()| reading.length == scratch.len())
                }
                Err(error) => Err(self.lost(format!("connection lost: {error}"))),
            };
            io.scratch = scratch;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                // What was read before the end may have said it already.
                Err(reason) if self.socket.is_some() => return self.failed(slot, reason, io, events),
                Err(_) => return,
            }
        }
    }

    /// Why a connection was lost, and what may be behind it.
    fn lost(&self, what: String) -> String {
        match self.state {
            State::Layering => {
                format!("{what}, within the handshake below MQTT; is it the port for this kind of address?")
            }
            _ => what,
        }
    }

    /// Takes what lies between session and socket off the bytes that came.
    fn unwrap(
        &mut self,
        slot: u32,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let Some(layers) = &mut self.layers else { return Ok(()) };
        let mut session = std::mem::take(&mut io.unwrapped);
        session.clear();
        let taken = layers.incoming(bytes, at, &mut session);
        if let Ok(Some(handshake)) = taken {
            events.push(Event::Secured { took: handshake.took, resumed: handshake.resumed });
        }
        if self.state == State::Layering && layers.is_open() {
            self.connected(slot, io, events);
        }
        if !session.is_empty() {
            self.arrive(slot, &session, at, lag, io, events);
        }
        io.unwrapped = session;
        taken.map(drop)
    }

    /// Handles what came for the session, after its way over an emulated network.
    fn arrive(
        &mut self,
        slot: u32,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        match &mut self.link {
            Some(link) => {
                let arrives = at + link.draw(&mut io.jitter);
                link.down.send(bytes, arrives, lag);
                io.timers.push(Reverse((arrives, slot, Timer::Link)));
            }
            None => self.parse(slot, bytes, at, lag, io, events),
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
        let joined = if self.partial.is_empty() {
            Vec::new()
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            joined
        };
        let whole = if joined.is_empty() { bytes } else { &joined };
        let mut rest = whole;
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
            // A packet that comes in many pieces is not copied at each.
            let nothing_done = rest.len() == joined.len();
            self.partial = if nothing_done { joined } else { rest.to_vec() };
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
        match self.session.receive(packet, &mut self.out)? {
            Happened::Nothing => {}
            Happened::Subscribing => self.accepted = Some(at),
            Happened::Ready => self.became_ready(slot, at, io, events),
            Happened::Acknowledged(sequence) => events.push(Event::Acknowledged { device, sequence, at }),
            Happened::Refused(sequence, reason) => {
                events.push(Event::Refused { device, sequence, at, reason })
            }
            Happened::Pong => self.ping_sent = None,
            Happened::Delivered { payload, topic, retained } => {
                if io.wills.as_ref().is_some_and(|filter| topic::matches(filter, topic)) {
                    events.push(Event::Will);
                    return Ok(());
                }
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
        self.go_on(io, events);
        self.schedule_keep_alive(slot, at, io);
    }

    /// Takes up a session where its last connection left it.
    fn go_on(&mut self, io: &mut Io, events: &mut Vec<Event>) {
        let Client::Device(device) = self.client else { return };
        if self.session.begins() {
            let at = io.clock.now();
            events.extend(self.session.abandon().map(|sequence| Event::Abandoned { device, sequence, at }));
            return;
        }
        for (id, message) in self.session.unanswered() {
            let sequence = message.sequence;
            if message.released {
                self.session.release_again(id, &mut self.out);
                continue;
            }
            io.content.clear();
            io.contents.render(device, sequence, &mut io.content);
            io.topic_name.clear();
            io.contents.render_topic(device, sequence, &mut io.topic_name);
            let user = io.contents.user_properties(device, sequence);
            let repeated =
                self.session.repeat((id, sequence), &io.topic_name, &io.content, &user, &mut self.out);
            if let Err(reason) = repeated {
                events.push(Event::Refused { device, sequence, at: io.clock.now(), reason });
            }
        }
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
        let gone = self.gone();
        if let (Some(layers), Some(socket)) = (&mut self.layers, &self.socket) {
            // The last words of TLS: they tell the platform what was wrong with it.
            let _ = layers.flush(socket, &mut io.traffic);
        }
        self.close();
        if let Some(link) = &mut self.link {
            link.clear();
        }
        self.written = 0;
        self.out.clear();
        self.partial.clear();
        self.busy_until = Nanos::ZERO;
        self.ping_sent = None;
        let persistent = self.session.is_persistent();
        if let Client::Device(device) = self.client {
            // Encoded but not sent: it waits again, in front.
            for mark in self.marks.drain(..).rev() {
                if mark.begin < gone {
                    if !mark.reported {
                        events.push(mark.sent(device, at));
                    }
                    // At QoS 0 nothing is repeated.
                    if !persistent {
                        self.session.withdraw(mark.sequence);
                        events.push(Event::Abandoned { device, sequence: mark.sequence, at });
                    }
                } else {
                    self.session.withdraw(mark.sequence);
                    self.queue.push_front(mark.sequence);
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

/// Hands bytes of the session to the kernel, through what lies between; returns how many it has taken in full.
fn hand_over(
    bytes: &[u8],
    socket: &Socket,
    layers: Option<&mut Layers>,
    traffic: &mut Traffic,
) -> Result<usize, Errno> {
    match layers {
        Some(layers) => layers.write(bytes, socket, traffic),
        None => {
            let count = socket.write(bytes)?;
            traffic.sent += count as u64;
            Ok(count)
        }
    }
}
