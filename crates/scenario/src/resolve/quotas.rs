//! Quotas of processor time for components of the platform.

use crate::check::near_miss;
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
        let names = || profile.components.iter().map(|component| component.name.as_str());
        if !names().any(|own| own == name) {
            let message = format!("the profile `{}` has no component `{name}`", profile.name);
            context.error_with_help(&path, message, near_miss(name, names()));
        }
        if !(LEAST..=MOST).contains(&quota) {
            context.error(&path, format!("a quota is between {LEAST} and {MOST} processors"));
        }
    }
    written
}
