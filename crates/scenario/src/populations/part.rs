//! A population as a scenario of its own.

use crate::plan::PopulationPlan;
use crate::tree::Node;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// A population as a scenario of its own.
pub(crate) struct Part {
    /// Everything that holds for it.
    pub root: Node,
    /// Its place among the others.
    pub population: PopulationPlan,
    /// Devices of all populations together; `None` where it is the only one.
    pub all_devices: Option<u32>,
    /// Sections that it has of its own; what others hold is the scenario's, and may mean nothing to its protocol.
    pub own: BTreeSet<&'static str>,
    /// What it has written itself, as far as the resolved scenario repeats that.
    pub platform: Option<Json>,
    pub load: Option<Json>,
}

impl Part {
    /// Whether a section is the scenario's, for those whom it concerns.
    pub fn inherits(&self, section: &str) -> bool {
        !self.own.contains(section)
    }
}
