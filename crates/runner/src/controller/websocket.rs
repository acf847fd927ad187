//! Messages over WebSocket, each over a connection that nobody else uses at the time.

use super::answers::SHOWN;
use super::messages::{Door, Heard, Idle, Place, Said, Verdict};
use super::stream::{Patience, Stream, no_answer, tls_of};
use super::{LARGEST_ANSWER, Scene, Unanswered};
use plimsoll_codec::hiding::cut;
use plimsoll_codec::socket_io::{self, Packet};
use plimsoll_codec::websocket::Opcode;
use plimsoll_load::clock::wall_nanos;
use plimsoll_load::drivers::websocket::{Compression, WebSocket, Wish, place};
use plimsoll_scenario::plan::{Plan, Protocol, WebSocketPlan};
use plimsoll_stats::distribution::random;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

/// Distinguishes the random numbers of keys and masks from others.
const STREAM: u64 = 0x636f_6e74_726f_6c00;

/// The WebSockets of a population's steps, made when they are needed.
#[derive(Default)]
pub(super) struct WebSockets(Idle<Connection>);

impl WebSockets {
    /// Says a message, and takes its answer; `None` where the user stops the run before it has come.
    pub fn send(
        &self,
        said: &Said,
        (scene, at, door): (&Scene<'_>, Place<'_>, &Door),
        patience: Patience<'_>,
    ) -> Result<Option<Heard>, Unanswered> {
        self.0.with(
            |kept| kept.address == at.address && kept.is_there(),
            || Connection::open(scene.plan, at, door, patience),
            |connection| {
                let heard = connection.ask(said, true, (patience.end(), patience));
                heard.map_err(|cause| Unanswered::at(true)(&cause))
            },
        )
    }
}

struct Connection {
    address: SocketAddr,
    stream: Stream,
    websocket: WebSocket,
    wanted: WebSocketPlan,
    /// What came of the stream and was not looked at, and of a message that is not whole.
    unread: Vec<u8>,
    partial: Vec<u8>,
    /// Whole messages that came, with the number of ours that each acknowledges.
    came: VecDeque<(Vec<u8>, Option<u32>)>,
    socket_io: Option<SocketIo>,
    /// Whether the platform did not let the controller in.
    is_refused: bool,
}

/// How Socket.IO stands.
#[derive(Default)]
struct SocketIo {
    is_opened: bool,
    is_connected: bool,
    /// The last number of a message that wants an acknowledgement.
    number: u32,
}

impl Connection {
    /// Connects, and says what is said at first; `None` where the user stops the run before.
    fn open(
        plan: &Plan,
        at: Place<'_>,
        door: &Door,
        patience: Patience<'_>,
    ) -> Result<Option<Connection>, Unanswered> {
        let unreached = |cause: String| Unanswered::at(false)(&cause);
        let connecting = patience.to_connect(plan);
        let role = &plan.platform.roles.controller.websocket;
        let transport = plan.transport_beside_devices(Protocol::WebSocket, at.port);
        let tls = tls_of(&transport, plan);
        let stream = Stream::open(at.address, tls, (connecting, patience)).map_err(unreached)?;
        let Some(stream) = stream else { return Ok(None) };
        let wanted = plan.websocket_beside_devices(at.address, at.port);
        let wish = Wish {
            subprotocol: role.subprotocol.clone(),
            headers: door.headers.clone(),
            compression: role.is_compressed.then(Compression::default),
        };
        let mut connection = Connection {
            address: at.address,
            stream,
            websocket: WebSocket::new(random(wall_nanos() as u64, &[STREAM]), wish),
            wanted: place(&wanted, role),
            unread: Vec::new(),
            partial: Vec::new(),
            came: VecDeque::new(),
            socket_io: door.auth.as_ref().map(|_| SocketIo::default()),
            is_refused: false,
        };
        let until = connecting.end();
        match connection.let_in(door, (until, connecting)) {
            Ok(is_done) => Ok(is_done.then_some(connection)),
            Err(cause) => {
                let is_unauthorized = connection.is_refused || connection.websocket.is_unauthorized();
                Err(Unanswered { is_unauthorized, reached: is_unauthorized, cause })
            }
        }
    }

    /// Asks for the WebSocket, and says what is said at first; `false` where the user stops the run before.
    fn let_in(&mut self, door: &Door, wait: (Instant, Patience<'_>)) -> Result<bool, String> {
        let mut request = Vec::new();
        self.websocket.request(&self.wanted, &mut request);
        self.stream.write_all(&request)?;
        while !self.websocket.is_open() || self.socket_io.as_ref().is_some_and(|own| !own.is_connected) {
            let joins = self.socket_io.as_ref().is_some_and(|own| own.is_opened);
            if !self.read(wait)? {
                return Ok(false);
            }
            let is_opened = self.socket_io.as_ref().is_some_and(|own| own.is_opened);
            if let Some(auth) = door.auth.as_ref().filter(|_| is_opened && !joins) {
                let mut join = Vec::new();
                socket_io::connect(auth, &mut join);
                self.say(&join)?;
            }
        }
        for said in &door.opening {
            match self.ask(said, false, wait)? {
                None => return Ok(false),
                Some((Verdict::Taken, _)) => {}
                Some((Verdict::Refused(reason), _)) => {
                    self.is_refused = true;
                    return Err(format!("the controller was not let in: {reason}"));
                }
            }
        }
        Ok(true)
    }

    /// Whether the platform has not closed it. What it has said meanwhile answers nothing that is still to be said.
    fn is_there(&mut self) -> bool {
        let is_open = self.stream.drain(&mut self.unread);
        let is_there = is_open && self.take_in().is_ok();
        self.came.clear();
        is_there
    }

    /// Says a message, and awaits its answer where one is, or where it `may_be_acknowledged` over Socket.IO; `None` where the user stops the
    /// run before it has come.
    fn ask(
        &mut self,
        said: &Said,
        may_be_acknowledged: bool,
        wait: (Instant, Patience<'_>),
    ) -> Result<Option<Heard>, String> {
        let wants_number = said.answer.is_none() && may_be_acknowledged;
        let number = match &mut self.socket_io {
            None => {
                self.say(&said.content)?;
                None
            }
            Some(own) => {
                own.number += u32::from(wants_number);
                let number = wants_number.then_some(own.number);
                let mut event = Vec::new();
                socket_io::event(number, &mut event);
                event.extend_from_slice(&said.content);
                self.say(&event)?;
                number
            }
        };
        if said.answer.is_none() && number.is_none() {
            return Ok(Some((Verdict::Taken, Vec::new())));
        }
        loop {
            while let Some((content, acknowledges)) = self.came.pop_front() {
                let verdict = match &said.answer {
                    Some(answer) => answer.read(&content),
                    None => (acknowledges == number).then_some(Verdict::Taken),
                };
                if let Some(verdict) = verdict {
                    return Ok(Some((verdict, content)));
                }
            }
            if !self.read(wait)? {
                return Ok(None);
            }
        }
    }

    fn say(&mut self, content: &[u8]) -> Result<(), String> {
        let mut bytes = Vec::new();
        self.websocket.message(Opcode::Text, content, &mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Waits for what comes next; `false` where the user stops the run before.
    fn read(&mut self, wait: (Instant, Patience<'_>)) -> Result<bool, String> {
        match self.stream.next(&mut self.unread, wait, &no_answer)? {
            None => Ok(false),
            Some(0) => Err("the platform closed the connection".into()),
            Some(_) => self.take_in().map(|()| true),
        }
    }

    /// Looks at what came, and answers what is to be answered.
    fn take_in(&mut self) -> Result<(), String> {
        let (mut answers, mut pings) = (Vec::new(), 0);
        let (came, socket_io, is_refused) = (&mut self.came, &mut self.socket_io, &mut self.is_refused);
        let mut taker = |opcode, content: &mut Vec<u8>, _| {
            let content = std::mem::take(content);
            match socket_io {
                None => came.push_back((content, None)),
                // Attachments of binary events have no framing of their own.
                Some(_) if opcode == Opcode::Binary => {}
                Some(own) => match Packet::read(&content) {
                    Packet::Event(json) => came.push_back((json.to_vec(), None)),
                    Packet::Acknowledged(number, json) => came.push_back((json.to_vec(), Some(number))),
                    Packet::Opened => own.is_opened = true,
                    Packet::Connected => own.is_connected = true,
                    Packet::Ping => pings += 1,
                    Packet::Closed => return Err("the platform closed the connection of Socket.IO".into()),
                    Packet::Refused(said) => {
                        *is_refused = true;
                        let said = cut(&String::from_utf8_lossy(said).replace(char::is_control, " "), SHOWN);
                        return Err(format!("the controller was not let in over Socket.IO: {said}"));
                    }
                    Packet::Other => {}
                },
            }
            Ok(())
        };
        let unread = std::mem::take(&mut self.unread);
        let read =
            self.websocket.incoming(&self.wanted, &unread, &mut self.partial, &mut answers, &mut taker);
        for _ in 0..pings {
            self.websocket.message(Opcode::Text, socket_io::PONG, &mut answers);
        }
        // The answer to a close, too.
        let written = if answers.is_empty() { Ok(()) } else { self.stream.write_all(&answers) };
        if self.partial.len() as u64 > LARGEST_ANSWER {
            return Err("the platform sends a message that does not end".into());
        }
        read.and(written)
    }
}
