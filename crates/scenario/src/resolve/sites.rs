//! Where clients stand, if workers have the load.

use crate::config::{Beside, Scenario, Subscribers};
use crate::context::Context;
use crate::names;
use crate::plan::{ReceiversPlan, SitesPlan};
use plimsoll_model::Nanos;

/// The largest bound of clocks that says anything.
const LARGEST_BOUND: Nanos = Nanos::from_secs(1);

/// Where the clients of a population stand.
pub(super) fn resolve(scenario: &Scenario, context: &mut Context<'_>) -> SitesPlan {
    let group = match &scenario.population.subscribers {
        Subscribers::Count(_) => None,
        Subscribers::Group(group) => Some(group),
    };
    let devices = scenario.population.at.clone();
    let subscribers = group.and_then(|group| group.at.clone());
    let queriers = scenario.northbound.as_ref().and_then(|northbound| northbound.at.clone());
    let beside = group.is_some_and(|group| group.beside == Some(Beside::Devices));
    check(&devices, "population.at", context);
    check(&subscribers, "population.subscribers.at", context);
    check(&queriers, "northbound.at", context);
    if beside && subscribers.is_some() {
        let message = "`at` and `beside` both say where subscribers stand";
        context.error_with_help("population.subscribers.at", message, "keep one of them");
    }
    // Subscribers in common belong to no population, so none says where they stand.
    let is_own = context.population().receivers == ReceiversPlan::Own;
    let inherited = devices.clone().filter(|_| is_own);
    SitesPlan { subscribers: subscribers.or(inherited), devices, queriers, beside }
}

fn check(site: &Option<String>, path: &str, context: &mut Context<'_>) {
    if let Some(site) = site.as_ref().filter(|site| !is_name(site)) {
        let message = format!("`{site}` is no name of a site or a worker");
        context.error_with_help(
            path,
            message,
            "such a name is one word, as in `plimsoll worker --site north`",
        );
    }
}

pub(super) fn is_name(site: &str) -> bool {
    names::is_line(site) && !site.contains(char::is_whitespace)
}

/// By how much the clocks of two hosts may differ, as the user says.
pub(super) fn clock_bound(scenario: &Scenario, context: &mut Context<'_>) -> Option<Nanos> {
    let bound = scenario.clock_bound?.0;
    if bound <= Nanos::ZERO || bound > LARGEST_BOUND {
        let message = "clocks that are kept differ by more than nothing, and by a second at most";
        let help =
            "write what chrony (`chronyc tracking`) or the PTP daemon says, such as `clock_bound: 100us`";
        context.error_with_help("clock_bound", message, help);
    }
    Some(bound)
}
