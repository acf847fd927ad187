//! MQTT 3.1.1 and 5.

pub(crate) mod config;
pub(crate) mod plan;
pub(crate) mod qos;
mod resolve;
pub(crate) mod session;

pub(crate) use resolve::{LONGEST_TEXT, has_window, resolve};

use super::slice::{Slice, one_each};
use crate::config::Scenario;
use crate::context::Context;
use crate::plan::{Plan, Protocol};
use crate::words::{level_of, link_in_words};
use config::Mqtt;
use plimsoll_codec::mqtt::{QoS, Version};
use plimsoll_model::text::grouped;

pub(super) const SLICE: Slice = Slice {
    protocol: Protocol::Mqtt,
    over: None,
    name: "MQTT",
    section: "mqtt",
    forget: |scenario| scenario.mqtt = Mqtt::default(),
    connection: &["tls", "timeout", "reconnect", "offline", "source_addresses"],
    has_target: true,
    has_subscribers: true,
    has_links: true,
    has_observers: false,
    unspoken,
    most_in_flight,
    sockets: one_each,
    acknowledges: has_window,
    is_answered: |plan| plan.mqtt.qos != QoS::AtMostOnce,
    redelivers,
    secrets: |plan| plan.mqtt.password.iter().collect(),
    describe,
};

/// The smaller of the QoS of a message and that of its subscriber decides (MQTT 5, section 4.3), if the broker has it from its publisher.
fn redelivers(plan: &Plan) -> Option<&'static str> {
    (plan.subscribers.qos != QoS::AtMostOnce).then_some("QoS 1 delivers at least once")
}

fn unspoken(scenario: &Scenario, spoken: &Slice, context: &mut Context<'_>) {
    context.means_nothing("mqtt", (&scenario.mqtt, &Mqtt::default()), &[], spoken.name);
}

fn most_in_flight(scenario: &Scenario) -> Option<(u64, &'static str)> {
    let most = u64::from(scenario.population.devices) * u64::from(scenario.mqtt.in_flight);
    has_window(scenario).then_some((most, "raise `population.devices` or `mqtt.in_flight`"))
}

fn describe(plan: &Plan) -> String {
    let mqtt = &plan.mqtt;
    let version = match mqtt.version {
        Version::V311 => "3.1.1",
        Version::V5 => "5",
    };
    let retained = if mqtt.retain { ", retained" } else { "" };
    let session = if mqtt.session.expiry.is_some() { ", persistent sessions" } else { "" };
    format!(
        "{} over MQTT {version}, QoS {}{retained}{session}, topic {}{}",
        grouped(f64::from(plan.devices)),
        level_of(mqtt.qos),
        plan.message.target.text(),
        link_in_words(plan.link)
    )
}
