//! The client side of NATS, without I/O.
//!
//! A core client is ready when the platform has answered a ping behind its subscriptions. With JetStream the first device makes the stream
//! or asks for it, and a subscriber asks for a consumer of each filter before it is ready. A message is acknowledged by
//! the stream at a subject of its own, which carries its number.

use super::jetstream;
use crate::driver::Client;
use crate::drivers::messaging::{Failure, Happened, Names, Outgoing, malformed};
use crate::drivers::{messaging, words};
use crate::topology::published_by;
use plimsoll_codec::levels::{dotted_filter, to_dots};
use plimsoll_codec::nats::{self, Connect, Delivery, Info, Operation};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{NatsPlan, Plan, StreamPlan};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Our subscription to what JetStream answers.
const INBOX: u64 = 1;
/// Our first subscription to messages.
const FIRST_FILTER: u64 = 2;
/// The last level of the subject at which requests are answered; those of acknowledgements are numbers.
const REQUEST: &str = "r";
/// The same of questions whether a consumer is there.
const LOOK: &str = "l";
/// How often it is asked. The server says nothing of a consumer that was removed to who receives from it.
const LOOKS: Nanos = Nanos::from_secs(5);
/// After so much silence a client asks whether the platform is there, as client libraries do within minutes.
const KEEP_ALIVE: Nanos = Nanos::from_secs(60);
/// The status of an answer where nobody listens to a subject.
const NO_RESPONDERS: u16 = 503;

/// What all sessions of a run have in common.
pub struct Settings {
    nats: NatsPlan,
    names: Names,
    /// Name of the stream; `None` for core NATS.
    stream: Option<String>,
    /// The filter of what all devices publish.
    published: String,
    /// How long a subscriber works on a message.
    work: Nanos,
    first_device: u32,
    largest_content: u32,
    /// Whether connections go over TLS.
    is_secured: bool,
}

impl Settings {
    /// Of a plan.
    pub fn new(plan: &Plan, run: RunId) -> Settings {
        let names = Names::of(plan, run);
        let name = |stream: &StreamPlan| stream.name.clone().unwrap_or_else(|| names.run().to_owned());
        Settings {
            nats: plan.nats.clone(),
            stream: plan.nats.stream.as_ref().map(name),
            names,
            published: dotted_filter(&published_by(plan, run), nats::REST),
            work: plan.subscribers.work,
            first_device: plan.population.first_device,
            largest_content: plan.largest_content(),
            is_secured: plan.connection.transport.tls.is_some(),
        }
    }

    /// Where a stream that is made for the run keeps messages.
    fn created(&self) -> Option<(&str, &'static str)> {
        let storage = self.nats.stream.as_ref()?.storage?;
        Some((self.stream.as_deref()?, storage))
    }
}

/// One client's session.
pub struct Session {
    settings: Arc<Settings>,
    client: Client,
    /// Filters of subjects.
    filters: Box<[String]>,
    /// Which connection of the client it is: what JetStream says to an earlier one is not for this.
    connection: u32,
    /// The beginning of the subjects at which JetStream answers.
    inbox: String,
    phase: Phase,
    /// Whether the server has greeted, and TLS begins behind that.
    awaits_tls: bool,
    /// For each filter, the number in the stream of the last message that came: a new connection goes on behind it.
    seen: Box<[Option<u64>]>,
    /// The name of each filter's consumer; empty without one.
    consumers: Box<[String]>,
    /// When the stream was made, as the server had it last: the numbers are of that one.
    birth: Option<String>,
    /// Why the stream was not made, while it is looked for.
    overlap: Option<String>,
    /// Messages whose acknowledgement is awaited.
    flight: FxHashSet<u32>,
    reply: Vec<u8>,
}

/// What is awaited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// What the server says of itself.
    Greeting,
    /// The answer to the ping behind CONNECT and subscriptions.
    Connecting,
    /// The answer to the request for the stream.
    Stream,
    /// The answer to the request for a consumer of that filter.
    Consumer(usize),
    /// Nothing.
    Ready,
}

impl Session {
    /// A session that was never connected. `filters` are what the client subscribes to, as levels.
    pub fn new(client: Client, filters: &[String], settings: &Arc<Settings>) -> Session {
        Session {
            settings: Arc::clone(settings),
            client,
            filters: filters.iter().map(|filter| dotted_filter(filter, nats::REST)).collect(),
            connection: 0,
            inbox: String::new(),
            phase: Phase::Greeting,
            awaits_tls: false,
            seen: vec![None; filters.len()].into(),
            consumers: vec![String::new(); filters.len()].into(),
            birth: None,
            overlap: None,
            flight: FxHashSet::default(),
            reply: Vec::new(),
        }
    }

    fn greeted(&mut self, json: &[u8], out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        let info: Info = serde_json::from_slice(json).map_err(|error| {
            Failure::lasting(format!("what the platform says of itself is no JSON: {error}"))
        })?;
        if info.tls_required && !self.settings.is_secured {
            return Err(Failure::lasting("the platform wants TLS: write its address as `tls://`"));
        }
        if self.settings.is_secured && !info.tls_required && !info.tls_available {
            return Err(Failure::lasting("the platform has no TLS: write its address as `nats://`"));
        }
        let largest = u64::from(self.settings.largest_content);
        if let Some(most) = info.max_payload.filter(|most| largest > *most) {
            return Err(Failure::lasting(format!(
                "the platform takes contents of {most} bytes at most, the scenario's messages have up to {largest}"
            )));
        }
        if self.settings.stream.is_some() && !info.jetstream {
            return Err(Failure::lasting("the platform has no JetStream, the scenario names a stream"));
        }
        if self.settings.is_secured {
            self.awaits_tls = true;
            return Ok(Happened::Secured);
        }
        self.introduce(out);
        Ok(Happened::Nothing)
    }

    /// Says who this is and what it subscribes to.
    fn introduce(&mut self, out: &mut Vec<u8>) {
        let NatsPlan { username, password, token, .. } = &self.settings.nats;
        let name = self.settings.names.client(self.client);
        let said = Connect {
            name: &name,
            version: env!("CARGO_PKG_VERSION"),
            username: username.as_deref(),
            password: password.as_ref().map(|secret| secret.0.as_str()),
            token: token.as_ref().map(|secret| secret.0.as_str()),
        };
        nats::encode_connect(&said, out);
        if self.settings.stream.is_some() {
            nats::encode_subscribe(&format!("{}*", self.inbox), None, INBOX, out);
        }
        for (number, filter) in (FIRST_FILTER..).zip(&self.filters) {
            match self.settings.stream {
                Some(_) => {
                    let (deliver, group) = (self.deliver_subject(number), self.group(number));
                    nats::encode_subscribe(&deliver, group.as_deref(), number, out);
                }
                None => nats::encode_subscribe(filter, self.settings.names.group(), number, out),
            }
        }
        out.extend_from_slice(nats::PING);
        self.phase = Phase::Connecting;
        self.overlap = None;
    }

    /// Where the consumer of a filter brings its messages: a place of this client's own, or one that its group has in common.
    fn deliver_subject(&self, number: u64) -> String {
        let names = &self.settings.names;
        match names.group() {
            Some(group) => format!("_INBOX.{group}.{number}"),
            // What JetStream answers comes beside that.
            None => format!("_INBOX.{}-own.{}.{number}", names.client(self.client), self.connection),
        }
    }

    /// The group of a filter's consumer, by which the platform knows who takes its messages in turn.
    fn group(&self, number: u64) -> Option<String> {
        self.settings.names.group().map(|group| format!("{group}-{number}"))
    }

    /// The platform has answered the ping behind what a connection begins with, or a request: goes on to the next.
    fn go_on(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        let Some(stream) = self.settings.stream.clone() else { return self.become_ready() };
        let is_first = matches!(self.client, Client::Device(device) if device == self.settings.first_device);
        let is_subscriber = matches!(self.client, Client::Subscriber(_));
        let next = match self.phase {
            Phase::Connecting if is_first || is_subscriber => Phase::Stream,
            Phase::Stream if !self.filters.is_empty() => Phase::Consumer(0),
            Phase::Consumer(place) if place + 1 < self.filters.len() => Phase::Consumer(place + 1),
            _ => return self.become_ready(),
        };
        let was = std::mem::replace(&mut self.phase, next);
        let (subject, text) = match next {
            Phase::Consumer(place) => {
                let number = FIRST_FILTER + place as u64;
                let group = self.group(number);
                let filter = self.filters.get(place).map(String::as_str).unwrap_or_default();
                let deliver = self.deliver_subject(number);
                // What a group has seen is known to its consumer.
                let behind = self.seen.get(place).copied().flatten().filter(|_| group.is_none());
                let group = group.as_deref().map(|group| (group, self.settings.work));
                jetstream::create_consumer(&stream, (filter, behind), &deliver, group)
            }
            _ => match self.settings.created() {
                Some((stream, storage)) => {
                    jetstream::create_stream(stream, &self.settings.published, storage)
                }
                None => (jetstream::stream_info(&stream), String::new()),
            },
        };
        self.request(&subject, &text, REQUEST, out);
        if was == Phase::Connecting { Happened::Accepted } else { Happened::Nothing }
    }

    fn request(&self, subject: &str, text: &str, answered_at: &str, out: &mut Vec<u8>) {
        let reply = format!("{}{answered_at}", self.inbox);
        nats::encode_publish(subject.as_bytes(), Some(reply.as_bytes()), text.as_bytes(), out);
    }

    /// What an answer says of numbers in the stream.
    fn learn(&mut self, answer: &[u8]) {
        match self.phase {
            Phase::Stream => {
                let last = jetstream::last_of_stream(answer).unwrap_or(u64::MAX);
                let birth = jetstream::birth_of_stream(answer);
                let was_made_again = self.birth.is_some() && self.birth != birth;
                self.birth = birth;
                for seen in &mut *self.seen {
                    *seen = match was_made_again {
                        // One that was lost and made again counts from 1, and all in it is new.
                        true => seen.map(|_| 0),
                        // It may have lost its last ones.
                        false => seen.filter(|seen| *seen <= last),
                    };
                }
            }
            Phase::Consumer(place) => {
                let name = jetstream::name_of_consumer(answer);
                if let Some(consumer) = self.consumers.get_mut(place) {
                    *consumer = name.unwrap_or_default();
                }
                if let Some(seen) = self.seen.get_mut(place) {
                    *seen = seen.or_else(|| jetstream::begin_of_consumer(answer));
                }
            }
            _ => {}
        }
    }

    /// Whether the stream is made, and was not looked for instead.
    fn makes_stream(&self) -> bool {
        self.phase == Phase::Stream && self.overlap.is_none() && self.settings.created().is_some()
    }

    fn become_ready(&mut self) -> Happened<'static> {
        self.phase = Phase::Ready;
        Happened::Ready
    }

    /// What JetStream answers: to a request, or to a message.
    fn answered(&mut self, answer: &Delivery<'_>, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        let unheard = answer.status() == Some(NO_RESPONDERS);
        let to = answer.subject.strip_prefix(self.inbox.as_str()).unwrap_or_default();
        let refused = match unheard {
            true => Some("no stream of the platform takes messages at that subject".to_owned()),
            false => jetstream::refusal(answer.content).map(|reason| words::plain(&reason)),
        };
        if to == LOOK {
            return match refused.filter(|_| jetstream::is_gone(answer.content)) {
                Some(reason) => {
                    Err(Failure::passing(format!("JetStream does not have our consumer any more: {reason}")))
                }
                None => Ok(Happened::Nothing),
            };
        }
        if to == REQUEST {
            return match refused {
                _ if unheard => {
                    Err(Failure::lasting("JetStream does not answer: is it enabled for this user?"))
                }
                // The server says so, too, where another client makes the same stream at this moment.
                Some(reason) if self.makes_stream() && jetstream::overlaps(answer.content) => {
                    self.overlap = Some(reason);
                    let stream = self.settings.stream.as_deref().unwrap_or_default();
                    self.request(&jetstream::stream_info(stream), "", REQUEST, out);
                    Ok(Happened::Nothing)
                }
                Some(reason) => {
                    let reason = self.overlap.take().unwrap_or(reason);
                    Err(Failure::lasting(format!("JetStream refused: {reason}")))
                }
                None if self.phase == Phase::Ready => Ok(Happened::Nothing),
                None => {
                    self.learn(answer.content);
                    Ok(self.go_on(out))
                }
            };
        }
        let sequence = to.parse().ok().filter(|sequence| self.flight.remove(sequence));
        Ok(match (sequence, refused) {
            (Some(sequence), None) => Happened::Acknowledged(sequence),
            (Some(sequence), Some(reason)) => Happened::Refused(sequence, reason),
            (None, _) => Happened::UnknownAck,
        })
    }

    /// An error ends the connection, unless it is about one subject.
    fn complained(&self, error: &str) -> Result<Happened<'static>, Failure> {
        let told = words::plain(error);
        let lower = error.to_ascii_lowercase();
        if lower.starts_with("permissions violation") {
            // Who may not subscribe receives nothing.
            if self.phase != Phase::Ready {
                return Err(Failure::lasting(format!("the platform refused: {told}")));
            }
            return Ok(Happened::Complaint(told));
        }
        let is_about_user = lower.contains("authorization") || lower.contains("authentication");
        let lasting = is_about_user && self.phase == Phase::Connecting;
        let NatsPlan { username, token, .. } = &self.settings.nats;
        let advice = match (lasting, username, token) {
            (false, ..) => "",
            (_, None, None) => "; write `nats.username` and `nats.password`, or `nats.token`",
            (_, Some(_), _) => {
                "; correct `nats.username` and `nats.password`, or write `nats.token` in their place"
            }
            (_, None, Some(_)) => {
                "; correct `nats.token`, or write `nats.username` and `nats.password` in its place"
            }
        };
        Err(Failure { reason: format!("the platform ended the connection: {told}{advice}"), lasting })
    }
}

impl messaging::Session for Session {
    const NAME: &'static str = "NATS";
    const BEGINS_IN_CLEAR: bool = true;

    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.awaits_tls) {
            return self.introduce(out);
        }
        self.phase = Phase::Greeting;
        self.connection += 1;
        let (name, connection) = (self.settings.names.client(self.client), self.connection);
        self.inbox = format!("_INBOX.{name}.{connection}.");
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        nats::length(bytes).map_err(malformed)
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        match nats::decode(frame).map_err(Failure::malformed)? {
            Operation::Info(json) if self.phase == Phase::Greeting => self.greeted(json, out),
            Operation::Error(error) => self.complained(&error),
            _ if self.phase == Phase::Greeting => {
                Err(Failure::lasting("the platform did not begin with what it is (INFO)"))
            }
            Operation::Ping => {
                out.extend_from_slice(nats::PONG);
                Ok(Happened::Nothing)
            }
            Operation::Pong if self.phase == Phase::Connecting => Ok(self.go_on(out)),
            Operation::Pong => Ok(Happened::Pong),
            Operation::Info(_) | Operation::Ok => Ok(Happened::Nothing),
            Operation::Message(delivery) if delivery.subscription == INBOX => self.answered(&delivery, out),
            Operation::Message(Delivery { subscription, reply, content, .. }) => {
                if let Some(reply) = reply.filter(|_| self.settings.stream.is_some()) {
                    let place = subscription.checked_sub(FIRST_FILTER).map(|place| place as usize);
                    if let Some(seen) = place.and_then(|place| self.seen.get_mut(place)) {
                        *seen = jetstream::number_of_message(reply).or(*seen);
                    }
                    nats::encode_publish(reply.as_bytes(), None, b"+ACK", out);
                }
                Ok(Happened::Delivered(content))
            }
        }
    }

    fn wakes_after(&self) -> Option<Nanos> {
        let looks = self.phase == Phase::Ready && self.consumers.iter().any(|name| !name.is_empty());
        looks.then_some(LOOKS)
    }

    fn wake(&mut self, out: &mut Vec<u8>) {
        let Some(stream) = self.settings.stream.as_deref().filter(|_| self.phase == Phase::Ready) else {
            return;
        };
        for consumer in self.consumers.iter().filter(|name| !name.is_empty()) {
            self.request(&jetstream::consumer_info(stream, consumer), "", LOOK, out);
        }
    }

    fn may_publish(&self) -> bool {
        self.settings.stream.is_none() || self.flight.len() < usize::from(self.settings.nats.in_flight)
    }

    fn publish(&mut self, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Outgoing { sequence, topic, content } = message;
        to_dots(topic);
        if self.settings.stream.is_none() {
            nats::encode_publish(topic, None, content, out);
            return Ok(());
        }
        self.flight.insert(sequence);
        self.reply.clear();
        self.reply.extend_from_slice(self.inbox.as_bytes());
        nats::append_number(u64::from(sequence), &mut self.reply);
        nats::encode_publish(topic, Some(&self.reply), content, out);
        Ok(())
    }

    fn withdraw(&mut self, sequence: u32) {
        self.flight.remove(&sequence);
    }

    fn abandon(&mut self) -> Vec<u32> {
        self.awaits_tls = false;
        self.flight.drain().collect()
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(nats::PING);
    }

    fn keep_alive(&self) -> Nanos {
        KEEP_ALIVE
    }

    /// Whoever is asked to removes the stream that was made for the run.
    fn goodbye(&mut self, ends: bool, out: &mut Vec<u8>) {
        if let Some((stream, _)) = self.settings.created().filter(|_| ends) {
            let reply = format!("{}{REQUEST}", self.inbox);
            let subject = jetstream::delete_stream(stream);
            nats::encode_publish(subject.as_bytes(), Some(reply.as_bytes()), b"", out);
        }
    }

    fn awaited(&self) -> &'static str {
        match self.phase {
            Phase::Greeting => "what it says of itself (INFO)",
            Phase::Connecting => "the answer to CONNECT (PONG)",
            Phase::Stream => "the answer of JetStream about the stream",
            Phase::Consumer(_) => "the answer of JetStream about the consumer",
            Phase::Ready => "nothing",
        }
    }
}

#[cfg(test)]
mod tests;
