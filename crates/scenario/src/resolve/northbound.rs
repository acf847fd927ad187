//! Queries beside the devices' load.

use super::load::gaps_of;
use super::rate::check_rate;
use crate::config::Northbound;
use crate::context::Context;
use crate::plan::{NorthboundPlan, PlatformPlan};

pub(super) fn resolve(
    written: Option<&Northbound>,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Option<NorthboundPlan> {
    let Northbound { rate, arrivals, queriers, .. } = written?;
    check_rate(rate.0, "northbound.rate", context);
    if let Some(platform) = platform.filter(|platform| platform.roles.query.is_none()) {
        let message = format!("the profile `{}` does not say what a querier asks", platform.profile.name);
        let help = "use a profile with a `querier`, or remove `northbound`";
        context.error_with_help("northbound", message, help);
    }
    let Some(gaps) = gaps_of(arrivals) else {
        let help = "write `arrivals: poisson` or another distribution";
        context.error_with_help("northbound.arrivals", "a trace has the times of devices' messages", help);
        return None;
    };
    Some(NorthboundPlan { rate: rate.0.0, arrivals: gaps, queriers: *queriers })
}
