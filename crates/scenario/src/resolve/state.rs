//! The state in which a run finds the platform: kept, reset or started anew, and filled.

use crate::config::{AttachedPlatform, BetweenRuns};
use crate::context::Context;
use crate::plan::{RolePlan, StatePlan};
use crate::profile::Profile;

/// Resolves what the scenario asks of the platform's state.
pub(super) fn resolve(
    attached: &AttachedPlatform,
    profile: &Profile,
    roles: &RolePlan,
    context: &mut Context<'_>,
) -> StatePlan {
    let name = &attached.profile;
    let brought_up = super::command::of(attached).map(super::command::Way::key);
    let started = brought_up.is_some() || !profile.components.is_empty();
    let reset = attached.between_runs == Some(BetweenRuns::Reset) && !started;
    if started && attached.between_runs == Some(BetweenRuns::Keep) {
        let message = match &brought_up {
            Some(key) => format!("`{key}` brings the platform up for each run"),
            None => format!("the profile `{name}` starts its platform fresh for each run"),
        };
        let help = "leave `between_runs` out, or use the profile `existing` for a platform that runs already";
        context.error_with_help("platform.between_runs", message, help);
    }
    if !attached.reset_command.is_empty() && (started || !reset) {
        let help = match &brought_up {
            Some(key) => format!("remove it: `{key}` brings the platform up for each run"),
            None if started => "remove it: the profile starts its platform fresh for each run".to_owned(),
            None => "write `between_runs: reset` beside it".to_owned(),
        };
        context.error_with_help("platform.reset_command", "it would never be run", help);
    }
    if reset && attached.reset_command.is_empty() && roles.reset.is_empty() {
        let message = format!("nobody knows how a platform of the profile `{name}` is reset");
        let help = "give a `reset_command`, such as `[docker, compose, restart]`, or `controller.reset` in a profile \
                    of your own";
        context.error_with_help("platform.between_runs", message, help);
    }
    let preload = attached.preload.unwrap_or(0);
    if preload > 0 && roles.preload.is_empty() {
        let message = format!("the profile `{name}` does not say how its platform is filled");
        let help = "write `controller.preload` in a profile of your own";
        context.error_with_help("platform.preload", message, help);
    }
    StatePlan { reset, command: attached.reset_command.clone(), preload }
}
