//! Where the logs of components go.

use super::component;
use crate::context::Context;
use crate::profile::Profile;

pub(super) fn resolve(
    written: Option<&String>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> Option<String> {
    let path = "platform.logs";
    let help = "what runs already keeps its own logs; `compose` and `manifests` have a key `logs`";
    let folder = written?;
    if !component::any(path, profile, help, context) {
        return None;
    }
    if folder.trim().is_empty() || folder.contains('\0') {
        context.error(path, "a folder has a name, without a null character");
    }
    Some(folder.clone())
}
