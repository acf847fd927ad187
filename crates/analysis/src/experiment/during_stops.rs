//! What comes to its end while a component is stopped. Many operations wait in front of whoever limits, so that it goes on for a while
//! when another one before it is stopped. Not so where few operations can be between the two: then nothing goes on. And where both need
//! something that only one has at a time, nothing goes on in the stops that came while it was held, and all does in the others.

use plimsoll_model::experiment::{Block, Means, Perturbation};
use plimsoll_model::record::LevelRecord;
use plimsoll_stats::proportion::wilson;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::iter::Sum;
use std::ops::Range;

/// Parts of what usually comes to its end in the time of a stop: below the first, nothing goes on but what is behind the component;
/// below the second little, and above the third nearly all.
const NOTHING: f64 = 0.12;
const LITTLE: f64 = 0.35;
const NEARLY_ALL: f64 = 0.7;
/// With fewer operations than that in a stop, that nothing ends may be chance.
const FEWEST: f64 = 16.0;
/// What waits in front of whoever limits is used up by stops that leave less than that to a component.
const MOST_OF_TIME: f64 = 0.45;
/// Where something is held, each of both kinds of stops is surely more than this share of all, and what lies between less than that:
/// a queue that two equal limits have between them has any length.
const EACH: f64 = 0.1;
const BETWEEN: f64 = 0.4;
/// Where each has a limit of its own, little or nothing goes on in less than this share of the stops of one: what waits between them is
/// less than that of so little in 17 %, since twice the operations of a stop are in flight.
const RARELY: f64 = 0.5;
/// Where few can be between, more than little goes on in less than this share of the stops.
const SELDOM: f64 = 0.25;
/// The share of stops that is no chance.
const BY_CHANCE: f64 = 0.03;
/// A platform that is silent in so many of the untouched samples is so by itself.
const BY_ITSELF: f64 = 0.03;

/// Stops that were few and long, by the part of the usual operations that came to their end meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DuringStops {
    /// How many.
    pub stops: u64,
    /// Less than 12 % of the usual number.
    pub silent: u64,
    /// More than that, and up to 35 %.
    pub little: u64,
    /// At least 70 %.
    pub nearly_all: u64,
}

impl Sum for DuringStops {
    fn sum<I: Iterator<Item = DuringStops>>(all: I) -> DuringStops {
        all.fold(DuringStops::default(), |sum, own| DuringStops {
            stops: sum.stops + own.stops,
            silent: sum.silent + own.silent,
            little: sum.little + own.little,
            nearly_all: sum.nearly_all + own.nearly_all,
        })
    }
}

impl DuringStops {
    /// Counts stops by what came to its end in each.
    pub fn count(stops: &[Vec<f64>]) -> DuringStops {
        let parts = || stops.iter().map(|stop| mean(stop));
        let within = |range: Range<f64>| parts().filter(|part| range.contains(part)).count() as u64;
        DuringStops {
            stops: stops.len() as u64,
            silent: within(f64::NEG_INFINITY..NOTHING),
            little: within(NOTHING..LITTLE),
            nearly_all: within(NEARLY_ALL..f64::INFINITY),
        }
    }

    /// Whether nothing surely went on in some stops, and nearly all in others.
    pub fn is_sometimes(self) -> bool {
        wilson(self.silent, self.stops).lo > EACH
            && wilson(self.nearly_all, self.stops).lo > EACH
            && self.is_all_or_nothing()
    }

    /// Whether nearly all surely went on in some stops, and little in hardly any: what somebody has decides, and no queue of any length.
    pub fn passes_or_halts(self) -> bool {
        wilson(self.nearly_all, self.stops).lo > BY_CHANCE && self.is_all_or_nothing()
    }

    fn is_all_or_nothing(self) -> bool {
        let between = self.stops - self.silent - self.nearly_all;
        wilson(between, self.stops).hi < BETWEEN
    }

    /// Whether nothing went on in more stops than a queue leaves: the one between two equal limits has any length, and is empty enough at
    /// the beginning of 6 % of the stops, since twice the operations of a stop are in flight.
    pub fn halts_beyond_a_queue(self) -> bool {
        wilson(self.silent, self.stops).lo > EACH
    }

    /// Whether nothing went on in more stops than by chance.
    pub fn sometimes_halts(self) -> bool {
        wilson(self.silent, self.stops).lo > BY_CHANCE
    }

    /// Whether much surely went on in most stops, as where a queue is behind the component.
    pub fn mostly_passes(self) -> bool {
        wilson(self.silent, self.stops).hi < SELDOM
            && wilson(self.silent + self.little, self.stops).hi < RARELY
    }

    /// Whether surely no more than little goes on.
    pub fn always_halts(self) -> bool {
        wilson(self.stops - self.silent - self.little, self.stops).hi < SELDOM
    }

    /// For people.
    pub fn in_words(self, name: &str) -> String {
        let DuringStops { stops, silent, little, nearly_all } = self;
        if self.always_halts() {
            return format!(
                "in {} of {stops} stops of {name} hardly anything came to its end meanwhile",
                silent + little
            );
        }
        format!(
            "in {silent} of {stops} stops of {name} nothing came to its end meanwhile, and in {nearly_all} nearly all went on"
        )
    }
}

/// The stops of a component in the part of a block that counts, in which it is the one at that place: what came to its end in each sample of
/// them, as a multiple of what usually does. None where they are too short or too many to show anything.
pub fn of(level: &LevelRecord, block: &Block, perturbation: &Perturbation, place: usize) -> Vec<Vec<f64>> {
    let sample = level.start.hold.0 as f64 / f64::from(level.start.samples.max(1));
    let cycle = (perturbation.cycle().0 as f64 / sample).round();
    let is_long = perturbation.stop.0 as f64 > 1.5 * sample;
    let (usual, by_itself) = usual(level);
    if perturbation.means != Means::Stop
        || perturbation.share > MOST_OF_TIME
        || !is_long
        || usual * perturbation.stop.0 as f64 / sample < FEWEST
        || by_itself > BY_ITSELF
    {
        return Vec::new();
    }
    let length = (perturbation.stop.0 as f64 / sample).round() as u16;
    let first = block.measured + if perturbation.in_turn { length * place as u16 } else { 0 };
    let begins = (first..block.end).step_by(cycle.max(1.0) as usize);
    let whole = begins.filter(|begin| begin + length <= block.end);
    let part = |sample| Some(ended(level, sample)? / usual);
    whole.filter_map(|begin| (begin..begin + length).map(part).collect()).collect()
}

/// What came to its end in the second sample of those stops in which anything did then, as a multiple of what usually does. In the first one,
/// what something else held back until then may come at once.
pub fn speeds(stops: &[Vec<f64>]) -> impl Iterator<Item = f64> {
    stops.iter().filter_map(|stop| stop.get(1).copied()).filter(|speed| *speed >= NOTHING)
}

fn mean(stop: &[f64]) -> f64 {
    stop.iter().sum::<f64>() / stop.len().max(1) as f64
}

/// Operations that usually end in a sample, and the share of silent samples, while nothing is slowed.
fn usual(level: &LevelRecord) -> (f64, f64) {
    let untouched = level.start.blocks().iter().filter(|block| block.perturbation.is_none());
    let all: Vec<f64> = untouched
        .flat_map(|block| block.measured..block.end)
        .filter_map(|sample| ended(level, sample))
        .collect();
    let count = all.len().max(1) as f64;
    let usual = all.iter().sum::<f64>() / count;
    let silent = all.iter().filter(|ended| **ended < NOTHING * usual).count() as f64;
    (usual, silent / count)
}

/// Operations that ended in a sample.
fn ended(level: &LevelRecord, sample: u16) -> Option<f64> {
    let counts = level.samples.get(usize::from(sample))?.as_ref()?.counts;
    Some(counts.due.saturating_sub(counts.refused) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::experiment::{ExperimentLevel, Stage};
    use plimsoll_model::record::{LevelStart, SampleRecord};
    use plimsoll_model::{Counts, Nanos};

    /// The stops of a block with one of two samples in each ten; so many operations ended in each of these two.
    fn stops(of_stops: &[u64], untouched: u64) -> Vec<Vec<f64>> {
        let perturbation = Perturbation::new(vec!["a".into()], Means::Stop, 0.2, Nanos::from_millis(200));
        let length = 10 * of_stops.len() as u16;
        let block =
            Block { perturbation: Some(perturbation.clone()), begin: 10, measured: 10, end: 10 + length };
        let blocks = vec![Block { perturbation: None, begin: 0, measured: 0, end: 10 }, block.clone()];
        let start = LevelStart {
            hold: Nanos::from_millis(100) * i64::from(10 + length),
            samples: 10 + length,
            experiment: Some(ExperimentLevel::new(Stage::Small, blocks)),
            ..LevelStart::default()
        };
        let sample = |due| {
            Some(SampleRecord { counts: Counts { due, ..Counts::default() }, ..SampleRecord::default() })
        };
        let stop =
            |ended: &u64| (0..10).map(|at| sample(if at < 2 { *ended } else { 20 })).collect::<Vec<_>>();
        let mut samples: Vec<_> = (0..10).map(|_| sample(untouched)).collect();
        samples.extend(of_stops.iter().flat_map(stop));
        of(&LevelRecord { start, samples, ..LevelRecord::default() }, &block, &perturbation, 0)
    }

    fn seen(of_stops: &[u64], untouched: u64) -> DuringStops {
        DuringStops::count(&stops(of_stops, untouched))
    }

    #[test]
    fn stops_that_are_silent_sometimes_are_told_from_those_that_always_or_never_are() {
        let half: Vec<u64> = (0..30).map(|stop| if stop % 2 == 0 { 1 } else { 22 }).collect();
        assert_eq!(seen(&half, 20), DuringStops { stops: 30, silent: 15, little: 0, nearly_all: 15 });
        assert!(seen(&half, 20).is_sometimes() && !seen(&half, 20).always_halts());
        assert!(!seen(&[20; 30], 20).is_sometimes() && !seen(&[20; 30], 20).always_halts());
        assert!(seen(&[5; 30], 20).always_halts() && !seen(&[5; 30], 20).is_sometimes());
        assert!(
            !seen(&[0, 20, 0], 20).is_sometimes() && !seen(&[0; 3], 20).always_halts(),
            "too few to be sure"
        );
        assert_eq!(seen(&half, 2).stops, 0, "so few operations are silent by chance");
        // Two equal limits have a queue of any length between them.
        let any: Vec<u64> = (0..40).map(|stop| stop % 21).collect();
        assert!(!seen(&any, 20).is_sometimes() && !seen(&any, 20).always_halts());
    }

    #[test]
    fn what_went_on_in_a_stop_shows_how_fast_the_others_are() {
        let burst = [vec![4.0, 0.0, 0.0], vec![0.0; 3], vec![1.5, 1.4, 0.2]];
        assert_eq!(speeds(&burst).collect::<Vec<f64>>(), [1.4], "what was held back before comes at once");
    }
}
