//! What a profile says of the four roles, as written: controller, device, subscriber, querier.

mod controller;
mod request;
mod subscriber;
mod websocket;

use crate::plan::{Protocol, Wire};
use crate::protocols::lwm2m::config::MessageResource;
use crate::quantity::{AsText, Size};
pub(crate) use controller::{Controller, EachConfig, Says, Step};
pub(crate) use request::{BodyFormat, OptionConfig, Request};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
pub(crate) use subscriber::{DeliveryConfig, Listens, NextPoll, Polls, Streams, Subscriber};
pub(crate) use websocket::WebSocketConfig;

/// How each role speaks to the platform. In every text, `{NAME}` stands for a variable of the profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Roles {
    /// What registers devices and subscriptions before the run.
    #[serde(default)]
    pub(crate) controller: Option<Controller>,
    /// What a device says.
    #[serde(default)]
    pub(crate) device: Option<Device>,
    /// How a subscriber receives.
    #[serde(default)]
    pub(crate) subscriber: Option<Subscriber>,
    /// What a querier asks.
    #[serde(default)]
    pub(crate) querier: Option<Querier>,
}

impl Roles {
    /// These, with those of a profile for what they do not say.
    pub(crate) fn or(self, profile: &Roles) -> Roles {
        // A mapping that registers in a way of its own is reset and filled like all others, unless it says how.
        let controller = match (self.controller, profile.controller.clone()) {
            (Some(mut own), Some(common)) => {
                let inherits = |ours: &[Step], theirs: &[Step]| ours.is_empty() && !theirs.is_empty();
                if inherits(&own.reset, &common.reset) || inherits(&own.preload, &common.preload) {
                    // They go over the connections that they were written for.
                    own.websocket = own.websocket.or(common.websocket);
                    own.user = own.user.or(common.user);
                }
                own.reset = if own.reset.is_empty() { common.reset } else { own.reset };
                own.preload = if own.preload.is_empty() { common.preload } else { own.preload };
                Some(own)
            }
            (own, common) => own.or(common),
        };
        Roles {
            controller,
            device: self.device.or_else(|| profile.device.clone()),
            subscriber: self.subscriber.or_else(|| profile.subscriber.clone()),
            querier: self.querier.or_else(|| profile.querier.clone()),
        }
    }

    /// Whether they have a role of that name.
    pub(crate) fn has(&self, role: &str) -> bool {
        match role {
            "controller" => self.controller.is_some(),
            "device" => self.device.is_some(),
            "subscriber" => self.subscriber.is_some(),
            "querier" => self.querier.is_some(),
            _ => false,
        }
    }
}

/// What a device says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// The protocol of its messages.
    pub speaks: Speaks,
    /// Of a platform that Plimsoll starts: the name of the port to which devices connect, where it is not the one at which a component
    /// speaks that.
    #[serde(default)]
    pub port: Option<String>,
    /// Of a platform that Plimsoll starts: what lies between what devices speak and TCP. Nobody looks who signed the platform's
    /// certificate: it signs itself.
    #[serde(default)]
    pub over: Option<Over>,
    /// Of a platform that Plimsoll starts: the path of the WebSocket. Default `/`.
    #[serde(default)]
    pub path: Option<String>,
    /// HTTP and CoAP: the request that says a message. Variables: `{run}`, `{device}`, `{sequence}`, `{marker}`,
    /// `{time}`, `{random:..}`, `{feed:COLUMN}`, `{message}`, and what set-up steps captured.
    #[serde(default)]
    pub request: Option<Request>,
    /// CoAP over TCP: the requests with which each connection begins, in order, before any message. Of a connection that several
    /// devices share, they are those of its first device. Variables: `{run}`, `{device}`, and what set-up steps captured.
    #[serde(default)]
    pub log_in: Vec<Request>,
    /// CoAP over TCP: what it answers when it is asked itself, over its own connection.
    #[serde(default)]
    pub serves: Option<Serves>,
    /// MQTT: who each device says it is. A scenario's own user takes its place. Variables: `{run}`, `{device}`, `{token}`, and what
    /// set-up steps captured.
    #[serde(default)]
    pub user: Option<User>,
    /// MQTT: the topic of its messages. A scenario that writes `message.target` has its own.
    #[serde(default)]
    pub topic: Option<String>,
    /// MQTT and WebSocket: what stands around the message, with `{message}` in it.
    #[serde(default)]
    pub payload: Option<String>,
    /// WebSocket: what is said beside messages.
    #[serde(default)]
    pub websocket: Option<WebSocketConfig>,
    /// MQTT and WebSocket: how the platform answers a message by a message of its own. Without it, over MQTT the protocol's
    /// acknowledgement is all that is awaited, and over WebSocket any message that comes back.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// The largest content that the platform takes, with what stands around the message, as `1MiB`: a scenario whose messages
    /// may be larger is warned before anything is sent.
    #[serde(default)]
    pub largest: Option<AsText<Size>>,
    /// The form of the marker that the platform leaves unharmed, where the scenario names none.
    #[serde(default)]
    pub marker: Option<MarkerConfig>,
    /// LwM2M: the path of the interface for registrations. Default `/rd`.
    #[serde(default)]
    pub registration: Option<String>,
    /// LwM2M: the resource of a device's messages that the server passes on unharmed, where the scenario names none.
    #[serde(default)]
    pub message: Option<MessageResource>,
    /// Of a gateway with a test manager: what its configuration must say, by its keys; a gateway that says something else is
    /// refused.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
}

/// What lies between what is spoken and TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// TLS.
    Tls,
    /// A WebSocket.
    Websocket,
    /// A WebSocket over TLS.
    WebsocketTls,
}

impl Over {
    /// The same as an address has it.
    pub fn wire(self) -> Wire {
        Wire { tls: self != Over::Websocket, websocket: self != Over::Tls }
    }
}

/// Who a client says it is over MQTT.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// The user name.
    pub name: String,
    /// The password; none by default.
    #[serde(default)]
    pub password: Option<String>,
}

/// A resource that a device has, which the platform may ask for with GET. The answer repeats the path, and the number of an observation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Serves {
    /// Its path. Variables: `{run}` and `{device}`.
    pub path: String,
    /// What it answers. Variables: `{run}`, `{device}`, `{random:..}`, `{time}`, and what set-up steps captured.
    pub body: String,
    /// What the body becomes on the way.
    #[serde(default)]
    pub body_format: BodyFormat,
}

/// How a platform answers by a message of its own, with JSON in it. It is known by the name of the request, which it repeats, or by
/// its type: then it answers the oldest message that is not answered.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// MQTT: the topic that the device subscribes to, with `{run}` and `{device}`: one of its own, else each device reads the
    /// answers to all.
    #[serde(default)]
    pub topic: Option<String>,
    /// Where in the answer the name of the request stands, as a JSON pointer (RFC 6901): `/requestId`, or `/0` for the first of an
    /// array.
    #[serde(default)]
    pub id: Option<String>,
    /// That name as the request has it, such as `{run}-{device}-{sequence}`; it ends with `{sequence}`.
    #[serde(default)]
    pub is: Option<String>,
    /// WebSocket: where the type of a message stands, as a JSON pointer.
    #[serde(default, rename = "type")]
    pub of_type: Option<String>,
    /// With `type`: the types that answer.
    #[serde(default)]
    pub types: Vec<String>,
    /// With `type`: the types that refuse.
    #[serde(default)]
    pub refusals: Vec<String>,
    /// Where in the answer its status stands, as a JSON pointer.
    #[serde(default)]
    pub status: Option<String>,
    /// The numbers or texts there that mean success; default all.
    #[serde(default)]
    pub expect: Vec<Word>,
}

/// A text, or a number as one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Word {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

impl Word {
    /// As a text.
    pub(crate) fn text(&self) -> String {
        match self {
            Word::Number(number) => number.to_string(),
            Word::Text(text) => text.clone(),
        }
    }
}

/// What devices speak, by the word for it in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaks(pub Protocol);

impl<'de> Deserialize<'de> for Speaks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.key() == word);
        found.map(Speaks).ok_or_else(|| de::Error::custom(format!("`{word}` is no protocol")))
    }
}

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkerConfig {
    /// Ten bytes.
    Binary,
    /// Letters, digits, dot and hyphen.
    Ascii,
    /// A whole number below 2^53.
    Integer,
}

/// What a querier asks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Querier {
    /// What its requests speak: `http`, `coap` or `coap_tcp`. Default: CoAP over TCP where devices speak that, else HTTP.
    #[serde(default)]
    pub speaks: Option<Speaks>,
    /// Over CoAP over TCP: the requests with which a connection begins, in order. Variables: `{run}`, and what set-up steps captured.
    #[serde(default)]
    pub log_in: Vec<Request>,
    /// The request. Variables: `{run}`, `{device}` (one of the devices, by chance), `{random:..}`, `{feed:COLUMN}`, and what set-up
    /// steps captured.
    #[serde(default)]
    pub request: Option<Request>,
    /// A message in place of a request, over WebSocket, or over MQTT where it has a topic. Variables are those of a request, and
    /// `{sequence}`, the number of the query. Its answer repeats that number behind `is`, such as `{run}-{sequence}`, or comes in its
    /// order. Over MQTT, `{querier}` in the topic of the answer is the number of the client `plm-{run}-q{querier}`.
    #[serde(default)]
    pub says: Option<Says>,
    /// With `says` over WebSocket: what is asked for, and said at first. Variables: `{run}`, `{token}`, and what steps captured that are
    /// done once.
    #[serde(default)]
    pub websocket: Option<WebSocketConfig>,
    /// With `says` over MQTT: who queriers say they are. A scenario's own user takes its place. Variables are those of `websocket`.
    #[serde(default)]
    pub user: Option<User>,
}
