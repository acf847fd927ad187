//! How devices and subscribers speak MQTT.

use super::qos::QosLevel;
use super::session::config::{SessionKind, Will};
use crate::config::secret::SecretSource;
use crate::quantity::AsText;
use crate::quantity::Duration;
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How devices and subscribers speak MQTT.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mqtt {
    /// Protocol version.
    pub version: ProtocolVersion,
    /// QoS of publishing.
    pub qos: QosLevel,
    /// Longest silence before a PINGREQ, in whole seconds; `0s` switches keep-alive off.
    pub keep_alive: Duration,
    /// User name, where the platform asks for one.
    pub username: Option<String>,
    /// Password, taken from an environment variable.
    pub password: Option<SecretSource>,
    /// Whether devices publish with the retain flag.
    pub retain: bool,
    /// Receive maximum that our clients announce (MQTT 5 only). Default: none is announced.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub receive_maximum: Option<u16>,
    /// Most QoS 1 and 2 messages of one device in flight; the broker's receive maximum may lower it.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub in_flight: u16,
    /// Whether sessions outlive their connections.
    pub session: SessionKind,
    /// How long a persistent session is kept for a client that does not come back, in whole seconds (MQTT 5 only).
    /// Default: 1h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_expiry: Option<Duration>,
    /// The message that the platform publishes for a device whose connection is lost. Its deliveries are counted apart;
    /// subscribers also subscribe to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub will: Option<Will>,
    /// User properties of each message by name (MQTT 5 only), with `{run}`, `{device}`, `{sequence}` and `{time}` as
    /// possible variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_properties: BTreeMap<String, String>,
    /// Whether a device sends its topic once a connection, and an alias of it from then on. MQTT 5 only, where the platform
    /// takes aliases.
    pub topic_alias: bool,
}

impl Default for Mqtt {
    fn default() -> Mqtt {
        Mqtt {
            version: ProtocolVersion::V311,
            qos: QosLevel(QoS::AtLeastOnce),
            keep_alive: AsText(Nanos::from_secs(60)),
            username: None,
            password: None,
            retain: false,
            receive_maximum: None,
            in_flight: u16::MAX,
            session: SessionKind::Clean,
            session_expiry: None,
            will: None,
            user_properties: BTreeMap::new(),
            topic_alias: false,
        }
    }
}

/// MQTT version.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ProtocolVersion {
    #[serde(rename = "3.1.1")]
    V311,
    #[serde(rename = "5")]
    V5,
}
