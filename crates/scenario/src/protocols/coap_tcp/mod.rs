//! CoAP over TCP and TLS (RFC 8323). Its section is that of CoAP.

use super::coap;
use super::slice::Slice;
use crate::plan::{Piece, Plan, Protocol};
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
    has_links: false,
    has_observers: true,
    unspoken: |_, _, _| (),
    most_in_flight: coap::SLICE.most_in_flight,
    sockets: coap::SLICE.sockets,
    acknowledges: |_| true,
    is_answered: |_| true,
    redelivers: |_| None,
    secrets: |_| Vec::new(),
    describe,
};

impl Plan {
    /// That queries cannot reach all devices which they are about, for people. A platform asks a device over the connection
    /// that the device was let in by. Where devices share connections, only the first of each is let in.
    pub fn unreached_by_queries(&self) -> Option<String> {
        let query = self.platform.roles.query.as_ref().filter(|_| self.northbound.is_some())?;
        let serves = self.platform.roles.device.serves.is_some();
        let (devices, connections) = (u64::from(self.devices), (SLICE.sockets)(self));
        if !serves
            || connections >= devices
            || !query.ask.texts().iter().any(|text| text.has(&|piece| *piece == Piece::Device))
        {
            return None;
        }
        let share = match connections {
            1 => "share one connection".to_owned(),
            many => format!("share {} connections", grouped(many as f64)),
        };
        Some(format!(
            "queries go through the platform to each device, but the {} devices {share}, and the platform knows only the first \
             device of each: it refuses queries to the others or leaves them unanswered; leave `coap.sockets` out",
            grouped(devices as f64)
        ))
    }
}

fn describe(plan: &Plan) -> String {
    let coap = &plan.coap;
    let at_once = match coap.outstanding {
        1 => "one request each at a time".to_owned(),
        many => format!("up to {many} requests each at a time"),
    };
    let shared = match coap.sockets.map(|_| (SLICE.sockets)(plan)) {
        Some(1) => ", one connection for all".to_owned(),
        Some(sockets) => format!(", {} connections for all", grouped(sockets as f64)),
        None => String::new(),
    };
    let over = if plan.connection.transport.tls.is_some() { "TLS" } else { "TCP" };
    let devices = grouped(f64::from(plan.devices));
    format!("{devices} over CoAP over {over}, {}, {at_once}{shared}", request_in_words(plan))
}
