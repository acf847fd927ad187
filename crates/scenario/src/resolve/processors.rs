//! The processors that components of the platform may run on.

use super::component;
use crate::context::Context;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// The kernel numbers no more.
const MOST: usize = 1024;

pub(super) fn resolve(
    written: BTreeMap<String, Vec<usize>>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> BTreeMap<String, Vec<usize>> {
    let help = "bind a platform that runs already where you start it, as with `taskset`";
    if written.is_empty() || !component::any("platform.processors", profile, help, context) {
        return written;
    }
    for (name, processors) in &written {
        let path = format!("platform.processors.{name}");
        component::of_name(name, &path, profile, context);
        if processors.is_empty() {
            context.error_with_help(&path, "a component needs a processor", "write `[0]`, or remove the key");
        }
        if processors.iter().any(|processor| *processor >= MOST) {
            context.error(&path, format!("processors are numbered from 0 to {}", MOST - 1));
        }
    }
    written
}
