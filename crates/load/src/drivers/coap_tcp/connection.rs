//! A connection of CoAP over TCP (RFC 8323): TCP, TLS where there is, what each side takes, and the messages in what comes.

use super::log_in::LogIn;
use super::reasons;
use crate::driver::{Client, Event};
use crate::drivers::socket::Interest;
use crate::drivers::stream::outgoing::Outgoing;
use crate::drivers::stream::{Backoff, Stream, StreamIo};
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Message, OptionList, code};
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Readings of one socket before others get their turn.
const READINGS: usize = 4;
/// The longest message that we take, in bytes, twice the largest content of a scenario: a longer one would have to be kept in
/// memory until it is whole.
pub const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;

/// The token of pings; no request has it.
const PING_TOKEN: [u8; 6] = [0xff, 0xff, 0xfe, 0, 0, 0];

/// How a connection stands with the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody wants it.
    Closed,
    /// TCP.
    Connecting,
    /// TLS.
    Securing,
    /// The platform has not said what it takes.
    Settling,
    /// It is not known whether the platform lets the client in.
    LoggingIn,
    /// Requests go over it.
    Ready,
    /// To be opened again after a pause.
    Pausing,
}

/// Whether a platform that says nothing was asked if it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pinged {
    No,
    /// It has not taken what was sent before; the kernel had taken so many bytes.
    Waits(u64),
    Yes,
}

/// What the platform takes, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a message; `None` where nothing was said and nothing is asked.
    pub max_message_size: Option<u32>,
    /// Whether it understands bodies in blocks, so that one message may have many of them.
    pub takes_blocks: bool,
}

/// When something was received, and how long it could be read before, where that is known.
pub type Stamp = (Nanos, Option<Nanos>);

/// Something that came which concerns the owner.
pub enum Incoming<'a> {
    /// Requests may go, those to be let in first.
    Settled,
    /// An answer to one of those.
    LogIn(Message<'a>),
    /// Any other answer.
    Answer(Message<'a>),
    /// A request.
    Request(Message<'a>),
}

/// See the module.
pub struct Connection {
    pub state: State,
    stream: Stream,
    /// What is to be sent. A mark is the place of an exchange.
    pub out: Outgoing,
    /// The exchanges whose requests stand there, in their order: the place of each, and its turn.
    pub written: VecDeque<(u32, u32)>,
    /// What came of a message that is not whole.
    partial: Vec<u8>,
    pub settings: Settings,
    /// Whether capabilities are exchanged.
    has_csm: bool,
    /// Requests to be let in that were written.
    log_ins: u32,
    /// When anything came last, and whether a ping was sent since.
    heard: Nanos,
    pinged: Pinged,
    /// Bytes that the kernel has taken.
    taken: u64,
    /// Whether the platform takes no further requests, and when the next connection may be made.
    pub released: Option<Nanos>,
    /// Devices that wait for it, and those that speak over it.
    pub waiting: Vec<u32>,
    pub members: Vec<u32>,
    /// Devices that wait for room in `out`.
    pub crowded: Vec<u32>,
    pub backoff: Backoff,
    /// Whether it was ever ready: only then is it tried again by itself.
    pub was_ready: bool,
    /// Whether a timer looks whether the platform is still there.
    pub is_looked_after: bool,
    /// Whether it is among those with something to send.
    pub is_unsent: bool,
    /// When its timer is due; one that fires at another time is of an earlier wish.
    pub timer_at: Nanos,
}

impl Connection {
    /// One that is not open; `has_csm` says whether capabilities are exchanged.
    pub fn new(pauses: (Nanos, Nanos), has_csm: bool) -> Connection {
        Connection {
            state: State::Closed,
            stream: Stream::default(),
            out: Outgoing::default(),
            written: VecDeque::new(),
            partial: Vec::new(),
            settings: Settings { max_message_size: None, takes_blocks: false },
            has_csm,
            log_ins: 0,
            heard: Nanos::ZERO,
            pinged: Pinged::No,
            taken: 0,
            released: None,
            waiting: Vec::new(),
            members: Vec::new(),
            crowded: Vec::new(),
            backoff: Backoff::new(pauses),
            was_ready: false,
            is_looked_after: false,
            is_unsent: false,
            timer_at: Nanos::MAX,
        }
    }

    /// The first device that speaks over it, or is about to.
    pub fn first(&self) -> u32 {
        self.members.first().or(self.waiting.first()).copied().unwrap_or_default()
    }

    /// The number of the connection: those of one client are counted.
    pub fn generation(&self) -> u32 {
        self.stream.generation()
    }

    /// Whether an event of a socket of that generation is about this one.
    pub fn is_of(&self, generation: u32) -> bool {
        self.stream.is_of(generation)
    }

    /// When the present attempt to connect began.
    pub fn began(&self) -> Nanos {
        self.stream.began()
    }

    /// Begins to connect; `client` is whose certificate is shown.
    ///
    /// # Errors
    /// Why that cannot be, for people.
    pub fn open(&mut self, slot: u32, client: (Client, u32), io: &mut StreamIo) -> Result<(), String> {
        self.state = State::Connecting;
        (self.released, self.log_ins, self.pinged, self.is_looked_after) = (None, 0, Pinged::No, false);
        self.stream.open(slot, client, io)
    }

    /// Why it was not there in time, for people.
    pub fn late(&self, timeout: Nanos) -> String {
        match self.state {
            State::Securing => {
                format!(
                    "the TCP connection was accepted but its handshake was not answered in full within {timeout}"
                )
            }
            State::Settling => reasons::no_csm(timeout),
            State::LoggingIn => {
                format!(
                    "the platform was reached but did not answer the request to be let in within {timeout}"
                )
            }
            _ => format!("no TCP connection within {timeout}"),
        }
    }

    /// TCP has come to its end.
    ///
    /// # Errors
    /// There is no connection: why, for people.
    pub fn connected(&mut self, at: Nanos, taker: &mut dyn FnMut(Incoming<'_>, Stamp)) -> Result<(), String> {
        match self.stream.connected(at)? {
            true => self.state = State::Securing,
            false => self.settle((at, None), taker),
        }
        Ok(())
    }

    /// What lies below is connected.
    fn settle(&mut self, at: Stamp, taker: &mut dyn FnMut(Incoming<'_>, Stamp)) {
        if !self.has_csm {
            self.settings = Settings { max_message_size: None, takes_blocks: true };
            return self.settled(at, taker);
        }
        self.state = State::Settling;
        let mut list = OptionList::new();
        list.add_number(signal::MAX_MESSAGE_SIZE, LARGEST_MESSAGE as u32);
        list.add(signal::BLOCK_WISE_TRANSFER, b"");
        stream::append(signal::CSM, b"", &list, &[], self.out.bytes());
    }

    fn settled(&mut self, at: Stamp, taker: &mut dyn FnMut(Incoming<'_>, Stamp)) {
        self.state = State::LoggingIn;
        taker(Incoming::Settled, at);
    }

    /// How many requests to be let in were written.
    pub fn asked_to_log_in(&self) -> u32 {
        self.log_ins
    }

    /// Writes the next request to be let in, of a device and a subscriber; whether none is left, so that others may go.
    ///
    /// # Errors
    /// It is longer than the platform takes.
    pub fn log_in(&mut self, requests: &mut LogIn, client: (u32, u32)) -> Result<bool, String> {
        let begin = self.out.bytes().len();
        if !requests.write(self.log_ins, client, self.out.bytes()) {
            self.state = State::Ready;
            return Ok(true);
        }
        self.log_ins += 1;
        let length = self.out.bytes().len() - begin;
        match self.settings.max_message_size.filter(|most| length > *most as usize) {
            Some(most) => Err(format!(
                "the request to be let in has {length} bytes, and the platform takes {most} (RFC 8323 section 5.3.1)"
            )),
            None => Ok(false),
        }
    }

    /// Looks whether the platform is still there, where nothing came for so long: when to look again.
    ///
    /// # Errors
    /// It did not answer: why the connection is of no use, for people.
    pub fn look_after(&mut self, now: Nanos, interval: Nanos) -> Result<Nanos, String> {
        let silent_until = self.heard + interval;
        if now < silent_until {
            return Ok(silent_until);
        }
        match self.pinged {
            Pinged::Yes => {
                return Err(format!("the platform answered neither a request nor a ping for {interval}"));
            }
            Pinged::Waits(taken) if taken == self.taken && !self.out.is_empty() => {
                return Err(format!("the platform took nothing and sent nothing for {interval}"));
            }
            Pinged::No | Pinged::Waits(_) if self.out.is_empty() => {
                stream::append(signal::PING, &PING_TOKEN, &OptionList::new(), &[], self.out.bytes());
                self.pinged = Pinged::Yes;
            }
            // A ping would come behind all that the platform has not taken.
            Pinged::No | Pinged::Waits(_) => self.pinged = Pinged::Waits(self.taken),
        }
        Ok(now + interval)
    }

    /// Reads what is there, and gives what concerns the owner to `taker`, with the time when it was received.
    ///
    /// # Errors
    /// The connection is of no use any more: why, for people.
    pub fn read(
        &mut self,
        io: &mut StreamIo,
        events: &mut Vec<Event>,
        taker: &mut dyn FnMut(Incoming<'_>, Stamp),
    ) -> Result<(), String> {
        for _ in 0..READINGS {
            let mut scratch = std::mem::take(&mut io.scratch);
            let read = match self.stream.read(&mut scratch) {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => Err(self.closed()),
                Ok(Some(reading)) => {
                    let at = io.readiness.received(io.clock.now(), reading.lag);
                    (self.heard, self.pinged) = (at.0, Pinged::No);
                    io.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    self.unwrap(bytes, at, io, events, taker).map(|()| reading.length == scratch.len())
                }
                Err(error) => Err(format!("connection lost: {error}")),
            };
            io.scratch = scratch;
            if !read? {
                break;
            }
        }
        Ok(())
    }

    fn closed(&self) -> String {
        match self.state {
            State::Settling => reasons::closed_at_once(&self.partial),
            _ => reasons::closed(self.partial.len()),
        }
    }

    /// Takes TLS off what came, where there is.
    fn unwrap(
        &mut self,
        bytes: &[u8],
        at: Stamp,
        io: &mut StreamIo,
        events: &mut Vec<Event>,
        taker: &mut dyn FnMut(Incoming<'_>, Stamp),
    ) -> Result<(), String> {
        if !self.stream.is_layered() {
            return self.messages(bytes, at, taker);
        }
        let mut clear = std::mem::take(&mut io.clear);
        clear.clear();
        let unwrapped = self.stream.unwrap(bytes, at.0, &mut clear, events);
        if self.state == State::Securing && self.stream.is_open() {
            self.settle(at, taker);
        }
        // What came before the end may have been an answer.
        let read = self.messages(&clear, at, taker);
        io.clear = clear;
        unwrapped.and(read)
    }

    /// Cuts messages out of what came.
    fn messages(
        &mut self,
        bytes: &[u8],
        at: Stamp,
        taker: &mut dyn FnMut(Incoming<'_>, Stamp),
    ) -> Result<(), String> {
        let mut joined = std::mem::take(&mut self.partial);
        let mut rest = match joined.is_empty() {
            true => bytes,
            false => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        loop {
            match stream::decode(rest, LARGEST_MESSAGE) {
                Ok(Frame::Part(_)) => break,
                Ok(Frame::Message(message, length)) => {
                    self.take(&message, at, taker)?;
                    rest = rest.get(length..).unwrap_or_default();
                }
                Err(_) => return Err(reasons::no_message(rest, LARGEST_MESSAGE)),
            }
        }
        self.partial = match joined.is_empty() {
            true => rest.to_vec(),
            false => {
                let gone = joined.len() - rest.len();
                joined.drain(..gone);
                joined
            }
        };
        Ok(())
    }

    fn take(
        &mut self,
        message: &Message<'_>,
        at: Stamp,
        taker: &mut dyn FnMut(Incoming<'_>, Stamp),
    ) -> Result<(), String> {
        match message.code {
            signal::CSM => return self.take_settings(message, at, taker),
            signal::ABORT => return Err(reasons::aborted(message.payload)),
            _ if self.state == State::Settling => {
                return Err(format!(
                    "the first message of the platform is {} and no CSM (RFC 8323 section 5.3): is this the port for CoAP \
                     over TCP? `coap.csm: false` is for a platform that sends none",
                    code::dotted(message.code)
                ));
            }
            // A platform that does not take what is there gets no more.
            signal::PING if self.out.is_full() => {}
            signal::PING => {
                stream::append(signal::PONG, message.token, &OptionList::new(), &[], self.out.bytes())
            }
            signal::RELEASE => {
                let pause = message.number(signal::HOLD_OFF).unwrap_or_default();
                self.released = Some(at.0 + Nanos::from_secs(i64::from(pause)));
            }
            // An empty message is ignored (section 3.4), and so is a signal that we do not know or did not wait for.
            code::EMPTY => {}
            code if signal::is_signal(code) => {}
            code if code >> 5 == 0 => taker(Incoming::Request(*message), at),
            _ if self.state == State::LoggingIn => taker(Incoming::LogIn(*message), at),
            _ => taker(Incoming::Answer(*message), at),
        }
        Ok(())
    }

    fn take_settings(
        &mut self,
        csm: &Message<'_>,
        at: Stamp,
        taker: &mut dyn FnMut(Incoming<'_>, Stamp),
    ) -> Result<(), String> {
        // Those that must not be ignored have odd numbers, and we know none of them.
        if let Some((number, _)) = csm.options().find(|(number, _)| number % 2 == 1) {
            let mut list = OptionList::new();
            list.add_number(signal::BAD_CSM_OPTION, u32::from(number));
            stream::append(signal::ABORT, b"", &list, &[], self.out.bytes());
            return Err(format!(
                "the platform's CSM has option {number}, which must not be ignored and is unknown"
            ));
        }
        let before = match self.state {
            State::Settling => stream::DEFAULT_MAX_MESSAGE_SIZE,
            _ => self.settings.max_message_size.unwrap_or(stream::DEFAULT_MAX_MESSAGE_SIZE),
        };
        let takes_blocks = csm.option(signal::BLOCK_WISE_TRANSFER).is_some() || self.settings.takes_blocks;
        let max_message_size = Some(csm.number(signal::MAX_MESSAGE_SIZE).unwrap_or(before));
        self.settings = Settings { max_message_size, takes_blocks };
        if self.state == State::Settling {
            self.settled(at, taker);
        }
        Ok(())
    }

    /// Sends what the kernel takes, and tells the place and turn of each request that has gone, with the time when the call began.
    ///
    /// # Errors
    /// The connection is lost: why, for people.
    pub fn send(
        &mut self,
        slot: u32,
        io: &mut StreamIo,
        mut gone: impl FnMut((u32, u32), Nanos, &mut StreamIo),
    ) -> Result<(), String> {
        while !self.out.is_empty() && !matches!(self.state, State::Connecting | State::Securing) {
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.clock.now();
            let written = self.stream.write(self.out.rest(), &mut io.traffic);
            let count = written.map_err(|error| format!("cannot send: {error}"))?;
            self.taken += count as u64;
            self.out.take(count);
            while self.out.next_taken().is_some() {
                if let Some(place) = self.written.pop_front() {
                    gone(place, at, io);
                }
            }
            if count == 0 {
                break;
            }
        }
        self.stream.flush(&mut io.traffic).map_err(|error| format!("cannot send: {error}"))?;
        let write = self.state == State::Connecting || self.stream.is_waiting() || !self.out.is_empty();
        self.out.tidy();
        self.stream.want(slot, Interest { read: true, write }, &io.readiness);
        Ok(())
    }

    /// Takes out those requests of which nothing has gone that are unwanted; all are asked about, the newest first.
    pub fn withdraw(&mut self, mut is_unwanted: impl FnMut((u32, u32)) -> bool) {
        let (sealed, written) = (self.stream.sealed(), &mut self.written);
        let mut at = written.len();
        self.out.withdraw_those(sealed, |_| {
            at = at.saturating_sub(1);
            let is_withdrawn = written.get(at).is_some_and(|place| is_unwanted(*place));
            if is_withdrawn {
                written.remove(at);
            }
            is_withdrawn
        });
    }

    /// Says that nothing follows, as well as the socket lets it, and closes.
    pub fn leave(&mut self, io: &mut StreamIo) {
        let is_idle = self.state == State::Ready && self.out.is_empty();
        if is_idle && self.has_csm {
            stream::append(signal::RELEASE, b"", &OptionList::new(), &[], self.out.bytes());
        }
        self.stream.close_with(self.out.rest(), is_idle, &mut io.traffic);
        self.close();
    }

    /// Sends the last words, and closes.
    pub fn fail(&mut self, io: &mut StreamIo) {
        self.stream.close_with(self.out.rest(), false, &mut io.traffic);
        self.close();
    }

    fn close(&mut self) {
        self.stream.close();
        self.out.clear();
        self.written.clear();
        self.partial = Vec::new();
        self.crowded.clear();
        self.settings = Settings { max_message_size: None, takes_blocks: false };
        self.state = State::Closed;
    }
}
