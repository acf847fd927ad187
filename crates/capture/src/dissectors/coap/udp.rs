//! CoAP over UDP (RFC 7252, section 4): message identifiers tell repetitions, acknowledgements and resets.

use super::message::{self, Blocks, Message};
use crate::dissect::{Dissector, Output, Probe, Step};
use crate::request::{Key, Response};
use crate::side::Side;
use std::collections::VecDeque;

/// Messages of each side whose repetitions are known.
const RECENT: usize = 256;
/// Code of messages without one.
const EMPTY: u8 = 0;

/// Types of messages.
const CONFIRMABLE: u8 = 0;
const ACKNOWLEDGEMENT: u8 = 2;
const RESET: u8 = 3;

/// A datagram.
struct Datagram {
    kind: u8,
    id: u16,
    /// All of the fixed header.
    header: u32,
    message: Message,
}

fn read(bytes: &[u8]) -> Result<Datagram, &'static str> {
    let Some(&[first, code, high, low]) = bytes.get(..4) else { return Err("a datagram that is too short") };
    let token = usize::from(first & 15);
    if first >> 6 != 1 {
        return Err("a version that is not 1");
    }
    if token > 8 {
        return Err("a token that is too long");
    }
    if code == EMPTY && bytes.len() > 4 {
        return Err("an empty message with something in it");
    }
    if code != EMPTY && !message::is_code(code) {
        return Err("a code that does not exist");
    }
    let Some(rest) = bytes.get(4 + token..) else { return Err("a token that is longer than its message") };
    let options = message::options(rest, true)?.unwrap_or_default();
    Ok(Datagram {
        kind: first >> 4 & 3,
        id: u16::from_be_bytes([high, low]),
        header: u32::from_be_bytes([first, code, high, low]),
        message: Message { code, key: message::key(&bytes[4..4 + token]), options },
    })
}

/// A request that names its target, or a ping: responses are too little to tell CoAP by.
pub(super) fn probe(bytes: &[u8]) -> Probe {
    match read(bytes) {
        Ok(datagram) if message::is_request(datagram.message.code) => {
            let options = datagram.message.options;
            let asks = datagram.kind < ACKNOWLEDGEMENT && options.known && options.names_target;
            if asks { Probe::Yes(Some(Side::Client)) } else { Probe::No }
        }
        Ok(datagram) if datagram.message.code == EMPTY && datagram.kind == CONFIRMABLE => {
            Probe::Yes(Some(Side::Client))
        }
        _ => Probe::No,
    }
}

#[derive(Default)]
pub(super) struct Udp {
    /// What each side has sent of late.
    recent: [VecDeque<Sent>; 2],
    blocks: Blocks,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Sent {
    header: u32,
    key: u64,
}

impl Sent {
    fn id(self) -> u16 {
        self.header as u16
    }

    fn is_request(self) -> bool {
        message::is_request((self.header >> 16) as u8)
    }

    fn kind(self) -> u8 {
        (self.header >> 28) as u8 & 3
    }
}

impl Dissector for Udp {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let datagram = match read(bytes) {
            Ok(datagram) => datagram,
            Err(reason) => return Step::Malformed(reason),
        };
        let sent = Sent { header: datagram.header, key: datagram.message.key };
        let recent = &mut self.recent[side.index()];
        if recent.contains(&sent) {
            out.notice("retransmission");
            return Step::Taken(bytes.len());
        }
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(sent);
        match (datagram.message.code, datagram.kind) {
            (EMPTY, ACKNOWLEDGEMENT) => {
                if let Some(key) = self.request(side.other(), datagram.id) {
                    out.interim(Key::Id(key));
                }
                out.notice("ACK");
            }
            (EMPTY, RESET) => match self.request(side.other(), datagram.id) {
                Some(key) => out.response(Response { key: Key::Id(key), status: "RST".into(), failed: true }),
                None => out.notice("RST"),
            },
            (EMPTY, _) => out.notice("PING"),
            (code, kind) if message::is_request(code) => {
                if side == Side::Client {
                    let rest = bytes.get(4 + usize::from(bytes[0] & 15)..).unwrap_or_default();
                    let payload = (rest.len() - datagram.message.options.length.min(rest.len())) as u64;
                    self.blocks.publish(code, kind == CONFIRMABLE, rest, payload, out);
                }
                message::ask(&datagram.message, out);
            }
            _ => message::answer(&datagram.message, out),
        }
        Step::Taken(bytes.len())
    }

    fn lost(&mut self, _: Side) {}

    fn resumes(&self, _: Side, bytes: &[u8]) -> bool {
        read(bytes).is_ok()
    }
}

impl Udp {
    /// The key of the request that a side has sent with that identifier.
    fn request(&self, side: Side, id: u16) -> Option<u64> {
        let mut sent = self.recent[side.index()].iter().rev();
        let found = sent.find(|sent| sent.id() == id && sent.kind() < ACKNOWLEDGEMENT)?;
        found.is_request().then_some(found.key)
    }
}
