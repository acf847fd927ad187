//! Replicas of components of the platform.

use super::component;
use crate::context::Context;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// More would hardly fit on one host.
const MOST: u16 = 64;

pub(super) fn resolve(
    written: BTreeMap<String, u16>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> BTreeMap<String, u16> {
    if !written.is_empty() && profile.components.is_empty() {
        context.error("platform.replicas", format!("the profile `{}` starts no component", profile.name));
        return written;
    }
    for (name, &count) in &written {
        let path = format!("platform.replicas.{name}");
        let help = "connections are spread over a port that the profile names, as with `ready_port`";
        component::with_port(name, &path, profile, help, context);
        if !(1..=MOST).contains(&count) {
            context.error(&path, format!("there are 1 to {MOST} replicas of a component"));
        }
    }
    written
}
