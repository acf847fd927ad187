//! MQTT 3.1.1 and 5 (OASIS standards): both sides ask. Requests and responses carry a packet identifier, or come in their order.
//! The status of a response is its packet's type, with the reason code behind it where that is not 0.

mod acts;
mod packet;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::dissect::{Dissector, Entry, KEPT, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use packet::{Header, Looks, kind, number};
use plimsoll_model::wire::{Label, WireProtocol};

/// The key of CONNECT, beyond all packet identifiers.
const CONNECT: u64 = 1 << 16;
/// Reason codes from here on are errors (5, section 2.4).
const ERRORS: u8 = 0x80;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Mqtt,
    ports: &[1883, 8883],
    streams: true,
    datagrams: false,
    asking: Asking::now,
    probe,
    make: |_| Box::new(Mqtt::default()),
};

/// A conversation is known by its CONNECT, or where that was not captured, by a packet with a topic.
pub(super) fn probe(bytes: &[u8], speaker: Option<Side>, _: bool) -> Probe {
    match packet::looks(bytes, speaker) {
        Looks::Certain => Probe::Yes(packet::header(bytes).ok().flatten().and_then(Header::sender)),
        Looks::Short => Probe::More,
        Looks::Possible | Looks::Wrong => Probe::No,
    }
}

/// One conversation.
#[derive(Default)]
pub(super) struct Mqtt {
    /// 3, 4 or 5 as in CONNECT, where that was seen.
    version: Option<u8>,
    /// The PUBLISH of each side whose content is being passed.
    publish: [Option<Publish>; 2],
    /// What it says of the client, where that is asked for.
    publishes: Option<Action>,
    aliases: acts::Aliases,
}

/// A PUBLISH whose beginning has been read.
#[derive(Clone, Copy)]
struct Publish {
    qos: u8,
    id: u64,
    again: bool,
    content: u64,
}

impl Dissector for Mqtt {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if let Some(publish) = self.publish[side.index()] {
            return Step::Pass(publish.content);
        }
        let header = match packet::header(bytes) {
            Ok(Some(header)) => header,
            Ok(None) => return Step::Need(bytes.len() + 1),
            Err(reason) => return Step::Malformed(reason),
        };
        if header.sender().is_some_and(|sender| sender != side) {
            return Step::Malformed("a packet that only the other side sends");
        }
        if header.kind == kind::PUBLISH {
            return self.publish(side, header, bytes, out);
        }
        if header.remaining > KEPT {
            return Step::Malformed("a packet that is too long for its type");
        }
        let Some(body) = bytes.get(header.length..header.whole()) else { return Step::Need(header.whole()) };
        self.control(header, body, out);
        Step::Taken(header.whole())
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some(publish) = self.publish[side.index()].take() {
            self.published(side, publish, out);
        }
    }

    fn lost(&mut self, side: Side) {
        self.publish[side.index()] = None;
        if side == Side::Client {
            self.publishes = None;
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        matches!(packet::looks(bytes, Some(side)), Looks::Certain | Looks::Possible)
    }
}

impl Mqtt {
    /// Reads up to the content, which is passed.
    fn publish(&mut self, side: Side, header: Header, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let Some(topic) = number(bytes, header.length) else { return Step::Need(header.length + 2) };
        let qos = header.qos();
        let end = 2 + topic + if qos > 0 { 2 } else { 0 };
        if end > header.remaining {
            return Step::Malformed("a topic that is longer than its packet");
        }
        let head = header.length + end;
        if bytes.len() < head {
            return Step::Need(head);
        }
        let id = if qos > 0 { number(bytes, head - 2).unwrap_or_default() as u64 } else { 0 };
        let content = (header.remaining - end) as u64;
        let publish = Publish { qos, id, again: header.again(), content };
        if out.learns() && side == Side::Client {
            match acts::publish(header, bytes, head, self.version, &mut self.aliases) {
                Ok(action) => self.publishes = Some(action),
                Err(need) => return need,
            }
        }
        if bytes.len() >= header.whole() {
            self.published(side, publish, out);
            return Step::Taken(header.whole());
        }
        self.publish[side.index()] = Some(publish);
        Step::Taken(head)
    }

    fn control(&mut self, header: Header, body: &[u8], out: &mut Output<'_>) {
        let id = number(body, 0).unwrap_or_default() as u64;
        let reason = |at: usize| body.get(at).copied().unwrap_or(0);
        let request = |verb: &str, key| Request { verb: verb.into(), key, answered: true, tag: 0 };
        match header.kind {
            kind::CONNECT => {
                // The version follows the protocol's name.
                self.version = number(body, 0).and_then(|name| body.get(2 + name)).copied();
                if out.learns()
                    && let Some(connect) = acts::connect(body)
                {
                    out.act(connect);
                }
                out.request(request("CONNECT", Key::Id(CONNECT)));
            }
            kind::CONNACK => {
                let code = reason(1);
                out.response(response("CONNACK", Key::Id(CONNECT), code, code != 0));
            }
            kind::PUBACK => out.response(answer("PUBACK", id, reason(2))),
            kind::PUBCOMP => out.response(answer("PUBCOMP", id, reason(2))),
            kind::PUBREC if reason(2) >= ERRORS => out.response(answer("PUBREC", id, reason(2))),
            kind::PUBREC => {
                out.interim(Key::Id(id));
                out.notice("PUBREC");
            }
            // Of an earlier connection's message, it asks by itself.
            kind::PUBREL if out.asked(id).is_none() => out.request(request("PUBREL", Key::Id(id))),
            kind::PUBREL => out.notice("PUBREL"),
            kind::SUBSCRIBE => {
                if out.learns() {
                    acts::subscribe(body, self.version).into_iter().for_each(|action| out.act(action));
                }
                out.request(request("SUBSCRIBE", Key::Id(id)));
            }
            kind::SUBACK => out.response(answer("SUBACK", id, self.worst(body))),
            kind::UNSUBSCRIBE => out.request(request("UNSUBSCRIBE", Key::Id(id))),
            kind::UNSUBACK => out.response(answer("UNSUBACK", id, self.worst(body))),
            kind::PINGREQ => out.request(request("PINGREQ", Key::Order)),
            kind::PINGRESP => out.response(response("PINGRESP", Key::Order, 0, false)),
            kind::AUTH => out.notice(status("AUTH", reason(0))),
            _ => out.notice(status("DISCONNECT", reason(0))),
        }
    }

    /// A whole PUBLISH.
    fn published(&mut self, side: Side, publish: Publish, out: &mut Output<'_>) {
        let key = Key::Id(publish.id);
        let action = match side {
            Side::Client => self.publishes.take(),
            Side::Server => Some(Action::Receive),
        };
        if publish.again && out.asked(publish.id).is_some() {
            // The first one still waits.
            return out.notice("PUBLISH again");
        }
        if let Some(action) = action {
            out.act(action);
        }
        out.request(Request { verb: "PUBLISH".into(), key, answered: publish.qos > 0, tag: 0 });
    }

    /// The first error in a SUBACK or UNSUBACK; 0 where there is none, since what is granted is no status.
    fn worst(&self, body: &[u8]) -> u8 {
        let codes = match self.version {
            Some(5) => match properties(body.get(2..).unwrap_or_default()) {
                Some(length) => body.get(2 + length..),
                None => None,
            },
            Some(_) => body.get(2..),
            // In both versions the last byte is a code.
            None => body.get(2..).and_then(|codes| codes.get(codes.len().saturating_sub(1)..)),
        };
        codes.unwrap_or_default().iter().copied().find(|&code| code >= ERRORS).unwrap_or(0)
    }
}

/// The bytes of properties, their length included (5, section 2.2.2).
fn properties(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (place, &byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 127) << (7 * place);
        if byte & 128 == 0 {
            return Some(length + place + 1);
        }
    }
    None
}

fn answer(name: &str, id: u64, reason: u8) -> Response {
    response(name, Key::Id(id), reason, reason >= ERRORS)
}

fn response(name: &str, key: Key, reason: u8, failed: bool) -> Response {
    Response { key, status: status(name, reason), failed }
}

/// `PUBACK`, `PUBACK 135`.
fn status(name: &str, reason: u8) -> Label {
    if reason == 0 {
        return name.into();
    }
    let mut text = [b' '; Label::LENGTH];
    let digits = Label::number(reason);
    let (name, digits) = (name.as_bytes(), digits.as_str().as_bytes());
    let end = name.len() + 1 + digits.len();
    match text.get_mut(..end) {
        Some(text) => {
            text[..name.len()].copy_from_slice(name);
            text[name.len() + 1..].copy_from_slice(digits);
            Label::from_bytes(text)
        }
        None => Label::from_bytes(name),
    }
}
