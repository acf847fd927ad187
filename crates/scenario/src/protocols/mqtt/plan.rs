//! How devices and subscribers speak MQTT, resolved.

use super::session::plan::SessionPlan;
use crate::secret::Secret;
use plimsoll_codec::mqtt::{QoS, Version};
use plimsoll_model::Nanos;

/// MQTT settings common to devices and subscribers.
#[derive(Clone, Debug)]
pub struct MqttPlan {
    /// Protocol version.
    pub version: Version,
    /// QoS of publishing.
    pub qos: QoS,
    /// Longest silence before a PINGREQ; zero switches keep-alive off.
    pub keep_alive: Nanos,
    /// User name, where the platform asks for one.
    pub username: Option<String>,
    /// Password, taken from the environment.
    pub password: Option<Secret>,
    /// Whether devices publish with the retain flag.
    pub retain: bool,
    /// Receive maximum that our clients announce (MQTT 5); `None` announces none.
    pub receive_maximum: Option<u16>,
    /// Most QoS 1 and 2 messages of one device in flight; the smaller of this and the broker's receive maximum.
    pub in_flight: u16,
    /// What outlives a connection, and what MQTT 5 puts beside a message.
    pub session: SessionPlan,
}
