//! How devices and subscribers speak NATS.

use crate::config::secret::SecretSource;
use serde::{Deserialize, Serialize};

/// How devices and subscribers speak NATS. Topics and filters are subjects: dots or slashes separate their levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Nats {
    /// User name, where the platform asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password, taken from an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// Token in place of user name and password, taken from an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretSource>,
    /// Name of a stream of JetStream on the platform. The stream acknowledges each message, and subscribers are its consumers. Default:
    /// core NATS, which acknowledges nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Makes a stream for the run, which keeps messages in `memory` or in a `file`, and removes it after the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_stream: Option<Storage>,
    /// Most messages of a device that a stream has not acknowledged yet; further ones wait.
    #[cfg_attr(test, schemars(range(min = 1, max = 65_535)))]
    pub in_flight: u16,
}

impl Default for Nats {
    fn default() -> Nats {
        Nats {
            username: None,
            password: None,
            token: None,
            stream: None,
            create_stream: None,
            in_flight: u16::MAX,
        }
    }
}

impl Nats {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Nats::default()
    }
}

/// Where a stream keeps messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Storage {
    /// In memory.
    Memory,
    /// In a file.
    File,
}
