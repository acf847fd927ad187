//! Metrics that the platform itself tells.

use crate::config::Metrics;
use crate::context::Context;
use crate::plan::{MetricsPlan, PlatformPlan};

/// Those of the profile, then those of the scenario.
pub(super) fn resolve(
    written: &[Metrics],
    platform: Option<&PlatformPlan>,
    context: &mut Context,
) -> Vec<MetricsPlan> {
    let mut all = platform.map(|platform| platform.profile.metrics.clone()).unwrap_or_default();
    for (place, metrics) in written.iter().enumerate() {
        match metrics.plan() {
            Ok(metrics) => all.push(metrics),
            Err((key, why)) => {
                context.error(format!("record.metrics.{place}.{key}").trim_end_matches('.'), why);
            }
        }
    }
    all
}
