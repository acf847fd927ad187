//! What a connection receives: bytes, what lay around them taken off, frames.

use super::super::session::{Failure, Happened, Session};
use super::super::{Io, Timer};
use super::{Connection, State};
use crate::content::Contents;
use crate::driver::{Client, Event};
use plimsoll_codec::stranger::{Stranger, shown};
use plimsoll_model::Nanos;

/// Largest frame that a platform may send us, twice the largest content of a scenario; a longer one is a lie or an attack, and would
/// have to be kept in memory until it is whole.
const LARGEST_FRAME: usize = 2 * 1024 * 1024;
/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// Deliveries that came packed together in one turn of the driver after which they have to be handled first.
const MOST_TOGETHER: i64 = 10_000;

impl<S: Session> Connection<S> {
    pub(super) fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        for _ in 0..READINGS {
            if !self.stream.is_there() {
                return;
            }
            let generation = self.stream.generation();
            let mut scratch = std::mem::take(&mut io.stream.scratch);
            let outcome = match self.stream.read(&mut scratch) {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => Err(self.closed()),
                Ok(Some(reading)) => {
                    let read_at = io.stream.clock.now();
                    // A subscriber that works has the bytes when it reads them.
                    let works = io.work > Nanos::ZERO && matches!(self.client, Client::Subscriber(_));
                    let (at, lag) = match works {
                        true => (read_at, reading.lag),
                        false => io.stream.readiness.received(read_at, reading.lag),
                    };
                    io.stream.traffic.received += reading.length as u64;
                    self.last_heard = read_at;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    let taken = if self.stream.is_layered() {
                        self.unwrap(slot, bytes, at, lag, io, events)
                    } else {
                        self.parse(slot, bytes, at, lag, io, events);
                        Ok(())
                    };
                    // What it does not take now stays in the kernel, and so does not come from the platform.
                    taken.map(|()| reading.length == scratch.len() && !self.is_busy(read_at))
                }
                Err(error) => Err(format!("connection lost: {error}")),
            };
            io.stream.scratch = scratch;
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                // What was read before the end may have said it already, or sent the client elsewhere.
                Err(reason) if self.stream.is_of(generation) => {
                    // A certificate or a version of TLS that does not suit will not suit the next time.
                    let lasting = self.state == State::Layering;
                    return self.failed(slot, reason, lasting, io, events);
                }
                Err(_) => return,
            }
        }
    }

    /// Why a connection was closed, as far as can be known.
    fn closed(&self) -> String {
        match self.state {
            State::Layering => {
                format!("the platform closed the connection within the handshake below {}", S::NAME)
            }
            State::Opening => {
                let (awaited, advice) = (self.session.awaited(), self.session.advice_on_closing());
                format!("the platform closed the connection, and {awaited} had not come{advice}")
            }
            _ => "the platform closed the connection".to_owned(),
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
        let mut clear = std::mem::take(&mut io.stream.clear);
        clear.clear();
        let taken = self.stream.unwrap(bytes, at, &mut clear, events);
        if self.state == State::Layering && self.stream.is_open() {
            self.begin();
        }
        if !clear.is_empty() {
            self.parse(slot, &clear, at, lag, io, events);
        }
        io.stream.clear = clear;
        taken
    }

    /// Handles every whole frame and keeps the rest.
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
        while self.busy_until <= at && !rest.is_empty() {
            let length = match self.session.frame(rest) {
                Ok(Some(length)) if length > LARGEST_FRAME => {
                    let reason = format!("a frame of {length} bytes was sent to us, more than we take");
                    return self.failed(slot, reason, false, io, events);
                }
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(reason) => {
                    let opens = self.state == State::Opening;
                    let reason = if opens { no_such_protocol::<S>(rest, &reason) } else { reason };
                    return self.failed(slot, reason, opens, io, events);
                }
            };
            let Some((frame, after)) = rest.split_at_checked(length) else { break };
            rest = after;
            if let Err(Failure { reason, lasting }) = self.frame(slot, frame, at, lag, io, events) {
                self.say_last_words(slot, io, events);
                if self.stream.is_there() {
                    self.failed(slot, reason, lasting, io, events);
                }
                return;
            }
            // It has gone elsewhere: what else came is of a connection that is no more.
            if !self.stream.is_there() || self.state == State::Connecting {
                return;
            }
            if self.state == State::Layering {
                if !rest.is_empty() {
                    let reason = "the platform went on in clear where TLS was to begin".to_owned();
                    self.failed(slot, reason, false, io, events);
                }
                return;
            }
        }
        if !rest.is_empty() {
            // A frame that comes in many pieces is not copied at each.
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

    fn frame(
        &mut self,
        slot: u32,
        frame: &[u8],
        at: Nanos,
        lag: Option<Nanos>,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let device = match self.client {
            Client::Device(device) => device,
            Client::Subscriber(_) => u32::MAX,
        };
        let (mut elsewhere, mut delivered) = (None, 0_i64);
        let partition = self.session.read_partition();
        let answers = &mut io.stream.traffic.answers;
        match self.session.receive(frame, self.out.bytes())? {
            Happened::Nothing => {}
            Happened::Part(bytes) => {
                self.came_before += bytes;
                if matches!(self.client, Client::Subscriber(_)) {
                    io.stream.traffic.notifications.add_part(frame.len(), bytes);
                }
            }
            Happened::Accepted => self.accepted = Some(at),
            Happened::Secured if self.stream.begin_layers(at) => self.state = State::Layering,
            Happened::Secured => return Err(Failure::lasting("there is no TLS that could begin")),
            Happened::Ready => self.became_ready(slot, at, io, events),
            Happened::Acknowledged(sequence) => {
                answers.add(frame.len(), 0);
                events.push(Event::Acknowledged { device, sequence, at });
            }
            Happened::Refused(sequence, reason) => {
                answers.add(frame.len(), 0);
                events.push(Event::Refused { device, sequence, at, reason });
            }
            Happened::AcknowledgedTogether(sequences) => {
                // One packet, and as many answers as there are messages.
                answers.add(frame.len(), 0);
                answers.count += sequences.len().saturating_sub(1) as u64;
                let acknowledged = |&sequence: &u32| Event::Acknowledged { device, sequence, at };
                events.extend(sequences.iter().map(acknowledged));
            }
            Happened::RefusedTogether(sequences, reason) => {
                answers.add(frame.len(), 0);
                answers.count += sequences.len().saturating_sub(1) as u64;
                let refused =
                    |&sequence: &u32| Event::Refused { device, sequence, at, reason: reason.clone() };
                events.extend(sequences.iter().map(refused));
            }
            Happened::Doubtful(sequence, reason) => {
                answers.add(frame.len(), 0);
                events.push(Event::Abandoned { device, sequence, at });
                io.note_complaints(reason, 1);
            }
            Happened::DoubtfulTogether(sequences, reason) => {
                answers.add(frame.len(), 0);
                answers.count += sequences.len().saturating_sub(1) as u64;
                let abandoned = |&sequence: &u32| Event::Abandoned { device, sequence, at };
                events.extend(sequences.iter().map(abandoned));
                io.note_complaints(reason, sequences.len() as u64);
            }
            Happened::UnknownAck => {
                io.unknown_acks += 1;
                events.push(Event::UnknownAck);
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
            Happened::Complaint(complaint) => io.note_complaints(complaint, 1),
            Happened::Elsewhere(address) => elsewhere = Some(address),
            Happened::Delivered(content) => {
                let came_before = std::mem::take(&mut self.came_before);
                if matches!(self.client, Client::Subscriber(_)) {
                    let own = content.len().saturating_sub(came_before);
                    io.stream.traffic.notifications.add(frame.len(), own);
                }
                events.push(received(self.client, (content, partition), at, lag, &io.contents));
                delivered = 1;
            }
            Happened::DeliveredTogether(bytes, contents) => {
                let mut length = 0;
                for content in contents.iter().filter_map(|place| bytes.get(place.clone())) {
                    length += content.len();
                    // A subscriber that works comes to each when it is done with the one before.
                    let reached = at + io.work * delivered;
                    events.push(received(self.client, (content, partition), reached, lag, &io.contents));
                    delivered += 1;
                }
                io.together += delivered;
                // One packet, and as many deliveries as there are contents.
                io.stream.traffic.notifications.add_part(frame.len(), length);
                io.stream.traffic.notifications.count += delivered.cast_unsigned();
            }
        }
        if matches!(self.client, Client::Subscriber(_)) && delivered > 0 {
            let works_until = at + io.work * delivered;
            // Others get their turn, and few bytes on the wire fill no memory at once.
            let pauses_until =
                if io.together > MOST_TOGETHER { io.stream.clock.now() + Nanos(1) } else { at };
            let busy_until = works_until.max(pauses_until);
            if busy_until > at {
                self.busy_until = busy_until;
                io.timers.set(busy_until, slot, Timer::WorkDone);
            }
        }
        if let Some(complaint) = self.session.take_complaint() {
            io.note_complaints(complaint, 1);
        }
        match elsewhere {
            Some(address) => self.turn_to(slot, address, io, events),
            None => self.plan_waking(slot, at, io),
        }
        Ok(())
    }
}

/// A delivery. What a platform sends to a device that never subscribed belongs to no subscriber.
fn received(
    client: Client,
    (content, partition): (&[u8], u16),
    at: Nanos,
    lag: Option<Nanos>,
    contents: &Contents,
) -> Event {
    let (subscriber, marker) = match client {
        Client::Subscriber(subscriber) => (subscriber, contents.marker(content)),
        Client::Device(_) => (u32::MAX, None),
    };
    let content = content.len() as u32;
    Event::Received { subscriber, marker, at, lag, retained: false, content, partition }
}

/// That a platform speaks something else, where that is known.
fn no_such_protocol<S: Session>(bytes: &[u8], reason: &str) -> String {
    match Stranger::of(bytes) {
        // A server of another version of the same protocol says which.
        Some(stranger) if S::NAME.starts_with(stranger.name) => reason.to_owned(),
        Some(stranger) => format!("no {} there: that port speaks {}", S::NAME, stranger.name),
        None => format!("no {} there: the platform began with {} ({reason})", S::NAME, shown(bytes)),
    }
}
