//! How devices speak HTTP.

use crate::quantity::{AsText, Duration};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// How devices speak HTTP. Connections are kept; none carries a second request before the first is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http {
    /// Connections of each device: so many of its requests can be under way, further messages wait. Default 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub connections: u32,
    /// Connections that all devices share, in place of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 60_000)))]
    pub pool: Option<u32>,
    /// How long an answer is awaited before its connection is given up. Default 30 s.
    pub timeout: Duration,
}

impl Default for Http {
    fn default() -> Http {
        Http { connections: 1, pool: None, timeout: AsText(Nanos::from_secs(30)) }
    }
}

impl Http {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Http::default()
    }
}
