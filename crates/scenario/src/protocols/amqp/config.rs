//! How devices and subscribers speak AMQP 0-9-1.

use crate::config::secret::SecretSource;
use serde::{Deserialize, Serialize};

/// How devices and subscribers speak AMQP 0-9-1. Topics are routing keys, and filters bind the queues of subscribers: dots or slashes
/// separate their levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Amqp {
    /// User name. Default: `guest`, which brokers let in from their own host by custom.
    pub username: String,
    /// Password, taken from an environment variable. Default: `guest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// The virtual host.
    pub virtual_host: String,
    /// The exchange to which devices publish, and to which the queues of subscribers are bound.
    pub exchange: String,
    /// A queue of the platform that exists, from which all subscribers consume. Default: a queue of each subscriber, or of their group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Whether messages are marked as persistent. Only durable queues keep them: that of a group, and one that exists and is durable.
    pub persistent: bool,
    /// Whether the broker acknowledges messages (publisher confirms).
    pub confirms: bool,
    /// Most messages of a device that the broker has not confirmed yet; further ones wait.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub in_flight: u16,
}

impl Default for Amqp {
    fn default() -> Amqp {
        Amqp {
            username: "guest".to_owned(),
            password: None,
            virtual_host: "/".to_owned(),
            exchange: "amq.topic".to_owned(),
            queue: None,
            persistent: false,
            confirms: true,
            in_flight: u16::MAX,
        }
    }
}

impl Amqp {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Amqp::default()
    }
}
