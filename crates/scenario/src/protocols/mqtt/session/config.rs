//! What outlives a connection: sessions and wills.

use crate::protocols::mqtt::qos::QosLevel;
use crate::quantity::Duration;
use serde::{Deserialize, Serialize};

/// Whether sessions outlive their connections: `clean` (a lost connection ends the session, what was in flight is given
/// up) or `persistent` (a client that comes back goes on: it repeats what was not acknowledged, and the platform delivers
/// what it kept for it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum SessionKind {
    #[default]
    Clean,
    Persistent,
}

/// The message that the platform publishes for a device whose connection is lost.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Will {
    /// Its topic, with `{run}` and `{device}` as possible variables. It must differ from that of messages: deliveries of
    /// wills are recognised by their topic.
    pub topic: String,
    /// Its content, with `{run}` and `{device}` as possible variables.
    pub payload: String,
    /// Its QoS.
    pub qos: QosLevel,
    /// Whether the platform keeps it for later subscribers.
    pub retain: bool,
    /// How long the platform waits before it publishes the will, in whole seconds (MQTT 5 only). Default: 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

impl Default for Will {
    fn default() -> Will {
        Will {
            topic: "plimsoll/{run}/will/{device}".to_owned(),
            payload: "device {device} is gone".to_owned(),
            qos: QosLevel(plimsoll_codec::mqtt::QoS::AtLeastOnce),
            retain: false,
            delay: None,
        }
    }
}
