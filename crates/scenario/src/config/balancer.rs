//! Load balancers before components of the platform.

use crate::balancer::{BalancerMode, BalancingPolicy};
use serde::{Deserialize, Serialize};

/// A load balancer before a component: its name alone, or with how it works.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Balancer {
    /// Name of a load balancer, or path of a file that describes one (with a `/` in it or ending in `.yaml`).
    Name(String),
    /// One, and how it works.
    Set(BalancerSettings),
}

/// A load balancer and how it works.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BalancerSettings {
    /// Name of a load balancer, or path of a file that describes one (with a `/` in it or ending in `.yaml`).
    pub by: String,
    /// How it chooses one of the replicas. Default `round_robin`.
    #[serde(default)]
    pub policy: BalancingPolicy,
    /// What it understands of what it passes on. Default `http` at a port that the profile calls `http_port`, else `tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<BalancerMode>,
}

impl BalancerSettings {
    /// The balancer of that name, with nothing said of it.
    pub fn of(by: String) -> BalancerSettings {
        BalancerSettings { by, policy: BalancingPolicy::default(), mode: None }
    }
}
