//! What components of the platform may use at most.

use super::component;
use crate::config::{Limits, Quota};
use crate::context::Context;
use crate::plan::QuotaPlan;
use crate::profile::Profile;
use plimsoll_model::Nanos;
use std::collections::BTreeMap;

/// Less processor time than this the kernel does not give in a period.
const LEAST: Nanos = Nanos::from_millis(1);
/// The period of the kernel.
const PERIOD: Nanos = Nanos::from_millis(100);
/// The shortest and the longest period that the kernel takes.
const PERIODS: [Nanos; 2] = [Nanos::from_millis(1), Nanos::from_secs(1)];
/// More processors than any host has.
const MOST: f64 = 10_000.0;
/// With less memory, in bytes, no program begins.
const LEAST_MEMORY: u64 = 1 << 20;

/// Resolves the quotas of components that the profile starts, or of what an engine runs, whose names its files have.
pub(super) fn resolve(
    written: &BTreeMap<String, Quota>,
    profile: &Profile,
    by_engine: bool,
    context: &mut Context<'_>,
) -> BTreeMap<String, QuotaPlan> {
    let help = "limit a platform that runs already where you start it, as with `CPUQuota` of systemd";
    if written.is_empty() || !by_engine && !component::any("platform.quotas", profile, help, context) {
        return BTreeMap::new();
    }
    let mut plan = |(name, quota): (&String, &Quota)| {
        let path = format!("platform.quotas.{name}");
        if by_engine {
            super::engine::check_name(name, &path, context);
        } else {
            component::of_name(name, &path, profile, context);
        }
        let (processors, memory, period) = match quota {
            Quota::Processors(processors) => (Some(*processors), None, None),
            Quota::Limits(Limits { processors, memory, period }) => {
                (*processors, memory.map(|size| size.0.0), period.as_ref().map(|period| period.0))
            }
        };
        let length = period.unwrap_or(PERIOD);
        let [shortest, longest] = PERIODS;
        let least = LEAST.as_secs_f64() / length.as_secs_f64();
        if !(shortest..=longest).contains(&length) {
            context.error(&format!("{path}.period"), "a period is from 1 ms to 1 s long");
        } else if processors.is_some_and(|processors| !(least..=MOST).contains(&processors)) {
            let message =
                format!("a quota in periods of this length is between {least} and {MOST} processors");
            context.error(&path, message);
        }
        if by_engine && period.is_some() {
            context.error_with_help(&path, "the engine has a period of its own", "remove the `period`");
        }
        if period.is_some() && processors.is_none() {
            context.error_with_help(
                &path,
                "a period is one of `processors`",
                "write `processors`, or remove it",
            );
        }
        if memory.is_some_and(|memory| memory < LEAST_MEMORY) {
            context.error(&path, "a component needs at least 1 MiB of memory");
        }
        if processors.or(memory.map(|_| 0.0)).is_none() {
            context.error(&path, "it limits nothing: write `processors`, `memory` or both");
        }
        (name.clone(), QuotaPlan { processors, memory, period })
    };
    written.iter().map(&mut plan).collect()
}
