//! Requests over CoAP over TCP (RFC 8323): one connection, over which one request goes after the other. Where it was lost, what let the
//! connection in is said again on the next one.

use super::{Answer, LARGEST_ANSWER, Rendered, Unanswered};
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Block, OptionList, code, option};
use plimsoll_load::driver::Client;
use plimsoll_load::drivers::{coap_tcp_reasons as reasons, tls_of_client};
use plimsoll_load::tls_refusal;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, StepPlan, TlsPlan};
use rustls::{ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a wish to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes that are read at once.
const READ_SIZE: usize = 16 * 1024;

/// The connection of a population's steps, made when it is needed.
#[derive(Default)]
pub struct Session {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    connection: Option<Connection>,
    /// What let the connection in, in order, and the requests that did.
    log_ins: Vec<(StepPlan, Rendered)>,
}

/// How long an answer is awaited, and who may end that before.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    pub timeout: Duration,
    pub stop: Option<&'a AtomicBool>,
}

impl Patience<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Session {
    /// Asks, and takes the answer; `None` where the user stops the run before it has come.
    pub(super) fn send(
        &self,
        step: &StepPlan,
        written: &Rendered,
        place: (&Plan, SocketAddr),
        patience: Patience<'_>,
    ) -> Option<Result<Answer, Unanswered>> {
        // What another thread left half done is closed with its connection.
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let answered = kept.send(step, written, place, patience);
        if !matches!(answered, Ok(Some(_))) {
            kept.connection = None;
        }
        answered.transpose()
    }
}

impl Kept {
    fn send(
        &mut self,
        step: &StepPlan,
        written: &Rendered,
        (plan, address): (&Plan, SocketAddr),
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Unanswered> {
        // A run lies between the set-up and its end, in which the platform may have closed it.
        if self.connection.as_mut().is_some_and(|connection| !connection.is_there()) {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) if connection.address == address => connection,
            other => {
                let unreached = |cause: String| Unanswered::at(false)(&cause);
                let opened = Connection::open(plan, address, patience).map_err(unreached)?;
                let Some(mut opened) = opened else { return Ok(None) };
                for (step, request) in &self.log_ins {
                    let answered = opened.ask(&step.request.method, request, patience).map_err(unreached)?;
                    let Some((status, ..)) = answered else { return Ok(None) };
                    if !step.request.is_success(status) {
                        let name = &step.name;
                        return Err(unreached(format!(
                            "the connection was lost, and `{name}` on a new one was answered {status}"
                        )));
                    }
                }
                other.insert(opened)
            }
        };
        let method = &step.request.method;
        let answer =
            connection.ask(method, written, patience).map_err(|cause| Unanswered::at(true)(&cause))?;
        if let Some((status, ..)) = &answer
            && step.logs_in
            && step.request.is_success(*status)
        {
            self.log_ins.push((step.clone(), written.clone()));
        }
        Ok(answer)
    }
}

enum Stream {
    Clear(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Clear(stream) => stream.read(room),
            Stream::Secured(stream) => stream.read(room),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Clear(stream) => stream,
            Stream::Secured(stream) => &stream.sock,
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Clear(stream) => stream.write_all(bytes),
            Stream::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

struct Connection {
    address: SocketAddr,
    stream: Stream,
    /// What came of messages that are not whole.
    came: Vec<u8>,
    next_token: u32,
    /// Bytes of a message that the platform takes, where it has said so.
    most: Option<u32>,
    /// Whether the platform takes no further requests over it.
    is_released: bool,
}

/// A message that came.
struct Came {
    code: u8,
    token: Vec<u8>,
    options: Vec<(u16, Vec<u8>)>,
    payload: Vec<u8>,
    block: Option<Block>,
    /// Of a CSM: bytes of a message that the platform takes.
    most: Option<u32>,
}

impl Connection {
    /// Connects; `None` where the user stops the run before.
    fn open(plan: &Plan, address: SocketAddr, patience: Patience<'_>) -> Result<Option<Connection>, String> {
        let told = |error: std::io::Error| error.to_string();
        // As long as a device waits: what is asked over it waits longer, since a platform may have much to do for it.
        let timeout = plan.connection.timeout.to_duration();
        let opening = Patience { timeout: timeout.min(patience.timeout), ..patience };
        let until = Instant::now() + opening.timeout;
        let socket = TcpStream::connect_timeout(&address, timeout).map_err(told)?;
        let set = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(LOOK)));
        set.and_then(|()| socket.set_write_timeout(Some(patience.timeout))).map_err(told)?;
        let stream = match &plan.connection.transport.tls {
            None => Stream::Clear(socket),
            Some(tls) => match secured(tls, plan.population.first_device, socket, (until, opening))? {
                Some(stream) => Stream::Secured(Box::new(stream)),
                None => return Ok(None),
            },
        };
        let mut connection =
            Connection { address, stream, came: Vec::new(), next_token: 1, most: None, is_released: false };
        if plan.coap.csm {
            let mut list = OptionList::new();
            list.add_number(signal::MAX_MESSAGE_SIZE, LARGEST_ANSWER as u32);
            list.add(signal::BLOCK_WISE_TRANSFER, b"");
            connection.say(signal::CSM, &[], &list)?;
            loop {
                let came = connection.next(until, opening, |timeout| {
                    reasons::no_csm(Nanos::from_secs_f64(timeout.as_secs_f64()))
                })?;
                match came {
                    None => return Ok(None),
                    Some(came) if came.code == signal::CSM => {
                        connection.most = Some(came.most.unwrap_or(stream::DEFAULT_MAX_MESSAGE_SIZE));
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(Some(connection))
    }

    /// Whether the platform takes requests over it: it has neither closed nor released it since the last answer.
    fn is_there(&mut self) -> bool {
        let mut room = vec![0; READ_SIZE];
        let _ = self.stream.socket().set_nonblocking(true);
        let is_there = loop {
            match self.stream.read(&mut room) {
                Ok(0) => break false,
                Ok(length) => self.came.extend_from_slice(room.get(..length).unwrap_or_default()),
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let _ = self.stream.socket().set_nonblocking(false);
        is_there && !self.is_released && !self.has_come_to_its_end()
    }

    /// Whether what has come, and was not looked at, ends the connection.
    fn has_come_to_its_end(&self) -> bool {
        let mut rest = &self.came[..];
        while let Ok(Frame::Message(message, length)) = stream::decode(rest, LARGEST_ANSWER as usize) {
            if matches!(message.code, signal::RELEASE | signal::ABORT) {
                return true;
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        false
    }

    /// Asks, and takes the answer with all its blocks; `None` where the user stops the run before it has come.
    fn ask(
        &mut self,
        method: &str,
        written: &Rendered,
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, String> {
        let until = Instant::now() + patience.timeout;
        let (mut next, mut body) = (None, Vec::new());
        let code = code::method(method).ok_or_else(|| format!("CoAP has no method {method}"))?;
        loop {
            let token = self.next_token.to_be_bytes();
            self.next_token = self.next_token.wrapping_add(1);
            let mut list = written.options.clone();
            list.add_target(written.path.as_bytes());
            if let Some(block) = next {
                list.add_number(option::BLOCK2, block);
            }
            let payload = if next.is_none() { &written.body[..] } else { &[] };
            let mut bytes = Vec::new();
            stream::append(code, &token, &list, payload, &mut bytes);
            if let Some(most) = self.most.filter(|most| bytes.len() > *most as usize) {
                return Err(format!("the request has {} bytes, and the platform takes {most}", bytes.len()));
            }
            self.stream.write_all(&bytes).map_err(|error| error.to_string())?;
            let answer = loop {
                match self
                    .next(until, patience, |timeout| format!("no answer within {} s", timeout.as_secs()))?
                {
                    None => return Ok(None),
                    Some(came) if came.token == token && came.code >> 5 != 0 => break came,
                    Some(_) => {}
                }
            };
            body.extend_from_slice(&answer.payload);
            match answer.block.filter(|block| block.more) {
                Some(block) if (body.len() as u64) < LARGEST_ANSWER => {
                    let following = block.following(answer.payload.len()).ok_or(
                        "the platform gave less than a block of its answer, and says that more follows",
                    )?;
                    next = Some(following.to_number());
                }
                _ => return Ok(Some((code::status(answer.code), headers(&answer.options), body))),
            }
        }
    }

    /// The next message that is not about the connection; `None` where the user stops the run before one has come.
    ///
    /// # Errors
    /// The connection is of no use, or nothing came in time, which `late` tells.
    fn next(
        &mut self,
        until: Instant,
        patience: Patience<'_>,
        late: impl Fn(Duration) -> String,
    ) -> Result<Option<Came>, String> {
        let mut room = vec![0; READ_SIZE];
        loop {
            if let Some(came) = self.take()? {
                match came.code {
                    signal::PING => self.say(signal::PONG, &came.token, &OptionList::new())?,
                    signal::ABORT => return Err(reasons::aborted(&came.payload)),
                    // What was asked before is answered (RFC 8323 section 5.5).
                    signal::RELEASE => self.is_released = true,
                    code if code >> 5 == 0 && code != code::EMPTY => {
                        self.say(code::NOT_FOUND, &came.token, &OptionList::new())?;
                    }
                    _ => return Ok(Some(came)),
                }
                continue;
            }
            if patience.is_stopped() {
                return Ok(None);
            }
            match self.stream.read(&mut room) {
                Ok(0) if self.is_released => return Err("the platform released the connection".into()),
                Ok(0) => return Err(reasons::closed(self.came.len())),
                Ok(length) => self.came.extend_from_slice(room.get(..length).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
            if Instant::now() > until {
                return Err(late(patience.timeout));
            }
        }
    }

    /// The first whole message of what came.
    fn take(&mut self) -> Result<Option<Came>, String> {
        let most = LARGEST_ANSWER as usize;
        let wrong = |_| reasons::no_message(&self.came, most);
        let Frame::Message(message, length) = stream::decode(&self.came, most).map_err(wrong)? else {
            return Ok(None);
        };
        let came = Came {
            code: message.code,
            token: message.token.to_vec(),
            options: message.options().map(|(number, value)| (number, value.to_vec())).collect(),
            payload: message.payload.to_vec(),
            block: message.block_of_stream(option::BLOCK2),
            most: message.number(signal::MAX_MESSAGE_SIZE),
        };
        self.came.drain(..length);
        Ok(Some(came))
    }

    fn say(&mut self, code: u8, token: &[u8], list: &OptionList) -> Result<(), String> {
        let mut bytes = Vec::new();
        stream::append(code, token, list, &[], &mut bytes);
        self.stream.write_all(&bytes).map_err(|error| error.to_string())
    }
}

/// Secures a connection, as a device does; `None` where the user stops the run before that is done.
fn secured(
    tls: &TlsPlan,
    device: u32,
    mut socket: TcpStream,
    (until, patience): (Instant, Patience<'_>),
) -> Result<Option<StreamOwned<ClientConnection, TcpStream>>, String> {
    let host = tls.server_name.to_str();
    let config = tls_of_client(tls, Client::Device(device))?;
    let client = ClientConnection::new(config, tls.server_name.clone());
    let mut client = client.map_err(|error| tls_refusal::told(&error, &host))?;
    while client.is_handshaking() {
        match client.complete_io(&mut socket) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                return Err(of_tls.map_or_else(|| error.to_string(), |inner| tls_refusal::told(inner, &host)));
            }
        }
        if patience.is_stopped() {
            return Ok(None);
        }
        if Instant::now() > until {
            return Err(format!(
                "the TLS handshake was not answered within {} s",
                patience.timeout.as_secs()
            ));
        }
    }
    Ok(Some(StreamOwned::new(client, socket)))
}

/// What of an answer's options a step looks at, by the names that HTTP has for them.
fn headers(options: &[(u16, Vec<u8>)]) -> Vec<(String, String)> {
    let parts = options.iter().filter(|(number, _)| *number == option::LOCATION_PATH);
    let location: String = parts.map(|(_, value)| format!("/{}", String::from_utf8_lossy(value))).collect();
    if location.is_empty() { Vec::new() } else { vec![("location".to_owned(), location)] }
}
