//! One connection to the platform: at most one request under way on it.

use super::Io;
use super::outcome::Outcome;
use crate::driver::{Client, Event, LOST, TIMED_OUT};
use crate::drivers::socket::Interest;
use crate::drivers::stream::{Backoff, Stream};
use plimsoll_codec::http::{HttpError, Reader, Side, Start};
use plimsoll_codec::stranger::Stranger;
use plimsoll_model::Nanos;
use rustix::event::epoll::EventFlags;

/// Largest answer that is taken; a longer one is a lie or an attack.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
/// The status of a request whose credentials are not accepted (RFC 9110 section 15.5.2).
const UNAUTHORIZED: u16 = 401;

/// A connection of a lane.
pub(super) struct Connection {
    pub lane: u32,
    /// The device whose certificate it shows, where it shows one.
    device: u32,
    number: u32,
    pub state: State,
    /// TCP, and TLS where there is.
    stream: Stream,
    /// Tells what it waited for before its last end from what it waits for now.
    generation: u32,
    reader: Reader,
    out: Vec<u8>,
    written: usize,
    current: Option<UnderWay>,
    /// Devices that are told when it is ready.
    waiting: Vec<u32>,
    /// Devices that were told that it is: they are lost with it.
    standing: Vec<u32>,
    backoff: Backoff,
    was_ready: bool,
    /// Whether a timer looks after it; one is enough.
    watched: bool,
    /// Whether it stands in the list of those that are free.
    pub listed: bool,
    /// Whether its loss was told, and no return yet.
    told_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected, and nobody wants it to be.
    Closed,
    Connecting,
    /// TLS.
    Securing,
    /// Connected; a request is under way or not.
    Ready,
    /// To be connected again after a pause.
    Pausing,
}

struct UnderWay {
    message: Message,
    content: u32,
    /// The generation of the access token in it.
    generation: u64,
    sent: bool,
    /// When bytes of it were handed over last.
    wrote_at: Nanos,
    give_up_at: Nanos,
}

/// A message that waits for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub device: u32,
    pub sequence: u32,
    /// How often it was sent before, the last answer's status (0: its connection was lost) and when that was.
    pub tries: u32,
    pub after: u16,
    pub since: Nanos,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing that its lane must know.
    Same,
    /// It takes the next request.
    Free,
    /// The platform ended it in good order: it is opened again for the next request.
    Ended,
}

impl Connection {
    pub fn new(lane: u32, number: u32, device: u32, pauses: (Nanos, Nanos)) -> Connection {
        Connection {
            lane,
            device,
            number,
            state: State::Closed,
            stream: Stream::default(),
            generation: 0,
            reader: Reader::new(Side::Answer, LARGEST_ANSWER),
            out: Vec::new(),
            written: 0,
            current: None,
            waiting: Vec::new(),
            standing: Vec::new(),
            backoff: Backoff::new(pauses),
            was_ready: false,
            watched: false,
            listed: false,
            told_lost: false,
        }
    }

    /// Opens it for a device, which is told when it is ready; at once where it is.
    pub fn open_for(&mut self, slot: u32, device: u32, io: &mut Io, events: &mut Vec<Event>) {
        match self.state {
            State::Ready => {
                let client = Client::Device(device);
                self.standing.push(device);
                events.push(Event::Ready { client, took: Nanos::ZERO, again: false });
            }
            State::Closed => {
                self.waiting.push(device);
                self.open(slot, io, events);
            }
            State::Connecting | State::Securing | State::Pausing => self.waiting.push(device),
        }
    }

    pub fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.generation = self.generation.wrapping_add(1);
        self.watched = false;
        match self.stream.open(slot, (Client::Device(self.device), self.number), &mut io.stream) {
            Ok(()) => {
                self.state = State::Connecting;
                io.timers.set(self.stream.began() + io.stream.timeout, slot, self.generation);
            }
            Err(reason) => self.lost(slot, reason, io, events),
        }
    }

    /// Whether it takes a request now.
    pub fn is_free(&self) -> bool {
        self.state == State::Ready && self.current.is_none()
    }

    /// Begins a request on a free connection.
    pub fn begin(&mut self, slot: u32, message: Message, io: &mut Io, events: &mut Vec<Event>) {
        self.out.clear();
        self.written = 0;
        let content = io.requests.write(message.device, message.sequence, &mut self.out);
        let generation = io.requests.generation();
        let now = io.stream.clock.now();
        let give_up_at = now + io.timeout;
        // One timer watches over all requests of a connection, for nearly all are answered long before.
        if !std::mem::replace(&mut self.watched, true) {
            io.timers.set(give_up_at, slot, self.generation);
        }
        self.current =
            Some(UnderWay { message, content, generation, sent: false, wrote_at: now, give_up_at });
        self.send(slot, io, events);
    }

    fn send(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            if !self.stream.is_there() {
                return;
            }
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.stream.clock.now();
            match self.stream.write(rest, &mut io.stream.traffic) {
                Ok(0) => return self.want(slot, true, io),
                Ok(count) => {
                    self.written += count;
                    if let Some(current) = &mut self.current {
                        current.wrote_at = at;
                    }
                    self.report_sent(at, events);
                }
                Err(error) => return self.lost(slot, format!("cannot send: {error}"), io, events),
            }
        }
    }

    /// Hands over what TLS has to say by itself.
    fn flush(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        match self.stream.flush(&mut io.stream.traffic) {
            Ok(()) if self.stream.is_waiting() => self.want(slot, true, io),
            Ok(()) => {}
            Err(error) => self.lost(slot, format!("cannot send: {error}"), io, events),
        }
    }

    fn want(&mut self, slot: u32, write: bool, io: &Io) {
        self.stream.want(slot, Interest { read: true, write }, &io.stream.readiness);
    }

    fn report_sent(&mut self, at: Nanos, events: &mut Vec<Event>) {
        let whole = self.written == self.out.len();
        let Some(current) = self.current.as_mut().filter(|current| whole && !current.sent) else { return };
        current.sent = true;
        let Message { device, sequence, tries, after, since } = current.message;
        let (content, packet) = (current.content, self.out.len() as u32);
        events.push(match tries {
            0 => Event::Sent { device, sequence, at, content, packet },
            _ => Event::Repeated { status: after, after: (at - since).max(Nanos::ZERO) },
        });
    }

    /// Handles what the kernel tells of its socket.
    pub fn ready(
        &mut self,
        slot: u32,
        generation: u32,
        flags: EventFlags,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Turn {
        if !self.stream.is_of(generation) {
            return Turn::Same;
        }
        if self.state == State::Connecting {
            match self.stream.connected(io.stream.clock.now()) {
                Ok(true) => self.state = State::Securing,
                Ok(false) => {
                    self.want(slot, false, io);
                    return self.connected(io, events);
                }
                Err(reason) => {
                    self.lost(slot, reason, io, events);
                    return Turn::Same;
                }
            }
            self.want(slot, false, io);
            self.flush(slot, io, events);
            return Turn::Same;
        }
        if flags.contains(EventFlags::OUT) {
            self.want(slot, false, io);
            self.flush(slot, io, events);
            self.send(slot, io, events);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            return self.read(slot, io, events);
        }
        Turn::Same
    }

    fn connected(&mut self, io: &mut Io, events: &mut Vec<Event>) -> Turn {
        self.state = State::Ready;
        let took = io.stream.clock.now() - self.stream.began();
        self.was_ready = true;
        let ready =
            |again: bool| move |device: &u32| Event::Ready { client: Client::Device(*device), took, again };
        if std::mem::take(&mut self.told_lost) {
            events.extend(self.standing.iter().map(ready(true)));
        }
        events.extend(self.waiting.iter().map(ready(false)));
        self.standing.append(&mut self.waiting);
        Turn::Free
    }

    fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) -> Turn {
        let mut scratch = std::mem::take(&mut io.stream.scratch);
        let turn = self.read_into(slot, &mut scratch, io, events);
        io.stream.scratch = scratch;
        turn
    }

    fn read_into(&mut self, slot: u32, scratch: &mut [u8], io: &mut Io, events: &mut Vec<Event>) -> Turn {
        let (at, ended) = match self.stream.read(scratch) {
            Ok(None) => return Turn::Same,
            Ok(Some(reading)) => {
                let now = io.stream.clock.now();
                io.stream.traffic.received += reading.length as u64;
                let bytes = scratch.get(..reading.length).unwrap_or_default();
                let at = io.stream.readiness.received_at(now, reading.lag);
                match self.unwrap(slot, bytes, at, io, events) {
                    Ok(Turn::Free) => return Turn::Free,
                    Ok(_) => {}
                    Err(reason) => {
                        self.lost(slot, reason, io, events);
                        return Turn::Same;
                    }
                }
                (at, reading.length == 0)
            }
            Err(error) => {
                self.lost(slot, format!("connection lost: {error}"), io, events);
                return Turn::Same;
            }
        };
        self.answer(slot, at, ended, io, events)
    }

    /// Takes TLS off the bytes that came, for the reader of answers.
    fn unwrap(
        &mut self,
        slot: u32,
        bytes: &[u8],
        at: Nanos,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<Turn, String> {
        if !self.stream.is_layered() {
            self.reader.push(bytes);
            return Ok(Turn::Same);
        }
        io.stream.clear.clear();
        let taken = self.stream.unwrap(bytes, at, &mut io.stream.clear, events);
        self.reader.push(&io.stream.clear);
        let open = self.stream.is_open();
        // Also where it failed: the platform is told why.
        self.flush(slot, io, events);
        taken?;
        Ok(if self.state == State::Securing && open { self.connected(io, events) } else { Turn::Same })
    }

    fn answer(&mut self, slot: u32, at: Nanos, ended: bool, io: &mut Io, events: &mut Vec<Event>) -> Turn {
        if self.state != State::Ready {
            if ended && self.state == State::Securing {
                let reason = "the platform closed the connection within the handshake of TLS";
                self.lost(slot, reason.into(), io, events);
            }
            return Turn::Same;
        }
        if self.current.is_none() && self.reader.is_within_message() {
            let reason = match self.reader.take(ended, false) {
                Err(HttpError::NoHttp) => Stranger::in_place_of_http(self.reader.rest()),
                _ => "the platform answered what was not asked".into(),
            };
            self.lost(slot, reason, io, events);
            return Turn::Same;
        }
        let (status, outcome, mut stays) = match self.reader.take(ended, io.requests.are_bodiless()) {
            Ok(None) if ended => {
                return self.ended(slot, io, events);
            }
            Ok(None) => return Turn::Same,
            Ok(Some(message)) => {
                let Start::Status { code, reason } = message.head.start else { return Turn::Same };
                let Message { device, tries, .. } =
                    self.current.as_ref().map(|current| current.message).unwrap_or_default();
                let outcome = Outcome::of(&message, (code, reason), &io.requests, (device, tries));
                io.stream.traffic.answers.add(message.wire_bytes as usize, message.body.len());
                (code, outcome, message.stays && !ended)
            }
            Err(error) => {
                let reason = match error {
                    HttpError::NoHttp => Stranger::in_place_of_http(self.reader.rest()),
                    error => format!("the platform's answer: {error}"),
                };
                self.lost(slot, reason, io, events);
                return Turn::Same;
            }
        };
        self.backoff = Backoff::new(io.stream.pauses);
        if let Some(UnderWay { message, content, generation, sent, wrote_at, .. }) = self.current.take() {
            if status == UNAUTHORIZED {
                io.requests.view().refuse(generation);
            }
            let Message { device, sequence, tries, .. } = message;
            if !sent && tries == 0 {
                let (at, packet) = (wrote_at, self.out.len() as u32);
                events.push(Event::Sent { device, sequence, at, content, packet });
            }
            if !sent {
                // Answered before all of it was sent, as a message is that is too large: the rest is not wanted.
                stays = false;
            }
            match outcome {
                Outcome::Taken => events.push(Event::Acknowledged { device, sequence, at }),
                Outcome::ToRepeat => io.repeat(self.lane, message, status, at),
                Outcome::Refused(reason) => events.push(Event::Refused { device, sequence, at, reason }),
            }
        }
        if stays && self.reader.is_within_message() {
            // It would be taken for the answer to the next request.
            let reason = match status {
                204 | 304 => format!("the platform sent a body, which an answer {status} cannot have"),
                _ => "the platform answered twice".to_owned(),
            };
            self.lost(slot, reason, io, events);
            return Turn::Same;
        }
        if stays {
            return Turn::Free;
        }
        self.close();
        Turn::Ended
    }

    /// The platform closed its side.
    fn ended(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) -> Turn {
        if self.current.is_some() {
            self.lost(slot, "the platform closed the connection before it answered".into(), io, events);
            return Turn::Same;
        }
        // Between two requests it may (RFC 9112 section 9.5).
        self.close();
        Turn::Ended
    }

    fn close(&mut self) {
        self.stream.close();
        self.reader.clear();
        self.out.clear();
        self.written = 0;
        self.watched = false;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Closed;
    }

    /// A time that it set has come.
    pub fn timer(&mut self, slot: u32, generation: u32, io: &mut Io, events: &mut Vec<Event>) {
        if generation != self.generation {
            return;
        }
        let now = io.stream.clock.now();
        match self.state {
            State::Pausing => self.open(slot, io, events),
            State::Connecting | State::Securing if now >= self.stream.began() + io.stream.timeout => {
                let what =
                    if self.stream.is_layered() { "no secured connection" } else { "no TCP connection" };
                let reason = format!("{what} within {}", io.stream.timeout);
                self.lost(slot, reason, io, events);
            }
            State::Ready => {
                self.watched = false;
                match self.current.as_ref().map(|current| current.give_up_at) {
                    Some(at) if at <= now => {
                        let reason = format!("no answer within {}", io.timeout);
                        self.repeat_lost(TIMED_OUT, now, io, events);
                        self.lost(slot, reason, io, events);
                    }
                    Some(at) => {
                        self.watched = true;
                        io.timers.set(at, slot, self.generation);
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Takes back a request of which the kernel has no byte yet; tells of one that is under way that nobody waits for it.
    pub fn withdraw(&mut self, at: Nanos, events: &mut Vec<Event>) -> Turn {
        if self.current.is_none() {
            return Turn::Same;
        }
        // One that is untouched is unsent.
        let _ = self.give_up(at, events);
        // Whatever holds it up must not hold up the next level.
        self.close();
        Turn::Ended
    }

    /// Nobody waits for the request under way any more; gives it back where the platform has never had a byte of it.
    fn give_up(&mut self, at: Nanos, events: &mut Vec<Event>) -> Option<Message> {
        let UnderWay { message, content, sent, .. } = self.current.take()?;
        let Message { device, sequence, tries, .. } = message;
        if !sent && self.written == 0 && tries == 0 {
            return Some(message);
        }
        if !sent && tries == 0 {
            // The platform has a part of it, and may have been brought down by that.
            let packet = self.out.len() as u32;
            events.push(Event::Sent { device, sequence, at, content, packet });
        }
        events.push(Event::Abandoned { device, sequence, at });
        None
    }

    /// Puts the request under way aside to be sent again, where the profile wants that of a lost connection and the platform
    /// has a byte of it.
    fn repeat_lost(&mut self, status: u16, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        let written = self.written > 0;
        let repeats = |current: &mut UnderWay| {
            let begun = current.sent || written || current.message.tries > 0;
            begun
                && io.requests.retries().goes_on(current.message.tries + 1)
                && io.requests.is_to_be_repeated_when_lost()
        };
        let Some(UnderWay { message, content, sent, .. }) = self.current.take_if(repeats) else { return };
        let Message { device, sequence, tries, .. } = message;
        if !sent && tries == 0 {
            let packet = self.out.len() as u32;
            events.push(Event::Sent { device, sequence, at, content, packet });
        }
        io.repeat(self.lane, message, status, at);
    }

    /// The connection is no more: a request that was sent is given up, and it is opened again after a pause.
    fn lost(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let at = io.stream.clock.now();
        let was_ready = self.state == State::Ready;
        self.repeat_lost(LOST, at, io, events);
        io.returned.extend(self.give_up(at, events).map(|message| (self.lane, message)));
        self.close();
        let refused = |device: u32| {
            let (client, reason) = (Client::Device(device), reason.clone());
            Event::ConnectFailed { client, reason, lasting: false }
        };
        match (was_ready, self.standing.first()) {
            (true, Some(_)) => {
                self.told_lost = true;
                let lost = |&device: &u32| {
                    let (client, reason) = (Client::Device(device), reason.clone());
                    Event::Disconnected { client, at, reason }
                };
                events.extend(self.standing.iter().map(lost));
            }
            // Further ones of a lane stand for no device.
            (_, None) if self.waiting.is_empty() => events.push(Event::Incident { reason: reason.clone() }),
            // An attempt to connect again, for whomever it stands.
            (false, Some(&device)) => events.push(refused(device)),
            (_, None) => {}
        }
        if !was_ready {
            events.extend(self.waiting.iter().copied().map(refused));
            io.gave_up.append(&mut self.waiting);
        }
        if self.was_ready {
            let pause = self.backoff.next(io.stream.pauses, &mut io.random);
            self.state = State::Pausing;
            io.timers.set(at + pause, slot, self.generation);
        }
    }

    /// A device does not stand on it any more.
    pub fn leave(&mut self, device: u32) {
        self.waiting.retain(|other| *other != device);
        self.standing.retain(|other| *other != device);
    }

    /// Says goodbye; whether it was connected.
    pub fn goodbye(&mut self) -> bool {
        let was = self.state == State::Ready;
        self.current = None;
        self.waiting.clear();
        self.standing.clear();
        self.was_ready = false;
        self.told_lost = false;
        self.close();
        was
    }
}
