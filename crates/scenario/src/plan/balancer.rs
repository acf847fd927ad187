//! Load balancers before components of the platform.

use crate::balancer::{BalancerMode, BalancingPolicy, LoadBalancer};
use std::collections::{BTreeMap, BTreeSet};

/// A load balancer before a component.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerPlan {
    /// The component.
    pub component: String,
    /// What stands before it.
    pub balancer: LoadBalancer,
    /// How it chooses one of the replicas.
    pub policy: BalancingPolicy,
    /// What it understands at each port that the profile names of the component, by the names of the ports.
    pub modes: BTreeMap<String, BalancerMode>,
}

impl BalancerPlan {
    /// Which one it is, and how it works, for people.
    pub fn in_words(&self) -> String {
        let modes: BTreeSet<BalancerMode> = self.modes.values().copied().collect();
        let modes: Vec<&str> = modes.into_iter().map(BalancerMode::key).collect();
        format!("{}, {}, {}", self.balancer.name, self.policy.key(), modes.join(" and "))
    }

    /// The files of the one before the port of that name, by their paths below its folder. It listens at the port `listen` of this
    /// host, and the replicas at others.
    pub fn files(&self, port: &str, listen: u16, replicas: &[u16]) -> BTreeMap<String, String> {
        let mode = self.modes.get(port).copied().unwrap_or_default();
        self.balancer.files(self.policy, mode, listen, replicas)
    }
}
