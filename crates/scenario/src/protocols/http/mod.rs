//! HTTP/1.1.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::Slice;
use crate::config::{Http, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::words::request_in_words;
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Http,
    over: None,
    name: "HTTP",
    section: "http",
    forget: |scenario| scenario.http = Http::default(),
    connection: &["tls", "timeout", "reconnect", "source_addresses"],
    has_target: true,
    has_subscribers: false,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets,
    acknowledges: |_| true,
    is_answered: |_| true,
    redelivers: |_| None,
    secrets: |_| Vec::new(),
    describe,
};

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    if context.written("http") && !scenario.http.is_default() {
        let message = format!("devices speak {}, not HTTP", spoken.protocol);
        context.error_with_help("http", message, "remove it");
    }
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    Some(match scenario.http.pool {
        Some(connections) => (connections.into(), "raise `http.pool`"),
        None => {
            let most = u64::from(scenario.population.devices) * u64::from(scenario.http.connections);
            (most, "raise `population.devices` or `http.connections`, or give `http.pool`")
        }
    })
}

fn sockets(plan: &Plan) -> u64 {
    match plan.http.pool {
        Some(pool) => u64::from(pool),
        None => u64::from(plan.devices) * u64::from(plan.http.connections),
    }
}

fn describe(plan: &Plan) -> String {
    let at_once = match plan.http.pool {
        Some(pool) => format!("{} connections for all", grouped(f64::from(pool))),
        None if plan.http.connections > 1 => {
            format!("up to {} requests each at a time", plan.http.connections)
        }
        None => "one request each at a time".to_owned(),
    };
    let devices = grouped(f64::from(plan.devices));
    format!("{devices} over HTTP/1.1, {}, {at_once}", request_in_words(plan))
}
