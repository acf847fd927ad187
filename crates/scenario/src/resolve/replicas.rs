//! Replicas of components of the platform.

use super::component;
use crate::context::Context;
use crate::profile::{Component, Profile};
use std::collections::{BTreeMap, BTreeSet};

/// More would hardly fit on one host.
const MOST: u16 = 64;

/// A port of a component that its texts ask for and no component names, so that it would be the same for each replica.
fn unnamed_port<'a>(name: &str, profile: &'a Profile) -> Option<&'a str> {
    let named: BTreeSet<&str> =
        profile.components.iter().flat_map(Component::named_ports).map(|(_, port)| port.as_str()).collect();
    let component = profile.components.iter().find(|component| component.name == name)?;
    component.ports_in_texts().find(|port| !named.contains(port))
}

pub(super) fn resolve(
    written: BTreeMap<String, u16>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> BTreeMap<String, u16> {
    let help = "start replicas and a load balancer yourself, and give its address as the platform's";
    if written.is_empty() || !component::any("platform.replicas", profile, help, context) {
        return written;
    }
    for (name, &count) in &written {
        let path = format!("platform.replicas.{name}");
        let help = "connections are spread over a port that the profile names, as with `ready_port`";
        component::with_port(name, &path, profile, help, context);
        if !(1..=MOST).contains(&count) {
            context.error(&path, format!("there are 1 to {MOST} replicas of a component"));
        }
        if let Some(port) = unnamed_port(name, profile).filter(|_| count > 1) {
            context.error_with_help(
                &path,
                format!(
                    "all replicas would listen at the same port `{port}`: the profile names it only in a text"
                ),
                "name it in the profile, as with `ready_port`, `http_port` or `mqtt_port`",
            );
        }
    }
    written
}
