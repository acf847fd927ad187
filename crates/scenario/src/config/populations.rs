//! Several populations in one scenario, and the subscribers that they have in common.

use super::{
    Amqp, Amqp1, Arrivals, Beside, Coap, Connection, Duration, Gateway, Http, Kafka, Link, Lwm2m, Message,
    Mqtt, Nats, Objectives, OverWebSocket, Per, QosLevel, Subscribers, With,
};
use crate::plan::Endpoint;
use crate::quantity::{AsText, Rate};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One of several populations. What it does not say is as the scenario says.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "for the schema: crate::populations lays most of them over the scenario's tree")]
pub(crate) struct OnePopulation {
    /// Its name, in reports and objectives: small letters, digits, `_` and `-`.
    #[cfg_attr(test, schemars(length(max = 40), regex(pattern = "^[a-z][a-z0-9_-]*$")))]
    pub name: String,
    /// Simulated publishers. Devices are numbered through all populations.
    #[cfg_attr(test, schemars(range(min = 1, max = 268_435_455)))]
    pub devices: u32,
    /// Where its devices find the platform, as far as that differs from the scenario's `platform`.
    #[serde(default)]
    pub platform: Option<OnePlatform>,
    /// Receivers of its deliveries alone. Default: the scenario's `subscribers`.
    #[serde(default)]
    pub subscribers: Option<Subscribers>,
    /// An emulated network between each device and the platform.
    #[serde(default)]
    pub link: Option<Link>,
    /// Where its devices stand, if workers have the load: at the workers of that site, or at the worker of that name. It holds for its
    /// own subscribers, too, unless they say otherwise. Default: at all workers.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    pub at: Option<String>,
    /// How its devices connect.
    #[serde(default)]
    pub connection: Option<Connection>,
    /// How its devices speak MQTT.
    #[serde(default)]
    pub mqtt: Option<Mqtt>,
    /// How its devices speak HTTP.
    #[serde(default)]
    pub http: Option<Http>,
    /// How its devices speak CoAP.
    #[serde(default)]
    pub coap: Option<Coap>,
    /// How its devices speak LwM2M.
    #[serde(default)]
    pub lwm2m: Option<Lwm2m>,
    /// How its devices speak AMQP 0-9-1.
    #[serde(default)]
    pub amqp: Option<Amqp>,
    /// How its devices speak AMQP 1.0.
    #[serde(default)]
    pub amqp1: Option<Amqp1>,
    /// How its devices speak Kafka.
    #[serde(default)]
    pub kafka: Option<Kafka>,
    /// How its devices speak NATS.
    #[serde(default)]
    pub nats: Option<Nats>,
    /// How its devices are polled by a gateway.
    #[serde(default)]
    pub gateway: Option<Gateway>,
    /// What a device sends, in the place of the scenario's `message`.
    #[serde(default)]
    pub message: Option<Message>,
    /// What it has of each level.
    #[serde(default)]
    pub load: Option<OneLoad>,
    /// What is demanded of it.
    #[serde(default)]
    pub objectives: Option<Objectives>,
}

/// Where clients find the platform, as far as that differs from the scenario's `platform`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "for the schema: crate::populations lays it over the scenario's tree")]
pub(crate) struct OnePlatform {
    /// The profile that says how they speak to it, where it is not that of the scenario; it starts nothing and needs an address.
    #[serde(default)]
    pub profile: Option<String>,
    /// Where they reach it, such as `coap://host:5683`.
    #[serde(default)]
    pub address: Option<AsText<Endpoint>>,
    /// What is spoken at an address that begins with `ws://` or `wss://`.
    #[serde(default)]
    pub protocol: Option<OverWebSocket>,
    /// One of the profile's mappings.
    #[serde(default)]
    pub mapping: Option<String>,
    /// Values of the profile's variables, by name.
    #[serde(default)]
    pub with: BTreeMap<String, With>,
}

/// What a population has of each level. Default: a part in proportion to its devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OneLoad {
    /// Its part of what populations with a rate of their own leave, in proportion to the `share` of the others.
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
    pub share: Option<f64>,
    /// Open and partly open model: operations per second, whatever the level.
    #[serde(default)]
    pub rate: Option<AsText<Rate>>,
    /// Open and partly open model: operations per second in each listed level. Where all populations have them, the scenario needs
    /// no `load.levels`, which are their sums.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub levels: Option<Vec<AsText<Rate>>>,
    /// Open and partly open model: distribution of the gaps.
    #[serde(default)]
    #[expect(dead_code, reason = "for the schema")]
    pub arrivals: Option<Arrivals>,
    /// Open model: one arrival process for the whole population, or one for each device.
    #[serde(default)]
    #[expect(dead_code, reason = "for the schema")]
    pub per: Option<Per>,
}

/// Subscribers that all populations have in common: a count, or a count with settings.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum CommonSubscribers {
    /// How many.
    Count(#[cfg_attr(test, schemars(range(max = 1_000_000)))] u32),
    /// How many, what they do, and where.
    Group(Box<CommonGroup>),
}

/// Subscribers that all populations have in common, which may be elsewhere than devices and speak something else.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "for the schema: crate::populations lays it over the scenario's tree")]
pub(crate) struct CommonGroup {
    /// How many.
    #[cfg_attr(test, schemars(range(max = 1_000_000)))]
    pub count: u32,
    /// Where they find the platform, as far as that differs from the scenario's `platform`.
    #[serde(default)]
    pub platform: Option<OnePlatform>,
    /// How they connect.
    #[serde(default)]
    pub connection: Option<Connection>,
    /// How they speak MQTT.
    #[serde(default)]
    pub mqtt: Option<Mqtt>,
    /// How they speak CoAP.
    #[serde(default)]
    pub coap: Option<Coap>,
    /// How they speak AMQP 0-9-1.
    #[serde(default)]
    pub amqp: Option<Amqp>,
    /// How they speak AMQP 1.0.
    #[serde(default)]
    pub amqp1: Option<Amqp1>,
    /// How they speak Kafka.
    #[serde(default)]
    pub kafka: Option<Kafka>,
    /// How they speak NATS.
    #[serde(default)]
    pub nats: Option<Nats>,
    /// The QoS that they ask for. Default: that of publishing.
    #[serde(default)]
    pub qos: Option<QosLevel>,
    /// Topic filters of each, with `{run}` and `{subscriber}` as possible variables. Default: those that match the messages of every
    /// device that speaks MQTT.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub filters: Option<Vec<String>>,
    /// Name of the group in which they share their subscription (MQTT 5 only): each message goes to one of them.
    #[serde(default)]
    pub share: Option<String>,
    /// Devices of each population that each follows; see `population.subscribers.devices`.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub devices: Option<u32>,
    /// Time that a subscriber spends on a message before it reads the next.
    #[serde(default)]
    pub work: Option<Duration>,
    /// An emulated network between each subscriber and the platform.
    #[serde(default)]
    pub link: Option<Link>,
    /// Where they stand, if workers have the load: at the workers of that site, or at the worker of that name. Default: at all.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    pub at: Option<String>,
    /// `devices`: each stands at the worker of the devices whose messages it receives; see `population.subscribers.beside`.
    #[serde(default)]
    pub beside: Option<Beside>,
}
