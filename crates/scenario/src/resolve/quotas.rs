//! Quotas of processor time for components of the platform.

use super::component;
use crate::context::Context;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// Less than this the kernel does not give in one of its periods (1 ms of 100 ms).
const LEAST: f64 = 0.01;
/// More processors than any host has.
const MOST: f64 = 10_000.0;

pub(super) fn resolve(
    written: BTreeMap<String, f64>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> BTreeMap<String, f64> {
    if !written.is_empty() && profile.components.is_empty() {
        context.error_with_help(
            "platform.quotas",
            format!("the profile `{}` starts no component", profile.name),
            "limit a platform that runs already where you start it, as with `CPUQuota` of systemd",
        );
        return written;
    }
    for (name, &quota) in &written {
        let path = format!("platform.quotas.{name}");
        component::of_name(name, &path, profile, context);
        if !(LEAST..=MOST).contains(&quota) {
            context.error(&path, format!("a quota is between {LEAST} and {MOST} processors"));
        }
    }
    written
}
