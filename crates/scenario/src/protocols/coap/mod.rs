//! CoAP over UDP, and under DTLS.

pub(crate) mod config;
mod dtls;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::{check_connections, check_target, resolve, wrong_in};

use super::slice::Slice;
use crate::config::{Coap, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::words::request_in_words;
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Coap,
    over: None,
    name: "CoAP",
    section: "coap",
    forget: |scenario| scenario.coap = Coap::default(),
    connection: &["tls", "timeout", "reconnect", "source_addresses"],
    has_target: true,
    has_subscribers: false,
    has_links: false,
    has_observers: true,
    unspoken,
    most_in_flight,
    sockets,
    acknowledges: |_| true,
    is_answered: |_| true,
    redelivers: |_| None,
    secrets: |plan| plan.coap.keys(),
    describe,
};

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    if context.written("coap") && !scenario.coap.is_default() {
        let message = format!("devices speak {}, not CoAP", spoken.protocol);
        context.error_with_help("coap", message, "remove it");
    }
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.coap.outstanding);
    Some((most, "raise `population.devices` or `coap.outstanding`"))
}

fn sockets(plan: &Plan) -> u64 {
    let devices = u64::from(plan.devices);
    plan.coap.sockets.map_or(devices, |sockets| devices.min(u64::from(sockets)))
}

fn describe(plan: &Plan) -> String {
    let coap = &plan.coap;
    let at_once = match coap.outstanding {
        1 => "one request each at a time".to_owned(),
        many => format!("up to {many} requests each at a time"),
    };
    let kind = if coap.confirmable { "" } else { ", non-confirmable" };
    let shared = match coap.sockets {
        Some(sockets) => format!(", {} sockets for all", grouped(f64::from(sockets))),
        None => String::new(),
    };
    let over = if coap.dtls.is_some() { "CoAP over DTLS" } else { "CoAP" };
    let devices = grouped(f64::from(plan.devices));
    format!("{devices} over {over}, {}, {at_once}{kind}{shared}", request_in_words(plan))
}
