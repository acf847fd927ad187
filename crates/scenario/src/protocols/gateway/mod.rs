//! Devices that a gateway polls (docs/gateway-protocol.md).

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Gateway, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::quantity::Quantity;
use plimsoll_model::Nanos;
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Gateway,
    over: None,
    name: "devices that are polled",
    section: "gateway",
    forget: |scenario| scenario.gateway = Gateway::default(),
    connection: &["timeout", "source_addresses"],
    has_target: false,
    has_subscribers: false,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight: |_| None,
    sockets: one_each,
    acknowledges: |_| true,
    is_answered: |_| true,
    redelivers: |_| None,
    secrets: |_| Vec::new(),
    describe,
};

fn unspoken(scenario: &Scenario, _: &Slice, context: &mut Context<'_>) {
    if context.written("gateway") && !scenario.gateway.is_default() {
        context.error_with_help("gateway", "no gateway polls these devices", "remove it");
    }
}

fn describe(plan: &Plan) -> String {
    let delay = match plan.gateway.delay {
        Nanos::ZERO => String::new(),
        delay => format!(", each answer {} late", delay.show()),
    };
    format!("{} that a gateway polls for events{delay}", grouped(f64::from(plan.devices)))
}
