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

/// Seconds of a reading that lie between two times.
pub fn overlap(usage: &ComponentUsage, span: &Range<f64>) -> f64 {
    let (at, window) = (usage.at.as_secs_f64(), usage.window.as_secs_f64());
    (at.min(span.end) - (at - window).max(span.start)).max(0.0)
}
