//! LwM2M over CoAP.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Lwm2m, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use plimsoll_model::text::grouped;
use std::net::Ipv4Addr;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Lwm2m,
    over: Some(Protocol::Coap),
    name: "LwM2M",
    section: "lwm2m",
    forget: |scenario| scenario.lwm2m = Lwm2m::default(),
    connection: &["tls", "timeout", "reconnect", "source_addresses"],
    has_target: false,
    has_subscribers: false,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets,
    // What devices send of themselves is a request, and answered.
    acknowledges: |_| true,
    is_answered: |plan| plan.coap.confirmable || plan.lwm2m.send,
    redelivers: |_| None,
    secrets: |_| Vec::new(),
    describe,
};

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    if context.written("lwm2m") && !scenario.lwm2m.is_default() {
        let message = format!("devices speak {}, not LwM2M", spoken.protocol);
        context.error_with_help("lwm2m", message, "remove it, or use a profile of a server of LwM2M");
    }
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.coap.outstanding);
    Some((most, "raise `population.devices` or `coap.outstanding`"))
}

/// On the loopback network, one socket serves all devices of a load thread.
fn sockets(plan: &Plan) -> u64 {
    let address = plan.platform.address.as_ref();
    let is_loopback =
        |host: &str| host == "localhost" || host.parse().is_ok_and(|host: Ipv4Addr| host.is_loopback());
    let is_shared = address.is_none_or(|address| is_loopback(&address.host))
        && plan.connection.source_addresses.is_empty();
    if is_shared { 1 } else { one_each(plan) }
}

fn describe(plan: &Plan) -> String {
    let lwm2m = &plan.lwm2m;
    let messages = match (lwm2m.send, plan.coap.confirmable) {
        (true, _) => "what they send of themselves (Send) of",
        (false, true) => "confirmable notifications of",
        (false, false) => "non-confirmable notifications of",
    };
    let queue_mode = if lwm2m.awake.is_some() { ", queue mode" } else { "" };
    let devices = grouped(f64::from(plan.devices));
    format!(
        "{devices} over LwM2M {}, registered at {}{queue_mode}; their messages are {messages} {}",
        lwm2m.version, lwm2m.registration, lwm2m.message
    )
}
