//! What a connection receives: bytes, what lay around them taken off, packets.

use super::super::session::Happened;
use super::super::session::closed_at_once;
use super::super::{Io, Timer};
use super::{Connection, State};
use crate::driver::{Client, Event};
use crate::drivers::answers::{Answer, AnswerTo};
use plimsoll_codec::mqtt::{packet_length, packet_length_tolerantly, topic};
use plimsoll_codec::stranger::{Stranger, shown};
use plimsoll_model::Nanos;

/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// Largest packet that a platform may send us, twice the largest content of a scenario; a longer one is a lie or an
/// attack, and would have to be kept in memory until it is whole.
const LARGEST_PACKET: usize = 2 * 1024 * 1024;
/// A packet of messages that are this small takes less than that, unless what claims its length is no packet.
const LONG_UNFINISHED: Nanos = Nanos::from_secs(1);

impl Connection {
    pub(super) fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        for _ in 0..READINGS {
            if !self.stream.is_there() {
                return;
            }
            let mut scratch = std::mem::take(&mut io.stream.scratch);
            let reading = self.stream.read(&mut scratch);
            let outcome = match reading {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => {
                    self.deliver(slot, Nanos::MAX, io, events);
                    Err(self.lost("the platform closed the connection".into(), io))
                }
                Ok(Some(reading)) => {
                    let read_at = io.stream.clock.now();
                    self.last_read = read_at;
                    // A subscriber that works has the bytes when it reads them.
                    let works = io.work > Nanos::ZERO && matches!(self.client, Client::Subscriber(_));
                    let (at, lag) = if works {
                        (read_at, reading.lag)
                    } else {
                        io.stream.readiness.received(read_at, reading.lag)
                    };
                    io.stream.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    let taken = if self.stream.is_layered() {
                        self.unwrap(slot, bytes, at, lag, io, events)
                    } else {
                        self.arrive(slot, bytes, at, lag, io, events);
                        Ok(())
                    };
                    // What it does not take now stays in the kernel, and so does not come from the platform.
                    taken.map(|()| reading.length == scratch.len() && !self.is_busy(read_at))
                }
                Err(error) => Err(self.lost(format!("connection lost: {error}"), io)),
            };
            io.stream.scratch = scratch;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                // What was read before the end may have said it already.
                Err(reason) if self.stream.is_there() => return self.failed(slot, reason, io, events),
                Err(_) => return,
            }
        }
    }

    /// Why a connection was lost, and what may be behind it.
    fn lost(&self, what: String, io: &Io) -> String {
        match self.state {
            State::Layering if self.was_ready => format!("{what}, within the handshake below MQTT"),
            State::Layering => {
                format!("{what}, within the handshake below MQTT; is it the port for this kind of address?")
            }
            State::Handshaking if !self.unparsed().is_empty() => {
                format!("{what} after it had sent {}, which is no MQTT", shown(self.unparsed()))
            }
            // Who has been connected before spoke the version.
            State::Handshaking if !self.was_ready && self.session.awaits_connack() => {
                match closed_at_once(io.mqtt.version) {
                    Some(advice) => format!("{what} {advice}"),
                    None => format!("{what} right after CONNECT"),
                }
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
        let opens = self.state == State::Layering;
        let mut session = std::mem::take(&mut io.stream.clear);
        session.clear();
        let taken = self.stream.unwrap(bytes, at, &mut session, events);
        if self.state == State::Layering && self.stream.is_open() {
            self.connected(slot, io, events);
        }
        if !session.is_empty() {
            self.arrive(slot, &session, at, lag, io, events);
        }
        io.stream.clear = session;
        taken.map_err(|reason| {
            let transport = &io.connection.transport;
            // A certificate or a version that does not suit will not suit the next time; a server of HTTP may be busy.
            self.is_refused = opens && transport.websocket.is_none();
            let expected = if transport.tls.is_some() { "TLS" } else { "HTTP" };
            let stranger = Stranger::of(bytes).filter(|stranger| opens && stranger.name != expected);
            stranger.map_or(reason.clone(), |stranger| format!("{reason}: {}", stranger.told()))
        })
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
                io.timers.set(arrives, slot, Timer::Link);
            }
            None => self.parse(slot, bytes, at, lag, io, events),
        }
    }

    /// Handles what has come over the emulated network by now.
    pub(super) fn arrivals(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let now = io.stream.clock.now();
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

    /// Handles every whole packet and keeps the rest.
    pub(super) fn parse(
        &mut self,
        slot: u32,
        bytes: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        let mut joined = std::mem::take(&mut self.partial);
        let mut parsed = std::mem::take(&mut self.parsed);
        // A subscriber that works takes one message after the other of many: they are not copied for each.
        if parsed > joined.len() / 2 {
            joined.drain(..std::mem::take(&mut parsed));
        }
        if !joined.is_empty() {
            joined.extend_from_slice(bytes);
        }
        let whole = if joined.is_empty() { bytes } else { joined.get(parsed..).unwrap_or_default() };
        let mut rest = whole;
        let opens = self.state == State::Handshaking && self.session.awaits_connack();
        if opens && let Some(stranger) = Stranger::of(whole) {
            self.is_refused = true;
            return self.failed(slot, format!("no MQTT there: {}", stranger.told()), io, events);
        }
        while self.busy_until <= at {
            let length = if opens { packet_length(rest) } else { packet_length_tolerantly(rest) };
            let packet = match length {
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
                Err(error) if opens => {
                    self.is_refused = true;
                    let reason = format!("no MQTT there: the platform began with {} ({error})", shown(whole));
                    return self.failed(slot, reason, io, events);
                }
                Err(error) => return self.failed(slot, format!("malformed packet: {error}"), io, events),
            };
            let taken = self.packet(slot, packet, at, lag, io, events);
            if let Some(slip) = self.session.take_slip() {
                io.note_slip(slip);
            }
            if let Err(reason) = taken {
                self.is_refused |= self.session.take_refused();
                return self.failed(slot, reason, io, events);
            }
        }
        if !rest.is_empty() {
            if rest.len() < whole.len() || joined.is_empty() {
                self.partial_since = at;
            }
            // A packet that comes in many pieces is not copied at each.
            if joined.is_empty() {
                self.partial = rest.to_vec();
            } else {
                self.parsed = joined.len() - rest.len();
                self.partial = joined;
            }
            self.partial_at = at;
            self.partial_lag = lag;
        }
    }

    /// The bytes that came and were not handled yet.
    fn unparsed(&self) -> &[u8] {
        self.partial.get(self.parsed..).unwrap_or_default()
    }

    /// A packet that the platform has begun and not ended for long: its bytes, those that came, since when.
    pub fn unfinished(&self, now: Nanos) -> Option<String> {
        let since = now - self.partial_since;
        let length = packet_length_tolerantly(self.unparsed()).ok().flatten()?;
        let came = self.unparsed().len();
        let told = || format!("{length} bytes, of which {came} came within {since}");
        (came < length && since >= LONG_UNFINISHED).then(told)
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
        let from_device = device != u32::MAX;
        let answers = &mut io.stream.traffic.answers;
        match self.session.receive(packet, self.out.bytes())? {
            Happened::Nothing if from_device => answers.add_part(packet.len(), 0),
            Happened::Nothing => {}
            Happened::UnknownAck(kind, packet_id) => {
                io.note_unknown_ack(self.client, kind, packet_id);
                events.push(Event::UnknownAck);
            }
            Happened::Subscribing => self.accepted = Some(at),
            Happened::Ready => self.became_ready(slot, at, io, events),
            // The platform's own answer is still to come.
            Happened::Acknowledged(_) if io.answers.is_some() => answers.add_part(packet.len(), 0),
            Happened::Acknowledged(sequence) => {
                answers.add(packet.len(), 0);
                events.push(Event::Acknowledged { device, sequence, at });
            }
            Happened::Refused(sequence, reason) => {
                answers.add(packet.len(), 0);
                let reason = io.users.hide(reason, self.client);
                events.push(Event::Refused { device, sequence, at, reason })
            }
            Happened::Pong => match self.asked {
                Some((through, 0)) => {
                    self.asked = None;
                    events.push(Event::Arrived { device, through });
                }
                Some((through, earlier)) => {
                    self.asked = Some((through, earlier - 1));
                    self.ping_sent = None;
                }
                None => self.ping_sent = None,
            },
            Happened::Delivered { payload, topic, retained } => {
                if io.wills.as_ref().is_some_and(|filter| topic::matches(filter, topic)) {
                    events.push(Event::Will);
                    return Ok(());
                }
                let answer = io.answers.as_mut().filter(|_| from_device);
                let answer = answer.and_then(|answers| answers.read(device, payload));
                if let Some(Answer { to: AnswerTo::Sequence(sequence), refused }) = answer {
                    io.stream.traffic.answers.add(packet.len(), payload.len());
                    // A querier's answer is about another device.
                    let about = io.contents.asked_about(sequence).map_or(self.client, Client::Device);
                    io.contents.forget_query(sequence);
                    events.push(match refused {
                        None => Event::Acknowledged { device, sequence, at },
                        Some(reason) => {
                            let reason = io.users.hide(reason, about);
                            Event::Refused { device, sequence, at, reason }
                        }
                    });
                    return Ok(());
                }
                // What a platform sends to a device that never subscribed belongs to no subscriber.
                let (subscriber, marker) = match self.client {
                    Client::Subscriber(subscriber) => (subscriber, io.contents.marker(payload)),
                    Client::Device(_) => (u32::MAX, None),
                };
                if !from_device {
                    io.stream.traffic.notifications.add(packet.len(), payload.len());
                }
                if let Client::Subscriber(subscriber) = self.client
                    && let Some(notified) = &mut io.notified
                    && let Some((topic, answer)) = notified.answer(subscriber, payload)
                {
                    self.session.answer(topic, answer, self.out.bytes())?;
                }
                let content = payload.len() as u32;
                events.push(Event::Received { subscriber, marker, at, lag, retained, content, partition: 0 });
                if io.work > Nanos::ZERO {
                    self.busy_until = at + io.work;
                    io.timers.set(self.busy_until, slot, Timer::WorkDone);
                }
            }
        }
        Ok(())
    }
}
