//! What the controller does, as written.

use super::{Answer, Request, Speaks, User, WebSocketConfig};
use crate::plan::Protocol;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What registers devices and subscriptions before the run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Controller {
    /// What its requests speak: `http`, `coap`, or `coap_tcp`, by which they share one connection, one after the other. Default `http`.
    #[serde(default = "http")]
    pub speaks: Speaks,
    /// Of steps that say a message without a topic: what is asked for, and said at first, over each WebSocket that they go over.
    /// Variables: `{run}`, `{token}`, and what steps captured that are done once.
    #[serde(default)]
    pub websocket: Option<WebSocketConfig>,
    /// Of steps that publish: who the controller says it is over MQTT, as the client `plm-{run}-c`. A scenario's own user takes its
    /// place. Variables are those of `websocket`.
    #[serde(default)]
    pub user: Option<User>,
    /// What brings a platform that runs already back to its first state, in order, where the scenario asks for it.
    #[serde(default)]
    pub reset: Vec<Step>,
    /// What fills the platform before the run, in order, where the scenario asks for it: a step with `each: item` is done
    /// as often as `platform.preload` says.
    #[serde(default)]
    pub preload: Vec<Step>,
    /// What is done before the run, in order. Make steps idempotent: a platform that has something already
    /// says so with a status that `expect` lists.
    #[serde(default)]
    pub set_up: Vec<Step>,
    /// What undoes it after the run, in order, where the scenario asks for it.
    #[serde(default)]
    pub clean_up: Vec<Step>,
}

fn http() -> Speaks {
    Speaks(Protocol::Http)
}

/// What the controller asks once, or for each of something.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Its name, for progress and errors.
    pub name: String,
    /// How often it is done: once, for each device, for each subscriber, for each pair of both, or for each item.
    #[serde(default)]
    pub each: EachConfig,
    /// What is asked. Variables: `{run}`, `{device}`, `{subscriber}`, `{listener}` (where the subscriber listens),
    /// `{feed:COLUMN}`, and what earlier steps captured.
    #[serde(default)]
    pub request: Option<Request>,
    /// A message in place of a request, over WebSocket, or over MQTT where it has a topic.
    #[serde(default)]
    pub says: Option<Says>,
    /// Values taken out of the answer, by name: `/json/pointer`, which is for CBOR, too, `header:NAME`, or `location` for the last
    /// part of the path in the Location field.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// With `speaks: coap_tcp`: whether the step lets in the connection, so that it is done again, too, when that was lost.
    #[serde(default)]
    pub logs_in: bool,
}

/// A message that the platform answers by a message of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Says {
    /// Name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// Where it is published over MQTT: by the controller at QoS 1, by queriers at that of the scenario. Without it, the message goes over a WebSocket.
    #[serde(default)]
    pub topic: Option<String>,
    /// What is said. Variables are those of a request.
    pub message: String,
    /// How its answer is known. Without it, none is awaited but that of MQTT itself.
    #[serde(default)]
    pub answer: Option<Answer>,
}

/// How often a step is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum EachConfig {
    /// Once.
    #[default]
    Once,
    /// For each device.
    Device,
    /// For each subscriber.
    Subscriber,
    /// For each pair of a device and a subscriber.
    Pair,
    /// Of `preload` alone: for each thing that the platform is filled with, which `{item}` numbers.
    Item,
}
