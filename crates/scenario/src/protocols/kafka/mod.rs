//! Kafka.

pub(crate) mod config;
pub(crate) mod plan;
mod resolve;

pub(crate) use resolve::resolve;

use super::slice::{Slice, one_each};
use crate::config::{Kafka, Scenario};
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use config::Acks;
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Kafka,
    over: None,
    name: "Kafka",
    section: "kafka",
    forget: |scenario| scenario.kafka = Kafka::default(),
    connection: &["tls", "timeout", "reconnect", "offline", "source_addresses"],
    has_target: true,
    has_subscribers: true,
    has_links: false,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets: one_each,
    acknowledges,
    is_answered: |plan| plan.kafka.acks != plan::Acks::None,
    redelivers: |_| {
        Some("Kafka delivers at least once: records come again after a rebalance or a lost connection")
    },
    secrets: |plan| plan.kafka.password.iter().collect(),
    describe,
};

fn acknowledges(scenario: &Scenario) -> bool {
    scenario.kafka.acks != Acks::None
}

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    context.means_nothing("kafka", (&scenario.kafka, &Kafka::default()), &[], spoken.name);
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.kafka.in_flight);
    acknowledges(scenario).then_some((most, "raise `population.devices` or `kafka.in_flight`"))
}

fn describe(plan: &Plan) -> String {
    let topic = match &plan.kafka.topic {
        Some(topic) => format!("topic {topic}"),
        None => format!("a topic of {} partitions", plan.kafka.partitions),
    };
    let acks = match plan.kafka.acks {
        plan::Acks::All => "acknowledged by all copies",
        plan::Acks::Leader => "acknowledged by the leader",
        plan::Acks::None => "not acknowledged",
    };
    format!(
        "{} over Kafka, {acks}, {topic}, key {}",
        grouped(f64::from(plan.devices)),
        plan.message.target.text()
    )
}
