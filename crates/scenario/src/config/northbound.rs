//! Queries of the platform's users beside the devices' load.

use super::Arrivals;
use crate::quantity::{AsText, Rate};
use serde::{Deserialize, Serialize};

/// Queries of the platform's users beside the devices' load: what the profile's querier asks, of one device after the
/// other by chance. They wait for nobody: their times count from when they are due.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Northbound {
    /// Queries per second, the same in every level.
    pub rate: AsText<Rate>,
    /// Distribution of the gaps between queries. Default: poisson.
    #[serde(default = "poisson")]
    pub arrivals: Arrivals,
    /// Connections that the queries share: so many can be under way. Default 10.
    #[serde(default = "ten")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub queriers: u32,
    /// Where queriers stand, if workers have the load: at the workers of that site, or at the worker of that name. Default: at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    pub at: Option<String>,
}

fn poisson() -> Arrivals {
    Arrivals::Poisson
}

fn ten() -> u32 {
    10
}
