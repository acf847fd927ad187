//! Commands of the user's that bring the platform up and take it down.

use super::Duration;
use crate::quantity::AsText;
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// Commands that bring the platform up before each run and take it down after it (docs/bringing-up.md). Each is a program and its
/// arguments, in which `{NAME}` stands for a variable of `platform.with`. Both run in the folder of the scenario file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlatformCommand {
    /// Brings the platform up. The last thing that it prints is an object of JSON, whose `address` is that of the platform.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub up: Vec<String>,
    /// Takes the platform down. It is called once for each `up` that was begun, also where that failed or the run was
    /// interrupted. Its standard input has the object that `up` printed.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub down: Vec<String>,
    /// What the printed address begins with, such as `mqtts`. Default: what devices of the profile speak, without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// How long `up` may take. Default 10m.
    #[serde(default = "within")]
    pub within: Duration,
    /// How long `down` may take. Default 5m.
    #[serde(default = "down_within")]
    pub down_within: Duration,
}

pub(super) fn within() -> Duration {
    AsText(Nanos::from_secs(600))
}

pub(super) fn down_within() -> Duration {
    AsText(Nanos::from_secs(300))
}
