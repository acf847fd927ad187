//! HTTP/2 (RFC 9113), with gRPC on it: a stream is an exchange. Fields are decompressed as far as they tell method, path and
//! status; content is passed.

mod frame;
mod hpack;
mod huffman;
#[cfg(test)]
mod tests;

use crate::action::{Action, Publish};
use crate::dissect::{Dissector, Entry, KEPT, Output, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use frame::{HEADER, Header, PREFACE, kind};
use hpack::{Name, Table};
use plimsoll_model::wire::{Label, WireProtocol};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Streams that are followed at a time.
const STREAMS: usize = 1 << 14;
/// Longest block of fields, bytes.
const LONGEST: usize = 1 << 18;
/// What cannot be known since its beginning was missed.
const UNKNOWN: Label = Label::new("?");

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Http2,
    ports: &[50051],
    streams: true,
    datagrams: false,
    asking: Asking::now,
    probe: frame::probe,
    make: |_| Box::new(Http2::default()),
};

#[derive(Default)]
struct Http2 {
    directions: [Direction; 2],
    streams: FxHashMap<u32, Stream>,
}

/// What is read of one direction.
#[derive(Default)]
struct Direction {
    table: Table,
    /// The first frame has been read.
    begun: bool,
    /// A block of fields that goes on in another frame, and the frame in which it began.
    block: Option<(Header, Vec<u8>)>,
    /// A frame whose content is being passed, and how much of that is no padding.
    data: Option<(Header, usize)>,
}

/// An exchange.
#[derive(Default)]
struct Stream {
    verb: Label,
    grpc: bool,
    /// The request is complete.
    asked: bool,
    /// Of the response, once it is there.
    status: Option<Label>,
    /// Of gRPC, which comes last.
    grpc_status: Option<Label>,
    /// What the request says that a client sends, where that is asked for.
    publishes: Option<Publish>,
}

/// Fields that concern us.
#[derive(Clone, Default)]
struct Fields {
    method: Option<Label>,
    path: Option<Label>,
    whole_path: Option<Arc<str>>,
    status: Option<Label>,
    grpc_status: Option<Label>,
    grpc: bool,
}

impl Dissector for Http2 {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let own = &mut self.directions[side.index()];
        if let Some((header, _)) = own.data {
            return Step::Pass(header.content as u64);
        }
        own.table.keeps_paths = out.learns();
        if !own.begun && side == Side::Client && PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())])
        {
            if bytes.len() < PREFACE.len() {
                return Step::Need(PREFACE.len());
            }
            (own.begun, own.table.complete) = (true, true);
            out.nothing();
            return Step::Taken(PREFACE.len());
        }
        let header = match frame::header(bytes) {
            Ok(Some(header)) => header,
            Ok(None) => return Step::Need(HEADER),
            Err(reason) => return Step::Malformed(reason),
        };
        if !own.begun {
            own.begun = true;
            own.table.complete |= side == Side::Server && header.kind == kind::SETTINGS;
        }
        if own.block.is_some() != (header.kind == kind::CONTINUATION) {
            return Step::Malformed("fields that do not go on where they must");
        }
        let whole = HEADER + header.content;
        match header.kind {
            kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION => {
                if whole > KEPT {
                    return Step::Malformed("fields that are too long");
                }
                let Some(content) = bytes.get(HEADER..whole) else { return Step::Need(whole) };
                match self.fields(side, header, content, out) {
                    Ok(()) => Step::Taken(whole),
                    Err(reason) => Step::Malformed(reason),
                }
            }
            // All of it is here, or nothing follows.
            _ if bytes.len() >= whole => {
                let content = bytes.get(HEADER..whole).unwrap_or_default();
                self.frame(side, header, frame::unpadded(header, content), content, out);
                Step::Taken(whole)
            }
            kind::RST_STREAM => Step::Need(whole),
            // Its first byte says how much of it is padding.
            kind::DATA if header.is_padded() && bytes.len() == HEADER => Step::Need(HEADER + 1),
            _ => {
                let begins = bytes.get(HEADER..).unwrap_or_default();
                own.data = Some((header, frame::unpadded(header, begins)));
                Step::Taken(HEADER)
            }
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some((header, length)) = self.directions[side.index()].data.take() {
            self.frame(side, header, length, &[], out);
        }
    }

    fn lost(&mut self, side: Side) {
        // Fields that were missed may have moved all that is in the table.
        let own = &mut self.directions[side.index()];
        own.begun = true;
        own.table.forget();
        (own.block, own.data) = (None, None);
        if side == Side::Client {
            // Of what was being asked, the end may have been missed.
            self.streams.retain(|_, stream| stream.asked);
        }
    }

    fn resumes(&self, _: Side, bytes: &[u8]) -> bool {
        frame::resumes(bytes)
    }
}

impl Http2 {
    /// A frame without fields, so many bytes of which are no padding; of one that was passed, the content is not there.
    fn frame(&mut self, side: Side, header: Header, length: usize, content: &[u8], out: &mut Output<'_>) {
        if header.kind == kind::DATA && side == Side::Client {
            let stream = self.streams.get_mut(&header.stream);
            if let Some(publish) = stream.and_then(|stream| stream.publishes.as_mut()) {
                publish.bytes += length as u64;
            }
        }
        match header.kind {
            kind::DATA if header.ends_stream() => self.ended(side, header.stream, out),
            kind::DATA if self.streams.contains_key(&header.stream) => out.part(header.stream.into(), false),
            kind::DATA => out.nothing(),
            kind::RST_STREAM => self.reset(side, header.stream, content == [0; 4], out),
            _ => out.notice(header.name()),
        }
    }

    /// A frame with fields, or with more of them.
    fn fields(
        &mut self,
        side: Side,
        header: Header,
        content: &[u8],
        out: &mut Output<'_>,
    ) -> Result<(), &'static str> {
        let own = &mut self.directions[side.index()];
        let (first, fields) = match own.block.take() {
            None => {
                let content = frame::fields(header, content)?;
                if !header.ends_fields() {
                    own.block = Some((header, content.to_vec()));
                    return Ok(());
                }
                (header, own.table.fields(content)?)
            }
            Some((first, mut block)) => {
                if first.stream != header.stream || block.len() + content.len() > LONGEST {
                    return Err("fields that go on elsewhere, or without end");
                }
                block.extend_from_slice(content);
                if !header.ends_fields() {
                    own.block = Some((first, block));
                    return Ok(());
                }
                (first, own.table.fields(&block)?)
            }
        };
        match (first.kind, side) {
            (kind::PUSH_PROMISE, _) => out.notice(first.name()),
            (_, Side::Client) => self.request(first, fields, out),
            (_, Side::Server) => self.response(first, fields, out),
        }
        Ok(())
    }

    fn request(&mut self, header: Header, fields: Fields, out: &mut Output<'_>) {
        if !self.streams.contains_key(&header.stream) {
            if self.streams.len() >= STREAMS {
                self.streams.clear();
            }
            let name = if fields.grpc { fields.path } else { fields.method };
            let verb = name.unwrap_or(UNKNOWN);
            let publishes = if out.learns() { publish(&fields) } else { None };
            let stream = Stream { verb, grpc: fields.grpc, publishes, ..Stream::default() };
            self.streams.insert(header.stream, stream);
        }
        if header.ends_stream() {
            self.ended(Side::Client, header.stream, out);
        } else {
            out.part(header.stream.into(), false);
        }
    }

    fn response(&mut self, header: Header, fields: Fields, out: &mut Output<'_>) {
        let key = Key::Id(header.stream.into());
        let Some(stream) = self.streams.get_mut(&header.stream) else {
            // A response to a promise, or to a request that was not seen.
            return if header.ends_stream() { out.notice(header.name()) } else { out.nothing() };
        };
        if !header.ends_stream() {
            out.part(header.stream.into(), false);
            out.interim(key);
            if let Some(status) = fields.status.filter(|status| status.as_str().starts_with('1')) {
                return out.notice(status);
            }
        }
        stream.grpc |= fields.grpc;
        stream.status = stream.status.or(fields.status);
        stream.grpc_status = fields.grpc_status.or(stream.grpc_status);
        if header.ends_stream() {
            self.ended(Side::Server, header.stream, out);
        }
    }

    /// A side has said all on that stream.
    fn ended(&mut self, side: Side, number: u32, out: &mut Output<'_>) {
        let Some(stream) = self.streams.get_mut(&number) else { return out.nothing() };
        out.part(number.into(), true);
        let request = request(stream, number);
        match side {
            Side::Client if stream.asked => out.nothing(),
            Side::Client => {
                stream.asked = true;
                out.request(request);
                sent(stream, out);
            }
            Side::Server => {
                if !stream.asked {
                    out.early(request);
                    sent(stream, out);
                }
                let status = stream.status.unwrap_or(UNKNOWN);
                let (status, failed) = match stream.grpc_status {
                    Some(code) => (grpc(code), code.as_str() != "0"),
                    _ => (status, matches!(status.as_str().as_bytes().first(), Some(b'4' | b'5'))),
                };
                out.response(Response { key: Key::Id(number.into()), status, failed });
                self.streams.remove(&number);
            }
        }
    }

    /// A side has given up that stream; without an error, only the rest of a request that was answered.
    fn reset(&mut self, side: Side, number: u32, without_error: bool, out: &mut Output<'_>) {
        let Some(stream) = self.streams.remove(&number) else { return out.notice("RST_STREAM") };
        out.part(number.into(), true);
        let request = request(&stream, number);
        match side {
            Side::Client => {
                if !stream.asked {
                    out.request(request);
                }
                out.notice("RST_STREAM");
            }
            Side::Server => {
                if !stream.asked {
                    out.early(request);
                }
                let status = Label::new("RST_STREAM");
                out.response(Response { key: Key::Id(number.into()), status, failed: !without_error });
            }
        }
    }
}

/// What a request says that a client sends; the bytes of its content are added as they come. Calls of gRPC are left out: nobody could
/// send them as requests of their own.
fn publish(fields: &Fields) -> Option<Publish> {
    let verb = fields.method.filter(|_| !fields.grpc)?;
    let method = ["POST", "PUT", "PATCH"].into_iter().find(|method| *method == verb.as_str())?;
    // Empty where what an index stands for was not captured.
    let target = fields.whole_path.as_deref().unwrap_or_default().to_owned();
    Some(Publish { method, target, qos: 1, ..Publish::default() })
}

/// Reports what a client has sent.
fn sent(stream: &mut Stream, out: &mut Output<'_>) {
    if let Some(publish) = stream.publishes.take() {
        out.act(Action::Publish(publish));
    }
}

fn request(stream: &Stream, number: u32) -> Request {
    Request { verb: stream.verb, key: Key::Id(number.into()), answered: true, tag: 0 }
}

impl Table {
    fn fields(&mut self, block: &[u8]) -> Result<Fields, &'static str> {
        let mut fields = Fields::default();
        self.read(block, &mut |name, value| match name {
            Name::Method => fields.method = Some(value.label),
            Name::Path => (fields.path, fields.whole_path) = (Some(value.label), value.path),
            Name::Status => fields.status = Some(value.label),
            Name::GrpcStatus => fields.grpc_status = Some(value.label),
            Name::ContentType => fields.grpc = value.label.as_str().starts_with("application/grpc"),
            Name::Other => {}
        })?;
        Ok(fields)
    }
}

/// The name of a status code of gRPC (its documentation, `statuscodes`).
fn grpc(code: Label) -> Label {
    let names = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let name = code.as_str().parse::<usize>().ok().and_then(|code| names.get(code));
    name.map_or(code, |&name| name.into())
}
