//! AMQP 0-9-1.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Amqp, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Amqp,
    over: None,
    name: "AMQP 0-9-1",
    section: "amqp",
    forget: |scenario| scenario.amqp = Amqp::default(),
    connection: &["tls", "timeout", "reconnect", "offline", "source_addresses"],
    has_target: true,
    has_subscribers: true,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets: one_each,
    acknowledges: |scenario| scenario.amqp.confirms,
    is_answered: |plan| plan.amqp.confirms,
    redelivers: |_| {
        Some("AMQP 0-9-1 delivers at least once: what a subscriber has not acknowledged comes again")
    },
    secrets: |plan| plan.amqp.password.iter().collect(),
    describe,
};

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    context.means_nothing("amqp", (&scenario.amqp, &Amqp::default()), &[], spoken.name);
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.amqp.in_flight);
    scenario.amqp.confirms.then_some((most, "raise `population.devices` or `amqp.in_flight`"))
}

fn describe(plan: &Plan) -> String {
    let confirms = if plan.amqp.confirms { "confirms" } else { "no confirms" };
    format!(
        "{} over AMQP 0-9-1, {confirms}, exchange {}, routing key {}",
        grouped(f64::from(plan.devices)),
        plan.amqp.exchange,
        plan.message.target.text().replace('/', ".")
    )
}
