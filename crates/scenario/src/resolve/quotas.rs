//! What components of the platform may use at most.

use super::component;
use crate::config::{Limits, Quota};
use crate::context::Context;
use crate::plan::QuotaPlan;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// Less than this the kernel does not give in one of its periods (1 ms of 100 ms).
const LEAST: f64 = 0.01;
/// More processors than any host has.
const MOST: f64 = 10_000.0;
/// With less memory, in bytes, no program begins.
const LEAST_MEMORY: u64 = 1 << 20;

pub(super) fn resolve(
    written: &BTreeMap<String, Quota>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> BTreeMap<String, QuotaPlan> {
    let help = "limit a platform that runs already where you start it, as with `CPUQuota` of systemd";
    if written.is_empty() || !component::any("platform.quotas", profile, help, context) {
        return BTreeMap::new();
    }
    let mut plan = |(name, quota): (&String, &Quota)| {
        let path = format!("platform.quotas.{name}");
        component::of_name(name, &path, profile, context);
        let (processors, memory) = match quota {
            Quota::Processors(processors) => (Some(*processors), None),
            Quota::Limits(Limits { processors, memory }) => (*processors, memory.map(|size| size.0.0)),
        };
        if processors.is_some_and(|processors| !(LEAST..=MOST).contains(&processors)) {
            context.error(&path, format!("a quota is between {LEAST} and {MOST} processors"));
        }
        if memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            context.error(&path, "a component needs at least 1 MiB of memory");
        }
        if processors.or(memory.map(|_| 0.0)).is_none() {
            context.error(&path, "it limits nothing: write `processors`, `memory` or both");
        }
        (name.clone(), QuotaPlan { processors, memory })
    };
    written.iter().map(&mut plan).collect()
}
