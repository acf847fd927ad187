//! What a level cost the platform in processor time.

use crate::usage;
use plimsoll_model::record::{ComponentUsage, LevelStart};

/// Processors that all components together used in a level's hold, 1 for a whole one: their readings, each with the share of
/// it that lies within the hold. `None` where one that was ever read was not read then.
pub fn in_hold(components: &[ComponentUsage], level: &LevelStart) -> Option<f64> {
    let names = usage::names(components);
    let of = |name: &&str| usage::share(components, name, &usage::hold(level), |usage| Some(usage.cpu));
    let total = names.iter().map(of).sum::<Option<f64>>()?;
    (!names.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    #[test]
    fn readings_count_as_far_as_they_lie_in_the_hold() {
        let usage = |component: &str, at: i64, cpu: i64| ComponentUsage {
            component: component.into(),
            at: Nanos(at),
            window: Nanos(1_000),
            cpu: Nanos(cpu),
            ..ComponentUsage::default()
        };
        let level =
            LevelStart { hold_start: Nanos(5_000), hold: Nanos(2_000), samples: 2, ..LevelStart::default() };
        let mut components = vec![
            // Half of it before the hold: 250 of work within 500.
            usage("a", 5_500, 500),
            usage("a", 6_500, 1_000),
            usage("b", 6_000, 500),
            usage("b", 1_000, 1_000),
        ];
        let used = in_hold(&components, &level).unwrap();
        assert!((used - (1_250.0 / 1_500.0 + 0.5)).abs() < 1e-9, "{used}");
        components.remove(2);
        assert_eq!(in_hold(&components, &level), None, "b was not read in the hold");
        assert_eq!(in_hold(&[], &level), None);
    }
}
