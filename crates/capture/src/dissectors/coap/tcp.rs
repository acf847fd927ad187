//! CoAP over TCP (RFC 8323): messages with a length, and signals.

use super::message::{self, Blocks, Message, Options};
use crate::dissect::{Dissector, KEPT, Output, Probe, Step};
use crate::side::Side;

/// Code of the first message of each side: capabilities and settings.
const CSM: u8 = 0xE1;
/// Options that are read where a message is long, bytes.
const LONG: usize = 1 << 12;

/// Fewer bytes in the middle of a stream may be anything.
const ENOUGH: usize = 12;

/// What stands before the options.
struct Header {
    code: u8,
    key: u64,
    /// Its bytes.
    length: usize,
    /// Bytes of options and payload.
    content: u64,
}

/// `None` where bytes are missing.
fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let token = usize::from(first & 15);
    if token > 8 {
        return Err("a token that is too long");
    }
    // A length nibble of 13, 14 or 15 announces 1, 2 or 4 bytes (section 3.2).
    let (more, base) = match first >> 4 {
        13 => (1, 13),
        14 => (2, 269),
        15 => (4, 65_805),
        short => (0, u64::from(short)),
    };
    let Some(extended) = bytes.get(1..1 + more) else { return Ok(None) };
    let content = base + extended.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let Some(&code) = bytes.get(1 + more) else { return Ok(None) };
    if code != 0 && signal(code).is_none() && !message::is_code(code) {
        return Err("a code that does not exist");
    }
    let length = 2 + more + token;
    let Some(token) = bytes.get(2 + more..length) else { return Ok(None) };
    Ok(Some(Header { code, key: message::key(token), length, content }))
}

/// The name of a signal (section 5).
fn signal(code: u8) -> Option<&'static str> {
    match code {
        CSM => Some("CSM"),
        0xE2 => Some("PING"),
        0xE3 => Some("PONG"),
        0xE4 => Some("RELEASE"),
        0xE5 => Some("ABORT"),
        _ => None,
    }
}

/// Options as far as they are there: whole ones, or `None`.
fn options(header: &Header, bytes: &[u8]) -> Result<Option<Options>, &'static str> {
    let here = bytes.get(header.length..).unwrap_or_default();
    match usize::try_from(header.content).ok().and_then(|content| here.get(..content)) {
        Some(content) => message::options(content, true),
        None => message::options(here, false),
    }
}

/// A side begins with its settings; in the middle of a stream, a request that names its target is believed.
pub(super) fn probe(bytes: &[u8]) -> Probe {
    let first = match header(bytes) {
        Ok(Some(first)) => first,
        // Settings are short and have no token.
        Ok(None) if bytes.first().is_some_and(|first| first & 15 == 0) && bytes.len() < 2 => {
            return Probe::More;
        }
        _ => return Probe::No,
    };
    let Ok(options) = options(&first, bytes) else { return Probe::No };
    if first.code == CSM {
        return match options {
            _ if first.content > 64 || first.length > 3 => Probe::No,
            Some(_) => Probe::Yes(None),
            None => Probe::More,
        };
    }
    let asks = message::is_request(first.code) && options.is_some_and(|read| read.known && read.names_target);
    if asks && bytes.len() >= ENOUGH && chained(bytes) { Probe::Yes(Some(Side::Client)) } else { Probe::No }
}

/// Whether all is messages up to the end, which may cut the last one, but not the first.
fn chained(mut bytes: &[u8]) -> bool {
    let mut whole = 0;
    while !bytes.is_empty() {
        let next = match header(bytes) {
            Ok(Some(next)) => next,
            Ok(None) => return whole > 0,
            Err(_) => return false,
        };
        if options(&next, bytes).is_err() {
            return false;
        }
        let length = usize::try_from(next.content).ok().and_then(|content| content.checked_add(next.length));
        let Some(rest) = length.and_then(|length| bytes.get(length..)) else { return whole > 0 };
        whole += 1;
        bytes = rest;
    }
    whole > 0
}

#[derive(Default)]
pub(super) struct Tcp {
    /// Messages whose payload is being passed.
    long: [Option<(Message, u64)>; 2],
    blocks: Blocks,
}

impl Dissector for Tcp {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if let Some((_, payload)) = self.long[side.index()] {
            return Step::Pass(payload);
        }
        let header = match header(bytes) {
            Ok(Some(header)) => header,
            Ok(None) => return Step::Need(bytes.len() + 1),
            Err(reason) => return Step::Malformed(reason),
        };
        let message = |options| Message { code: header.code, key: header.key, options };
        let whole = header.length.saturating_add(usize::try_from(header.content).unwrap_or(KEPT));
        if bytes.len() < whole && whole <= LONG {
            return Step::Need(whole);
        }
        match options(&header, bytes) {
            Err(reason) => Step::Malformed(reason),
            Ok(Some(options)) if bytes.len() >= whole => {
                self.publish(side, &header, &options, bytes, out);
                told(&message(options), out);
                Step::Taken(whole)
            }
            Ok(Some(options)) => {
                let payload = header.content - options.length as u64;
                self.publish(side, &header, &options, bytes, out);
                self.long[side.index()] = Some((message(options), payload));
                Step::Taken(header.length + options.length)
            }
            Ok(None) if bytes.len() >= KEPT / 2 => Step::Malformed("options that are too long"),
            Ok(None) => Step::Need(bytes.len() + 1),
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some((message, _)) = self.long[side.index()].take() {
            told(&message, out);
        }
    }

    fn lost(&mut self, side: Side) {
        self.long[side.index()] = None;
    }

    fn resumes(&self, _: Side, bytes: &[u8]) -> bool {
        chained(bytes)
    }
}

impl Tcp {
    /// Tells what a request of the client says that it sends.
    fn publish(
        &mut self,
        side: Side,
        header: &Header,
        options: &Options,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) {
        if side == Side::Client && message::is_request(header.code) {
            let rest = bytes.get(header.length..).unwrap_or_default();
            let payload = header.content.saturating_sub(options.length as u64);
            self.blocks.publish(header.code, true, rest, payload, out);
        }
    }
}

fn told(message: &Message, out: &mut Output<'_>) {
    match signal(message.code) {
        Some(name) => out.notice(name),
        None if message.code == 0 => out.nothing(),
        None if message::is_request(message.code) => message::ask(message, out),
        None => message::answer(message, out),
    }
}
