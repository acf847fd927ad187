//! The dissectors, one module each, and how the one for a conversation is found.

use crate::dissect::{Carrier, Entry, Probe};
use crate::request::Asking;
use crate::side::Side;
use plimsoll_model::wire::{Label, WireProtocol};

mod amqp;
mod amqp1;
mod coap;
mod http;
mod http2;
mod inflate;
mod kafka;
mod mongodb;
mod mqtt;
mod nats;
mod postgres;
mod redis;
mod tls;
mod websocket;

/// All of them. Those that demand most of the first bytes come first.
static ENTRIES: &[&Entry] = &[
    &http2::ENTRY,
    &mongodb::ENTRY,
    &amqp::ENTRY,
    &amqp1::ENTRY,
    &nats::ENTRY,
    &http::ENTRY,
    &postgres::ENTRY,
    &mqtt::ENTRY,
    &redis::ENTRY,
    &websocket::ENTRY,
    &kafka::ENTRY,
    &coap::ENTRY,
];

/// The dissector of a protocol, where there is one.
pub fn entry(protocol: WireProtocol) -> Option<&'static Entry> {
    ENTRIES.iter().copied().find(|entry| entry.protocol == protocol)
}

/// What a request with that verb, answered with that status, asks for.
pub fn asking(protocol: WireProtocol, verb: &Label, status: &Label) -> Asking {
    entry(protocol).map_or(Asking::Now, |entry| (entry.asking)(verb.as_str(), status.as_str()))
}

/// What the first bytes of a side tell.
pub enum Found {
    /// What is spoken, and who spoke, where that can be told.
    One(&'static Entry, Option<Side>),
    /// It is known, and cannot be read.
    Opaque(WireProtocol),
    /// More bytes are needed.
    Perhaps,
    /// Nobody knows it.
    None,
}

/// Whether a record of TLS begins with those bytes.
pub(crate) fn begins_tls(bytes: &[u8]) -> bool {
    tls::probe(bytes, Carrier::Stream)
}

/// Asks the dissectors, those of one of the ports first.
pub fn find(bytes: &[u8], carrier: Carrier, ports: [u16; 2], speaker: Option<Side>) -> Found {
    if tls::probe(bytes, carrier) {
        return Found::Opaque(WireProtocol::Tls);
    }
    let at_home = |entry: &Entry| entry.ports.iter().any(|port| ports.contains(port));
    let carries = |entry: &&'static Entry| match carrier {
        Carrier::Stream => entry.streams,
        Carrier::Datagrams => entry.datagrams,
    };
    let all = || ENTRIES.iter().copied().filter(carries);
    let mut perhaps = false;
    for entry in all().filter(|entry| at_home(entry)).chain(all().filter(|entry| !at_home(entry))) {
        match (entry.probe)(bytes, speaker, carrier == Carrier::Datagrams) {
            Probe::Yes(says) => return Found::One(entry, says),
            Probe::More => perhaps = true,
            Probe::No => {}
        }
    }
    if perhaps { Found::Perhaps } else { Found::None }
}
