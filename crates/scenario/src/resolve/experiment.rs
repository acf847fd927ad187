//! The experiment that looks for what limits the load.

use crate::config::Scenario;
use crate::context::Context;
use crate::plan::{ExperimentPlan, PlatformPlan};
use crate::quantity::Quantity;
use plimsoll_model::Nanos;

/// Shortest and longest time that an experiment may take.
const SHORTEST: Nanos = Nanos::from_secs(60);
const LONGEST: Nanos = Nanos::from_secs(86_400);
/// Operations in flight at most, where the scenario and the protocol do not say.
const MOST_IN_FLIGHT: u32 = 20_000;
/// After so long an operation is given up, where the scenario does not say.
const TIMEOUT: Nanos = Nanos::from_secs(10);

/// Resolves the experiment, where there is one; `None` also where it is wrong, which is reported.
pub(super) fn resolve(
    scenario: &Scenario,
    platform: Option<&PlatformPlan>,
    most_in_flight: Option<u64>,
    context: &mut Context<'_>,
) -> Option<ExperimentPlan> {
    const KEY: &str = "load.experiment";
    let load = &scenario.load;
    let experiment = load.experiment.as_ref()?;
    let within = experiment.within.0;
    if !(SHORTEST..=LONGEST).contains(&within) {
        let message = format!("an experiment takes from a minute to a day, not {}", within.show());
        context.error(&format!("{KEY}.within"), message);
    }
    let excluded = [
        ("devices", load.devices.is_some()),
        ("connect_rates", load.connect_rates.is_some()),
        ("storm", load.storm.is_some()),
        ("idle_after", load.idle_after.is_some()),
    ];
    for (key, _) in excluded.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format!("`experiment` and `{key}` exclude each other");
        context.error_with_help(
            KEY,
            message,
            "an experiment needs all devices connected, and no other disturbance",
        );
    }
    let platform = platform?;
    if let Some(component) = platform.replicas.keys().next() {
        let message = format!("an experiment does not slow replicas, and `{component}` has some");
        context.error_with_help("platform.replicas", message, "remove them");
    }
    let profile = &platform.profile;
    if profile.components.is_empty() && profile.simulated.is_none() {
        let message = format!("the profile `{}` starts nothing that could be slowed", profile.name);
        let help = "use a profile that starts its platform: Plimsoll never slows what it did not start";
        context.error_with_help("platform.profile", message, help);
    }
    let most = most_in_flight.map_or(MOST_IN_FLIGHT, |most| u32::try_from(most).unwrap_or(u32::MAX));
    Some(ExperimentPlan {
        within,
        with_levels: experiment.with_levels,
        most_in_flight: experiment.in_flight.unwrap_or(most).min(most.max(1)),
        timeout: load.operation_timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.0),
    })
}
