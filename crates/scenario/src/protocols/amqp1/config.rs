//! How devices and subscribers speak AMQP 1.0.

use crate::config::secret::SecretSource;
use serde::{Deserialize, Serialize};

/// How devices and subscribers speak AMQP 1.0. A message goes to the address that its topic gives, and a subscriber receives from the one
/// that its filter gives: dots or slashes separate levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Amqp1 {
    /// User name. Default: none, which some brokers let in (SASL ANONYMOUS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password, taken from an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// The host that a connection is for, as brokers with several of them want to know it. Default: that of the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// What stands before the levels of an address: `/topic/` for RabbitMQ 3, nothing for Artemis.
    pub prefix: String,
    /// A queue of the platform that exists, from which all subscribers receive. Default: the address of their filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What the platform's end of a link shall be able to do, as `topic` for Artemis.
    pub capabilities: Vec<String>,
    /// Whether messages are marked as durable.
    pub durable: bool,
    /// Whether the platform says what became of each message.
    pub acknowledged: bool,
    /// Most messages of a device of which the platform has not said that yet; further ones wait.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub in_flight: u16,
}

impl Default for Amqp1 {
    fn default() -> Amqp1 {
        Amqp1 {
            username: None,
            password: None,
            hostname: None,
            prefix: String::new(),
            queue: None,
            capabilities: Vec::new(),
            durable: false,
            acknowledged: true,
            in_flight: u16::MAX,
        }
    }
}

impl Amqp1 {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Amqp1::default()
    }
}
