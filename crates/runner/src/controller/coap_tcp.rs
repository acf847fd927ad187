//! Requests over CoAP over TCP (RFC 8323): one connection, over which one request goes after the other. Where it was lost, what let the
//! connection in is said again on the next one.

use super::answers::{headers, next_block};
use super::stream::{Patience, Stream, no_answer};
use super::{Answer, LARGEST_ANSWER, Rendered, Unanswered, lock};
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Block, OptionList, code, option};
use plimsoll_load::drivers::coap_tcp_reasons as reasons;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, RequestPlan};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The connection of a population's steps, made when it is needed.
#[derive(Default)]
pub struct Session {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    connection: Option<Connection>,
    /// What let the connection in, in order, and the steps whose requests did.
    log_ins: Vec<(LogIn, Rendered)>,
}

impl Session {
    /// Asks, and takes the answer; `None` where the user stops the run before it has come.
    pub(super) fn send(
        &self,
        asked: Asked<'_>,
        place: (&Plan, SocketAddr),
        patience: Patience<'_>,
    ) -> Option<Result<Answer, Unanswered>> {
        // What another thread left half done is closed with its connection.
        let mut kept = lock(&self.kept);
        // Others may have waited for their turn long enough.
        if patience.is_stopped() {
            return None;
        }
        let answered = kept.send(asked, place, patience);
        if !matches!(answered, Ok(Some(_))) {
            kept.connection = None;
        }
        answered.transpose()
    }
}

impl Kept {
    fn send(
        &mut self,
        Asked { step, request, written, logs_in }: Asked<'_>,
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
                for (log_in, written) in &self.log_ins {
                    let method = &log_in.request.method;
                    let answered = opened.ask(method, written, patience).map_err(unreached)?;
                    let Some((status, ..)) = answered else { return Ok(None) };
                    if !log_in.request.is_success(status) {
                        let (name, status) = (&log_in.name, code::dotted_status(status));
                        return Err(unreached(format!(
                            "the connection was lost, and `{name}` on a new one was answered {status}"
                        )));
                    }
                }
                other.insert(opened)
            }
        };
        let answer = connection.ask(&request.method, written, patience);
        let answer = answer.map_err(|cause| Unanswered::at(true)(&cause))?;
        if let Some((status, ..)) = &answer
            && logs_in
            && request.is_success(*status)
        {
            let log_in = LogIn { name: step.to_owned(), request: request.clone() };
            self.log_ins.push((log_in, written.clone()));
        }
        Ok(answer)
    }
}

/// A step that lets the connection in.
struct LogIn {
    name: String,
    request: RequestPlan,
}

/// A request of a step.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The step's name.
    pub step: &'a str,
    /// What it asks.
    pub request: &'a RequestPlan,
    /// That as it goes out.
    pub written: &'a Rendered,
    /// Whether it lets the connection in.
    pub logs_in: bool,
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
        let opening = patience.to_connect(plan);
        let until = opening.end();
        let tls = plan.connection.transport.tls.as_ref().map(|tls| (tls, plan.population.first_device));
        let Some(stream) = Stream::open(address, tls, (opening, patience))? else { return Ok(None) };
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
        let is_there = self.stream.drain(&mut self.came);
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
            self.stream.write_all(&bytes)?;
            let answer = loop {
                match self.next(until, patience, no_answer)? {
                    None => return Ok(None),
                    Some(came) if came.token == token && came.code >> 5 != 0 => break came,
                    Some(_) => {}
                }
            };
            body.extend_from_slice(&answer.payload);
            match answer.block.filter(|block| block.more) {
                Some(block) if (body.len() as u64) < LARGEST_ANSWER => {
                    next = Some(next_block(block, answer.payload.len())?);
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
            match self.stream.next(&mut self.came, (until, patience), &late)? {
                None => return Ok(None),
                Some(0) if self.is_released => return Err("the platform released the connection".into()),
                Some(0) => return Err(reasons::closed(self.came.len())),
                Some(_) => {}
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
        self.stream.write_all(&bytes)
    }
}
