//! Replicas of components of the platform.

use crate::check::near_miss;
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
        match profile.components.iter().find(|component| component.name == *name) {
            None => {
                let message = format!("the profile `{}` has no component `{name}`", profile.name);
                let names = profile.components.iter().map(|component| component.name.as_str());
                context.error_with_help(&path, message, near_miss(name, names));
            }
            Some(component) if component.named_ports().next().is_none() => {
                context.error_with_help(
                    &path,
                    format!("the profile `{}` names no port of the component `{name}`", profile.name),
                    "connections are spread over a port that the profile names, as with `ready_port`",
                );
            }
            Some(_) => {}
        }
        if !(1..=MOST).contains(&count) {
            context.error(&path, format!("there are 1 to {MOST} replicas of a component"));
        }
    }
    written
}
