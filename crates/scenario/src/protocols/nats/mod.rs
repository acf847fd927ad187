//! NATS, with and without JetStream.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Nats, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Nats,
    over: None,
    name: "NATS",
    section: "nats",
    forget: |scenario| scenario.nats = Nats::default(),
    connection: &["timeout", "reconnect", "offline", "source_addresses"],
    has_target: true,
    has_subscribers: true,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets: one_each,
    acknowledges: has_stream,
    is_answered: |plan| plan.nats.stream.is_some(),
    redelivers,
    secrets: |plan| plan.nats.password.iter().chain(&plan.nats.token).collect(),
    describe,
};

/// Without a stream, NATS delivers at most once.
fn redelivers(plan: &Plan) -> Option<&'static str> {
    let has_stream = plan.nats.stream.is_some();
    has_stream
        .then_some("JetStream delivers at least once: what a subscriber has not acknowledged comes again")
}

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    context.means_nothing("nats", (&scenario.nats, &Nats::default()), &[], spoken.name);
}

fn has_stream(scenario: &Scenario) -> bool {
    scenario.nats.stream.is_some() || scenario.nats.create_stream.is_some()
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.nats.in_flight);
    has_stream(scenario).then_some((most, "raise `population.devices` or `nats.in_flight`"))
}

fn describe(plan: &Plan) -> String {
    let kept = match &plan.nats.stream {
        None => String::new(),
        Some(stream) => match &stream.name {
            Some(name) => format!(", JetStream `{name}`"),
            None => ", JetStream".to_owned(),
        },
    };
    format!(
        "{} over NATS{kept}, subject {}",
        grouped(f64::from(plan.devices)),
        plan.message.target.text().replace('/', ".")
    )
}
