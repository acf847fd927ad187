//! AMQP 1.0 (OASIS AMQP 1.0, parts 2, 3 and 5). What a client opens is answered by the same word of the server, and what it sends
//! unsettled by a disposition with the number of the delivery.

mod message;
#[cfg(test)]
mod tests;

use crate::action::{Action, Publish, name as name_of};
use crate::dissect::{Dissector, Entry, KEPT, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use plimsoll_codec::amqp1::types::{Fields, Value};
use plimsoll_codec::amqp1::{FRAME_HEAD, Frame, HEADER, Malformed, SASL_HEADER, decode};
use plimsoll_model::wire::{Label, WireProtocol};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;

/// The largest frame, bytes: more than peers agree to.
const FRAME: usize = 1 << 28;
/// The same of frames by which the protocol is recognised, and their most channels.
const LIKELY: usize = 1 << 20;
const CHANNELS: u16 = 1 << 12;
/// Links of a side, and endings of the server, that are followed.
const LINKS: usize = 1 << 12;
/// The most deliveries that one disposition is looked up for.
const SETTLED: u32 = 1 << 14;

/// Numbers of performatives (parts 2 and 5).
mod number {
    pub const OPEN: u64 = 0x10;
    pub const BEGIN: u64 = 0x11;
    pub const ATTACH: u64 = 0x12;
    pub const FLOW: u64 = 0x13;
    pub const TRANSFER: u64 = 0x14;
    pub const DISPOSITION: u64 = 0x15;
    pub const DETACH: u64 = 0x16;
    pub const END: u64 = 0x17;
    pub const CLOSE: u64 = 0x18;
    pub const MECHANISMS: u64 = 0x40;
    pub const INIT: u64 = 0x41;
    pub const CHALLENGE: u64 = 0x42;
    pub const RESPONSE: u64 = 0x43;
    pub const OUTCOME: u64 = 0x44;
}

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Amqp1,
    ports: &[5672, 5671],
    streams: true,
    datagrams: false,
    asking: Asking::now,
    probe,
    make: |_| Box::<Amqp1>::default(),
};

#[derive(Default)]
struct Amqp1 {
    /// The client's number of a session by the server's.
    channels: FxHashMap<u16, u16>,
    /// Links by session and number, as each side numbers them.
    links: [FxHashMap<(u16, u32), Link>; 2],
    /// What the server was the first to end: the client's word for it asks for nothing.
    ended: FxHashSet<u64>,
    /// A frame of that side is passed.
    passing: [bool; 2],
}

/// A link, as one side speaks of it.
#[derive(Default)]
struct Link {
    /// Stands for its name.
    name: u32,
    /// Where messages go, where that is asked for.
    address: String,
    /// A message of which more is to come.
    delivery: Option<Delivery>,
}

/// A message.
struct Delivery {
    /// Its number; not known where its beginning was missed.
    id: Option<u32>,
    settled: bool,
    bytes: u64,
    /// Whether it came in several frames.
    in_parts: bool,
    /// To whom it is, where its link does not say.
    to: String,
}

impl Dissector for Amqp1 {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if bytes[0] == b'A' {
            let Some(header) = bytes.get(..HEADER.len()) else { return Step::Need(HEADER.len()) };
            if !header.starts_with(b"AMQP") {
                return Step::Malformed("neither a frame nor the name of the protocol");
            }
            out.notice("AMQP");
            return Step::Taken(HEADER.len());
        }
        let Some((size, _)) = head(bytes) else { return Step::Need(FRAME_HEAD) };
        if !(FRAME_HEAD..=FRAME).contains(&size) {
            return Step::Malformed("a frame of a size that none has");
        }
        let Some(frame) = bytes.get(..size) else {
            if size <= KEPT {
                return Step::Need(size);
            }
            self.passing[side.index()] = true;
            return Step::Pass(size as u64);
        };
        match self.frame(side, frame, out) {
            Ok(()) => Step::Taken(size),
            Err(reason) => Step::Malformed(reason),
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if std::mem::take(&mut self.passing[side.index()]) {
            out.notice("frame");
        }
    }

    fn lost(&mut self, side: Side) {
        self.passing[side.index()] = false;
        self.links[side.index()].values_mut().for_each(|link| link.delivery = None);
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        matches!(probe(bytes, Some(side), false), Probe::Yes(_))
    }
}

impl Amqp1 {
    fn frame(&mut self, side: Side, frame: &[u8], out: &mut Output<'_>) -> Result<(), &'static str> {
        let channel = head(frame).map_or(0, |(_, channel)| channel);
        let malformed = |_: Malformed| "a frame without a performative";
        match decode(frame).map_err(malformed)? {
            Frame::Header(..) => out.notice("AMQP"),
            Frame::Empty => out.notice("heartbeat"),
            Frame::Performative(number, fields, payload) => {
                let read = self.performative((side, channel), number, fields, payload, out);
                read.map_err(|_| "a performative that is none")?;
            }
        }
        Ok(())
    }

    fn performative(
        &mut self,
        (side, channel): (Side, u16),
        number: u64,
        mut fields: Fields<'_>,
        payload: &[u8],
        out: &mut Output<'_>,
    ) -> Result<(), Malformed> {
        // Sessions have the client's numbers.
        let session = match side {
            Side::Client => channel,
            Side::Server => self.channels.get(&channel).copied().unwrap_or(channel),
        };
        match number {
            number::OPEN => self.say(side, key(number, 0, 0), ("open", None), out),
            number::BEGIN => {
                let of_client = fields.field()?.number().and_then(|number| u16::try_from(number).ok());
                let session = match (side, of_client) {
                    (Side::Server, Some(session)) => {
                        if self.channels.len() < LINKS {
                            self.channels.insert(channel, session);
                        }
                        session
                    }
                    _ => session,
                };
                self.say(side, key(number, session, 0), ("begin", None), out);
            }
            number::ATTACH => self.attach(side, session, fields, out)?,
            number::FLOW => out.notice("flow"),
            number::TRANSFER => self.transfer(side, session, fields, payload, out)?,
            number::DISPOSITION => disposition(side, session, fields, out)?,
            number::DETACH => {
                let handle = fields.number()?.unwrap_or_default();
                let name =
                    self.links[side.index()].remove(&(session, handle)).map_or(handle, |link| link.name);
                fields.skip(1)?;
                let error = condition(fields.field()?);
                self.say(side, key(number, session, name), ("detach", error), out);
            }
            number::END | number::CLOSE => {
                let (word, session) = if number == number::END { ("end", session) } else { ("close", 0) };
                let error = condition(fields.field()?);
                self.say(side, key(number, session, 0), (word, error), out);
            }
            number::INIT => self.say(side, key(number::INIT, 0, 0), ("sasl.init", None), out),
            number::OUTCOME => {
                let code = fields.number()?.unwrap_or_default();
                let key = key(number::INIT, 0, 0);
                match side == Side::Server && out.waiting(key).is_some() {
                    true => out.response(Response {
                        key: Key::Id(key),
                        status: Label::number(code),
                        failed: code != 0,
                    }),
                    false => out.notice("sasl.outcome"),
                }
            }
            number::MECHANISMS => out.notice("sasl.mechanisms"),
            number::CHALLENGE => out.notice("sasl.challenge"),
            number::RESPONSE => out.notice("sasl.response"),
            _ => out.notice("unknown"),
        }
        Ok(())
    }

    /// A word that the client says first and the server answers, or the other way round. What went wrong is the status.
    fn say(
        &mut self,
        side: Side,
        key: u64,
        (word, error): (&'static str, Option<&str>),
        out: &mut Output<'_>,
    ) {
        match side {
            Side::Client if self.ended.remove(&key) => out.notice(word),
            Side::Client => {
                out.request(Request { verb: Label::new(word), key: Key::Id(key), answered: true, tag: 0 });
            }
            Side::Server if out.waiting(key).is_some() => {
                let status = Label::new(error.unwrap_or(word));
                out.response(Response { key: Key::Id(key), status, failed: error.is_some() });
            }
            Side::Server => {
                if self.ended.len() < LINKS {
                    self.ended.insert(key);
                }
                out.notice(word);
            }
        }
    }

    fn attach(
        &mut self,
        side: Side,
        session: u16,
        mut fields: Fields<'_>,
        out: &mut Output<'_>,
    ) -> Result<(), Malformed> {
        let name = hash(fields.field()?.text().unwrap_or_default());
        let handle = fields.number()?.unwrap_or_default();
        let receives = fields.field()?.is_true();
        fields.skip(2)?;
        let (source, target) = (fields.field()?, fields.field()?);
        let links = &mut self.links[side.index()];
        let mut link = Link { name, ..Link::default() };
        if side == Side::Client && out.learns() {
            let address = address(if receives { source } else { target });
            if receives && !address.is_empty() {
                out.act(Action::Subscribe { filter: parted(&address).1.to_owned(), qos: 1 });
            }
            link.address = address;
        }
        if links.len() < LINKS || links.contains_key(&(session, handle)) {
            links.insert((session, handle), link);
        }
        self.say(side, key(number::ATTACH, session, name), ("attach", None), out);
        Ok(())
    }

    /// A message, or a part of one.
    fn transfer(
        &mut self,
        side: Side,
        session: u16,
        mut fields: Fields<'_>,
        payload: &[u8],
        out: &mut Output<'_>,
    ) -> Result<(), Malformed> {
        let handle = fields.number()?.unwrap_or_default();
        let id = fields.number()?;
        fields.skip(2)?;
        let (settled, more) = (fields.field()?.is_true(), fields.field()?.is_true());
        fields.skip(3)?;
        let aborted = fields.field()?.is_true();
        let links = &mut self.links[side.index()];
        if links.len() >= LINKS && !links.contains_key(&(session, handle)) {
            out.notice("transfer");
            return Ok(());
        }
        let link = links.entry((session, handle)).or_default();
        let begun = link.delivery.take();
        let learns = out.learns();
        let mut delivery = begun.unwrap_or_else(|| Delivery {
            id,
            settled: false,
            bytes: message::content_length(payload),
            in_parts: more,
            to: if learns { message::to(payload).unwrap_or_default() } else { String::new() },
        });
        delivery.settled |= settled;
        let part = key(number::TRANSFER, session, delivery.id.unwrap_or_default());
        if delivery.in_parts {
            out.part(part, !more || aborted);
        }
        if aborted {
            out.notice("transfer");
        } else if more {
            link.delivery = Some(delivery);
        } else if side == Side::Server {
            out.act(Action::Receive);
            out.notice("transfer");
        } else {
            if learns {
                out.act(Action::Publish(publish(&link.address, &delivery)));
            }
            let answered = !delivery.settled && delivery.id.is_some();
            out.request(Request { verb: Label::new("transfer"), key: Key::Id(part), answered, tag: 0 });
        }
        Ok(())
    }
}

/// What became of deliveries.
fn disposition(
    side: Side,
    session: u16,
    mut fields: Fields<'_>,
    out: &mut Output<'_>,
) -> Result<(), Malformed> {
    let of_receiver = fields.field()?.is_true();
    let first = fields.number()?.unwrap_or_default();
    let last = fields.number()?.unwrap_or(first);
    let settled = fields.field()?.is_true();
    let (status, failed) = match fields.field()? {
        Value::Described(Some(0x24), _) => ("accepted", false),
        Value::Described(Some(0x25), _) => ("rejected", true),
        Value::Described(Some(0x26), _) => ("released", true),
        Value::Described(Some(0x27), _) => ("modified", true),
        _ if settled => ("settled", false),
        _ => {
            out.notice("disposition");
            return Ok(());
        }
    };
    let mut any = false;
    if side == Side::Server && of_receiver {
        // Numbers begin again behind the highest.
        let count = last.wrapping_sub(first).min(SETTLED);
        for id in (0..=count).map(|later| first.wrapping_add(later)) {
            let key = key(number::TRANSFER, session, id);
            if out.waiting(key).is_some() {
                any = true;
                out.response(Response { key: Key::Id(key), status: Label::new(status), failed });
            }
        }
    }
    if !any {
        out.notice("disposition");
    }
    Ok(())
}

/// What a client sends.
fn publish(address: &str, delivery: &Delivery) -> Publish {
    let address = if address.is_empty() { &delivery.to } else { address };
    let (prefix, target) = parted(address);
    Publish {
        method: "TRANSFER",
        target: target.to_owned(),
        topic: prefix.to_owned(),
        qos: u8::from(!delivery.settled),
        bytes: delivery.bytes,
        ..Publish::default()
    }
}

/// What stands before the levels of an address, as `/topic/` does, and the levels.
fn parted(address: &str) -> (&str, &str) {
    match address.starts_with('/').then(|| address.rfind('/')).flatten() {
        Some(last) => address.split_at(last + 1),
        None => ("", address),
    }
}

/// The address of a source or a target; empty where it has none.
fn address(end: Value<'_>) -> String {
    let Value::Described(Some(0x28 | 0x29), mut fields) = end else { return String::new() };
    let address = fields.field().ok().and_then(Value::text);
    address.map(|address| name_of(address.as_bytes())).unwrap_or_default()
}

/// The word for an error, where there is one (section 2.8.14).
fn condition(error: Value<'_>) -> Option<&str> {
    let Value::Described(Some(0x1d), mut fields) = error else { return None };
    fields.field().ok()?.text()
}

/// Under which something waits for its answer.
fn key(number: u64, session: u16, own: u32) -> u64 {
    number << 48 | u64::from(session) << 32 | u64::from(own)
}

fn hash(text: &str) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    let hash = hasher.finish();
    (hash ^ hash >> 32) as u32
}

/// The size of a frame, and its channel.
fn head(bytes: &[u8]) -> Option<(usize, u16)> {
    let &[a, b, c, d, _, _, high, low] = bytes.first_chunk::<FRAME_HEAD>()?;
    Some((u32::from_be_bytes([a, b, c, d]) as usize, u16::from_be_bytes([high, low])))
}

/// Judges the header or the first frame of a side: in the middle of a conversation, frames begin with the number of a performative.
fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    for header in [HEADER, SASL_HEADER] {
        let shared = bytes.len().min(header.len());
        if bytes[..shared] == header[..shared] {
            // Both sides say it.
            return if shared == header.len() { Probe::Yes(speaker) } else { Probe::More };
        }
    }
    if bytes[0] != 0 {
        return Probe::No;
    }
    // Size, offset of the body, type, channel, and a described value with a short number.
    let Some(&[offset, kind, ..]) = bytes.get(4..FRAME_HEAD) else {
        return if bytes.len() < FRAME_HEAD { Probe::More } else { Probe::No };
    };
    let Some((size, channel)) = head(bytes) else { return Probe::More };
    if !(FRAME_HEAD + 4..=LIKELY).contains(&size) || offset != 2 || kind > 1 || channel >= CHANNELS {
        return Probe::No;
    }
    match (bytes.get(FRAME_HEAD..FRAME_HEAD + 3), kind) {
        (Some(&[0, 0x53, 0x10..=0x18]), 0) | (Some(&[0, 0x53, 0x40..=0x44]), 1) => Probe::Yes(speaker),
        (Some(_), _) => Probe::No,
        (None, _) => Probe::More,
    }
}
