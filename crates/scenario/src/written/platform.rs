//! The platform under test.

use crate::plan::Endpoint;
use crate::quantity::Written;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The platform under test: the name of a profile, or a profile and an address.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Platform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    Name(String),
    /// A profile and the address of a platform that runs already.
    Attached(AttachedPlatform),
}

/// A profile and the address of a platform that runs already.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachedPlatform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    pub profile: String,
    /// Where a platform that runs already is reached: `mqtt://host:port`, `mqtts://host:port` over TLS,
    /// `ws://host:port/path` or `wss://host:port/path` over WebSocket. Only for profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Written<Endpoint>>,
    /// What is spoken at an address that begins with `ws://` or `wss://`: `mqtt` (the default), or `websocket` alone, where
    /// each operation sends one message of the WebSocket and one comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OverWebSocket>,
}

/// What is spoken over WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum OverWebSocket {
    #[serde(rename = "mqtt")]
    Mqtt,
    #[serde(rename = "websocket")]
    Plain,
}
