//! When a run is repeated.

use super::Duration;
use serde::{Deserialize, Serialize};

/// When a run is repeated: at times of the day, or so long after each begin. Each repetition is a run of its own in the
/// store; the report shows all of them by the time of day.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Times of the day in this host's time zone, such as `["08:00", "14:00", "22:00"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
    /// Days for which these times are kept, the first being the one of the next such time. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 366)))]
    pub days: Option<u32>,
    /// From the begin of one run to that of the next, such as `1h`; the first begins at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Runs in all, with `every`. Default 24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub times: Option<u32>,
}
