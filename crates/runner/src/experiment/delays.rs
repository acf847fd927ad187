//! The level that tells a small pool of connections, or a call that one at a time can make, from other reasons for which two components
//! stop each other. What passes the relay before one of them is delayed: where few operations can be on that way and behind it,
//! throughput falls at once, by what each of them takes longer.

use super::{Experiment, MEASURED_LARGE, Step};
use plimsoll_analysis::experiment;
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Means, Perturbation, Stage};
use plimsoll_model::record::LevelRecord;

/// The delays of each way, as parts of the time of an operation alone.
const DELAYS: [f64; 2] = [0.25, 1.0];
/// The shortest and the longest of them: a relay is some tens of microseconds late.
const SHORTEST: f64 = 1e-3;
const LONGEST: f64 = 0.1;

impl Experiment<'_> {
    /// The level, once, if several components may decide and relays stand before some of them.
    pub(super) fn delays(&self, alone: &LevelRecord, slowed: &[LevelRecord], left: Nanos) -> Step {
        let [large, ..] = slowed else { return Step::Over(None) };
        let is_done = slowed.iter().any(|level| level.start.stage() == Some(Stage::Delays));
        let measures = large.start.longest_stop().zip(large.start.load.in_flight());
        let (Some((stop, in_flight)), Some(alone), false) =
            (measures, experiment::alone(alone, self.terms), is_done)
        else {
            return Step::Over(None);
        };
        let contend = experiment::contend(&slowed.iter().collect::<Vec<_>>());
        let has_relay =
            |name: &&String| self.parts.iter().any(|part| part.component == **name && part.has_relay);
        let before: Vec<&String> = contend.iter().filter(has_relay).collect();
        if contend.len() < 2 || before.is_empty() {
            return Step::Over(None);
        }
        let delay = |(component, part): (&String, f64)| Perturbation {
            components: vec![component.clone()],
            means: Means::Delay,
            share: 1.0,
            stop: Nanos::from_secs_f64((alone * part).clamp(SHORTEST, LONGEST)),
        };
        let each = |component: &String| DELAYS.map(|part| delay((component, part)));
        let delays: Vec<Perturbation> = before.into_iter().flat_map(each).collect();
        let purpose = "the ways to those that matter are delayed";
        self.level(
            Stage::Delays,
            &delays,
            (MEASURED_LARGE, stop, in_flight, left, left),
            (slowed.len(), purpose),
        )
    }
}
