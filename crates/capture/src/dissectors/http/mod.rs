//! HTTP/1.0 and 1.1 (RFC 9112): responses answer requests in their order. Bodies are passed, not kept.

mod head;
#[cfg(test)]
mod tests;

use super::inflate::{Inflate, Wrap};
use crate::action::{self, Action, Publish};
use crate::dissect::{Dissector, Entry, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use head::{Coding, First, Head};
use memchr::memchr;
use plimsoll_model::wire::{Label, WireProtocol};

/// Longest line within a body: a chunk's size with its extensions, a trailer, bytes.
const LONGEST_LINE: usize = 1 << 14;
/// Tags of requests whose responses are read in a way of their own.
const HEAD: u64 = 1;
const CONNECT: u64 = 2;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Http,
    ports: &[80, 443, 8443, 8080, 8000, 8081, 8888, 3000, 5000, 9090],
    streams: true,
    datagrams: false,
    asking: Asking::now,
    probe,
    make: |_| Box::new(Http::default()),
};

fn probe(bytes: &[u8], speaker: Option<Side>, _: bool) -> Probe {
    let asks = if speaker == Some(Side::Server) { Some(false) } else { head::is_request(bytes) };
    let answers = if speaker == Some(Side::Client) { Some(false) } else { head::is_response(bytes) };
    match (asks, answers) {
        (Some(true), _) => Probe::Yes(Some(Side::Client)),
        (_, Some(true)) => Probe::Yes(Some(Side::Server)),
        (Some(false), Some(false)) => Probe::No,
        _ => Probe::More,
    }
}

#[derive(Default)]
struct Http {
    client: Direction,
    server: Direction,
}

/// What is read of one direction.
#[derive(Default)]
struct Direction {
    place: Place,
    message: Option<Message>,
    /// The body of the message, where it is compressed and anybody looks for markers.
    inflate: Option<Box<Inflate>>,
    /// What the message says of the client, where that is asked for.
    publishes: Option<Publish>,
}

/// Where in a message a side is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// So much of the body is left.
    Body(u64),
    /// A body that may not come, since the request that announced it was answered without.
    Announced(u64),
    /// A body that ends with the conversation.
    UntilEnd,
    ChunkSize,
    /// So much of a chunk is left, the line's end behind it included.
    Chunk(u64),
    Trailer,
}

/// What will be told at a message's end.
#[derive(Clone, Copy, Debug)]
enum Message {
    Request(Request, Waits),
    /// A request that has been told already.
    Told,
    Response(Response),
}

/// Whether a client waits for a `100 Continue` before it sends the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Yes,
    No,
}

impl Dissector for Http {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        match self.direction(side).place {
            Place::Head => self.head(side, bytes, out),
            Place::Announced(content) => match head::is_request(bytes) {
                None => Step::Need(bytes.len() + 1),
                Some(asks) => {
                    self.client.place = if asks { Place::Head } else { Place::Body(content) };
                    if asks {
                        self.client.message = None;
                        self.client.publishes = None;
                    }
                    self.parse(side, bytes, out)
                }
            },
            Place::Body(left) => self.direction(side).body(left, 0, bytes, out),
            Place::Chunk(left) => self.direction(side).body(left, 2, bytes, out),
            Place::UntilEnd => {
                self.direction(side).open(bytes);
                Step::Taken(bytes.len())
            }
            Place::ChunkSize | Place::Trailer => self.direction(side).line(bytes, out),
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        self.direction(side).part_ended(out);
    }

    fn lost(&mut self, side: Side) {
        *self.direction(side) = Direction::default();
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        match side {
            Side::Client => head::may_be_request(bytes),
            Side::Server => head::is_response(bytes) == Some(true),
        }
    }

    fn finished(&mut self, side: Side, out: &mut Output<'_>) {
        let own = self.direction(side);
        if own.place == Place::UntilEnd {
            own.ended(out);
        }
    }
}

impl Http {
    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn head(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        // Empty lines before a message are old custom (RFC 9112, section 2.2).
        match bytes {
            [b'\r'] => return Step::Need(2),
            [b'\r', b'\n', ..] => {
                out.nothing();
                return Step::Taken(2);
            }
            _ => {}
        }
        let head = match head::read(bytes) {
            Ok(Some(head)) => head,
            Ok(None) => return Step::Need(bytes.len() + 1),
            Err(reason) => return Step::Malformed(reason),
        };
        match (side, head.first) {
            (Side::Client, First::Request(verb)) => {
                self.client.publishes = if out.learns() { publish(verb, &head, bytes) } else { None };
                self.request(verb, &head, out)
            }
            (Side::Server, First::Response(status)) => self.response(status, &head, out),
            (Side::Client, _) => Step::Malformed("a response of the client"),
            (Side::Server, _) => Step::Malformed("a request of the server"),
        }
    }

    fn request(&mut self, verb: Label, head: &Head, out: &mut Output<'_>) -> Step {
        let place = match (head.transfer, head.content) {
            (Some(true), _) => Place::ChunkSize,
            (Some(false), _) => {
                return Step::Malformed("a request whose Transfer-Encoding does not end in chunked");
            }
            (None, Some(content)) => Place::Body(content),
            (None, None) => Place::Body(0),
        };
        let tag = match verb.as_str() {
            "HEAD" => HEAD,
            "CONNECT" => CONNECT,
            _ => 0,
        };
        let request = Request { verb, key: Key::Order, answered: true, tag };
        let waits = if head.expects { Waits::Yes } else { Waits::No };
        self.client.begin(Message::Request(request, waits), place, head, out);
        Step::Taken(head.length)
    }

    fn response(&mut self, status: u16, head: &Head, out: &mut Output<'_>) -> Step {
        let label = Label::number(status);
        if (100..200).contains(&status) && status != 101 {
            out.interim(Key::Order);
            out.notice(label);
            return Step::Taken(head.length);
        }
        let mut tag = out.oldest().map(|request| request.tag);
        if let (None, Some(Message::Request(request, waits))) = (tag, self.client.message) {
            // The answer comes before the request's end.
            out.early(request);
            tag = Some(request.tag);
            self.client.message = Some(Message::Told);
            if let (Place::Body(content), Waits::Yes) = (self.client.place, waits) {
                self.client.place = Place::Announced(content);
            }
        }
        let response = Response { key: Key::Order, status: label, failed: status >= 400 };
        if status == 101 {
            out.response(response);
            return Step::Becomes(head.upgrade, head.length);
        }
        if tag == Some(CONNECT) && (200..300).contains(&status) {
            out.response(response);
            return Step::Becomes(WireProtocol::Unknown, head.length);
        }
        let place = match (head.transfer, head.content) {
            _ if tag == Some(HEAD) || status == 204 || status == 304 => Place::Body(0),
            (Some(true), _) => Place::ChunkSize,
            (None, Some(content)) => Place::Body(content),
            _ => Place::UntilEnd,
        };
        self.server.begin(Message::Response(response), place, head, out);
        Step::Taken(head.length)
    }
}

impl Direction {
    fn begin(&mut self, message: Message, place: Place, head: &Head, out: &mut Output<'_>) {
        (self.message, self.place) = (Some(message), place);
        if place == Place::Body(0) {
            return self.ended(out);
        }
        let wrap = match head.coding {
            Coding::Plain => return,
            Coding::Gzip => Wrap::Gzip,
            Coding::Zlib => Wrap::Zlib,
        };
        self.inflate = out.searches().then(|| Box::new(Inflate::new(wrap)));
    }

    /// Content of which so much is left, with so much of framing at its end.
    fn body(&mut self, left: u64, framing: u64, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if self.inflate.is_none() {
            return Step::Pass(left);
        }
        let taken = left.min(bytes.len() as u64);
        let content = left.saturating_sub(framing).min(taken);
        self.open(&bytes[..content as usize]);
        match self.place {
            _ if taken == left => self.part_ended(out),
            Place::Body(_) => self.place = Place::Body(left - taken),
            _ => self.place = Place::Chunk(left - taken),
        }
        Step::Taken(taken as usize)
    }

    /// A line that is part of a chunked body (RFC 9112, section 7.1).
    fn line(&mut self, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let Some(end) = memchr(b'\n', bytes) else {
            let long = bytes.len() > LONGEST_LINE;
            return if long {
                Step::Malformed("a line that is too long")
            } else {
                Step::Need(bytes.len() + 1)
            };
        };
        let line = head::trimmed(&bytes[..end]);
        if self.place == Place::ChunkSize {
            self.place = match chunk_size(line) {
                Some(0) => Place::Trailer,
                Some(size) => {
                    if let Some(publish) = &mut self.publishes {
                        publish.bytes = publish.bytes.saturating_add(size);
                    }
                    Place::Chunk(size + 2)
                }
                None => return Step::Malformed("a chunk whose size is no number"),
            };
        } else if line.is_empty() {
            self.ended(out);
        }
        Step::Taken(end + 1)
    }

    fn open(&mut self, bytes: &[u8]) {
        if let Some(inflate) = &mut self.inflate {
            inflate.push(bytes);
        }
    }

    /// A body or a chunk of it is over.
    fn part_ended(&mut self, out: &mut Output<'_>) {
        match self.place {
            Place::Chunk(_) => self.place = Place::ChunkSize,
            _ => self.ended(out),
        }
    }

    /// The message is over.
    fn ended(&mut self, out: &mut Output<'_>) {
        if let Some(inflate) = self.inflate.take() {
            out.opened(inflate.content());
        }
        self.place = Place::Head;
        if let Some(publish) = self.publishes.take() {
            out.act(Action::Publish(publish));
        }
        match self.message.take() {
            Some(Message::Request(request, _)) => out.request(request),
            Some(Message::Response(response)) => out.response(response),
            Some(Message::Told) | None => out.nothing(),
        }
    }
}

/// What a request says that a client sends; the bytes of chunks are added as they come.
fn publish(verb: Label, head: &Head, bytes: &[u8]) -> Option<Publish> {
    let method = ["POST", "PUT", "PATCH"].into_iter().find(|method| *method == verb.as_str())?;
    let (begin, end) = head.target;
    let target = action::name(bytes.get(begin..end)?);
    Some(Publish { method, target, qos: 1, bytes: head.content.unwrap_or(0), ..Publish::default() })
}

/// Hexadecimal digits, and extensions after a semicolon.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(line.len());
    // Fifteen digits leave room for what is added.
    let digits = line.get(..end).filter(|digits| (1..=15).contains(&digits.len()))?;
    digits.iter().try_fold(0, |size, &digit| Some(size << 4 | u64::from(char::from(digit).to_digit(16)?)))
}
