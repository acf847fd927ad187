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
    has_links: false,
    has_observers: false,
    unspoken: |_, _, _| (),
    most_in_flight: |_| None,
    sockets: one_each,
    acknowledges: |_| true,
    is_answered: |plan| !plan.platform.roles.device.websocket.is_unanswered,
    redelivers: |_| None,
    secrets: |_| Vec::new(),
    describe,
};

fn describe(plan: &Plan) -> String {
    let kind = if plan.message.marker == MarkerForm::Binary { "binary" } else { "text" };
    let devices = grouped(f64::from(plan.devices));
    let answered = match plan.platform.roles.device.websocket.is_unanswered {
        true => "which nobody answers",
        false => "each answered by one",
    };
    format!("{devices} over WebSocket, {kind} messages, {answered}")
}
