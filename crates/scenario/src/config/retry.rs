//! What devices do where a message does not come to its end.

use super::Duration;
use crate::quantity::{AsText, Share};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// Devices send a message again that was not acknowledged in time, or whose connection was lost (docs/faults.md). Each attempt is
/// counted, and the message stays one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// How often a message is sent at most, the first time included. Default 3.
    #[serde(default = "attempts")]
    #[cfg_attr(test, schemars(range(min = 2, max = 100)))]
    pub attempts: u32,
    /// An attempt has failed if it was not acknowledged so long after it was sent.
    pub timeout: Duration,
    /// Pauses before a message is sent again: each is twice as long as the one before. Default from 100ms to 10s.
    #[serde(default)]
    pub backoff: Backoff,
    /// The share of each pause that is drawn at random, so that devices that failed together do not come back together. Default
    /// 50 %.
    #[serde(default = "jitter")]
    pub jitter: AsText<Share>,
}

/// Pauses that grow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Backoff {
    /// First pause.
    pub from: Duration,
    /// Longest pause.
    pub to: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { from: AsText(Nanos::from_millis(100)), to: AsText(Nanos::from_secs(10)) }
    }
}

fn attempts() -> u32 {
    3
}

fn jitter() -> AsText<Share> {
    AsText(Share(0.5))
}
