//! CoAP over TCP and TLS (RFC 8323). Its section is that of CoAP.

use super::coap;
use super::slice::Slice;
use crate::plan::{Plan, Protocol};
use crate::words::request_in_words;
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::CoapTcp,
    over: Some(Protocol::Coap),
    name: "CoAP over TCP",
    section: "",
    forget: |_| (),
    connection: &["tls", "timeout", "reconnect", "source_addresses"],
    has_target: true,
    has_subscribers: false,
    has_observers: true,
    unspoken: |_, _, _| (),
    most_in_flight: coap::SLICE.most_in_flight,
    sockets: coap::SLICE.sockets,
    is_answered: |_| true,
    secrets: |_| Vec::new(),
    describe,
};

fn describe(plan: &Plan) -> String {
    let coap = &plan.coap;
    let at_once = match coap.outstanding {
        1 => "one request each at a time".to_owned(),
        many => format!("up to {many} requests each at a time"),
    };
    let shared = match coap.sockets {
        Some(1) => ", one connection for all".to_owned(),
        Some(sockets) => format!(", {} connections for all", grouped(f64::from(sockets))),
        None => String::new(),
    };
    let over = if plan.connection.transport.tls.is_some() { "TLS" } else { "TCP" };
    let devices = grouped(f64::from(plan.devices));
    format!("{devices} over CoAP over {over}, {}, {at_once}{shared}", request_in_words(plan))
}
