//! One connection over which a subscriber receives: it asks, and what comes in the answer is delivered.

use super::heads::Heads;
use super::since::since;
use crate::content::Contents;
use crate::driver::{Client, Event, Traffic};
use crate::drivers::socket::Interest;
use crate::drivers::stream::{Backoff, Stream, StreamIo};
use crate::drivers::whom::{Whom, variables};
use crate::drivers::words;
use crate::notification::notify;
use crate::run_context::View;
use plimsoll_codec::hiding::CUT;
use plimsoll_codec::http::{Begun, HttpError, Messages, StreamReader, escape_path};
use plimsoll_codec::stranger::Stranger;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{HttpReceiveRole, PollPlan};
use plimsoll_stats::distribution::Random;
use rustix::event::epoll::EventFlags;
use std::io::Write;

/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// Largest message of a stream, and largest answer to a poll; a longer one is a lie or an attack, and would have to be kept in memory
/// until it is whole.
const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
/// Room that is kept for answers to polls.
const KEPT: usize = 64 * 1024;
/// Bytes of a refusal that are read for its words.
const REFUSAL: usize = 4096;
/// The status of a request whose credentials are not accepted (RFC 9110 section 15.5.2).
const UNAUTHORIZED: u16 = 401;
/// A platform that does not wait for messages is asked so often at most.
const EMPTY_ANSWER: Nanos = Nanos::from_millis(100);
const REPEATS: &str =
    "an answer to a poll has messages and ends where the one before ended: the platform may repeat messages";

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody wants it.
    Idle,
    /// TCP.
    Connecting,
    /// TLS.
    Securing,
    /// The request is on its way; a stream has not begun.
    Asking,
    /// What comes is delivered.
    Receiving,
    /// The next request goes at that time: the last answer had nothing in it.
    Resting(Nanos),
    /// To be opened again after a pause.
    Pausing,
}

/// What a turn has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing that its subscriber must know.
    Same,
    /// A poll is under way, or a request whose answer may begin with the first message.
    Asked,
    /// The platform has answered: what comes is delivered.
    Receives,
    /// The platform closes the connection after each answer: a new one is needed for the next request.
    Ended,
}

/// What all connections of a shard use in turn.
pub struct Io {
    pub stream: StreamIo,
    pub heads: Heads,
    pub role: HttpReceiveRole,
    /// Whether the access token stands in requests.
    pub has_token: bool,
    pub run: String,
    pub view: View,
    pub contents: Contents,
    pub random: Random,
}

impl Io {
    fn polls(&self) -> Option<&PollPlan> {
        self.role.polls.as_ref()
    }
}

/// See the module.
pub struct Receiving {
    pub state: State,
    /// Whether the platform has answered over the present connection.
    has_answered: bool,
    /// Whether its subscriber counts on it. A poll that is made over a new connection does not change that.
    pub is_counted: bool,
    stream: Stream,
    out: Vec<u8>,
    written: usize,
    answer: StreamReader,
    /// What came of the body and was not delivered.
    body: Vec<u8>,
    messages: Messages,
    /// Where the last answer ended.
    since: String,
    /// When the request that is under way was begun, with the bytes that came for it, and the generation of its access token.
    asked_at: Nanos,
    wire_bytes: usize,
    generation: u64,
    backoff: Backoff,
    /// When a timer looks whether it is late.
    pub watched: Nanos,
    /// Counted among those whose next step waits for the platform.
    urgent: bool,
}

impl Receiving {
    pub fn new(pauses: (Nanos, Nanos)) -> Receiving {
        Receiving {
            state: State::Idle,
            has_answered: false,
            is_counted: false,
            stream: Stream::default(),
            out: Vec::new(),
            written: 0,
            answer: StreamReader::default(),
            body: Vec::new(),
            messages: Messages::default(),
            since: String::new(),
            asked_at: Nanos::ZERO,
            wire_bytes: 0,
            generation: 0,
            backoff: Backoff::new(pauses),
            watched: Nanos::MAX,
            urgent: false,
        }
    }

    /// Whether an event of a socket of that generation is about this one.
    pub fn is_of(&self, generation: u32) -> bool {
        self.stream.is_of(generation)
    }

    /// When the poll was asked that waits since that time or longer, and that the platform has not begun to refuse; `None` for any other.
    pub fn waits_since(&self, time: Nanos, io: &Io) -> Option<Nanos> {
        let is_refused = self.answer.begun().is_some_and(|begun| !io.role.request.is_success(begun.status));
        Some(self.asked_at).filter(|at| *at <= time && !is_refused)
    }

    /// By when the present step is to have come to its end; `None` where it may take for ever.
    pub fn deadline(&self, io: &Io) -> Option<Nanos> {
        match (self.state, io.polls()) {
            // Its head comes with the first message, whenever that is, but for a refusal.
            (State::Asking, None) if io.role.ready_after.is_some() && self.answer.begun().is_none() => None,
            (State::Connecting | State::Securing, _) | (State::Asking, None) => {
                Some(self.stream.began() + io.stream.timeout)
            }
            (State::Asking | State::Receiving, Some(polls)) => Some(self.asked_at + polls.within),
            (State::Receiving, None) | (State::Idle | State::Resting(_) | State::Pausing, _) => None,
        }
    }

    /// What is missing at that time, for people.
    pub fn late(&self, io: &Io) -> String {
        let timeout = io.stream.timeout;
        // It says more than that its end is missing.
        if let Some(refusal) = self.refusal(io) {
            return refusal;
        }
        match (self.state, io.polls()) {
            (State::Connecting, _) => format!("no TCP connection within {timeout}"),
            (State::Securing, _) => {
                format!(
                    "the TCP connection was accepted but its handshake was not answered in full within {timeout}"
                )
            }
            (_, Some(polls)) => format!("no answer to a poll within {}", polls.within),
            (_, None) => format!("the stream did not begin within {timeout}"),
        }
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// Why that cannot be, for people.
    pub fn open(&mut self, slot: u32, client: (Client, u32), io: &mut Io) -> Result<(), String> {
        self.close();
        self.state = State::Connecting;
        let opened = self.stream.open(slot, client, &mut io.stream);
        self.tell_urgency(io);
        opened
    }

    /// Writes the request, and hands over what the kernel takes.
    ///
    /// # Errors
    /// The connection is lost: why, for people.
    pub fn ask(&mut self, slot: u32, whom: Whom, io: &mut Io) -> Result<Step, String> {
        io.view.refresh();
        self.generation = io.view.generation();
        self.state = State::Asking;
        (self.answer, self.wire_bytes, self.written) = (StreamReader::default(), 0, 0);
        self.body.clear();
        self.out.clear();
        let mut since = Vec::new();
        escape_path(self.since.as_bytes(), &mut since);
        let since = String::from_utf8_lossy(&since);
        let mut variables = variables((&io.run, &io.view), whom);
        variables.since = &since;
        let random = &mut io.random;
        let mut random = || random.bits();
        let next = io.role.polls.as_ref().and_then(|polls| polls.next.as_ref()).filter(|_| !since.is_empty());
        let path = next.map_or(&io.role.request.path, |next| &next.path);
        io.heads.write(path, &variables, &mut random, &mut self.out);
        if !self.messages.last_id().is_empty() {
            self.out.extend_from_slice(b"Last-Event-ID: ");
            self.out.extend_from_slice(self.messages.last_id());
            self.out.extend_from_slice(b"\r\n");
        }
        let mut content = Vec::new();
        io.role.request.body.render(&variables, &mut random, &mut content);
        if !content.is_empty() {
            // Writing to a Vec cannot fail.
            let _ = write!(self.out, "Content-Length: {}\r\n", content.len());
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(&content);
        self.asked_at = io.stream.clock.now();
        self.send(slot, io)
    }

    /// Hands over what waits for the kernel. A poll is under way from its last byte on.
    fn send(&mut self, slot: u32, io: &mut Io) -> Result<Step, String> {
        let cannot = |error| format!("cannot send: {error}");
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest, &mut io.stream.traffic).map_err(cannot)? {
                0 => break,
                count => self.written += count,
            }
        }
        self.stream.flush(&mut io.stream.traffic).map_err(cannot)?;
        let has_gone = self.written == self.out.len() && !self.stream.is_waiting();
        let interest = Interest { read: true, write: !has_gone };
        self.stream.want(slot, interest, &io.stream.readiness);
        let begins = has_gone && self.state == State::Asking && io.polls().is_some();
        if begins {
            self.state = State::Receiving;
        }
        self.tell_urgency(io);
        let may_be_silent = has_gone && self.state == State::Asking && io.role.ready_after.is_some();
        Ok(if begins || may_be_silent { Step::Asked } else { Step::Same })
    }

    /// Takes what an event of its socket brings.
    ///
    /// # Errors
    /// The connection is of no use any more: why, for people.
    pub fn progress(
        &mut self,
        (slot, flags): (u32, EventFlags),
        whom: Whom,
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<Step, String> {
        if self.state == State::Connecting {
            if self.stream.connected(io.stream.clock.now())? {
                self.state = State::Securing;
                return self.send(slot, io);
            }
            return self.ask(slot, whom, io);
        }
        let mut step = Step::Same;
        if flags.contains(EventFlags::OUT) {
            step = self.send(slot, io)?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            let read = self.read(slot, whom, io, events)?;
            step = if read == Step::Same { step } else { read };
        }
        self.tell_urgency(io);
        Ok(step)
    }

    fn read(&mut self, slot: u32, whom: Whom, io: &mut Io, events: &mut Vec<Event>) -> Result<Step, String> {
        let mut step = Step::Same;
        for _ in 0..READINGS {
            let mut scratch = std::mem::take(&mut io.stream.scratch);
            let taken = self.read_into(&mut scratch, (slot, whom), io, events);
            io.stream.scratch = scratch;
            let (next, goes_on) = taken?;
            step = if next == Step::Same { step } else { next };
            if !goes_on || step == Step::Ended {
                break;
            }
        }
        Ok(step)
    }

    /// Reads once; what it has led to, and whether there may be more.
    fn read_into(
        &mut self,
        scratch: &mut [u8],
        (slot, whom): (u32, Whom),
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<(Step, bool), String> {
        let read = match self.stream.read(scratch) {
            Ok(read) => read,
            Err(_) if self.is_unused() => return Ok((self.ended(), false)),
            Err(error) => {
                return Err(self.refusal(io).unwrap_or_else(|| format!("connection lost: {error}")));
            }
        };
        let Some(reading) = read else { return Ok((Step::Same, false)) };
        let stamp = io.stream.readiness.received(io.stream.clock.now(), reading.lag);
        io.stream.traffic.received += reading.length as u64;
        let bytes = scratch.get(..reading.length).unwrap_or_default();
        let mut step = Step::Same;
        let outcome;
        if self.stream.is_layered() {
            let mut clear = std::mem::take(&mut io.stream.clear);
            clear.clear();
            let unwrapped = self.stream.unwrap(bytes, stamp.0, &mut clear, events);
            if unwrapped.is_ok() && self.state == State::Securing && self.stream.is_open() {
                step = self.ask(slot, whom, io)?;
            }
            // Also where it failed: the platform is told why.
            let _ = self.stream.flush(&mut io.stream.traffic);
            let pushed = self.push(&clear);
            io.stream.clear = clear;
            outcome = unwrapped.and(pushed);
        } else {
            outcome = self.push(bytes);
        }
        let has_ended = reading.length == 0;
        // What came before the end may have been an answer.
        let answered = self.answered(has_ended, (slot, whom), stamp, io, events);
        // A refusal says more than what is wrong behind it.
        let answered = match (answered, outcome) {
            (Err(reason), _) | (Ok(_), Err(reason)) => return Err(reason),
            (Ok(answered), Ok(())) => answered,
        };
        let step = if answered == Step::Same { step } else { answered };
        Ok((step, reading.length == scratch.len()))
    }

    /// Gives what came to the reader of answers.
    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        if !bytes.is_empty() && matches!(self.state, State::Resting(_)) {
            return Err("the platform answered what was not asked".into());
        }
        self.wire_bytes += bytes.len();
        self.answer.push(bytes, &mut self.body).map_err(|error| self.wrong(error))
    }

    /// What is wrong with an answer, for people.
    fn wrong(&self, error: HttpError) -> String {
        match error {
            HttpError::NoHttp => Stranger::in_place_of_http(self.answer.rest()),
            error => format!("the platform's answer: {error}"),
        }
    }

    /// Takes what there is of the answer.
    fn answered(
        &mut self,
        has_ended: bool,
        (slot, whom): (u32, Whom),
        stamp: (Nanos, Option<Nanos>),
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<Step, String> {
        let Some(begun) = self.answer.begun() else {
            return match (has_ended, self.state) {
                (false, _) => Ok(Step::Same),
                (true, _) if self.is_unused() => Ok(self.ended()),
                (true, State::Securing) => {
                    Err("the platform closed the connection within the handshake of TLS".into())
                }
                (true, _) => Err("the platform closed the connection before it answered".into()),
            };
        };
        let (stays, has_events) = (begun.stays, begun.has_events);
        if !io.role.request.is_success(begun.status) {
            let is_known = has_ended || self.answer.is_whole() || self.body.len() > REFUSAL;
            return if is_known { Err(self.refused(begun, io)) } else { Ok(Step::Same) };
        }
        if has_ended {
            self.answer.end().map_err(|error| self.wrong(error))?;
        }
        match &io.role.polls {
            None => self.streamed(has_events, whom, stamp, io, events),
            Some(_) if self.body.len() > LARGEST_ANSWER => {
                Err(self.wrong(HttpError::BodyTooLong(LARGEST_ANSWER)))
            }
            Some(_) if !self.answer.is_whole() => Ok(Step::Same),
            Some(_) => {
                // Answered before all of the request was sent: its rest would stand before the next one.
                let stays = stays && !has_ended && self.state == State::Receiving;
                self.polled((slot, stays), whom, stamp, io, events)
            }
        }
    }

    /// Whether nothing of an answer came over a connection that had answers before: the platform may close it (RFC 9112 section 9.3.1).
    fn is_unused(&self) -> bool {
        let waits = matches!(self.state, State::Receiving | State::Resting(_));
        waits && self.has_answered && self.answer.begun().is_none() && self.answer.rest().is_empty()
    }

    /// The platform has closed a connection that it may close: at once a new one is needed, unless the next request goes later.
    fn ended(&mut self) -> Step {
        self.stream.close();
        if self.state == State::Receiving { Step::Ended } else { Step::Same }
    }

    /// How the platform refuses what is asked for, where its answer has begun as a refusal.
    fn refusal(&self, io: &Io) -> Option<String> {
        let begun = self.answer.begun().filter(|begun| !io.role.request.is_success(begun.status))?;
        Some(self.refused(begun, io))
    }

    /// The platform refuses what is asked for.
    fn refused(&self, begun: &Begun, io: &Io) -> String {
        let Begun { status, reason, location, .. } = begun;
        if *status == UNAUTHORIZED && io.has_token {
            io.view.refuse(self.generation);
        }
        let location = location.as_ref().filter(|_| (300..400).contains(status));
        let whither =
            location.map(|location| format!(" to {location}, which is not followed")).unwrap_or_default();
        // What is missing may end a secret that begins here.
        let mut own = words::own(&self.body);
        own.extend((!self.answer.is_whole()).then_some(CUT));
        words::refusal(&format!("the platform answered {status} {reason}{whither}{own}"), io.heads.target())
    }

    /// A stream goes on.
    fn streamed(
        &mut self,
        has_events: bool,
        whom: Whom,
        stamp: (Nanos, Option<Nanos>),
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<Step, String> {
        let begins = self.state == State::Asking;
        if begins {
            self.state = State::Receiving;
            self.messages.begin(has_events);
            self.backoff = Backoff::new(io.stream.pauses);
            self.wire_bytes = 0;
        }
        let (mut contents, mut traffic) = (0, Traffic::default());
        let own = &io.contents;
        let mut each = |content: &[u8]| {
            contents += content.len();
            traffic.notifications.add(content.len(), content.len());
            notify(own, whom.subscriber, stamp, content, events);
        };
        let cut = self.messages.push(&self.body, LARGEST_MESSAGE, &mut each);
        self.body.clear();
        // What frames messages belongs to those that are whole.
        let framing = self.wire_bytes.saturating_sub(contents + self.messages.pending());
        if contents > 0 {
            traffic.notifications.header_bytes += framing as u64;
            self.wire_bytes = self.messages.pending();
        }
        io.stream.traffic += traffic;
        cut.map_err(|error| self.wrong(error))?;
        if self.answer.is_whole() {
            return Err("the platform ended the stream".into());
        }
        Ok(if begins { Step::Receives } else { Step::Same })
    }

    /// An answer to a poll is whole.
    fn polled(
        &mut self,
        (slot, stays): (u32, bool),
        whom: Whom,
        stamp: (Nanos, Option<Nanos>),
        io: &mut Io,
        events: &mut Vec<Event>,
    ) -> Result<Step, String> {
        if !self.answer.rest().is_empty() {
            return Err("the platform answered twice".into());
        }
        self.backoff = Backoff::new(io.stream.pauses);
        let is_empty = io.contents.marker(&self.body).is_none();
        if !is_empty {
            io.stream.traffic.notifications.add(self.wire_bytes, self.body.len());
            notify(&io.contents, whom.subscriber, stamp, &self.body, events);
        }
        self.has_answered = true;
        let mut repeats = false;
        if let Some(next) = io.polls().and_then(|polls| polls.next.as_ref()) {
            match since(next, &self.since, &self.body)? {
                Some(since) => {
                    repeats = !is_empty && since == self.since;
                    self.since = since;
                }
                // The next request would ask for the same once more, as fast as the platform answers.
                None if !is_empty => {
                    return Err(format!(
                        "an answer with messages has nothing at `{}`, where `since` is to stand",
                        next.since
                    ));
                }
                None => {}
            }
        }
        self.body.clear();
        self.body.shrink_to(KEPT);
        if repeats {
            events.push(Event::Incident { reason: REPEATS.into() });
        }
        let at = self.asked_at + EMPTY_ANSWER;
        let rests = (is_empty || repeats) && at > io.stream.clock.now();
        match (stays, rests) {
            (true, false) => self.ask(slot, whom, io).map(|_| Step::Receives),
            (_, true) => {
                (self.state, self.answer) = (State::Resting(at), StreamReader::default());
                if !stays {
                    self.stream.close();
                }
                Ok(Step::Receives)
            }
            (false, false) => Ok(Step::Ended),
        }
    }

    /// Whether there is a socket.
    pub fn is_there(&self) -> bool {
        self.stream.is_there()
    }

    /// Tells whether its next step waits for the platform.
    fn tell_urgency(&mut self, io: &mut Io) {
        let waits = match self.state {
            State::Connecting | State::Securing => true,
            State::Asking => io.role.ready_after.is_none(),
            // The next poll goes when the answer to the last one has come.
            State::Receiving => io.polls().is_some(),
            State::Idle | State::Resting(_) | State::Pausing => false,
        };
        io.stream.readiness.tell_urgency(&mut self.urgent, waits && self.stream.is_there());
    }

    /// Closes, as nobody wants it any more.
    pub fn leave(&mut self, io: &mut Io) {
        self.close();
        self.state = State::Idle;
        self.tell_urgency(io);
        (self.is_counted, self.backoff) = (false, Backoff::new(io.stream.pauses));
        self.since.clear();
        self.messages = Messages::default();
    }

    /// When the present attempt to connect began.
    pub fn began(&self) -> Nanos {
        self.stream.began()
    }

    /// The connection is no more; when it is to be made again, if it is.
    pub fn pause(&mut self, at: Nanos, io: &mut Io) -> Nanos {
        self.close();
        self.state = State::Pausing;
        self.tell_urgency(io);
        let own = self.backoff.next(io.stream.pauses, &mut io.random);
        let wanted =
            self.messages.retry().map(|milliseconds| Nanos::from_millis(milliseconds.min(60_000) as i64));
        at + own.max(wanted.unwrap_or(Nanos::ZERO))
    }

    /// Forgets the connection and what was on its way.
    fn close(&mut self) {
        self.stream.close();
        self.has_answered = false;
        self.answer = StreamReader::default();
        self.body = Vec::new();
        self.out.clear();
        self.written = 0;
    }
}
