//! CoAP (RFC 7252, over TCP RFC 8323): responses carry their request's token. Either side may ask.

mod message;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use crate::dissect::{Carrier, Dissector, Entry, Probe};
use crate::request::Asking;
use crate::side::Side;
use plimsoll_model::wire::WireProtocol;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Coap,
    ports: &[5683],
    streams: true,
    datagrams: true,
    asking: Asking::now,
    probe,
    make,
};

fn probe(bytes: &[u8], _: Option<Side>, datagram: bool) -> Probe {
    if datagram { udp::probe(bytes) } else { tcp::probe(bytes) }
}

fn make(carrier: Carrier) -> Box<dyn Dissector> {
    match carrier {
        Carrier::Stream => Box::new(tcp::Tcp::default()),
        Carrier::Datagrams => Box::new(udp::Udp::default()),
    }
}
