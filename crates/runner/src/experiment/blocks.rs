//! Levels made of blocks: each part is slowed in some of them, in random order, with untouched ones between.

use super::{Experiment, NextLevel, SAMPLES_OF_STOP, Step};
use plimsoll_analysis::experiment::ENDED_EARLY;
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Block, ExperimentLevel, Means, Perturbation, Stage};
use plimsoll_scenario::plan::LevelPlan;
use plimsoll_stats::distribution::random;
use std::ops::RangeInclusive;

/// Names the stream of random numbers of the order of blocks.
const STREAM: u64 = 0x626c_6f63_6b73;
/// Samples of a block before those that count, in which the queues change: of a slowed one, whole cycles of the large dose, and of the
/// untouched one behind it, in which a part that has little room works off what waited for it.
const REST: u16 = 15;
const REST_AFTER: u16 = 30;
/// Rounds of a level, in each of which each part is slowed once. A further level leaves those out that are known well enough.
pub const FEWEST_ROUNDS: usize = 4;
const MOST_ROUNDS: usize = 6;

/// A level with blocks of one length.
pub struct Even {
    pub stage: Stage,
    pub sample: Nanos,
    /// Seconds of a block in which the platform comes to rest, and of those behind them, which count.
    pub rest: f64,
    pub counts: f64,
    pub rounds: RangeInclusive<usize>,
    /// Names the order of its blocks among those of other levels.
    pub number: usize,
    /// For people.
    pub purpose: &'static str,
}

impl Experiment<'_> {
    /// A level in which each of them is slowed as often as the time allows.
    pub(super) fn level(
        &self,
        stage: Stage,
        perturbations: &[Perturbation],
        (measured, stop, in_flight, time, left): (u16, Nanos, u32, Nanos, Nanos),
        (number, purpose): (usize, &'static str),
    ) -> Step {
        let sample = stop / SAMPLES_OF_STOP;
        let counts = |own: Option<&Perturbation>| match own {
            Some(own) if own.means == Means::Stop => {
                let cycle = (own.cycle().0 as f64 / sample.0 as f64).round().max(1.0) as u16;
                measured.div_ceil(cycle) * cycle
            }
            _ => measured,
        };
        let rest = |own: Option<&Perturbation>| if own.is_some() { REST } else { REST_AFTER };
        let length = |own: Option<&Perturbation>| u64::from(rest(own) + counts(own));
        let slowed: u64 = perturbations.iter().map(|own| length(Some(own))).sum();
        let round = slowed + length(None) * untouched_of(perturbations.len()) as u64;
        let samples = |rounds: usize| round * rounds as u64 + length(None);
        if samples(FEWEST_ROUNDS) > u64::from(u16::MAX) {
            let said = format!("{ENDED_EARLY}: {} parts are too many for it", perturbations.len());
            return Step::Over(Some(said));
        }
        let rounds = self.rounds_within(FEWEST_ROUNDS..=MOST_ROUNDS, samples, sample, time);
        let rounds = rounds.unwrap_or(FEWEST_ROUNDS);
        let takes = sample * samples(rounds) as i64 + self.besides;
        if takes > left {
            let needed = (self.plan.within - left + takes).as_secs_f64().ceil();
            return Step::Over(Some(format!(
                "{ENDED_EARLY}: it needs {needed:.0} s, and load.experiment.within allows {:.0} s (--set \
                 load.experiment.within={needed:.0}s)",
                self.plan.within.as_secs_f64()
            )));
        }
        let blocks = self.blocks((perturbations, rounds, number), |own| (rest(own), counts(own)));
        let samples = blocks.last().map_or(0, |block| block.end);
        Step::Level(Box::new(NextLevel {
            level: LevelPlan::Experiment(in_flight),
            hold: sample * i64::from(samples),
            samples,
            experiment: ExperimentLevel::new(stage, blocks),
            purpose,
        }))
    }

    /// A level with blocks of one length, in as many rounds as fit into that time; `None` where too few do.
    pub(super) fn even(
        &self,
        level: LevelPlan,
        perturbations: &[Perturbation],
        even: Even,
        time: Nanos,
    ) -> Option<Step> {
        let Even { stage, sample, rest, counts, rounds, number, purpose } = even;
        let samples = |seconds: f64| (seconds / sample.as_secs_f64()).ceil() as u16;
        let (rest, counts) = (samples(rest), samples(counts));
        let blocks = perturbations.len() + untouched_of(perturbations.len());
        let samples = |rounds: usize| u64::from(rest + counts) * (rounds * blocks + 1) as u64;
        let rounds = self.rounds_within(rounds, samples, sample, time)?;
        let blocks = self.blocks((perturbations, rounds, number), |_| (rest, counts));
        let samples = blocks.last().map_or(0, |block| block.end);
        let hold = sample * i64::from(samples);
        let experiment = ExperimentLevel::new(stage, blocks);
        Some(Step::Level(Box::new(NextLevel { level, hold, samples, experiment, purpose })))
    }

    /// The most rounds of a level that take no more than that time, and have no more samples than can be numbered.
    fn rounds_within(
        &self,
        rounds: RangeInclusive<usize>,
        samples: impl Fn(usize) -> u64,
        sample: Nanos,
        time: Nanos,
    ) -> Option<usize> {
        let fits = |rounds: &usize| {
            let samples = samples(*rounds);
            samples <= u64::from(u16::MAX) && sample * samples as i64 + self.besides <= time
        };
        rounds.rev().find(fits)
    }

    /// Blocks in which each of them is slowed once a round, in random order, with an untouched one before each and at the end. The
    /// length of a block has the samples in which the platform comes to rest, and those that count. Each level has another order.
    fn blocks(
        &self,
        (perturbations, rounds, number): (&[Perturbation], usize, usize),
        length: impl Fn(Option<&Perturbation>) -> (u16, u16),
    ) -> Vec<Block> {
        let mut random = random(self.seed, &[STREAM, number as u64]);
        let mut blocks: Vec<Block> = Vec::new();
        let mut add = |perturbation: Option<&Perturbation>| {
            let (rest, counts) = length(perturbation);
            let begin = blocks.last().map_or(0, |block| block.end);
            let (measured, end) = (begin + rest, begin + rest + counts);
            blocks.push(Block { perturbation: perturbation.cloned(), begin, measured, end });
        };
        for _ in 0..rounds {
            let mut order: Vec<&Perturbation> = perturbations.iter().collect();
            while !order.is_empty() {
                let next = order.swap_remove(random.below(order.len() as u64) as usize);
                add(None);
                add(Some(next));
            }
            (perturbations.len()..untouched_of(perturbations.len())).for_each(|_| add(None));
        }
        add(None);
        blocks
    }
}

/// Samples of a level in the fewest rounds, in which so many are slowed and so many samples of each block count.
pub fn fewest_samples(perturbations: usize, measured: u16) -> usize {
    let (slowed, untouched) = (usize::from(REST + measured), usize::from(REST_AFTER + measured));
    FEWEST_ROUNDS * (perturbations * slowed + untouched_of(perturbations) * untouched) + untouched
}

/// Untouched blocks of a round in which so many are slowed. Of a single one, two blocks would share the untouched one between them, and
/// their effects would not be independent.
fn untouched_of(perturbations: usize) -> usize {
    if perturbations == 1 { 2 } else { perturbations }
}
