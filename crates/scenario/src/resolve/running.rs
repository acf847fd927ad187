//! The components of a platform that Plimsoll does not start itself.

use crate::brought_up::BroughtUp;
use crate::config::RunningComponent;
use crate::context::Context;
use crate::plan::{RunningPlace, RunningPlan};
use crate::profile::Profile;

/// Names that mean this program in results.
const RESERVED: [&str; 2] = ["plimsoll", "generator"];

/// Resolves those that the scenario lists, and those that were `printed` by what the scenario names at that key.
pub(super) fn resolve(
    written: &[RunningComponent],
    (key, printed): (&str, Option<&BroughtUp>),
    profile: &Profile,
    context: &mut Context<'_>,
) -> Vec<RunningPlan> {
    if !written.is_empty() && !profile.components.is_empty() {
        context.error_with_help(
            "platform.components",
            format!("the profile `{}` starts its components itself", profile.name),
            "leave them out: what it starts is watched in any case",
        );
    }
    let mut plans: Vec<RunningPlan> = Vec::new();
    let listed = written.iter().enumerate();
    let listed = listed.map(|(index, component)| (format!("platform.components.{index}"), component));
    let printed = printed.into_iter().flat_map(|printed| &printed.components);
    let printed = printed.map(|component| (format!("{key}.up"), component));
    for (path, component) in listed.chain(printed) {
        let name = component.name.trim();
        if name.is_empty() || name.contains(char::is_control) {
            context.error(&path, "a name is visible characters in one line");
        } else if RESERVED.contains(&name) {
            context.error(&path, format!("`{name}` is what results call this program; choose another name"));
        } else if plans.iter().any(|known| known.name == name) {
            context
                .error(&path, format!("there is a component `{name}` already; give each a name of its own"));
        }
        let places: Vec<RunningPlace> = [
            component.pid.map(RunningPlace::Process),
            component.port.map(RunningPlace::Port),
            component.unit.clone().map(RunningPlace::Unit),
            component.container.clone().map(RunningPlace::Container),
        ]
        .into_iter()
        .flatten()
        .collect();
        let empty = |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
        match <[RunningPlace; 1]>::try_from(places) {
            Ok(_) if empty(&component.unit) || empty(&component.container) => {
                context.error(&path, "a unit or a container has a name");
            }
            Ok([RunningPlace::Process(0) | RunningPlace::Port(0)]) => {
                context.error(&path, "processes and ports have numbers from 1");
            }
            Ok([RunningPlace::Process(process)]) if i32::try_from(process).is_err() => {
                context.error(&path, format!("no process has a number as high as {process}"));
            }
            Ok([place]) => plans.push(RunningPlan { name: name.to_owned(), place }),
            Err(_) => context.error_with_help(
                &path,
                "it is not clear which process that is",
                "give one of `pid`, `port`, `unit` and `container`, as in `{ name: broker, port: 1883 }`",
            ),
        }
    }
    plans
}
