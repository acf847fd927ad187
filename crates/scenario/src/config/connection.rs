//! How clients connect, whatever they speak.

use super::{Duration, Tls};
use crate::quantity::AsText;
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// How devices and subscribers connect, whatever they speak.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Connection {
    /// How connections are secured, for an address that begins with `mqtts://`, `wss://` or `https://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How long connecting may take: TCP, TLS, and over MQTT the CONNACK.
    pub timeout: Duration,
    /// Pauses before connecting again after a connection was lost.
    pub reconnect: Reconnect,
    /// What becomes of messages over MQTT that are due while a device has no connection. `buffer` sends them when it is back,
    /// `drop` never, `keep_latest` sends the newest alone. Those not sent count as `unsent`.
    pub offline: OfflinePolicy,
    /// Addresses of this host that connections take turns in as their source: each has about 28,000 ports towards one
    /// platform. Default: spread over the loopback network for a platform there, else the kernel's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub source_addresses: Option<Vec<String>>,
}

impl Default for Connection {
    fn default() -> Connection {
        Connection {
            tls: None,
            timeout: AsText(Nanos::from_secs(10)),
            reconnect: Reconnect::default(),
            offline: OfflinePolicy::Buffer,
            source_addresses: None,
        }
    }
}

/// What becomes of messages that are due while a device has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfflinePolicy {
    Buffer,
    Drop,
    KeepLatest,
}

/// Pauses before connecting again: each is drawn between half and the whole of a value that doubles.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reconnect {
    /// First pause.
    pub from: Duration,
    /// Longest pause.
    pub to: Duration,
}

impl Default for Reconnect {
    fn default() -> Reconnect {
        Reconnect { from: AsText(Nanos::from_millis(100)), to: AsText(Nanos::from_secs(10)) }
    }
}
