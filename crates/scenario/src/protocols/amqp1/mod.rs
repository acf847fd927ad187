//! AMQP 1.0.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Amqp1, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Amqp1,
    over: None,
    name: "AMQP 1.0",
    section: "amqp1",
    forget: |scenario| scenario.amqp1 = Amqp1::default(),
    connection: &["tls", "timeout", "reconnect", "offline", "source_addresses"],
    has_target: true,
    has_subscribers: true,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets: one_each,
    acknowledges: |scenario| scenario.amqp1.acknowledged,
    is_answered: |plan| plan.amqp1.acknowledged,
    redelivers: |_| Some("AMQP 1.0 delivers at least once: what a subscriber has not settled comes again"),
    secrets: |plan| plan.amqp1.password.iter().collect(),
    describe,
};

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    context.means_nothing("amqp1", (&scenario.amqp1, &Amqp1::default()), &[], spoken.name);
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.amqp1.in_flight);
    scenario.amqp1.acknowledged.then_some((most, "raise `population.devices` or `amqp1.in_flight`"))
}

fn describe(plan: &Plan) -> String {
    let outcomes = if plan.amqp1.acknowledged { "acknowledged" } else { "not acknowledged" };
    format!(
        "{} over AMQP 1.0, {outcomes}, address {}{}",
        grouped(f64::from(plan.devices)),
        plan.amqp1.prefix,
        plan.message.target.text().replace('/', ".")
    )
}
