//! The client side of AMQP 0-9-1, without I/O: one channel a connection.
//!
//! A device publishes to an exchange under routing keys and awaits confirms, which name messages by their place in the order
//! in which they were published. A subscriber has a queue of its own that is bound to the exchange, or consumes from one that exists.

use crate::driver::Client;
use crate::drivers::messaging::{
    Failure, Flight, Happened, KEPT, LARGEST_CONTENT, Names, Outgoing, malformed,
};
use crate::drivers::{messaging, words};
use plimsoll_codec::amqp::methods::{self, Method, QueueKind, Tuning};
use plimsoll_codec::amqp::{self, Frame};
use plimsoll_codec::levels::{dotted_filter, to_dots};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{AmqpPlan, Plan};
use std::sync::Arc;

/// Our only channel.
const CHANNEL: u16 = 1;
/// The largest frame that we ask for, bytes, as servers propose by custom.
const LARGEST_FRAME: u32 = 131_072;
/// The longest silence that we ask for, seconds, as servers propose by custom.
const HEARTBEAT: u16 = 60;
/// A platform that reads nothing may do so for that long before it is given up.
const LONGEST_BLOCKED: Nanos = Nanos::from_secs(3600);
/// A queue that subscribers share goes after so many milliseconds without any of them: that of a run which was killed goes by
/// itself.
const EXPIRES: i32 = 300_000;
/// The codes of refusals that another attempt meets, too: a wrong user; a host, exchange or queue that is not there, or is
/// otherwise.
const LASTING: [u16; 5] = [402, 403, 404, 406, 530];

/// What all sessions of a run have in common.
pub struct Settings {
    amqp: AmqpPlan,
    names: Names,
}

impl Settings {
    /// Of a plan.
    pub fn new(plan: &Plan, run: RunId) -> Settings {
        Settings { amqp: plan.amqp.clone(), names: Names::of(plan, run) }
    }
}

/// One client's session.
pub struct Session {
    settings: Arc<Settings>,
    client: Client,
    /// Routing keys with wildcards.
    filters: Box<[String]>,
    phase: Phase,
    /// The largest frame that the platform takes, bytes.
    largest_frame: usize,
    keep_alive: Nanos,
    /// Whether the platform lets us send.
    may_send: bool,
    /// Whether the platform reads nothing for a while, and so answers no ping.
    is_blocked: bool,
    /// Messages whose confirm is awaited, by their tags.
    flight: Flight,
    /// The delivery whose content is coming.
    coming: Option<Coming>,
    content: Vec<u8>,
    /// What the platform has closed and awaits an answer to: a channel, or the connection.
    to_answer: Option<Option<u16>>,
}

/// A content of which something is still to come.
#[derive(Clone, Copy, Debug)]
struct Coming {
    /// The tag of a delivery; `None` for a message of ours that came back.
    tag: Option<u64>,
    /// Its size; `None` until its head has come.
    size: Option<u64>,
}

/// What is awaited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Tuning,
    Opening,
    Channel,
    /// A device: confirms.
    Confirming,
    /// A subscriber: its queue and what that is bound to.
    Consuming,
    Ready,
}

impl Session {
    /// A session that was never connected. `filters` are what the client subscribes to, as levels.
    pub fn new(client: Client, filters: &[String], settings: &Arc<Settings>) -> Session {
        Session {
            settings: Arc::clone(settings),
            client,
            filters: filters.iter().map(|filter| dotted_filter(filter, amqp::REST)).collect(),
            phase: Phase::Starting,
            largest_frame: LARGEST_FRAME as usize,
            keep_alive: Nanos::from_secs(i64::from(HEARTBEAT) / 2),
            may_send: true,
            is_blocked: false,
            flight: Flight::default(),
            coming: None,
            content: Vec::new(),
            to_answer: None,
        }
    }

    /// The queue of a subscriber, and how it is asked for.
    fn queue(&self) -> (String, QueueKind) {
        let Settings { amqp, names } = &*self.settings;
        match (&amqp.queue, names.group()) {
            (Some(queue), _) => (queue.clone(), QueueKind::Existing),
            (None, Some(group)) => (group.to_owned(), QueueKind::Shared(EXPIRES)),
            (None, None) => (names.client(self.client), QueueKind::Exclusive),
        }
    }

    /// Asks for everything that a subscriber needs: answers come in turn, and the last one says that all is there.
    fn subscribe(&mut self, out: &mut Vec<u8>) {
        let (queue, kind) = self.queue();
        methods::encode_queue_declare(CHANNEL, &queue, kind, out);
        if kind != QueueKind::Existing {
            for filter in &self.filters {
                methods::encode_queue_bind(CHANNEL, &queue, &self.settings.amqp.exchange, filter, out);
            }
        }
        methods::encode_basic_consume(CHANNEL, &queue, out);
        self.phase = Phase::Consuming;
    }

    fn method(&mut self, method: Method<'_>, out: &mut Vec<u8>) -> Result<Happened<'_>, Failure> {
        match (self.phase, method) {
            (_, Method::Close(of_channel, code, reason)) => {
                self.to_answer = Some(of_channel.then_some(CHANNEL));
                Err(self.closed(of_channel, code, reason))
            }
            (Phase::Starting, Method::Start(mechanisms)) => {
                if !mechanisms.split(|byte| *byte == b' ').any(|mechanism| mechanism == b"PLAIN") {
                    let reason = "the platform takes no user name with a password (SASL PLAIN)";
                    return Err(Failure::lasting(reason));
                }
                let AmqpPlan { username, password, .. } = &self.settings.amqp;
                let password = password.as_ref().map_or("guest", |secret| secret.0.as_str());
                methods::encode_start_ok(env!("CARGO_PKG_VERSION"), username, password, out);
                self.phase = Phase::Tuning;
                Ok(Happened::Nothing)
            }
            (Phase::Tuning, Method::Tune(offered)) => {
                let tuning = agreed(offered);
                methods::encode_tune_ok(tuning, out);
                methods::encode_open(&self.settings.amqp.virtual_host, out);
                self.largest_frame = tuning.frame as usize;
                let silence = if tuning.heartbeat == 0 { HEARTBEAT } else { tuning.heartbeat };
                self.keep_alive = Nanos::from_millis(i64::from(silence) * 500);
                self.phase = Phase::Opening;
                Ok(Happened::Nothing)
            }
            (Phase::Opening, Method::Opened) => {
                methods::encode_channel_open(CHANNEL, out);
                self.phase = Phase::Channel;
                Ok(Happened::Accepted)
            }
            (Phase::Channel, Method::ChannelOpened) => {
                match self.client {
                    Client::Subscriber(_) => self.subscribe(out),
                    Client::Device(_) if self.settings.amqp.confirms => {
                        methods::encode_confirm_select(CHANNEL, out);
                        self.phase = Phase::Confirming;
                    }
                    Client::Device(_) => return Ok(self.become_ready()),
                }
                Ok(Happened::Nothing)
            }
            (Phase::Confirming, Method::Confirming) | (Phase::Consuming, Method::Consuming) => {
                Ok(self.become_ready())
            }
            (Phase::Consuming, Method::Declared) => Ok(Happened::Nothing),
            (Phase::Ready, Method::QosSet) => Ok(Happened::Pong),
            (Phase::Ready, Method::Ack(tag, through)) => Ok(if self.confirm(tag, through) {
                Happened::AcknowledgedTogether(self.flight.ended())
            } else {
                Happened::UnknownAck
            }),
            (Phase::Ready, Method::Nack(tag, through)) => {
                let reason = "the platform could not keep the message (basic.nack)".to_owned();
                let known = self.confirm(tag, through);
                Ok(if known {
                    Happened::RefusedTogether(self.flight.ended(), reason)
                } else {
                    Happened::UnknownAck
                })
            }
            (_, Method::Deliver(tag, _)) => {
                self.coming = Some(Coming { tag: Some(tag), size: None });
                Ok(Happened::Part(0))
            }
            (_, Method::Return(code, reason)) => {
                self.coming = Some(Coming { tag: None, size: None });
                Ok(Happened::Complaint(format!("a message came back: {code} {}", words::plain(reason))))
            }
            (_, Method::Flow(active)) => {
                self.may_send = active;
                methods::encode_flow_ok(CHANNEL, active, out);
                Ok(Happened::Nothing)
            }
            (_, Method::Blocked(reason)) => {
                self.is_blocked = true;
                Ok(Happened::Complaint(format!("it reads no messages for a while: {}", words::plain(reason))))
            }
            (_, Method::Cancelled) => {
                Err(Failure::passing("the platform ended the subscription: is the queue gone?"))
            }
            (_, Method::Unblocked) => {
                self.is_blocked = false;
                Ok(Happened::Nothing)
            }
            (_, Method::Other(..)) => Ok(Happened::Nothing),
            (_, _) => Err(Failure::passing("the platform sent an answer to nothing we asked")),
        }
    }

    fn become_ready(&mut self) -> Happened<'static> {
        self.phase = Phase::Ready;
        Happened::Ready
    }

    fn closed(&self, of_channel: bool, code: u16, reason: &str) -> Failure {
        let what = if of_channel { "channel" } else { "connection" };
        let lasting = self.phase != Phase::Ready && LASTING.contains(&code);
        let advice = self.advice(code);
        Failure {
            reason: format!("the platform closed the {what}: {code} {}{advice}", words::plain(reason)),
            lasting,
        }
    }

    /// What to do about the code of a refusal; empty where its own words have to do.
    fn advice(&self, code: u16) -> String {
        let AmqpPlan { virtual_host, exchange, queue, .. } = &self.settings.amqp;
        match (code, self.phase, self.client, queue) {
            (403, Phase::Tuning, ..) => "; write `amqp.username` and `amqp.password`".to_owned(),
            (402 | 530, Phase::Opening, ..) => format!(
                "; `amqp.virtual_host` is `{virtual_host}`: make it at the platform and let the user in, or write another one"
            ),
            (404, _, Client::Subscriber(_), Some(queue)) => {
                format!("; make the queue `{queue}` at the platform, or write another `amqp.queue`")
            }
            (404, ..) => {
                format!("; make the exchange `{exchange}` at the platform, or write another `amqp.exchange`")
            }
            _ => String::new(),
        }
    }

    /// Notes which messages a tag confirms; whether any. With `through`, zero stands for all that are under way.
    fn confirm(&mut self, tag: u64, through: bool) -> bool {
        if through && tag == 0 {
            return self.flight.end_all();
        }
        let place = tag.checked_sub(self.flight.first()).and_then(|place| usize::try_from(place).ok());
        place.is_some_and(|place| self.flight.end(if through { 0 } else { place }..=place))
    }

    /// The head of a content, which is a delivery by itself where it has nothing more.
    fn head(&mut self, size: u64, out: &mut Vec<u8>) -> Result<Happened<'_>, Failure> {
        if self.content.capacity() > KEPT {
            self.content = Vec::new();
        }
        self.content.clear();
        if size > LARGEST_CONTENT as u64 {
            return Err(Failure::passing(format!(
                "the platform sent a content of {size} bytes, more than we take"
            )));
        }
        match &mut self.coming {
            Some(coming) if coming.size.is_none() => coming.size = Some(size),
            _ => return Err(Failure::passing("the platform sent a content that belongs to nothing")),
        }
        Ok(if size == 0 { self.whole(&[], out) } else { Happened::Part(0) })
    }

    fn body<'a>(&'a mut self, part: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        let nothing = || Failure::passing("the platform sent a content that belongs to nothing");
        let size = self.coming.and_then(|coming| coming.size).ok_or_else(nothing)?;
        let came = self.content.len() as u64 + part.len() as u64;
        if came > size {
            return Err(Failure::passing(format!("the platform sent {came} bytes of a content of {size}")));
        }
        if came < size {
            self.content.extend_from_slice(part);
            return Ok(Happened::Part(part.len()));
        }
        if self.content.is_empty() {
            return Ok(self.whole(part, out));
        }
        self.content.extend_from_slice(part);
        Ok(match self.end(out) {
            true => Happened::Delivered(&self.content),
            false => Happened::Nothing,
        })
    }

    /// A content has come in one piece.
    fn whole<'a>(&mut self, content: &'a [u8], out: &mut Vec<u8>) -> Happened<'a> {
        if self.end(out) { Happened::Delivered(content) } else { Happened::Nothing }
    }

    /// A content has come to its end: acknowledges a delivery; whether it was one.
    fn end(&mut self, out: &mut Vec<u8>) -> bool {
        let tag = self.coming.take().and_then(|coming| coming.tag);
        if let Some(tag) = tag {
            methods::encode_basic_ack(CHANNEL, tag, out);
        }
        tag.is_some()
    }
}

/// The smaller of what the platform offers and what we need.
fn agreed(offered: Tuning) -> Tuning {
    let frame = if offered.frame == 0 { LARGEST_FRAME } else { offered.frame.min(LARGEST_FRAME) };
    Tuning { channels: CHANNEL, frame, heartbeat: offered.heartbeat.min(HEARTBEAT) }
}

impl messaging::Session for Session {
    const NAME: &'static str = "AMQP 0-9-1";

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Starting;
        self.may_send = true;
        self.is_blocked = false;
        self.to_answer = None;
        self.coming = None;
        self.content.clear();
        self.flight.begin(1);
        out.extend_from_slice(amqp::PROTOCOL_HEADER);
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        if let Some([own, major, minor, revision]) =
            bytes.strip_prefix(b"AMQP").and_then(|rest| rest.first_chunk())
        {
            return Err(format!(
                "no AMQP 0-9-1 there: the platform asks for protocol {own} in version {major}.{minor}.{revision} of AMQP"
            ));
        }
        amqp::length(bytes).map_err(malformed)
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        match amqp::decode(frame).map_err(Failure::malformed)? {
            Frame::Method(_, method) => self.method(method, out),
            Frame::Header(_, size) => self.head(size, out),
            Frame::Body(_, part) => self.body(part, out),
            Frame::Heartbeat => Ok(Happened::Nothing),
        }
    }

    fn may_publish(&self) -> bool {
        let AmqpPlan { confirms, in_flight, .. } = self.settings.amqp;
        self.may_send && self.to_answer.is_none() && (!confirms || self.flight.has_room(in_flight))
    }

    fn held_back(&self) -> Option<&'static str> {
        (!self.may_send).then_some("it let nobody send for a while (channel.flow), so messages waited")
    }

    fn publish(&mut self, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Outgoing { sequence, topic, content } = message;
        to_dots(topic);
        if topic.len() > usize::from(u8::MAX) {
            return Err("a routing key has 255 bytes at most".to_owned());
        }
        let AmqpPlan { exchange, persistent, confirms, .. } = &self.settings.amqp;
        let place = (exchange.as_bytes(), &*topic);
        amqp::encode_publish(CHANNEL, place, (content, *persistent), self.largest_frame, out);
        if *confirms {
            self.flight.push(sequence);
        }
        Ok(())
    }

    fn withdraw(&mut self, sequence: u32) {
        self.flight.withdraw(sequence);
    }

    fn abandon(&mut self) -> Vec<u32> {
        self.flight.drain()
    }

    /// A limit without a limit: it changes nothing, and servers answer it in turn.
    fn ping(&mut self, out: &mut Vec<u8>) {
        methods::encode_basic_qos(CHANNEL, out);
    }

    fn keep_alive(&self) -> Nanos {
        self.keep_alive
    }

    fn patience(&self) -> Nanos {
        if self.is_blocked { LONGEST_BLOCKED } else { self.keep_alive * 4 }
    }

    fn goodbye(&mut self, _: bool, out: &mut Vec<u8>) {
        methods::encode_close(out);
    }

    /// Who is told that all is closed answers that (AMQP 0-9-1, 1.4.2.9 and 1.5.2.5).
    fn last_words(&mut self, out: &mut Vec<u8>) {
        if let Some(channel) = self.to_answer {
            methods::encode_close_ok(channel, out);
        }
    }

    fn awaited(&self) -> &'static str {
        match self.phase {
            Phase::Starting => "what it takes (connection.start)",
            Phase::Tuning => "the answer to user name and password (connection.tune)",
            Phase::Opening => "the virtual host (connection.open-ok)",
            Phase::Channel => "the channel (channel.open-ok)",
            Phase::Confirming => "confirms (confirm.select-ok)",
            Phase::Consuming => "the queue and its consumer (basic.consume-ok)",
            Phase::Ready => "nothing",
        }
    }
}

#[cfg(test)]
mod tests;
