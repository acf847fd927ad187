//! WebSocket (RFC 6455), with compression (RFC 7692). Messages of the client are requests, those of the server responses, which
//! carry the same marker or come in order. MQTT inside is read as MQTT.

mod carried;
mod frame;
#[cfg(test)]
mod tests;

use super::inflate::{Inflate, Wrap};
use super::mqtt::{self, Mqtt};
use crate::dissect::{Dissector, Entry, KEPT, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use carried::Carried;
use frame::Header;
use plimsoll_codec::websocket::Opcode;
use plimsoll_model::wire::WireProtocol;

/// Binary messages in which the beginning of MQTT is looked for.
const TRIES: u32 = 16;
/// What a compressor leaves out at a message's end (RFC 7692, section 7.2.1).
const END: [u8; 4] = [0, 0, 0xff, 0xff];

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::WebSocket,
    ports: &[],
    streams: true,
    datagrams: false,
    asking: Asking::now,
    probe: frame::probe,
    make: |_| Box::new(WebSocket::default()),
};

#[derive(Default)]
struct WebSocket {
    directions: [Direction; 2],
    mqtt: Option<Mqtt>,
    tries: u32,
}

/// What is read of one direction.
#[derive(Default)]
struct Direction {
    /// The frame whose content is being read, and how much of that was.
    frame: Option<(Header, u64)>,
    /// The message that is being read.
    message: Option<Message>,
    /// Content without mask, where it is searched.
    content: Vec<u8>,
    /// What opens compressed messages; its window reaches from message to message.
    inflate: Option<Box<Inflate>>,
    carried: Carried,
}

#[derive(Clone, Copy)]
struct Message {
    opcode: Opcode,
    compressed: bool,
    /// It came in one frame.
    single: bool,
}

impl Dissector for WebSocket {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        match self.directions[side.index()].frame {
            None => self.header(side, bytes, out),
            Some((frame, used)) => self.content(side, frame, used, bytes, out),
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some((frame, _)) = self.directions[side.index()].frame.take() {
            self.frame_ended(side, frame, out);
        }
    }

    fn lost(&mut self, side: Side) {
        self.directions[side.index()] = Direction::default();
        if let Some(mqtt) = &mut self.mqtt {
            mqtt.lost(side);
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        frame::resumes(bytes, side)
    }

    fn carries(&self) -> Option<WireProtocol> {
        self.mqtt.as_ref().map(|_| WireProtocol::Mqtt)
    }
}

impl WebSocket {
    fn header(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let header = match frame::header(bytes) {
            Ok(Some(header)) => header,
            Ok(None) => return Step::Need(bytes.len() + 1),
            Err(reason) => return Step::Malformed(reason),
        };
        if header.mask.is_some() != (side == Side::Client) {
            return Step::Malformed("a frame whose mask is missing or should not be there");
        }
        let own = &mut self.directions[side.index()];
        if header.opcode.is_control() {
            let whole = header.length + header.content as usize;
            if bytes.len() < whole {
                return Step::Need(whole);
            }
            match own.message {
                Some(_) => out.aside(frame::name(header.opcode), whole),
                None => out.notice(frame::name(header.opcode)),
            }
            return Step::Taken(whole);
        }
        match (own.message, header.opcode) {
            (None, Opcode::Continuation) => return Step::Malformed("a message without a beginning"),
            (Some(_), Opcode::Continuation) => {}
            (Some(_), _) => return Step::Malformed("a message before the end of another"),
            (None, opcode) => {
                own.message = Some(Message { opcode, compressed: header.compressed, single: header.last });
            }
        }
        if header.content == 0 {
            self.frame_ended(side, header, out);
        } else {
            own.frame = Some((header, 0));
        }
        Step::Taken(header.length)
    }

    fn content(&mut self, side: Side, frame: Header, used: u64, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let own = &mut self.directions[side.index()];
        let Some(message) = own.message else { return Step::Malformed("a message without a beginning") };
        let here = &bytes[..bytes.len().min((frame.content - used) as usize)];
        if self.mqtt.is_none()
            && self.tries < TRIES
            && used == 0
            && message.opcode == Opcode::Binary
            && !message.compressed
        {
            let mut plain = Vec::new();
            frame::unmask(here, frame.mask, 0, &mut plain);
            match mqtt::probe(&plain, Some(side), false) {
                Probe::Yes(_) => self.mqtt = Some(Mqtt::default()),
                Probe::More if here.len() < frame.content as usize && here.len() < KEPT / 2 => {
                    return Step::Need(bytes.len() + 1);
                }
                Probe::More | Probe::No => self.tries += 1,
            }
        }
        let own = &mut self.directions[side.index()];
        let taken = match &mut self.mqtt {
            Some(mqtt) => match own.carried.read(mqtt, side, (here, frame.mask, used as usize), out) {
                Ok(taken) => taken.min(here.len()),
                Err(reason) => return Step::Malformed(reason),
            },
            None if !own.looks(frame, message, out) => return Step::Pass(frame.content - used),
            None => {
                own.open(here, frame, used, message.compressed, out);
                here.len()
            }
        };
        let used = used + taken as u64;
        if used < frame.content {
            own.frame = Some((frame, used));
        } else {
            own.frame = None;
            self.frame_ended(side, frame, out);
        }
        Step::Taken(taken)
    }

    fn frame_ended(&mut self, side: Side, frame: Header, out: &mut Output<'_>) {
        let own = &mut self.directions[side.index()];
        let Some(message) = own.message.filter(|_| frame.last) else { return };
        own.message = None;
        if self.mqtt.is_some() {
            return;
        }
        if let Some(inflate) = own.inflate.as_mut().filter(|_| message.compressed) {
            inflate.push(&END);
            out.opened(inflate.content());
            inflate.clear();
        } else if !own.content.is_empty() {
            out.opened(&own.content);
            own.content.clear();
            own.content.shrink_to(1 << 14);
        }
        let (name, key) = (frame::name(message.opcode).into(), Key::Content);
        match side {
            Side::Client => out.request(Request { verb: name, key, answered: true, tag: 0 }),
            Side::Server => out.response(Response { key, status: name, failed: false }),
        }
    }
}

impl Direction {
    /// Whether markers in that content can be found only here.
    fn looks(&self, frame: Header, message: Message, out: &Output<'_>) -> bool {
        out.searches() && (frame.mask.is_some() || message.compressed || !message.single)
    }

    fn open(&mut self, bytes: &[u8], frame: Header, used: u64, compressed: bool, out: &mut Output<'_>) {
        if self.content.len() > KEPT {
            out.opened(&self.content);
            self.content.clear();
        }
        frame::unmask(bytes, frame.mask, used as usize, &mut self.content);
        if compressed {
            self.inflate.get_or_insert_with(|| Box::new(Inflate::new(Wrap::Raw))).push(&self.content);
            self.content.clear();
        }
    }
}
