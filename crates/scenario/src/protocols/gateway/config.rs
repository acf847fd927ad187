//! How devices are polled by a gateway.

use crate::quantity::{AsText, Duration};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// How devices are polled by a gateway (docs/gateway-protocol.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Gateway {
    /// What each device waits before it answers a call, in place of a network: up to 4 s. Default 0.
    pub delay: Duration,
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway { delay: AsText(Nanos::ZERO) }
    }
}

impl Gateway {
    /// Whether nothing was written.
    pub fn is_default(&self) -> bool {
        *self == Gateway::default()
    }
}
