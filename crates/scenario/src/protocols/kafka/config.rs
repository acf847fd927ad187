//! How devices and subscribers speak Kafka.

use crate::config::secret::SecretSource;
use serde::{Deserialize, Serialize};

/// How devices and subscribers speak Kafka. A message's topic is the key of its record, and filters choose records by their keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Kafka {
    /// User name, where the platform asks for one (SASL PLAIN).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password, taken from an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// A topic of the platform that exists. Default: a topic that is made for the run, and removed after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Partitions of a topic that is made for the run. In a group, as many subscribers as there are partitions can read at
    /// once.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub partitions: u16,
    /// Copies of each partition of a topic that is made for the run.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    pub replicas: u16,
    /// Which copies must have a message before the platform acknowledges it.
    pub acks: Acks,
    /// Most messages of a device that the platform has not acknowledged yet; further ones wait.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub in_flight: u16,
}

impl Default for Kafka {
    fn default() -> Kafka {
        Kafka {
            username: None,
            password: None,
            topic: None,
            partitions: 8,
            replicas: 1,
            acks: Acks::All,
            in_flight: u16::MAX,
        }
    }
}

impl Kafka {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Kafka::default()
    }
}

/// Which copies must have a message before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Acks {
    /// All that are in step.
    All,
    /// That of the broker that leads the partition.
    Leader,
    /// None: nothing is acknowledged.
    None,
}
