//! WebSocket without MQTT: each message is one of its messages.

mod resolve;

pub(crate) use resolve::over_websocket;

use super::slice::{Slice, one_each};
use crate::plan::{MarkerForm, Plan, Protocol};
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::WebSocket,
    over: None,
    name: "WebSocket without MQTT",
    section: "",
    forget: |_| (),
    connection: &["tls", "timeout", "reconnect", "source_addresses"],
    has_target: false,
    has_subscribers: false,
    has_observers: false,
    unspoken: |_, _, _| (),
    most_in_flight: |_| None,
    sockets: one_each,
    is_answered: |_| true,
    secrets: |_| Vec::new(),
    describe,
};

fn describe(plan: &Plan) -> String {
    let kind = if plan.message.marker == MarkerForm::Binary { "binary" } else { "text" };
    let devices = grouped(f64::from(plan.devices));
    format!("{devices} over WebSocket, {kind} messages, each answered by one")
}
