//! The reconnect storm, and what devices do without a connection.

use crate::config::{Load, OfflinePolicy, Scenario, WorkloadModel};
use crate::context::Context;
use crate::plan::{PlatformPlan, StormPlan};
use crate::quantity::Quantity;

/// Resolves the storm, where there is one; `None` also where it is wrong, which is reported.
pub(super) fn resolve(
    load: &mut Load,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Option<StormPlan> {
    let hold = load.hold.0;
    let searched = load.search.is_some();
    let storm = load.storm.as_mut()?;
    let (after, down) = (storm.after.0, storm.down.0);
    if searched {
        let help = "write `levels`: a search looks for the load line of a healthy platform";
        context.error_with_help("load.storm", "a search has no storm", help);
    }
    if after + down >= hold {
        let message =
            format!("the component would be back {} into a hold of {}", (after + down).show(), hold.show());
        context.error_with_help("load.storm", message, "shorten `after` or `down`, or lengthen `hold`");
    }
    let (profile, protocol) = (&platform?.profile, platform?.protocol());
    let started = profile.components.iter().map(|component| &component.name);
    let simulated =
        profile.simulated.iter().flat_map(|spec| spec.stations.iter().map(|station| &station.name));
    let names: Vec<&String> = started.chain(simulated).collect();
    let speaks = profile.components.iter().filter(|component| component.port(protocol).is_some());
    let spoken_to = speaks.map(|component| &component.name);
    let Some(first) = spoken_to.chain(names.iter().copied()).next() else {
        context.error_with_help(
            "load.storm",
            format!("the profile `{}` starts nothing that could be killed", profile.name),
            "use a profile that starts its platform",
        );
        return None;
    };
    let component = storm.component.get_or_insert_with(|| first.clone()).clone();
    if !names.contains(&&component) {
        let known: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        context.error_with_help(
            "load.storm.component",
            format!("the profile `{}` has no component `{component}`", profile.name),
            format!("it has {}", known.join(", ")),
        );
    }
    if platform.is_some_and(|platform| platform.replicas_of(&component) > 1) {
        let help = "name a component without replicas, or remove `platform.replicas`";
        context.error_with_help(
            "load.storm",
            format!("a storm does not kill replicas, and `{component}` has some"),
            help,
        );
    }
    Some(StormPlan { component, after, down })
}

/// Without a connection the closed model would put message after message away, as fast as it can.
pub(super) fn check_offline(scenario: &Scenario, context: &mut Context<'_>) {
    if scenario.load.model == WorkloadModel::Closed && scenario.connection.offline != OfflinePolicy::Buffer {
        context.error_with_help(
            "connection.offline",
            "in the closed model a device waits for its message to come to its end, so it cannot put it away",
            "write `offline: buffer`, or `load: { model: open, .. }`",
        );
    }
}
