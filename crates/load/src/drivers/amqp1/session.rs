//! The client side of AMQP 1.0, without I/O: one session and one link a connection, over which a device sends or a subscriber receives.
//!
//! The platform says with credit how many messages it takes. What became of each comes as a disposition.

use crate::driver::Client;
use crate::drivers::messaging::{
    Failure, Flight, Happened, KEPT, LARGEST_CONTENT, Names, Outgoing, malformed,
};
use crate::drivers::{messaging, words};
use plimsoll_codec::amqp1::performatives::{
    self, Attach, Disposition, End, Error, Flow, Outcome, Performative, Standing, TRANSFER_OVERHEAD, Transfer,
};
use plimsoll_codec::amqp1::{self, Frame, LARGEST_FRAME, message};
use plimsoll_codec::levels::{dotted_filter, to_dots};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{Amqp1Plan, Plan};
use std::collections::VecDeque;
use std::sync::Arc;

/// All that follows, in an address with wildcards, as brokers have it that have wildcards.
const REST: &str = "#";
/// The smallest that any platform takes (section 2.4.1).
const SMALLEST_FRAME: u32 = 512;
/// How many transfers our session takes, and how many messages a subscriber wants. It says so again before half of that has come.
const WINDOW: u32 = 1 << 16;
const CREDIT: u32 = 10_000;
/// After so much silence of its own a client asks whether the platform is there. Where the platform waits for less, it is half of that.
const KEEP_ALIVE: Nanos = Nanos::from_secs(30);
const SHORTEST_KEEP_ALIVE: Nanos = Nanos::from_millis(500);
/// Bytes of a message beside its content at most.
const MESSAGE_OVERHEAD: usize = 32;
/// Messages of which it is remembered how many frames they took: more than wait for the kernel.
const REMEMBERED: usize = 8192;
/// For so many there is room in a session that has nothing to send.
const ROOM: usize = 64;
/// The number of protocol headers.
const SASL_PROTOCOL: u8 = 3;
/// The answers to who a client is: it is let in, or there is no such user with that password.
const WELCOME: u32 = 0;
const NO_SUCH_USER: u32 = 1;
/// Reasons that another attempt meets, too.
const LASTING: [&str; 5] = [
    "amqp:not-found",
    "amqp:unauthorized-access",
    "amqp:not-allowed",
    "amqp:invalid-field",
    "amqp:not-implemented",
];

/// What all sessions of a run have in common.
pub struct Settings {
    amqp: Amqp1Plan,
    names: Names,
    hostname: String,
    largest_content: usize,
}

impl Settings {
    /// Of a plan.
    pub fn new(plan: &Plan, run: RunId) -> Settings {
        let host = plan.platform.address.as_ref().map(|address| address.host.clone());
        let hostname = plan.amqp1.hostname.clone().or(host).unwrap_or_else(|| "localhost".to_owned());
        Settings {
            amqp: plan.amqp1.clone(),
            names: Names::of(plan, run),
            hostname,
            largest_content: plan.largest_content() as usize,
        }
    }

    /// User name and password, where the client shows some.
    fn login(&self) -> Option<(&str, &str)> {
        self.amqp.username.as_deref().zip(self.amqp.password.as_ref().map(|secret| secret.0.as_str()))
    }
}

/// One client's session.
pub struct Session {
    settings: Arc<Settings>,
    client: Client,
    /// Where its messages go to, or come from.
    address: String,
    phase: Phase,
    /// The largest payload of a frame that the platform takes, bytes.
    largest_payload: usize,
    keep_alive: Nanos,
    /// The number of our next transfer, how many the platform takes, and how many it took at first.
    next_outgoing: u32,
    window: u32,
    first_window: u32,
    /// How many deliveries went over the link, and how many more the receiver wants. Those that it does not want any more if they are not
    /// there count as if they had gone.
    counted: u32,
    credit: u32,
    /// Whether the receiver wants what it has given credit for now or not at all.
    drains: bool,
    /// The number of our next delivery.
    next_delivery: u32,
    /// The number of the transfer that comes next, and how many came since we said how things stand.
    next_incoming: u32,
    unflowed: u32,
    /// The platform's number of our link.
    handle: Option<u32>,
    /// The newest messages, and how many frames each took.
    frames: VecDeque<(u32, u32)>,
    /// Messages whose outcome is awaited, by the numbers of their deliveries.
    flight: Flight,
    /// The number of the delivery of which something is still to come, and whether it is settled.
    coming: Option<(u32, bool)>,
    part: Vec<u8>,
    content: Vec<u8>,
    encoded: Vec<u8>,
    /// Pings that the platform has not answered, how many links there were for pings, and what is under way of the present one.
    pings: u32,
    pinged: u32,
    ping: Ping,
}

/// What is under way of the link that is there for the platform's answer alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ping {
    Nothing,
    Attaching,
    /// It was answered, by the platform's number of it, and is not gone yet.
    Detaching(u32),
}

/// What is awaited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Mechanisms,
    Outcome,
    Header,
    Open,
    Begin,
    Attach,
    Ready,
}

impl Session {
    /// A session that was never connected, of a device whose messages have that topic or of a subscriber with these filters.
    pub fn new(client: Client, (topic, filters): (&[u8], &[String]), settings: &Arc<Settings>) -> Session {
        let place = match client {
            Client::Device(_) => {
                let mut topic = topic.to_vec();
                to_dots(&mut topic);
                String::from_utf8_lossy(&topic).into_owned()
            }
            Client::Subscriber(_) => {
                filters.first().map(|filter| dotted_filter(filter, REST)).unwrap_or_default()
            }
        };
        let address = match (&settings.amqp.queue, client) {
            (Some(queue), Client::Subscriber(_)) => queue.clone(),
            _ => format!("{}{place}", settings.amqp.prefix),
        };
        Session {
            settings: Arc::clone(settings),
            client,
            address,
            phase: Phase::Greeting,
            largest_payload: SMALLEST_FRAME as usize - TRANSFER_OVERHEAD,
            keep_alive: KEEP_ALIVE,
            next_outgoing: 0,
            window: 0,
            first_window: 0,
            counted: 0,
            credit: 0,
            drains: false,
            next_delivery: 0,
            next_incoming: 0,
            unflowed: 0,
            handle: None,
            frames: VecDeque::new(),
            flight: Flight::default(),
            coming: None,
            part: Vec::new(),
            content: Vec::new(),
            encoded: Vec::new(),
            pings: 0,
            pinged: 0,
            ping: Ping::Nothing,
        }
    }

    /// The name of this client.
    fn container(&self) -> String {
        self.settings.names.client(self.client)
    }

    /// The name of its link, which those have in common that share a subscription.
    fn name(&self) -> String {
        match (self.client, self.settings.names.group()) {
            (Client::Subscriber(_), Some(group)) => group.to_owned(),
            _ => self.container(),
        }
    }

    fn header(&mut self, protocol: u8, version: [u8; 3]) -> Result<Happened<'static>, Failure> {
        let expected = if self.phase == Phase::Greeting { SASL_PROTOCOL } else { 0 };
        match (self.phase, version) {
            (Phase::Greeting | Phase::Header, [1, 0, 0]) if protocol == expected => {
                self.phase = if protocol == SASL_PROTOCOL { Phase::Mechanisms } else { Phase::Open };
                Ok(Happened::Nothing)
            }
            (Phase::Greeting, [1, 0, 0]) if protocol == 0 => Err(Failure::lasting(
                "the platform lets nobody say who they are (no SASL), which is not supported here",
            )),
            (_, [major, minor, revision]) => Err(Failure::lasting(format!(
                "no AMQP 1.0 there: the platform asks for protocol {protocol} in version {major}.{minor}.{revision} of AMQP"
            ))),
        }
    }

    fn performative<'a>(
        &'a mut self,
        performative: Performative<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Happened<'a>, Failure> {
        match (self.phase, performative) {
            (Phase::Mechanisms, Performative::Mechanisms(known)) => {
                let login = self.settings.login();
                let wanted = if login.is_some() { "PLAIN" } else { "ANONYMOUS" };
                if !known.contains(&wanted) {
                    let told = words::plain(&known.join(", "));
                    let advice = match login {
                        Some(_) => "it takes no user name with a password (SASL PLAIN)",
                        None => {
                            "it lets nobody in without a name: write `amqp1.username` and `amqp1.password`"
                        }
                    };
                    return Err(Failure::lasting(format!("{advice}; the platform offers {told}")));
                }
                performatives::put_sasl_init(login, &self.settings.hostname, out);
                self.phase = Phase::Outcome;
                Ok(Happened::Nothing)
            }
            (Phase::Outcome, Performative::Outcome(WELCOME)) => {
                out.extend_from_slice(amqp1::HEADER);
                self.begin_session(out);
                self.phase = Phase::Header;
                Ok(Happened::Nothing)
            }
            (Phase::Outcome, Performative::Outcome(code)) => Err(match code {
                NO_SUCH_USER => {
                    Failure::lasting("the platform does not let the user in; is `amqp1.username` right?")
                }
                code => {
                    Failure::passing(format!("the platform lets nobody in at present (sasl-outcome {code})"))
                }
            }),
            (Phase::Open, Performative::Open(open)) => {
                let largest = open.largest_frame.clamp(SMALLEST_FRAME, LARGEST_FRAME) as usize;
                self.largest_payload = largest - TRANSFER_OVERHEAD;
                if let Some(idle) = open.idle.filter(|idle| *idle > 0) {
                    self.keep_alive =
                        Nanos::from_millis(i64::from(idle) / 2).clamp(SHORTEST_KEEP_ALIVE, KEEP_ALIVE);
                }
                self.phase = Phase::Begin;
                Ok(Happened::Accepted)
            }
            (Phase::Begin, Performative::Begin { window, next_outgoing }) => {
                (self.window, self.first_window, self.next_incoming) = (window, window, next_outgoing);
                self.phase = Phase::Attach;
                Ok(Happened::Nothing)
            }
            // One without an end is followed by the reason why there is none.
            (Phase::Attach, Performative::Attach(Attach { handle, has_end: false, .. })) => {
                self.handle = Some(handle);
                Ok(Happened::Nothing)
            }
            (Phase::Attach, Performative::Attach(Attach { handle, counted, .. })) => {
                self.handle = Some(handle);
                self.phase = Phase::Ready;
                if let Client::Subscriber(_) = self.client {
                    self.counted = counted;
                    self.want_more(out);
                }
                Ok(Happened::Ready)
            }
            (Phase::Ready, Performative::Attach(Attach { handle, .. })) if self.ping == Ping::Attaching => {
                performatives::put_ping_end(out);
                self.ping = Ping::Detaching(handle);
                self.pings = self.pings.saturating_sub(1);
                Ok(Happened::Pong)
            }
            (Phase::Ready, Performative::Detach(handle, _)) if self.ping == Ping::Detaching(handle) => {
                self.ping = Ping::Nothing;
                self.ping_again(out);
                Ok(Happened::Nothing)
            }
            (_, Performative::Flow(flow)) => {
                self.flow(flow, out);
                Ok(Happened::Nothing)
            }
            (Phase::Ready, Performative::Transfer(transfer)) => match self.client {
                Client::Subscriber(_) => self.transfer(transfer, out),
                Client::Device(_) => Err(Failure::passing("the platform sent a message to a device")),
            },
            (Phase::Ready, Performative::Disposition(disposition)) => Ok(self.disposition(disposition, out)),
            (_, Performative::Detach(_, error)) => Err(self.ended("link", error)),
            (_, Performative::End(error)) => Err(self.ended("session", error)),
            (_, Performative::Close(error)) => Err(self.ended("connection", error)),
            (_, Performative::Other) => Ok(Happened::Nothing),
            (_, _) => Err(Failure::passing("the platform sent an answer to nothing we asked")),
        }
    }

    /// Opens connection, session and link: answers come in turn.
    fn begin_session(&self, out: &mut Vec<u8>) {
        let (container, name) = (self.container(), self.name());
        let Settings { amqp, names, hostname, .. } = &*self.settings;
        performatives::put_open(&container, hostname, out);
        performatives::put_begin(WINDOW, out);
        match self.client {
            Client::Device(_) => {
                let end = End { name: &name, address: &self.address, capabilities: &amqp.capabilities };
                performatives::put_sender(end, amqp.acknowledged, out);
            }
            Client::Subscriber(_) => {
                let mut capabilities = Vec::new();
                // A queue is what it is.
                if amqp.queue.is_none() {
                    capabilities.clone_from(&amqp.capabilities);
                    let shared = ["shared", "global"].map(str::to_owned);
                    capabilities.extend(shared.into_iter().filter(|_| names.group().is_some()));
                }
                let end = End { name: &name, address: &self.address, capabilities: &capabilities };
                performatives::put_receiver(end, out);
            }
        }
    }

    /// Says how things stand with us, of our link only if that is asked for.
    fn tell_standing(&mut self, of_link: bool, out: &mut Vec<u8>) {
        self.unflowed = 0;
        let (next_incoming, next_outgoing) = (self.next_incoming, self.next_outgoing);
        let credit = of_link.then_some((self.counted, self.credit));
        let standing = Standing { next_incoming, window: WINDOW, next_outgoing, credit, drained: false };
        performatives::put_flow(standing, out);
    }

    /// A subscriber wants so many messages from here on.
    fn want_more(&mut self, out: &mut Vec<u8>) {
        self.credit = CREDIT;
        self.tell_standing(true, out);
    }

    /// Begins the next ping, where one is wanted and none is under way.
    fn ping_again(&mut self, out: &mut Vec<u8>) {
        if self.pings == 0 || self.ping != Ping::Nothing {
            return;
        }
        self.ping = Ping::Attaching;
        self.pinged += 1;
        let name = format!("{}-ping{}", self.container(), self.pinged);
        let Amqp1Plan { prefix, queue, capabilities, .. } = &self.settings.amqp;
        let address = match (self.client, queue) {
            (Client::Device(_), _) | (Client::Subscriber(_), Some(_)) => self.address.clone(),
            // A filter is no place to which messages may go.
            (Client::Subscriber(_), None) => format!("{prefix}plimsoll-ping"),
        };
        performatives::put_ping(End { name: &name, address: &address, capabilities }, out);
    }

    /// Whether the scenario lets one more message be under way.
    fn has_room(&self) -> bool {
        let Amqp1Plan { acknowledged, in_flight, .. } = self.settings.amqp;
        !acknowledged || self.flight.has_room(in_flight)
    }

    /// Whether the platform takes as many frames as the longest message needs, since it goes as a whole.
    fn has_window(&self) -> bool {
        let longest =
            (self.settings.largest_content + MESSAGE_OVERHEAD).div_ceil(self.largest_payload) as u32;
        self.window > 0 && self.window >= longest.min(self.first_window)
    }

    fn flow(&mut self, flow: Flow, out: &mut Vec<u8>) {
        // What the platform expects next may lie behind what is under way to it.
        let under_way = self.next_outgoing.wrapping_sub(flow.next_incoming.unwrap_or_default());
        self.window = flow.window.saturating_sub(if under_way > u32::MAX / 2 { 0 } else { under_way });
        if let (Client::Device(_), Some((handle, counted, credit))) = (self.client, flow.credit)
            && self.handle.is_none_or(|own| own == handle)
        {
            self.credit = credit.saturating_sub(self.counted.wrapping_sub(counted));
            self.drains = flow.drain;
        }
        if flow.echo {
            self.tell_standing(matches!(self.client, Client::Subscriber(_)), out);
        }
    }

    fn transfer<'a>(
        &'a mut self,
        transfer: Transfer<'a>,
        out: &mut Vec<u8>,
    ) -> Result<Happened<'a>, Failure> {
        self.next_incoming = self.next_incoming.wrapping_add(1);
        self.unflowed += 1;
        // Large messages may use up the frames that the platform knows to be welcome before they use up credit.
        if self.unflowed >= WINDOW / 2 {
            self.tell_standing(true, out);
        }
        let (delivery, settled) = match (self.coming.take(), transfer.delivery) {
            (Some((delivery, settled)), _) => (delivery, settled || transfer.settled),
            (None, Some(delivery)) => {
                self.part.clear();
                (delivery, transfer.settled)
            }
            (None, None) => {
                return Err(Failure::passing("the platform sent a part of a message that has no number"));
            }
        };
        if self.part.len() + transfer.payload.len() > LARGEST_CONTENT + KEPT {
            return Err(Failure::passing("the platform sent a message that is larger than we take"));
        }
        if transfer.more && !transfer.aborted {
            self.part.extend_from_slice(transfer.payload);
            self.coming = Some((delivery, settled));
            return Ok(Happened::Part(transfer.payload.len()));
        }
        self.counted = self.counted.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        if self.credit <= CREDIT / 2 {
            self.want_more(out);
        }
        if transfer.aborted {
            return Ok(Happened::Part(0));
        }
        if self.content.capacity() > KEPT {
            self.content = Vec::new();
        }
        self.content.clear();
        let whole = if self.part.is_empty() {
            transfer.payload
        } else {
            self.part.extend_from_slice(transfer.payload);
            &self.part
        };
        message::content(whole, &mut self.content).map_err(Failure::malformed)?;
        if self.part.capacity() > KEPT {
            self.part = Vec::new();
        }
        if !settled {
            performatives::put_accepted(delivery, out);
        }
        Ok(Happened::Delivered(&self.content))
    }

    /// What became of messages of ours.
    fn disposition(&mut self, own: Disposition<'_>, out: &mut Vec<u8>) -> Happened<'_> {
        if !own.of_receiver || (own.outcome.is_none() && !own.settled) {
            return Happened::Nothing;
        }
        if !own.settled {
            performatives::put_settled(own.first, own.last, out);
        }
        if !self.settle(own.first, own.last) {
            return Happened::UnknownAck;
        }
        let Some(outcome) = own.outcome else {
            let reason = "it forgot a message without saying what became of it".to_owned();
            return Happened::DoubtfulTogether(self.flight.ended(), reason);
        };
        match outcome {
            Outcome::Accepted => Happened::AcknowledgedTogether(self.flight.ended()),
            Outcome::Rejected(error) => {
                let why = error.map_or_else(|| "without a reason".to_owned(), told);
                Happened::RefusedTogether(
                    self.flight.ended(),
                    format!("the platform rejected the message: {why}"),
                )
            }
            Outcome::Released => {
                let reason = "the platform gave the message back (released)".to_owned();
                Happened::RefusedTogether(self.flight.ended(), reason)
            }
        }
    }

    /// Notes which messages these numbers settle; whether any.
    fn settle(&mut self, first: u32, last: u32) -> bool {
        // They have 32 bits, and begin again behind the last one.
        let own = self.flight.first() as u32;
        let (begin, end) = (first.wrapping_sub(own), last.wrapping_sub(own));
        let begin = if begin > u32::MAX / 2 { 0 } else { begin };
        end <= u32::MAX / 2 && self.flight.end(begin as usize..=end as usize)
    }

    fn ended(&self, what: &str, error: Option<Error<'_>>) -> Failure {
        let lasting =
            self.phase != Phase::Ready && error.is_some_and(|error| LASTING.contains(&error.condition));
        let why = error.map_or_else(|| "without a reason".to_owned(), told);
        Failure { reason: format!("the platform closed the {what}: {why}"), lasting }
    }
}

fn told(error: Error<'_>) -> String {
    format!("{} ({})", words::plain(error.description), words::plain(error.condition))
}

impl messaging::Session for Session {
    const NAME: &'static str = "AMQP 1.0";

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Greeting;
        (self.next_outgoing, self.window, self.first_window) = (0, 0, 0);
        (self.next_incoming, self.unflowed, self.counted, self.credit) = (0, 0, 0, 0);
        (self.drains, self.next_delivery) = (false, 0);
        self.flight.begin(0);
        (self.handle, self.pings, self.ping, self.coming) = (None, 0, Ping::Nothing, None);
        self.keep_alive = KEEP_ALIVE;
        self.frames.clear();
        self.part.clear();
        out.extend_from_slice(amqp1::SASL_HEADER);
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        amqp1::length(bytes).map_err(malformed)
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        match amqp1::decode(frame).map_err(Failure::malformed)? {
            Frame::Header(protocol, version) => self.header(protocol, version),
            Frame::Empty => Ok(Happened::Nothing),
            Frame::Performative(number, fields, payload) => {
                let performative =
                    performatives::read(number, fields, payload).map_err(Failure::malformed)?;
                self.performative(performative, out)
            }
        }
    }

    fn may_publish(&self) -> bool {
        self.held_back().is_none() && self.has_room()
    }

    fn held_back(&self) -> Option<&'static str> {
        match (self.credit, self.has_window(), self.has_room()) {
            (0, _, true) => Some("it gave no credit for a while, so messages waited"),
            (_, false, true) => {
                Some("it took no frames for a while (window of the session), so messages waited")
            }
            _ => None,
        }
    }

    /// What the receiver has given credit for and is not there is given back (section 2.6.7). What waits goes before.
    fn all_sent(&mut self, wait: bool, out: &mut Vec<u8>) {
        // Nothing of it is withdrawn any more.
        self.frames.clear();
        self.frames.shrink_to(ROOM);
        if !self.drains || (wait && self.credit > 0) {
            return;
        }
        self.drains = false;
        self.counted = self.counted.wrapping_add(std::mem::take(&mut self.credit));
        let (next_incoming, next_outgoing) = (self.next_incoming, self.next_outgoing);
        let credit = Some((self.counted, 0));
        let standing = Standing { next_incoming, window: WINDOW, next_outgoing, credit, drained: true };
        performatives::put_flow(standing, out);
    }

    fn publish(&mut self, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Outgoing { sequence, content, .. } = message;
        let Amqp1Plan { durable, acknowledged, .. } = self.settings.amqp;
        self.encoded.clear();
        message::put(content, durable, &mut self.encoded);
        let frames = self.encoded.len().div_ceil(self.largest_payload) as u32;
        if frames > self.window {
            return Err(format!(
                "the message needs {frames} frames, and the platform takes {} at once",
                self.window
            ));
        }
        for (number, part) in (1..).zip(self.encoded.chunks(self.largest_payload)) {
            performatives::put_transfer((self.next_delivery, !acknowledged, number < frames), part, out);
        }
        self.next_outgoing = self.next_outgoing.wrapping_add(frames);
        self.window -= frames;
        self.next_delivery = self.next_delivery.wrapping_add(1);
        self.counted = self.counted.wrapping_add(1);
        self.credit = self.credit.saturating_sub(1);
        self.frames.push_back((sequence, frames));
        if self.frames.len() > REMEMBERED {
            self.frames.pop_front();
        }
        if acknowledged {
            self.flight.push(sequence);
        }
        Ok(())
    }

    fn withdraw(&mut self, sequence: u32) {
        let Some(place) = self.frames.iter().rposition(|(own, _)| *own == sequence) else { return };
        let frames = self.frames.remove(place).map_or(1, |(_, frames)| frames);
        // What was not sent is always the last one on a connection that goes on, and its numbers are the next one's.
        self.next_outgoing = self.next_outgoing.wrapping_sub(frames);
        self.window = self.window.saturating_add(frames);
        self.next_delivery = self.next_delivery.wrapping_sub(1);
        self.counted = self.counted.wrapping_sub(1);
        self.credit = self.credit.saturating_add(1);
        self.flight.withdraw(sequence);
    }

    fn abandon(&mut self) -> Vec<u32> {
        self.flight.drain()
    }

    /// A link that is answered after all that was said before.
    fn ping(&mut self, out: &mut Vec<u8>) {
        self.pings += 1;
        self.ping_again(out);
    }

    fn keep_alive(&self) -> Nanos {
        self.keep_alive
    }

    fn goodbye(&mut self, _: bool, out: &mut Vec<u8>) {
        performatives::put_close(out);
    }

    fn awaited(&self) -> &'static str {
        match self.phase {
            Phase::Greeting => "the header of SASL",
            Phase::Mechanisms => "how one may say who one is (sasl-mechanisms)",
            Phase::Outcome => "the answer to that (sasl-outcome)",
            Phase::Header => "the header of AMQP 1.0",
            Phase::Open => "the connection (open)",
            Phase::Begin => "the session (begin)",
            Phase::Attach => "the link (attach)",
            Phase::Ready => "nothing",
        }
    }
}

#[cfg(test)]
mod tests;
