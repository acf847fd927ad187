//! Where components of the platform stand, if workers have the load.

use super::component;
use super::sites::is_name;
use crate::context::Context;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// Lets components stand where the scenario says, in the place of what the profile says.
pub(super) fn resolve(written: &BTreeMap<String, String>, profile: &mut Profile, context: &mut Context<'_>) {
    let help = "a platform that runs already stands where it is: name its `address`";
    if written.is_empty() || !component::any("platform.at", profile, help, context) {
        return;
    }
    for (name, at) in written {
        let path = format!("platform.at.{name}");
        component::of_name(name, &path, profile, context);
        if !is_name(at) {
            let help = "such a name is one word, as in `plimsoll worker --site north`";
            context.error_with_help(&path, format!("`{at}` is no name of a site or a worker"), help);
        }
        if let Some(component) = profile.components.iter_mut().find(|component| component.name == *name) {
            component.at = Some(at.clone());
        }
    }
}
