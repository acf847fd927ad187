//! What a component used within a stretch of time: its readings, each with the part of it that lies there.

use plimsoll_model::Nanos;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use std::ops::Range;

/// A level's hold, in seconds on the run's clock.
pub fn hold(level: &LevelStart) -> Range<f64> {
    level.hold_start.as_secs_f64()..(level.hold_start + level.hold).as_secs_f64()
}

/// The components that were ever read, each once.
pub fn names<'a>(components: impl IntoIterator<Item = &'a ComponentUsage>) -> Vec<&'a str> {
    let mut names: Vec<&str> = components.into_iter().map(|usage| usage.component.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A time of one component, for each second between two times that was read. A reading that does not tell of it is a gap, and
/// `None` stands for gaps alone.
pub fn share(
    components: &[ComponentUsage],
    name: &str,
    span: &Range<f64>,
    time: impl Fn(&ComponentUsage) -> Option<Nanos>,
) -> Option<f64> {
    let (mut sum, mut covered) = (0.0, 0.0);
    for usage in components.iter().filter(|usage| usage.component == name && usage.window > Nanos::ZERO) {
        let Some(time) = time(usage) else { continue };
        let part = overlap(usage, span);
        sum += time.as_secs_f64() * part / usage.window.as_secs_f64();
        covered += part;
    }
    (covered > 0.0).then(|| sum / covered)
}

/// The process outside the platform that held the processor of one component longest between two times, where that is known.
pub fn holder(components: &[ComponentUsage], name: &str, span: &Range<f64>) -> Option<String> {
    let own = components.iter().filter(|usage| usage.component == name && usage.holder.is_some());
    let within = own.filter(|usage| overlap(usage, span) > 0.0);
    within.max_by_key(|usage| usage.held_by_others).and_then(|usage| usage.holder.clone())
}

/// Seconds of a reading that lie between two times.
pub fn overlap(usage: &ComponentUsage, span: &Range<f64>) -> f64 {
    let (at, window) = (usage.at.as_secs_f64(), usage.window.as_secs_f64());
    (at.min(span.end) - (at - window).max(span.start)).max(0.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::level::LevelSummary;
    use plimsoll_model::Load;

    /// Levels of ten seconds, and what a broker was seen to use in them.
    pub(crate) struct Levels {
        pub starts: Vec<LevelStart>,
        pub summaries: Vec<LevelSummary>,
        pub components: Vec<ComponentUsage>,
    }

    impl Levels {
        /// Each with its rate and the processors that the broker used.
        pub fn of_broker(levels: &[(f64, f64)], processors: u16) -> Levels {
            let start = |place: usize| LevelStart {
                index: place as u16,
                hold_start: Nanos::from_secs(20 * place as i64),
                hold: Nanos::from_secs(10),
                samples: 10,
                ..LevelStart::default()
            };
            let summary = |(place, &(rate, _)): (usize, &(f64, f64))| LevelSummary {
                index: place as u16,
                load: Load::Rate(rate),
                achieved: Some(rate),
                hold: 10.0,
                ..LevelSummary::default()
            };
            let reading = |(place, &(_, used)): (usize, &(f64, f64))| ComponentUsage {
                component: "broker".into(),
                at: Nanos::from_secs(20 * place as i64 + 10),
                window: Nanos::from_secs(10),
                cpu: Nanos::from_secs_f64(used * 10.0),
                processors: Some(processors),
                ..ComponentUsage::default()
            };
            Levels {
                starts: (0..levels.len()).map(start).collect(),
                summaries: levels.iter().enumerate().map(summary).collect(),
                components: levels.iter().enumerate().map(reading).collect(),
            }
        }
    }

    #[test]
    fn a_share_is_that_of_the_part_that_lies_in_the_span() {
        let Levels { starts, components, .. } = Levels::of_broker(&[(100.0, 0.2), (200.0, 0.6)], 1);
        let cpu = |usage: &ComponentUsage| Some(usage.cpu);
        let used = |span: &Range<f64>| share(&components, "broker", span, cpu);
        let second = used(&hold(&starts[1])).unwrap();
        assert!((second - 0.6).abs() < 1e-9, "{second}");
        let both = used(&(5.0..25.0)).unwrap();
        assert!((both - 0.4).abs() < 1e-9, "{both}");
        assert_eq!((used(&(11.0..19.0)), share(&components, "nobody", &(0.0..9.0), cpu)), (None, None));
    }
}
