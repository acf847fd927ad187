//! What connections cost the platform in memory.

use crate::level::LevelSummary;
use crate::usage;
use plimsoll_model::record::{ComponentUsage, LevelRecord};
use plimsoll_stats::trend::slope;

/// Resident memory of all components together, by their last readings within a level's hold; `None` where one that was
/// ever read was not read then.
pub fn at_end_of_hold(components: &[ComponentUsage], level: &LevelRecord) -> Option<u64> {
    let hold = level.start.hold_start..=level.start.hold_start + level.start.hold;
    let names = usage::names(components);
    let last = |name: &str| {
        let own = components.iter().rev().filter(|usage| usage.component == name);
        own.into_iter().find(|usage| hold.contains(&usage.at)).map(|usage| usage.rss)
    };
    let total = names.iter().map(|name| last(name)).sum::<Option<u64>>()?;
    (!names.is_empty()).then_some(total)
}

/// Bytes for each further connection, least squares over levels that differ in devices.
pub fn per_connection(levels: &[LevelSummary]) -> Option<f64> {
    let points: Vec<(f64, f64)> = levels
        .iter()
        .filter(|level| level.load.connect_rate().is_none())
        .filter_map(|level| Some((f64::from(level.connected?), level.platform_memory? as f64)))
        .collect();
    slope(&points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_what_memory_grows_by() {
        let level = |connected, memory| LevelSummary {
            connected: Some(connected),
            platform_memory: Some(memory),
            ..LevelSummary::default()
        };
        let levels = [level(1000, 30_000_000), level(2000, 50_000_000), level(4000, 90_000_000)];
        assert!((per_connection(&levels).unwrap() - 20_000.0).abs() < 1e-6);
        assert_eq!(per_connection(&levels[..1]), None);
        assert_eq!(per_connection(&[level(5, 10), level(5, 20)]), None, "nothing to compare");
    }
}
