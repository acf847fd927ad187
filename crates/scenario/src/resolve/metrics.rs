//! Metrics that the platform itself tells.

use crate::config::Record;
use crate::context::Context;
use crate::plan::{MetricsPlan, PlatformPlan};
use serde_json::Value;

/// Those of the profile, if they are wanted, then those of the scenario.
pub(super) fn resolve(
    record: &Record,
    platform: Option<&PlatformPlan>,
    context: &mut Context,
) -> Vec<MetricsPlan> {
    let wanted = platform.filter(|_| record.profile_metrics != Some(false));
    let mut all = wanted.map(|platform| platform.profile.metrics.clone()).unwrap_or_default();
    for (place, metrics) in record.metrics.iter().enumerate() {
        match metrics.plan() {
            Ok(metrics) => all.push(metrics),
            Err((key, why)) => {
                context.error(format!("record.metrics.{place}.{key}").trim_end_matches('.'), why);
            }
        }
    }
    all
}

/// The URLs of a source as written.
pub(super) fn urls(metrics: &mut Value) -> impl Iterator<Item = &mut String> {
    let keys = metrics.as_object_mut().into_iter().flatten();
    keys.filter_map(|(key, value)| match value {
        Value::String(url) if ["exporter", "prometheus", "json"].contains(&key.as_str()) => Some(url),
        _ => None,
    })
}
