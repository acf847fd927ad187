//! AMQP 0-9-1 as RabbitMQ speaks it (AMQP 0-9-1, section 4.2 on framing). Methods are answered in the order of their channel,
//! what is published with confirms by its delivery tag.

mod method;
#[cfg(test)]
mod tests;

use crate::action::{Action, Publish, name as name_of};
use crate::dissect::{Dissector, Entry, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use method::{Role, method};
use plimsoll_model::wire::{Label, WireProtocol};
use rustc_hash::FxHashMap;

/// With which a client begins.
const GREETING: &[u8] = b"AMQP\0\0\x09\x01";
/// The first byte of frames.
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
/// Bytes before and behind the payload of a frame, and the byte behind.
const BEFORE: usize = 7;
const END: u8 = 0xce;
/// The largest frame, bytes: more than servers agree to.
const FRAME: usize = 1 << 28;
/// The same of frames by which the protocol is recognised.
const LIKELY: usize = 1 << 20;
/// The most channels of a connection that are followed.
const CHANNELS: usize = 1 << 12;
/// The most publishings that one confirmation is looked up for.
const CONFIRMED: u64 = 1 << 14;
/// Sets numbers of what was published apart from those of questions.
const PUBLISHED: u64 = 1 << 47;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Amqp,
    ports: &[5672, 5671],
    streams: true,
    datagrams: false,
    asking,
    probe,
    make: |_| Box::<Amqp>::default(),
};

/// A message that is got is taken from its queue.
fn asking(verb: &str, _status: &str) -> Asking {
    if verb == "basic.get" { Asking::Next } else { Asking::Now }
}

#[derive(Default)]
struct Amqp {
    channels: FxHashMap<u16, Channel>,
    /// The channel of a body that is passed, of each side, and its size.
    passing: [Option<(u16, usize)>; 2],
}

#[derive(Default)]
struct Channel {
    /// Questions of each side, and how many of them were answered.
    asked: [u64; 2],
    answered: [u64; 2],
    /// What was published, where it is confirmed.
    confirms: Option<Confirms>,
    /// What each side sends.
    content: [Option<Content>; 2],
    /// What the client's says of it, where that is asked for.
    publishes: Option<Publish>,
}

/// What a client publishes has numbers of ours; the server's begin with 1 where confirms were asked for.
#[derive(Default)]
struct Confirms {
    /// How many were published.
    sent: u64,
    /// The last of ours that is settled together with all before it.
    settled: u64,
    /// By how much the server's numbers are higher than ours; not known where a part of the client's packets is missing.
    ahead: Option<u64>,
}

#[derive(Clone, Copy)]
struct Content {
    name: &'static str,
    role: Role,
    /// Bytes still to come; not known before the header.
    left: Option<u64>,
}

impl Dissector for Amqp {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if let Some((channel, size)) = self.passing[side.index()].take() {
            if bytes[0] != END {
                return Step::Malformed("a frame that does not end where its size says");
            }
            self.body(side, channel, size, out);
            return Step::Taken(1);
        }
        if bytes[0] == b'A' {
            let Some(greeting) = bytes.get(..GREETING.len()) else { return Step::Need(GREETING.len()) };
            if !greeting.starts_with(b"AMQP") {
                return Step::Malformed("neither a frame nor the name of the protocol");
            }
            out.notice("AMQP");
            return if greeting == GREETING || side == Side::Server {
                Step::Taken(GREETING.len())
            } else {
                Step::Becomes(WireProtocol::Unknown, GREETING.len())
            };
        }
        let Some((kind, channel, size)) = frame(bytes) else { return Step::Need(BEFORE) };
        if size > FRAME || !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Step::Malformed("a frame of no known type or of a size that none has");
        }
        let whole = BEFORE + size + 1;
        let Some(payload) = bytes.get(BEFORE..whole - 1).filter(|_| bytes.len() >= whole) else {
            if kind == BODY {
                self.passing[side.index()] = Some((channel, size));
                return Step::Pass((whole - 1) as u64);
            }
            return Step::Need(whole);
        };
        if bytes[whole - 1] != END {
            return Step::Malformed("a frame that does not end where its size says");
        }
        match kind {
            METHOD => {
                let (Some(class), Some(number)) = (short(payload, 0), short(payload, 2)) else {
                    return Step::Malformed("a method without its number");
                };
                let Some((name, role)) = method(class, number) else {
                    return Step::Malformed("a method that is not known");
                };
                if self.channels.len() >= CHANNELS && !self.channels.contains_key(&channel) {
                    return Step::Malformed("more channels than are followed");
                }
                self.method(side, channel, (name, role), &payload[4..], out);
            }
            HEADER => {
                let Some(size) = payload.get(4..).and_then(|size| size.first_chunk()) else {
                    return Step::Malformed("a header without a size");
                };
                let content = self
                    .channels
                    .get_mut(&channel)
                    .and_then(|channel| channel.content[side.index()].as_mut());
                match content {
                    Some(content) => {
                        let size = u64::from_be_bytes(*size);
                        content.left = Some(size);
                        self.announced(channel, size);
                        self.body(side, channel, 0, out);
                    }
                    None => out.nothing(),
                }
            }
            BODY => self.body(side, channel, size, out),
            _ => out.notice("heartbeat"),
        }
        Step::Taken(whole)
    }

    fn lost(&mut self, side: Side) {
        self.passing[side.index()] = None;
        for channel in self.channels.values_mut() {
            channel.content[side.index()] = None;
            if side == Side::Client {
                channel.publishes = None;
            }
            // Their order is lost.
            channel.answered = channel.asked;
            if let Some(confirms) = channel.confirms.as_mut().filter(|_| side == Side::Client) {
                (confirms.ahead, confirms.settled) = (None, confirms.sent);
            }
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        matches!(probe(bytes, Some(side), false), Probe::Yes(_))
    }
}

impl Amqp {
    /// The header of what a client publishes says how large it is.
    fn announced(&mut self, number: u16, size: u64) {
        let channel = self.channels.get_mut(&number);
        if let Some(publish) = channel.and_then(|channel| channel.publishes.as_mut()) {
            publish.bytes = size;
        }
    }

    fn method(
        &mut self,
        side: Side,
        number: u16,
        (name, role): (&'static str, Role),
        arguments: &[u8],
        out: &mut Output<'_>,
    ) {
        let (we, they) = (side.index(), side.other().index());
        let channel = self.channels.entry(number).or_default();
        let question = |sequence: u64| Key::Id(u64::from(number) << 48 | sequence & (PUBLISHED - 1));
        match role {
            Role::Ask(wait) => {
                if name == "queue.bind"
                    && out.learns()
                    && let Some(filter) = text(arguments, 2, 2)
                {
                    out.act(Action::Subscribe { filter: name_of(filter), qos: 0 });
                }
                if name == "channel.close" && channel.answered[they] < channel.asked[they] {
                    // A question that cannot be answered closes the channel.
                    let code = short(arguments, 0).unwrap_or(0);
                    out.response(Response {
                        key: question(channel.answered[they]),
                        status: Label::number(code),
                        failed: true,
                    });
                    channel.answered[they] += 1;
                }
                if name == "confirm.select" {
                    channel.confirms.get_or_insert(Confirms { ahead: Some(0), ..Confirms::default() });
                }
                let answered = !wait.is_waived(arguments);
                out.request(Request {
                    verb: Label::new(name),
                    key: question(channel.asked[we]),
                    answered,
                    tag: 0,
                });
                channel.asked[we] += u64::from(answered);
            }
            Role::Answer => {
                out.response(Response {
                    key: question(channel.answered[they]),
                    status: Label::new(name),
                    failed: false,
                });
                channel.answered[they] = channel.asked[they].min(channel.answered[they] + 1);
                if name == "channel.close-ok" {
                    self.channels.remove(&number);
                }
            }
            Role::Publish | Role::Deliver | Role::AnswerWithContent => {
                channel.content[we] = Some(Content { name, role, left: None });
                if side == Side::Client {
                    let qos = u8::from(channel.confirms.is_some());
                    // The routing key stands behind the exchange.
                    channel.publishes = out.learns().then(|| text(arguments, 2, 1)).flatten().map(|key| {
                        Publish { method: "PUBLISH", target: name_of(key), qos, ..Publish::default() }
                    });
                }
            }
            Role::Settle if side == Side::Server => {
                let tag = arguments.first_chunk().map_or(0, |tag| u64::from_be_bytes(*tag));
                let several = arguments.get(8).is_some_and(|bits| bits & 1 == 1);
                channel.settle(number, name, tag, several, out);
            }
            Role::Settle | Role::Tell => out.notice(name),
        }
    }

    /// So many bytes of content have come on a channel.
    fn body(&mut self, side: Side, number: u16, size: usize, out: &mut Output<'_>) {
        let Some(channel) = self.channels.get_mut(&number) else { return out.nothing() };
        let Some(Content { name, role, left: Some(left) }) = channel.content[side.index()] else {
            return out.nothing();
        };
        let left = left.saturating_sub(size as u64);
        if left > 0 {
            channel.content[side.index()] = Some(Content { name, role, left: Some(left) });
            return;
        }
        channel.content[side.index()] = None;
        match role {
            Role::Publish => {
                if let Some(publish) = channel.publishes.take() {
                    out.act(Action::Publish(publish));
                }
                let answered = channel.confirms.is_some();
                let sent = channel.confirms.as_mut().map_or(0, |confirms| {
                    confirms.sent += 1;
                    confirms.sent
                });
                let key = Key::Id(published(number, sent));
                out.request(Request { verb: Label::new(name), key, answered, tag: 0 });
            }
            Role::AnswerWithContent => {
                let they = side.other().index();
                let key = Key::Id(u64::from(number) << 48 | channel.answered[they] & (PUBLISHED - 1));
                out.response(Response { key, status: Label::new(name), failed: false });
                channel.answered[they] = channel.asked[they].min(channel.answered[they] + 1);
            }
            _ => {
                if role == Role::Deliver {
                    out.act(Action::Receive);
                }
                out.notice(name);
            }
        }
    }
}

impl Channel {
    /// The server confirms or refuses what was published: one, or all up to it.
    fn settle(&mut self, number: u16, name: &'static str, tag: u64, several: bool, out: &mut Output<'_>) {
        // Where the beginning is missing, that something is confirmed tells that all is.
        let confirms = self.confirms.get_or_insert_default();
        let last = match (tag, confirms.ahead) {
            (0, _) => Some(confirms.sent),
            (tag, Some(ahead)) => Some(tag.wrapping_sub(ahead)),
            // If one alone waits, it is the one.
            (tag, None) if confirms.sent == confirms.settled + 1 => {
                confirms.ahead = Some(tag.wrapping_sub(confirms.sent));
                Some(confirms.sent)
            }
            _ => None,
        };
        let Some(last) = last.filter(|&last| last <= confirms.sent) else {
            // Which it is cannot be told, nor what becomes of the others.
            let first = confirms.settled.max(confirms.sent.saturating_sub(CONFIRMED)) + 1;
            (first..=confirms.sent).for_each(|sent| out.withdrawn(Key::Id(published(number, sent))));
            (confirms.ahead, confirms.settled) = (None, confirms.sent);
            return out.notice(name);
        };
        let first =
            if several || tag == 0 { confirms.settled.max(last.saturating_sub(CONFIRMED)) + 1 } else { last };
        let mut any = false;
        for sent in first..=last {
            let id = published(number, sent);
            if out.waiting(id).is_some() {
                any = true;
                let failed = name == "basic.nack";
                out.response(Response { key: Key::Id(id), status: Label::new(name), failed });
            }
        }
        if several || last == confirms.settled + 1 {
            confirms.settled = confirms.settled.max(last);
        }
        if !any {
            out.notice(name);
        }
    }
}

/// A short text among arguments, behind `before` bytes and so many other short texts (section 4.2.5.3).
fn text(arguments: &[u8], before: usize, others: usize) -> Option<&[u8]> {
    let mut at = before;
    for _ in 0..others {
        at += 1 + usize::from(*arguments.get(at)?);
    }
    let length = usize::from(*arguments.get(at)?);
    arguments.get(at + 1..at + 1 + length)
}

/// Under which what was published on a channel waits.
fn published(channel: u16, sent: u64) -> u64 {
    u64::from(channel) << 48 | PUBLISHED | sent & (PUBLISHED - 1)
}

/// Type, channel and size of the payload.
fn frame(bytes: &[u8]) -> Option<(u8, u16, usize)> {
    let size = bytes.get(3..)?.first_chunk()?;
    Some((bytes[0], short(bytes, 1)?, u32::from_be_bytes(*size) as usize))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// Judges the greeting or the first frame of a side.
fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    let shared = bytes.len().min(GREETING.len());
    if bytes[..shared] == GREETING[..shared] {
        return match shared == GREETING.len() {
            true if speaker.is_none_or(|speaker| speaker == Side::Client) => Probe::Yes(Some(Side::Client)),
            true => Probe::No,
            false => Probe::More,
        };
    }
    if !matches!(bytes.first(), Some(&(METHOD | HEADER | BODY | HEARTBEAT))) {
        return Probe::No;
    }
    let Some((kind, channel, size)) = frame(bytes) else { return Probe::More };
    if usize::from(channel) >= CHANNELS || size > LIKELY {
        return Probe::No;
    }
    let payload = &bytes[BEFORE..bytes.len().min(BEFORE + size)];
    let ends = bytes.get(BEFORE + size).map(|&end| end == END);
    let fits = match kind {
        METHOD => match (short(payload, 0), short(payload, 2)) {
            (Some(class), Some(number)) if method(class, number).is_some() => true,
            (Some(_), Some(_)) => return Probe::No,
            _ if size < 4 => return Probe::No,
            _ => return Probe::More,
        },
        // The class, a weight that is always 0, and the size.
        HEADER => size >= 14 && payload.len() >= 14 && payload[..4] == [0, 60, 0, 0],
        BODY => size > 0,
        _ => size == 0 && channel == 0,
    };
    let decided = kind != HEADER || payload.len() >= 14 || ends.is_some();
    if ends == Some(false) || decided && !fits {
        return Probe::No;
    }
    // A method that is cut short is known by its numbers.
    if fits && (ends == Some(true) || kind == METHOD) {
        return Probe::Yes(speaker.or_else(|| speaks(payload, kind)));
    }
    Probe::More
}

/// Who says such a method, where only one side does.
fn speaks(payload: &[u8], kind: u8) -> Option<Side> {
    if kind != METHOD {
        return None;
    }
    let (name, role) = method(short(payload, 0)?, short(payload, 2)?)?;
    match (name, role) {
        ("connection.start" | "connection.secure" | "connection.tune" | "connection.blocked", _) => {
            Some(Side::Server)
        }
        ("connection.start-ok" | "connection.secure-ok" | "connection.tune-ok" | "basic.reject", _) => {
            Some(Side::Client)
        }
        ("connection.close" | "channel.close" | "channel.flow" | "basic.cancel", _) => None,
        ("connection.close-ok" | "channel.close-ok" | "channel.flow-ok" | "basic.cancel-ok", _) => None,
        (_, Role::Publish | Role::Ask(_)) => Some(Side::Client),
        (_, Role::Deliver | Role::AnswerWithContent | Role::Answer) => Some(Side::Server),
        (_, Role::Settle | Role::Tell) => None,
    }
}
