//! What clients say over a WebSocket without MQTT, as written.

use super::Answer;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a client says over a WebSocket without MQTT, beside messages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSocketConfig {
    /// Of subscribers: name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// Path and query, behind the path of the platform's address.
    #[serde(default)]
    pub path: Option<String>,
    /// The subprotocol that is asked for (RFC 6455 section 1.9), without which none is.
    #[serde(default)]
    pub subprotocol: Option<String>,
    /// Header fields of the request for the WebSocket. Variables: `{run}`, `{device}` or `{subscriber}`, `{token}`, and what set-up
    /// steps captured.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether messages are compressed (RFC 7692), each by itself. Default false. A platform that does not agree is an error.
    #[serde(default)]
    pub compression: bool,
    /// What frames messages. Default: nothing.
    #[serde(default)]
    pub framing: FramingConfig,
    /// With `framing: socket_io`: what lets a client in, as JSON. Variables are those of `headers`.
    #[serde(default)]
    pub auth: Option<String>,
    /// Messages with which each connection begins, in order, before any other.
    #[serde(default)]
    pub opening: Vec<Opening>,
    /// Of devices: whether the platform answers each message. Default true. Without answers, only deliveries show what it took.
    #[serde(default)]
    pub answered: Option<bool>,
}

impl WebSocketConfig {
    /// Whether messages are framed as events of Socket.IO.
    pub(crate) fn is_socket_io(&self) -> bool {
        self.framing == FramingConfig::SocketIo
    }
}

/// What frames messages over a WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum FramingConfig {
    /// Nothing: each message goes as it is.
    #[default]
    None,
    /// Socket.IO 5 over Engine.IO 4: each message is an event, an array of JSON whose first value is the event's name. Where nothing is
    /// said of answers, the acknowledgement of each event is awaited.
    SocketIo,
}

/// A message with which a WebSocket begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Opening {
    /// What is said. Variables: `{run}`, `{device}`, `{token}`, `{time}`, `{random:..}`, and what set-up steps captured; of subscribers
    /// `{subscriber}`, too. One with `{device}` is said by a subscriber once for each device that it follows.
    pub message: String,
    /// How its answer is known, which must come before the next message goes. Without it, none is awaited.
    #[serde(default)]
    pub answer: Option<Answer>,
}
