//! MongoDB's wire protocol (MongoDB manual, "MongoDB Wire Protocol"). Requests carry a number, and responses that of their
//! request. Of documents, only the uppermost keys are read.

mod bson;
#[cfg(test)]
mod tests;

use crate::dissect::{Dissector, Entry, KEPT, Output, Probe, Step, UNPACKED};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use bson::{elements, first_key, number};
use memchr::memchr;
use memchr::memmem;
use plimsoll_codec::packing::{Packing, unpack};
use plimsoll_model::wire::{Label, WireProtocol};

/// The longest message, bytes: what servers take.
const MESSAGE: usize = 48_000_000;
const HEADER: usize = 16;
/// Bytes of a request in which its command is named.
const HEAD: usize = 128;
const REPLY: u32 = 1;
const UPDATE: u32 = 2001;
const INSERT: u32 = 2002;
const QUERY: u32 = 2004;
const GET_MORE: u32 = 2005;
const DELETE: u32 = 2006;
const KILL_CURSORS: u32 = 2007;
const COMPRESSED: u32 = 2012;
const MSG: u32 = 2013;
/// Flags of OP_MSG: a checksum follows; the sender says more before it listens.
const CHECKSUM: u32 = 1;
const MORE_TO_COME: u32 = 2;
/// Flags of OP_MSG that a receiver must know.
const REQUIRED: u32 = 0xffff;

/// A document that is found and removed at once: how that is said, and what it is called here.
const REMOVES: &[u8] = b"\x08remove\0\x01";
const TAKING: &str = "findAndModify remove";

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::MongoDb,
    ports: &[27017, 27018, 27019],
    streams: true,
    datagrams: false,
    asking,
    probe,
    make: |_| Box::<MongoDb>::default(),
};

/// A document that is removed when it is found is taken; drivers wait for news of the server and of cursors that stay open.
fn asking(verb: &str, _status: &str) -> Asking {
    match verb {
        TAKING => Asking::Next,
        "hello" | "isMaster" | "ismaster" | "getMore" => Asking::News,
        _ => Asking::Now,
    }
}

#[derive(Default)]
struct MongoDb {
    /// What each side is saying, the rest of which is passed.
    saying: [Option<Saying>; 2],
    /// The last response to which more was promised: the next answers it and not a request.
    promised: Option<u32>,
}

#[derive(Clone, Copy)]
enum Saying {
    Request(Request),
    Response(Response),
    Notice(&'static str),
}

/// A message, which may be cut short.
struct Message<'a> {
    id: u32,
    answers: u32,
    operation: u32,
    content: &'a [u8],
    whole: bool,
}

impl Dissector for MongoDb {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let Some(header) = bytes.get(..HEADER) else { return Step::Need(HEADER) };
        let field = |at: usize| number(header, at).unwrap_or(0);
        let length = field(0) as usize;
        if !(HEADER..=MESSAGE).contains(&length) {
            return Step::Malformed("a length that no message has");
        }
        let operation = field(12);
        if name(operation).is_none() {
            return Step::Malformed("a message of no known type");
        }
        let whole = bytes.len() >= length;
        if !whole {
            let enough = if side == Side::Client && operation == MSG { HEAD.min(length) } else { length };
            if bytes.len() < enough.min(HEAD) || enough <= KEPT && bytes.len() < enough {
                return Step::Need(if enough <= KEPT { enough } else { HEAD });
            }
        }
        let content = &bytes[HEADER..bytes.len().min(length)];
        let message = Message { id: field(4), answers: field(8), operation, content, whole };
        match (self.read(side, &message, out), whole) {
            (Ok(saying), true) => {
                say(saying, out);
                Step::Taken(length)
            }
            (Ok(saying), false) => {
                self.saying[side.index()] = Some(saying);
                Step::Pass(length as u64)
            }
            (Err(reason), _) => Step::Malformed(reason),
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some(saying) = self.saying[side.index()].take() {
            say(saying, out);
        }
    }

    fn lost(&mut self, side: Side) {
        self.saying[side.index()] = None;
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        matches!(probe(bytes, Some(side), false), Probe::Yes(_))
    }
}

fn say(saying: Saying, out: &mut Output<'_>) {
    match saying {
        Saying::Request(request) => out.request(request),
        Saying::Response(response) => out.response(response),
        Saying::Notice(verb) => out.notice(verb),
    }
}

impl MongoDb {
    fn read(
        &mut self,
        side: Side,
        message: &Message<'_>,
        out: &mut Output<'_>,
    ) -> Result<Saying, &'static str> {
        if message.operation != COMPRESSED {
            return self.understand(side, message);
        }
        let (Some(operation), Some(&compressor)) = (number(message.content, 0), message.content.get(8))
        else {
            return Err("a compressed message without a header");
        };
        let packing = match compressor {
            0 => Packing::None,
            1 => Packing::Snappy,
            2 => Packing::Zlib,
            3 => Packing::Zstd,
            _ => return Err("a compressor that is not known"),
        };
        if operation == COMPRESSED || name(operation).is_none() {
            return Err("a compressed message of no known type");
        }
        let packed = if message.whole { &message.content[9..] } else { &[] };
        let size = number(message.content, 4);
        unpack(packing, packed, UNPACKED, |content| {
            out.opened(content);
            let whole = size.is_some_and(|size| size as usize == content.len());
            // What could not be opened has a number all the same.
            let operation = if content.is_empty() { COMPRESSED } else { operation };
            self.understand(side, &Message { operation, content, whole, ..*message })
        })
    }

    /// What an opened message is.
    fn understand(&mut self, side: Side, message: &Message<'_>) -> Result<Saying, &'static str> {
        let (flags, document) = match message.operation {
            MSG => body(message)?,
            REPLY => (number(message.content, 0).unwrap_or(0), message.content.get(20..).unwrap_or_default()),
            _ => (0, query(message.content)),
        };
        if side == Side::Client {
            let (verb, answered) = match message.operation {
                MSG => (first_key(document), flags & MORE_TO_COME == 0),
                QUERY => (command(document), true),
                UPDATE | INSERT | DELETE | KILL_CURSORS => (None, false),
                _ => (None, true),
            };
            let named = name(message.operation).unwrap_or_default();
            let takes = verb.is_some_and(|verb| verb.eq_ignore_ascii_case(b"findAndModify"))
                && memmem::find(document, REMOVES).is_some();
            let verb = verb.filter(|verb| !verb.is_empty()).map_or(Label::new(named), Label::from_bytes);
            let verb = if takes { Label::new(TAKING) } else { verb };
            return Ok(Saying::Request(Request {
                verb,
                key: Key::Id(u64::from(message.id)),
                answered,
                tag: 0,
            }));
        }
        let promised = self.promised == Some(message.answers);
        if message.operation == MSG && flags & MORE_TO_COME != 0 {
            self.promised = Some(message.id);
        } else if promised {
            self.promised = None;
        }
        if promised {
            return Ok(Saying::Notice("OP_MSG"));
        }
        let (status, failed) = match (message.operation, flags & 3) {
            (REPLY, 1) => (Label::new("CursorNotFound"), true),
            (REPLY, 2 | 3) => {
                (outcome(document).map_or(Label::new("QueryFailure"), |(status, _)| status), true)
            }
            _ => outcome(document).unwrap_or((Label::new("ok"), false)),
        };
        Ok(Saying::Response(Response { key: Key::Id(u64::from(message.answers)), status, failed }))
    }
}

/// The flags of an OP_MSG, and its body: the section of kind 0, which may be cut short.
fn body<'a>(message: &Message<'a>) -> Result<(u32, &'a [u8]), &'static str> {
    let (Some(flags), Some(mut sections)) = (number(message.content, 0), message.content.get(4..)) else {
        return Err("a message without flags");
    };
    if flags & REQUIRED & !(CHECKSUM | MORE_TO_COME) != 0 {
        return Err("flags that nobody knows");
    }
    if message.whole && flags & CHECKSUM != 0 {
        sections = &sections[..sections.len().saturating_sub(4)];
    }
    while let Some((kind, section)) = sections.split_first() {
        let size = number(section, 0).unwrap_or(0) as usize;
        if size < 5 || message.whole && size > section.len() {
            return if message.whole { Err("a section of a length that it cannot have") } else { break };
        }
        match kind {
            0 => return Ok((flags, &section[..size.min(section.len())])),
            1 => sections = section.get(size..).unwrap_or_default(),
            _ => return Err("a section of no known kind"),
        }
    }
    Ok((flags, &[]))
}

/// The document of an OP_QUERY for a command; empty for one of a collection.
fn query(content: &[u8]) -> &[u8] {
    let collection = content.get(4..).unwrap_or_default();
    let Some(end) = memchr(0, collection) else { return &[] };
    if !collection[..end].ends_with(b".$cmd") {
        return &[];
    }
    collection.get(end + 9..).unwrap_or_default()
}

/// The command that a document names, which may be wrapped.
fn command(document: &[u8]) -> Option<&[u8]> {
    match first_key(document)? {
        b"$query" | b"query" => first_key(elements(document).next()?.value),
        key => Some(key),
    }
}

/// Status of a response, and whether it failed; `None` where it does not say.
fn outcome(document: &[u8]) -> Option<(Label, bool)> {
    let (mut ok, mut code, mut code_name) = (None, None, None);
    for element in elements(document) {
        match element.name {
            b"ok" => ok = element.integer(),
            b"$err" => ok = Some(0),
            b"code" => code = element.integer(),
            b"codeName" => code_name = element.text(),
            b"writeErrors" => return Some((Label::new("writeErrors"), true)),
            _ => {}
        }
    }
    if ok? != 0 {
        return Some((Label::new("ok"), false));
    }
    let code = code.and_then(|code| u64::try_from(code).ok()).map(Label::number);
    Some((code_name.or(code).unwrap_or(Label::new("error")), true))
}

fn name(operation: u32) -> Option<&'static str> {
    Some(match operation {
        REPLY => "OP_REPLY",
        UPDATE => "OP_UPDATE",
        INSERT => "OP_INSERT",
        QUERY => "OP_QUERY",
        GET_MORE => "OP_GET_MORE",
        DELETE => "OP_DELETE",
        KILL_CURSORS => "OP_KILL_CURSORS",
        COMPRESSED => "OP_COMPRESSED",
        MSG => "OP_MSG",
        _ => return None,
    })
}

/// Judges the first message of a side.
fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    if number(bytes, 0).is_some_and(|length| !(HEADER + 5..=MESSAGE).contains(&(length as usize))) {
        return Probe::No;
    }
    let (Some(length), Some(answers), Some(operation)) =
        (number(bytes, 0), number(bytes, 8), number(bytes, 12))
    else {
        return Probe::More;
    };
    if name(operation).is_none() {
        return Probe::No;
    }
    let content = &bytes[HEADER..bytes.len().min(length as usize)];
    let Some(first) = number(content, 0) else { return Probe::More };
    let (side, fits) = match operation {
        MSG => {
            let side = if answers == 0 { Side::Client } else { Side::Server };
            let Some((&kind, section)) = content.get(4..).and_then(|sections| sections.split_first()) else {
                return Probe::More;
            };
            let Some(size) = number(section, 0) else { return Probe::More };
            let fits = first & REQUIRED & !(CHECKSUM | MORE_TO_COME) == 0
                && kind <= 1
                && size >= 5
                && size as usize <= length as usize - HEADER - 5;
            (side, fits)
        }
        REPLY => {
            let Some(returned) = number(content, 16) else { return Probe::More };
            (Side::Server, first < 16 && returned <= 1 << 20 && answers != 0)
        }
        COMPRESSED => {
            let (Some(size), Some(&compressor)) = (number(content, 4), content.get(8)) else {
                return Probe::More;
            };
            let side = if answers == 0 { Side::Client } else { Side::Server };
            (
                side,
                name(first).is_some() && first != COMPRESSED && size as usize <= MESSAGE && compressor <= 3,
            )
        }
        _ => {
            // The name of a collection stands behind the flags.
            let Some(collection) = content.get(4..12) else { return Probe::More };
            let text = collection.iter().take_while(|&&byte| byte != 0).all(|byte| byte.is_ascii_graphic());
            (Side::Client, operation == KILL_CURSORS || text && collection[0] != 0)
        }
    };
    match fits && speaker.is_none_or(|speaker| speaker == side) {
        true => Probe::Yes(Some(side)),
        false => Probe::No,
    }
}
