//! One WebSocket of a client: TCP, TLS where there is, the request for it, and the messages that come over it.

use super::asking::Asked;
use crate::driver::{Client, Event, Traffic};
use crate::drivers::socket::Interest;
use crate::drivers::stream::layers::websocket::{LARGEST_MESSAGE, WebSocket};
use crate::drivers::stream::outgoing::{Mark, Outgoing};
use crate::drivers::stream::{Backoff, Stream, StreamIo};

use crate::drivers::words;
use plimsoll_codec::socket_io::{self, Packet};
use plimsoll_codec::websocket::{Opcode, header_length};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::WebSocketPlan;
use plimsoll_stats::distribution::Random;
use rustix::event::epoll::EventFlags;

/// Bytes read from a socket at once.
pub const READ_SIZE: usize = 256 * 1024;
/// Readings of one socket before others get their turn.
const READINGS: usize = 4;

/// Bytes before an event of Socket.IO at most: its type, and a number.
const LONGEST_EVENT_HEAD: usize = 12;

/// How a WebSocket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody wants it.
    Idle,
    /// TCP.
    Connecting,
    /// TLS.
    Securing,
    /// The request for a WebSocket.
    Asking,
    /// It is there, and Socket.IO over it is not.
    Joining,
    /// It is there; whether the platform lets the client in is not known.
    Opening,
    /// Messages go over it.
    Ready,
    /// To be opened again after a pause.
    Pausing,
}

/// When something was received, and how long it could be read before, where that is known.
pub type Stamp = (Nanos, Option<Nanos>);

/// What is known of a message beside its content.
#[derive(Clone, Copy)]
pub struct Came {
    pub stamp: Stamp,
    /// Its bytes on the way, with the head of its frame.
    pub wire_bytes: usize,
    /// The message of ours that it acknowledges, where the framing says so.
    pub acknowledges: Option<u32>,
}

/// What each whole message is given to.
pub type Taker<'a> = dyn FnMut(&mut Vec<u8>, Came) + 'a;

/// See the module.
pub struct Connection {
    pub state: State,
    /// TCP, and TLS where there is.
    stream: Stream,
    websocket: Option<WebSocket>,
    /// What lets the client in over Socket.IO; `None` where messages are not framed.
    auth: Option<Vec<u8>>,
    /// What is to be sent. A mark is the sequence of a message.
    pub out: Outgoing,
    /// What came of a message that is not whole yet.
    partial: Vec<u8>,
    /// The generation of the access token that was said last over it, in the request or in a message; `None` where none was.
    pub token: Option<u64>,
    /// Whether Socket.IO did not let the client in.
    is_refused: bool,
    /// When the WebSocket was there.
    opened_at: Nanos,
    backoff: Backoff,
    /// Whether it was ever ready: only then is it tried again by itself.
    was_ready: bool,
    /// Counted among those whose next step waits for the platform.
    urgent: bool,
}

impl Connection {
    /// One that was never open; `pauses` are those before it is made again.
    pub fn new(pauses: (Nanos, Nanos)) -> Connection {
        Connection {
            state: State::Idle,
            stream: Stream::default(),
            websocket: None,
            auth: None,
            out: Outgoing::default(),
            partial: Vec::new(),
            token: None,
            is_refused: false,
            opened_at: Nanos::ZERO,
            backoff: Backoff::new(pauses),
            was_ready: false,
            urgent: false,
        }
    }

    /// When the WebSocket was there, before anything was said over it.
    pub fn opened_at(&self) -> Nanos {
        self.opened_at
    }

    /// The number of the connection that is made next.
    pub fn next_generation(&self) -> u32 {
        self.stream.generation().wrapping_add(1)
    }

    /// When the present attempt to connect began.
    pub fn began(&self) -> Nanos {
        self.stream.began()
    }

    /// Whether there is a socket.
    pub fn is_there(&self) -> bool {
        self.stream.is_there()
    }

    /// Whether an event of a socket of that generation is about this one.
    pub fn is_of(&self, generation: u32) -> bool {
        self.stream.is_of(generation)
    }

    /// Bytes of `out` beyond those taken that cannot be called back.
    pub fn sealed(&self) -> usize {
        self.stream.sealed()
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// Why that cannot be, for people.
    pub fn open(
        &mut self,
        slot: u32,
        client: (Client, u32),
        Asked { wish, masks, auth, token }: Asked,
        io: &mut StreamIo,
    ) -> Result<(), String> {
        self.state = State::Connecting;
        (self.token, self.auth, self.is_refused) = (token, auth, false);
        self.websocket = Some(WebSocket::new(masks, wish));
        self.stream.open(slot, client, io)
    }

    /// The access token that the request was refused for, or the client over Socket.IO, by its generation.
    pub fn refused_token(&self) -> Option<u64> {
        let is_unauthorized = self.websocket.as_ref().is_some_and(WebSocket::is_unauthorized);
        self.token.filter(|_| is_unauthorized || self.is_refused)
    }

    /// Why it was not there in time, for people.
    pub fn late(&self, timeout: Nanos) -> String {
        let what = match self.state {
            State::Connecting => "no TCP connection",
            State::Securing => "the TCP connection was accepted but its handshake was not answered in full",
            State::Asking => "the TCP connection was accepted but the WebSocket request was not answered",
            State::Joining => "the WebSocket was opened but Socket.IO was not",
            State::Opening => "the WebSocket was opened but a message to be let in was not answered",
            State::Idle | State::Ready | State::Pausing => "no WebSocket",
        };
        format!("{what} within {timeout}")
    }

    /// Takes what an event of its socket brings, and gives each whole message to `taker`; whether there is a WebSocket since.
    ///
    /// # Errors
    /// The connection is of no use any more: why, for people.
    pub fn progress(
        &mut self,
        flags: EventFlags,
        wanted: &WebSocketPlan,
        io: &mut StreamIo,
        events: &mut Vec<Event>,
        taker: &mut Taker<'_>,
    ) -> Result<bool, String> {
        let was_asking =
            matches!(self.state, State::Connecting | State::Securing | State::Asking | State::Joining);
        let taken = if self.state == State::Connecting {
            self.stream.connected(io.clock.now()).map(|is_layered| match is_layered {
                true => self.state = State::Securing,
                false => self.ask(wanted),
            })
        } else if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            self.read(wanted, io, events, taker)
        } else {
            Ok(())
        };
        taken.map(|()| was_asking && self.state == State::Opening)
    }

    /// What lies under the WebSocket is connected.
    fn ask(&mut self, wanted: &WebSocketPlan) {
        self.state = State::Asking;
        if let Some(websocket) = &self.websocket {
            websocket.request(wanted, self.out.bytes());
        }
    }

    fn read(
        &mut self,
        wanted: &WebSocketPlan,
        io: &mut StreamIo,
        events: &mut Vec<Event>,
        taker: &mut Taker<'_>,
    ) -> Result<(), String> {
        for _ in 0..READINGS {
            let mut scratch = std::mem::take(&mut io.scratch);
            let outcome = match self.stream.read(&mut scratch) {
                Ok(None) => Ok(false),
                Ok(Some(reading)) if reading.length == 0 => {
                    Err(self.lost("the platform closed the connection".into()))
                }
                Ok(Some(reading)) => {
                    let at = io.readiness.received(io.clock.now(), reading.lag);
                    io.traffic.received += reading.length as u64;
                    let bytes = scratch.get(..reading.length).unwrap_or_default();
                    self.take_in(bytes, at, (wanted, io), events, taker)
                        .map(|()| reading.length == scratch.len())
                }
                Err(error) => Err(self.lost(format!("connection lost: {error}"))),
            };
            io.scratch = scratch;
            if !outcome? {
                break;
            }
        }
        Ok(())
    }

    /// Why a connection was lost, and what may be behind it.
    fn lost(&self, what: String) -> String {
        match self.state {
            State::Securing | State::Asking if self.was_ready => {
                format!("{what}, before there was a WebSocket again")
            }
            State::Securing | State::Asking => {
                format!("{what}, before there was a WebSocket; is it the port for this kind of address?")
            }
            State::Joining | State::Opening => format!("{what}, before the client was let in"),
            _ => what,
        }
    }

    /// Takes TLS off the bytes that came, where there is.
    fn take_in(
        &mut self,
        bytes: &[u8],
        at: Stamp,
        (wanted, io): (&WebSocketPlan, &mut StreamIo),
        events: &mut Vec<Event>,
        taker: &mut Taker<'_>,
    ) -> Result<(), String> {
        if !self.stream.is_layered() {
            return self.frames(bytes, at, wanted, taker);
        }
        let mut clear = std::mem::take(&mut io.clear);
        clear.clear();
        let taken = self.stream.unwrap(bytes, at.0, &mut clear, events);
        if self.state == State::Securing && self.stream.is_open() {
            self.ask(wanted);
        }
        // What came before the end may have been an answer.
        let read = self.frames(&clear, at, wanted, taker);
        io.clear = clear;
        taken.and(read)
    }

    fn frames(
        &mut self,
        bytes: &[u8],
        at: Stamp,
        wanted: &WebSocketPlan,
        taker: &mut Taker<'_>,
    ) -> Result<(), String> {
        let Some(websocket) = &mut self.websocket else { return Ok(()) };
        let mut socket_io = self.auth.as_ref().map(|_| SocketIo::default());
        let mut each = |opcode, content: &mut Vec<u8>, length: usize| {
            let wire_bytes = header_length(length, false) + length;
            let came = Came { stamp: at, wire_bytes, acknowledges: None };
            match &mut socket_io {
                None => taker(content, came),
                // Attachments of binary events have no framing of their own.
                Some(_) if opcode == Opcode::Binary => {}
                Some(socket_io) => socket_io.take(content, came, taker)?,
            }
            content.clear();
            Ok(())
        };
        let read = websocket.incoming(wanted, bytes, &mut self.partial, self.out.bytes(), &mut each);
        if self.state == State::Asking && websocket.is_open() {
            self.state = if self.auth.is_some() { State::Joining } else { State::Opening };
            self.opened_at = at.0;
        }
        if let (Some(socket_io), Some(auth)) = (socket_io, &self.auth) {
            let mut answers = Vec::new();
            self.is_refused |= socket_io.is_refused;
            if socket_io.is_opened && self.state == State::Joining {
                socket_io::connect(auth, &mut answers);
                websocket.message(Opcode::Text, &answers, self.out.bytes());
            }
            for _ in 0..socket_io.pings {
                websocket.message(Opcode::Text, socket_io::PONG, self.out.bytes());
            }
            if socket_io.is_connected && self.state == State::Joining {
                (self.state, self.opened_at) = (State::Opening, at.0);
            }
        }
        read?;
        let announced = self.partial.len() as u64 + websocket.announced();
        if announced > LARGEST_MESSAGE as u64 {
            return Err(format!("a message of more than {LARGEST_MESSAGE} bytes was sent to us"));
        }
        if self.partial.is_empty() && self.partial.capacity() > READ_SIZE {
            self.partial = Vec::new();
        }
        Ok(())
    }

    /// The platform has let the client in at that time: what is told of it.
    pub fn let_in(&mut self, client: Client, at: Nanos, pauses: (Nanos, Nanos)) -> Event {
        self.state = State::Ready;
        self.backoff = Backoff::new(pauses);
        let again = std::mem::replace(&mut self.was_ready, true);
        Event::Ready { client, took: at - self.began(), again }
    }

    /// Appends one message, and marks it where it has a sequence. Over Socket.IO, the platform is asked to acknowledge it where a number
    /// is given for that.
    pub fn message(
        &mut self,
        opcode: Opcode,
        content: &[u8],
        sequence: Option<u32>,
        acknowledged: Option<u32>,
    ) {
        let Some(websocket) = &mut self.websocket else { return };
        let begin = self.out.bytes().len();
        match self.auth {
            None => websocket.message(opcode, content, self.out.bytes()),
            Some(_) => {
                let mut event = Vec::with_capacity(content.len() + LONGEST_EVENT_HEAD);
                socket_io::event(acknowledged, &mut event);
                event.extend_from_slice(content);
                websocket.message(Opcode::Text, &event, self.out.bytes());
            }
        }
        if let Some(sequence) = sequence {
            self.out.mark(begin, sequence, content.len());
        }
    }

    /// Whether something may be handed to the kernel.
    fn may_send(&self) -> bool {
        !self.out.is_empty() && !matches!(self.state, State::Connecting | State::Securing)
    }

    /// Hands to the kernel what it takes, and tells the mark of each message that has gone, with the time when the call began; whether it
    /// takes more.
    ///
    /// # Errors
    /// The connection is lost: why, for people.
    pub fn write(&mut self, io: &mut StreamIo, mut gone: impl FnMut(Mark, Nanos)) -> Result<bool, String> {
        if !self.may_send() {
            return Ok(false);
        }
        // Before, not after: a platform on this host may have answered by the time that the call returns.
        let at = io.clock.now();
        let written = self.stream.write(self.out.rest(), &mut io.traffic);
        let count = written.map_err(|error| format!("cannot send: {error}"))?;
        self.out.take(count);
        while let Some(mark) = self.out.next_taken() {
            gone(mark, at);
        }
        Ok(count > 0)
    }

    /// Ends a turn of writing: `waits` says whether messages wait for the platform.
    ///
    /// # Errors
    /// The connection is lost: why, for people.
    pub fn written(&mut self, slot: u32, waits: bool, io: &mut StreamIo) -> Result<(), String> {
        self.stream.flush(&mut io.traffic).map_err(|error| format!("cannot send: {error}"))?;
        let write = self.state == State::Connecting || self.stream.is_waiting() || !self.out.is_empty();
        // A platform that does not take our answers to its pings gets none of them read.
        let read = !self.out.is_stuck();
        self.out.tidy();
        self.stream.want(slot, Interest { read, write }, &io.readiness);
        self.tell_urgency(waits, io);
        Ok(())
    }

    /// Tells whether its next step waits for the platform.
    pub fn tell_urgency(&mut self, waits: bool, io: &mut StreamIo) {
        let waits = waits || !self.out.is_empty() || self.state != State::Ready;
        io.readiness.tell_urgency(&mut self.urgent, waits && self.stream.is_there());
    }

    /// Says goodbye as well as the socket lets it, and closes; whether it was ready.
    pub fn leave(&mut self, io: &mut StreamIo) -> bool {
        let was_ready = self.state == State::Ready;
        if let Some(websocket) = self.websocket.as_mut().filter(|_| was_ready && self.out.is_empty()) {
            websocket.close(self.out.bytes());
            self.stream.close_with(self.out.rest(), true, &mut Traffic::default());
        }
        self.close();
        self.state = State::Idle;
        self.tell_urgency(false, io);
        was_ready
    }

    /// As if it had never been open.
    pub fn forget(&mut self, pauses: (Nanos, Nanos)) {
        self.backoff = Backoff::new(pauses);
        self.was_ready = false;
    }

    /// The connection is no more, for a reason: sends the last words, and closes. What is told of it, and when it is to be made again;
    /// `None` where it is not by itself.
    pub fn fail(
        &mut self,
        (client, reason): (Client, String),
        at: Nanos,
        io: &mut StreamIo,
        random: &mut Random,
    ) -> (Event, Option<Nanos>) {
        let told = match self.state {
            State::Ready => Event::Disconnected { client, at, reason },
            _ => Event::ConnectFailed { client, reason, lasting: false },
        };
        // The last words: the answer to a close, or what was wrong with TLS.
        self.stream.close_with(self.out.rest(), false, &mut io.traffic);
        self.close();
        self.state = State::Idle;
        self.tell_urgency(false, io);
        let again = self.was_ready.then(|| at + self.backoff.next(io.pauses, random));
        if again.is_some() {
            self.state = State::Pausing;
        }
        (told, again)
    }

    /// Forgets the connection and what was on its way.
    fn close(&mut self) {
        self.stream.close();
        self.websocket = None;
        self.out.clear();
        self.partial = Vec::new();
    }
}

/// What the packets of one reading have brought of Socket.IO, beside messages.
#[derive(Default)]
struct SocketIo {
    is_opened: bool,
    is_connected: bool,
    is_refused: bool,
    pings: u32,
}

impl SocketIo {
    /// Takes the framing off what came, and gives on what is a message.
    ///
    /// # Errors
    /// The platform does not let the client in, or closes: why, for people.
    fn take(&mut self, content: &mut Vec<u8>, came: Came, taker: &mut Taker<'_>) -> Result<(), String> {
        let message = match Packet::read(content) {
            Packet::Event(json) => Some((json.len(), None)),
            Packet::Acknowledged(number, json) => Some((json.len(), Some(number))),
            Packet::Opened => {
                self.is_opened = true;
                None
            }
            Packet::Connected => {
                self.is_connected = true;
                None
            }
            Packet::Ping => {
                self.pings += 1;
                None
            }
            Packet::Closed => return Err("the platform closed the connection of Socket.IO".into()),
            Packet::Refused(said) => {
                self.is_refused = true;
                return Err(format!("the client was not let in{}", words::own(said)));
            }
            Packet::Other => None,
        };
        let Some((json, acknowledges)) = message else { return Ok(()) };
        content.drain(..content.len() - json);
        taker(content, Came { acknowledges, ..came });
        Ok(())
    }
}
