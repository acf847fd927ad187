//! Components of the platform that a scenario names.

use crate::check::near_miss;
use crate::context::Context;
use crate::profile::{Component, Profile};

/// Whether the profile starts components, of which `path` says something; it is reported where it starts none.
pub(super) fn any(path: &str, profile: &Profile, help: &str, context: &mut Context<'_>) -> bool {
    let starts = !profile.components.is_empty();
    if !starts {
        let message = format!("the profile `{}` starts no component", profile.name);
        context.error_with_help(path, message, help);
    }
    starts
}

/// The component of that name, which stands at `path`; it is reported where the profile has none.
pub(super) fn of_name<'a>(
    name: &str,
    path: &str,
    profile: &'a Profile,
    context: &mut Context<'_>,
) -> Option<&'a Component> {
    let found = profile.components.iter().find(|component| component.name == name);
    if found.is_none() {
        let message = format!("the profile `{}` has no component `{name}`", profile.name);
        let names = profile.components.iter().map(|component| component.name.as_str());
        context.error_with_help(path, message, near_miss(name, names));
    }
    found
}

/// The same of a component at whose ports something is to stand; one whose ports the profile does not name is reported, too.
pub(super) fn with_port<'a>(
    name: &str,
    path: &str,
    profile: &'a Profile,
    help: &str,
    context: &mut Context<'_>,
) -> Option<&'a Component> {
    let component = of_name(name, path, profile, context)?;
    if component.named_ports().next().is_none() {
        let message = format!("the profile `{}` names no port of the component `{name}`", profile.name);
        context.error_with_help(path, message, help);
        return None;
    }
    Some(component)
}
