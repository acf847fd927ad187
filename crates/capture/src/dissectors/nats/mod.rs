//! NATS (NATS documentation, "Client Protocol"). A message with a reply subject is a request of its sender, and what is
//! delivered to the sender on that subject is the response. JetStream speaks no other way.

mod line;
#[cfg(test)]
mod tests;

use crate::action::{Action, Publish, name};
use crate::dissect::{Dissector, Entry, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use line::{LINE, Line, Message};
use memchr::memchr;
use plimsoll_model::wire::{Label, WireProtocol};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;

/// Reply subjects and subscriptions that are remembered of a conversation; beyond them, all are forgotten.
const REMEMBERED: usize = 4096;
/// Bytes of the headers in which a status stands: `NATS/1.0 503`.
const STATUS: usize = 12;
/// Where JetStream is asked something, and where it is asked for messages.
const API: &[u8] = b"$JS.API.";
const PULL: &[u8] = b"$JS.API.CONSUMER.MSG.NEXT.";
/// Where it is asked for stored messages and values by their place or name.
const STORED: [&[u8]; 2] = [b"$JS.API.DIRECT.GET.", b"$JS.API.STREAM.MSG.GET."];
/// What requests to JetStream are called.
const PULLING: &str = "PUB $JS.API";
const GETTING: &str = "PUB $JS.API GET";

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Nats,
    ports: &[4222],
    streams: true,
    datagrams: false,
    asking,
    probe,
    make: |_| Box::<Nats>::default(),
};

/// Messages of a consumer come once; those that are got by their place in a stream stay there.
fn asking(verb: &str, _status: &str) -> Asking {
    if verb == PULLING { Asking::Next } else { Asking::Now }
}

#[derive(Default)]
struct Nats {
    /// What each side is saying, of which the content is still to come.
    saying: [Option<Saying>; 2],
    /// What the client's says of it, where that is asked for.
    publishes: Option<Action>,
    /// Subjects on which the client was asked to reply.
    asked: FxHashSet<u64>,
    /// Subscriptions of the client: subject and number.
    subscriptions: FxHashMap<u64, u64>,
    /// Reply subjects of the last request for messages on a subscription: those come on subjects of their own.
    pulls: FxHashMap<u64, u64>,
}

/// A message that is complete with the line end behind its content.
#[derive(Clone, Copy)]
enum Saying {
    Request(Request),
    Response(Response),
    Notice(&'static str),
}

impl Nats {
    /// What a message that a client publishes is.
    fn published(&mut self, message: &Message<'_>) -> Saying {
        let name = if message.headers.is_some() { "HPUB" } else { "PUB" };
        let Some(reply) = message.reply else {
            let replies =
                self.asked.remove(&hash(message.subject)) || message.subject.starts_with(b"_INBOX.");
            if replies {
                return Saying::Notice(name);
            }
            let verb = Label::new(name);
            return Saying::Request(Request { verb, key: Key::Order, answered: false, tag: 0 });
        };
        if message.subject.starts_with(PULL) {
            let end = reply.iter().rposition(|&byte| byte == b'.').map_or(0, |dot| dot + 1);
            let words = hash(&reply[..end]);
            let subscription =
                self.subscriptions.get(&hash(reply)).or_else(|| self.subscriptions.get(&words));
            if let Some(&subscription) = subscription {
                let before = remember(&mut self.pulls).insert(subscription, hash(reply));
                // It asks for more of the same before the first has come.
                if before == Some(hash(reply)) {
                    return Saying::Notice(PULLING);
                }
            }
        }
        let verb = match message.subject {
            stored if STORED.iter().any(|api| stored.starts_with(api)) => GETTING,
            api if api.starts_with(API) => PULLING,
            _ => name,
        };
        Saying::Request(Request { verb: Label::new(verb), key: Key::Id(hash(reply)), answered: true, tag: 0 })
    }

    /// What a message that is delivered to a client is. `headers` are as many of its headers as hold a status.
    fn delivered(&mut self, message: &Message<'_>, sid: &[u8], headers: &[u8], out: &Output<'_>) -> Saying {
        let name = if message.headers.is_some() { "HMSG" } else { "MSG" };
        if let Some(reply) = message.reply {
            if self.asked.len() >= REMEMBERED {
                self.asked.clear();
            }
            self.asked.insert(hash(reply));
        }
        let subject = hash(message.subject);
        let pull = || self.pulls.get(&hash(sid)).copied();
        let Some(key) = Some(subject).into_iter().chain(pull()).find(|&key| out.waiting(key).is_some())
        else {
            return Saying::Notice(name);
        };
        if pull() == Some(key) {
            self.pulls.remove(&hash(sid));
        }
        let code = headers.strip_prefix(b"NATS/1.0 ").filter(|code| code.iter().all(u8::is_ascii_digit));
        match code {
            // A heartbeat answers nothing.
            Some(b"100") => Saying::Notice(name),
            Some(code) => Saying::Response(Response {
                key: Key::Id(key),
                status: Label::from_bytes(code),
                failed: code >= b"400".as_slice(),
            }),
            None => Saying::Response(Response { key: Key::Id(key), status: Label::new(name), failed: false }),
        }
    }

    /// A message is complete.
    fn said(&mut self, side: Side, saying: Saying, out: &mut Output<'_>) {
        match side {
            Side::Client => self.publishes.take().into_iter().for_each(|action| out.act(action)),
            Side::Server if matches!(saying, Saying::Notice(_)) => out.act(Action::Receive),
            Side::Server => {}
        }
        match saying {
            Saying::Request(request) => out.request(request),
            Saying::Response(response) => out.response(response),
            Saying::Notice(verb) => out.notice(verb),
        }
    }
}

/// A message that a client sends to others, and not a request to JetStream or an answer to one that asked.
fn publish(message: &Message<'_>) -> Option<Action> {
    let bytes = message.size - message.headers.unwrap_or(0).min(message.size);
    let inner = message.subject.starts_with(b"$JS.") || message.subject.starts_with(b"_INBOX.");
    (!inner).then(|| {
        let target = name(message.subject);
        Action::Publish(Publish { method: "PUB", target, bytes, ..Publish::default() })
    })
}

impl Dissector for Nats {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if let Some(saying) = self.saying[side.index()] {
            let Some(end) = bytes.get(..2) else { return Step::Need(2) };
            if end != b"\r\n" {
                return Step::Malformed("a message that does not end where its size says");
            }
            self.saying[side.index()] = None;
            self.said(side, saying, out);
            return Step::Taken(2);
        }
        let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(LINE)]) else {
            return if bytes.len() >= LINE {
                Step::Malformed("a line without an end")
            } else {
                Step::Need(bytes.len() + 1)
            };
        };
        let taken = end + 1;
        let text = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let Some(line) = line::read(text) else {
            return Step::Malformed("a line that is none of NATS, or of a size that no message has");
        };
        let (by_client, by_server) = line.spoken_by();
        if !(if side == Side::Client { by_client } else { by_server }) {
            return Step::Malformed("a line that this side does not say");
        }
        let (message, saying) = match line {
            Line::Publish(message) => {
                self.publishes = out.learns().then(|| publish(&message)).flatten();
                let saying = self.published(&message);
                (message, saying)
            }
            Line::Deliver(message, sid) => {
                let length = message.headers.map_or(0, |headers| headers.min(STATUS as u64) as usize);
                let Some(headers) = bytes.get(taken..taken + length) else {
                    return Step::Need(taken + length);
                };
                let saying = self.delivered(&message, sid, headers, out);
                (message, saying)
            }
            Line::Sub { subject, sid } => {
                // One of any last word is remembered by the words before it.
                let whole_subject = subject;
                let subject = subject.strip_suffix(b"*").unwrap_or(subject);
                remember(&mut self.subscriptions).insert(hash(subject), hash(sid));
                if out.learns() && !whole_subject.starts_with(b"_INBOX.") {
                    out.act(Action::Subscribe { filter: name(whole_subject), qos: 0 });
                }
                out.notice("SUB");
                return Step::Taken(taken);
            }
            other => {
                out.notice(other.name());
                return Step::Taken(taken);
            }
        };
        // Most messages are whole.
        let whole = taken + message.size as usize;
        if bytes.get(whole..whole + 2) == Some(b"\r\n") {
            self.said(side, saying, out);
            return Step::Taken(whole + 2);
        }
        self.saying[side.index()] = Some(saying);
        Step::Pass(whole as u64)
    }

    fn lost(&mut self, side: Side) {
        self.saying[side.index()] = None;
        if side == Side::Client {
            self.publishes = None;
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        matches!(probe(bytes, Some(side), false), Probe::Yes(_)) || matches!(bytes, b"PING\r\n" | b"+OK\r\n")
    }
}

/// Judges the first line of a side.
fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    const NAMES: [&[u8]; 11] = [
        b"INFO {",
        b"CONNECT {",
        b"PUB ",
        b"HPUB ",
        b"SUB ",
        b"UNSUB ",
        b"MSG ",
        b"HMSG ",
        b"-ERR '",
        b"PING\r\n",
        b"PONG\r\n",
    ];
    let Some(name) = NAMES.iter().find(|name| {
        let shared = name.len().min(bytes.len());
        name[..shared] == bytes[..shared]
    }) else {
        return Probe::No;
    };
    if bytes.len() < name.len() {
        return Probe::More;
    }
    let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(LINE)]) else {
        // What describes itself does so at length.
        let describes = name.ends_with(b"{");
        let printable = bytes.iter().all(|&byte| byte >= b' ');
        return match (printable, describes) {
            (true, true) if bytes.len() > 16 => {
                said_by(if name[0] == b'I' { Side::Server } else { Side::Client }, speaker)
            }
            (true, false) if bytes.len() > 1024 => Probe::No,
            (true, _) => Probe::More,
            (false, _) => match bytes {
                [text @ .., b'\r'] if text.iter().all(|&byte| byte >= b' ') => Probe::More,
                _ => Probe::No,
            },
        };
    };
    let Some(text) = bytes[..end].strip_suffix(b"\r") else { return Probe::No };
    match line::read(text) {
        // Redis takes that, too.
        Some(Line::Ping) => Probe::More,
        Some(line) => match line.spoken_by() {
            (true, true) => Probe::Yes(speaker),
            (true, false) => said_by(Side::Client, speaker),
            _ => said_by(Side::Server, speaker),
        },
        None => Probe::No,
    }
}

fn said_by(side: Side, speaker: Option<Side>) -> Probe {
    if speaker.is_none_or(|speaker| speaker == side) { Probe::Yes(Some(side)) } else { Probe::No }
}

/// The map, with room for one more.
fn remember(map: &mut FxHashMap<u64, u64>) -> &mut FxHashMap<u64, u64> {
    if map.len() >= REMEMBERED {
        map.clear();
    }
    map
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish()
}
