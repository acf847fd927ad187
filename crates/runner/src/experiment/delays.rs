//! The level that tells a small pool of connections, or a call that one at a time can make, from other reasons for which two components
//! stop each other. What passes the relay before one of them is delayed: where few operations can be on that path and behind it,
//! throughput falls at once, by what each of them takes longer.

use super::blocks::Even;
use super::{Experiment, Step};
use plimsoll_analysis::experiment;
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Means, Perturbation, Stage};
use plimsoll_model::record::LevelRecord;
use plimsoll_scenario::plan::LevelPlan;
use std::ops::RangeInclusive;

/// The longer of two delays of each way is the time of an operation alone, between these times in seconds: a relay is some tens of
/// microseconds late.
const LONG: RangeInclusive<f64> = 4e-3..=0.5;
/// The delays, as parts of the longer one.
const DELAYS: [f64; 2] = [0.25, 1.0];
/// The share of the time that is left for it.
const SHARE: f64 = 0.5;
/// A sample, as long as the period of a quota.
const SAMPLE: Nanos = super::QUOTA_PERIOD;
/// Operations that count in a block, and between which times that takes so long.
const OPERATIONS: f64 = 400.0;
const MEASURED: RangeInclusive<f64> = 1.0..=10.0;
/// The platform comes to rest in so many times of an operation alone, and not in less than that.
const RESTS: f64 = 20.0;
const REST: f64 = 0.5;
/// Rounds in which each path is delayed once by each delay.
const ROUNDS: RangeInclusive<usize> = 4..=8;
/// Names the order of its blocks among those of other levels.
const NUMBER: usize = 2000;

impl Experiment<'_> {
    /// The level, if several components may decide and relays stand before some of them.
    pub(super) fn delays(&self, alone: &LevelRecord, large: &LevelRecord, left: Nanos) -> Step {
        let in_flight = large.start.load.in_flight();
        let rate = experiment::capacity(large).filter(|rate| *rate > 0.0);
        let (Some(in_flight), Some(alone), Some(rate)) =
            (in_flight, experiment::alone(alone, self.terms), rate)
        else {
            return Step::Over(None);
        };
        let contend = experiment::all_contenders(&[large]);
        let has_relay =
            |name: &&String| self.parts.iter().any(|part| part.component == **name && part.has_relay);
        let before: Vec<&String> = contend.iter().filter(has_relay).collect();
        if contend.len() < 2 || before.is_empty() {
            return Step::Over(None);
        }
        let delay = |(component, part): (&String, f64)| {
            let length = Nanos::from_secs_f64(alone.clamp(*LONG.start(), *LONG.end()) * part);
            Perturbation::new(vec![component.clone()], Means::Delay, 1.0, length)
        };
        let each = |component: &String| DELAYS.map(|part| delay((component, part)));
        let delays: Vec<Perturbation> = before.into_iter().flat_map(each).collect();
        let even = Even {
            stage: Stage::Delays,
            sample: SAMPLE,
            rest: (alone * RESTS).clamp(REST, *MEASURED.end()),
            counts: (OPERATIONS / rate).clamp(*MEASURED.start(), *MEASURED.end()),
            rounds: ROUNDS,
            number: NUMBER,
            purpose: "the paths to those that matter are delayed",
        };
        let time = Nanos::from_secs_f64(left.as_secs_f64() * SHARE);
        self.even(LevelPlan::Experiment(in_flight), &delays, even, time).unwrap_or(Step::Over(None))
    }
}
