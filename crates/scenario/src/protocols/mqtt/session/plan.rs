//! What outlives a connection, and what MQTT 5 puts beside a message.

use plimsoll_codec::mqtt::QoS;
use plimsoll_template::Template;

/// What outlives a connection, and what MQTT 5 puts beside a message; the default is nothing.
#[derive(Clone, Debug, Default)]
pub struct SessionPlan {
    /// How long a session outlives its connection, in seconds; `None` for clean sessions, which do not.
    pub expiry: Option<u32>,
    /// What the platform publishes for a device whose connection is lost.
    pub will: Option<WillPlan>,
    /// User properties of each message, by name (MQTT 5).
    pub user_properties: Vec<(String, Template)>,
    /// Whether a device's topic is sent once a connection and stands under an alias from then on (MQTT 5).
    pub topic_alias: bool,
}

/// What the platform publishes for a device whose connection is lost.
#[derive(Clone, Debug)]
pub struct WillPlan {
    /// Its topic.
    pub topic: Template,
    /// The filter that matches the wills of all devices and no message.
    pub filter: Template,
    /// Its content.
    pub payload: Template,
    /// Its QoS.
    pub qos: QoS,
    /// Whether the platform keeps it for later subscribers.
    pub retain: bool,
    /// How long the platform waits before it publishes it, in seconds (MQTT 5).
    pub delay: u32,
}
