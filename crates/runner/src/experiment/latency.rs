//! The level that shows what a slower component does to the times that objectives look at. Messages arrive at a rate that leaves room,
//! since behind a limit the time in its queue is all that there is. Stops are short: they slow what computes and pass over what
//! waits, so that they would say nothing of a component that hardly computes.

use super::blocks::Even;
use super::{Experiment, Slowable, Step};
use plimsoll_analysis::experiment::{self, latency};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Perturbation, Stage};
use plimsoll_model::record::{ComponentUsage, LevelRecord};
use plimsoll_scenario::plan::LevelPlan;
use std::ops::RangeInclusive;

/// The load, as a part of what the untouched platform does with many operations in flight: so little that a component has room for
/// the dose, whose effect is large beside the noise of queues.
const LOAD: f64 = 0.4;
/// The dose, a share of the time or of a quota, and each stop.
const DOSE: f64 = 0.4;
const STOP: Nanos = Nanos::from_millis(2);
/// The part of an operation's time alone that a component computes, from which on stops can show in it.
const COMPUTES: f64 = 0.05;
/// A sample.
const SAMPLE: Nanos = Nanos::from_millis(250);
/// Messages that count in a block, and between which times that takes so long.
const MESSAGES: f64 = 300.0;
const MEASURED: RangeInclusive<f64> = 2.0..=10.0;
/// The platform comes to rest in so many times of an operation alone, and not in less than that.
const RESTS: f64 = 80.0;
const REST: f64 = 1.0;
/// Rounds in which each component is slowed once.
const ROUNDS: RangeInclusive<usize> = 4..=8;
/// Names the order of its blocks among those of the levels before it.
const NUMBER: usize = 1000;

impl Experiment<'_> {
    /// The level, if objectives look at times and a component can show in them.
    pub(super) fn latency(
        &self,
        (alone, saturated): (&LevelRecord, &LevelRecord),
        components: &[ComponentUsage],
        left: Nanos,
    ) -> Step {
        let capacity = experiment::capacity(saturated).filter(|rate| *rate > 0.0);
        let (Some(alone), Some(capacity)) = (experiment::alone(alone, self.terms), capacity) else {
            return Step::Over(None);
        };
        let computes = |part: &&Slowable| {
            let used = latency::processor_of(&part.component, saturated, components);
            self.most_cut(part).is_some() || used.is_some_and(|used| used / capacity >= COMPUTES * alone)
        };
        let slowed = |part| self.slowed(part, DOSE, STOP);
        let perturbations: Vec<Perturbation> = self.parts.iter().filter(computes).map(slowed).collect();
        if perturbations.is_empty() || latency::objectives(self.terms).next().is_none() {
            return Step::Over(None);
        }
        let rate = LOAD * capacity;
        let even = Even {
            stage: Stage::Latency,
            sample: SAMPLE,
            rest: (alone * RESTS).clamp(REST, *MEASURED.end()),
            counts: (MESSAGES / rate).clamp(*MEASURED.start(), *MEASURED.end()),
            rounds: ROUNDS,
            number: NUMBER,
            purpose: "what computes is slowed, under a load that leaves room",
        };
        self.even(LevelPlan::ExperimentRate(rate), &perturbations, even, left).unwrap_or_else(|| {
            let said = "latencies were not examined: load.experiment.within leaves no time for it";
            Step::Over(Some(said.to_owned()))
        })
    }
}
