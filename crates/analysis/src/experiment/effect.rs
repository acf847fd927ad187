//! What became of the throughput when a part of the platform was slowed.

use super::during_stops::{self, DuringStops, speeds};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Block, Means, Perturbation};
use plimsoll_model::record::{Gauge, LevelRecord};
use plimsoll_stats::Interval;
use plimsoll_stats::student::quantile;
use std::ops::Range;

/// The sampler and the quantity by which delivered doses are recorded; the value is that of the block that ends then.
pub const DOSE: (&str, &str) = ("experiment", "dose");
/// The subject of the dose of the platform's processors.
pub const PROCESSORS: &str = "processors";
/// A dose below this share of the wanted one was none.
const DELIVERED: f64 = 0.25;
/// A relay whose delays are longer than so many times the wanted one is too busy to delay by what it should.
const MOST_DELAYED: f64 = 2.0;
/// From this share of the wanted dose on, all stops took place.
const ALL_STOPS: f64 = 0.9;

/// What slowing a part of the platform by one dose did, over all blocks with that.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The components; empty for the platform's processors.
    pub components: Vec<String>,
    /// By which means.
    pub means: Means,
    /// The dose that was wanted, as a share.
    pub wanted: f64,
    /// The length of each stop.
    pub stop: Nanos,
    /// Mean of the delivered doses, as shares.
    pub dose: f64,
    /// Blocks with it that had an untouched one beside them.
    pub blocks: usize,
    /// Throughput in such a block / throughput in the untouched ones beside it: the geometric mean.
    pub ratio: f64,
    /// The part of the time of each operation that the components decide: 1 where throughput falls as their speed does.
    pub elasticity: f64,
    /// Its 95 % interval, Student over blocks; `None` with fewer than two.
    pub interval: Option<Interval>,
    /// Its stops, where they are few and long, and those in which nothing went on.
    pub during_stops: DuringStops,
}

impl Effect {
    /// The throughput that these components alone allow, as a multiple of the untouched one, where it fell at all.
    pub fn capacity(&self) -> f64 {
        self.ratio / (1.0 - self.dose)
    }

    /// The same for another elasticity: that of an end of the interval.
    pub fn capacity_at(&self, elasticity: f64) -> f64 {
        let left = 1.0 - self.dose;
        1.0 / (left + elasticity * self.dose)
    }
}

/// Seconds of so many samples of a level.
pub fn seconds(level: &LevelRecord, samples: usize) -> f64 {
    level.start.hold.as_secs_f64() / f64::from(level.start.samples.max(1)) * samples as f64
}

/// Operations per second that came to a good end in a part of a hold; `None` where a sample is missing.
fn rate(level: &LevelRecord, samples: Range<u16>) -> Option<f64> {
    let seconds = seconds(level, samples.len());
    let counts = samples.map(|sample| {
        let sample = level.samples.get(usize::from(sample))?.as_ref()?;
        Some(sample.counts.due.saturating_sub(sample.counts.refused))
    });
    let ended: u64 = counts.sum::<Option<u64>>()?;
    (seconds > 0.0).then(|| ended as f64 / seconds)
}

/// Student's interval of the mean of values that do not depend on each other; `None` with fewer than two.
pub fn student(values: &[f64]) -> Option<Interval> {
    let n = values.len() as f64;
    let t = quantile(n - 1.0).filter(|_| values.len() >= 2)?;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t * (variance / n).sqrt();
    Some(Interval { lo: mean - half, hi: mean + half })
}

/// Operations per second in each untouched block of a level, or in its whole hold where it has no blocks.
pub fn untouched(level: &LevelRecord) -> Vec<f64> {
    let blocks = level.start.blocks();
    if blocks.is_empty() {
        return rate(level, 0..level.start.samples).into_iter().collect();
    }
    let untouched = blocks.iter().filter(|block| block.perturbation.is_none());
    untouched.filter_map(|block| rate(level, block.measured..block.end)).collect()
}

/// The effects of some levels, one for each perturbation.
pub fn of(levels: &[&LevelRecord], doses: &[Gauge]) -> Vec<Effect> {
    let mut seen: Vec<(Perturbation, Vec<Seen>)> = Vec::new();
    for level in levels {
        let slows = |(perturbation, _): &(Perturbation, Seen)| {
            perturbation.means != Means::Delay && !perturbation.in_turn
        };
        for (perturbation, one) in seen_in(level, doses).into_iter().filter(slows) {
            match seen.iter_mut().find(|(known, _)| *known == perturbation) {
                Some((_, all)) => all.push(one),
                None => seen.push((perturbation, vec![one])),
            }
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let of_one = |(perturbation, seen): (Perturbation, Vec<Seen>)| {
        let of = |value: fn(&Seen) -> f64| seen.iter().map(value).collect::<Vec<f64>>();
        let elasticities = of(Seen::elasticity);
        Effect {
            components: perturbation.components,
            means: perturbation.means,
            wanted: perturbation.share,
            stop: perturbation.stop,
            dose: mean(&of(|one| one.dose)),
            blocks: seen.len(),
            ratio: mean(&of(|one| one.change)).exp(),
            elasticity: mean(&elasticities),
            interval: student(&elasticities),
            during_stops: seen.iter().flat_map(|one| one.during_stops.iter().map(|stops| stops.counts)).sum(),
        }
    };
    seen.into_iter().map(of_one).collect()
}

/// What became of the throughput in one block.
pub struct Seen {
    /// The throughput of the untouched blocks beside it.
    baseline: f64,
    /// The logarithm of its throughput / that of the untouched blocks beside it.
    change: f64,
    /// The dose that was delivered.
    dose: f64,
    /// Its stops; of components that are stopped in turn, those of each.
    during_stops: Vec<Stops>,
}

/// The stops of a component in one block.
#[derive(Default)]
struct Stops {
    counts: DuringStops,
    speeds: Vec<f64>,
}

impl Seen {
    /// By how much an operation takes longer, for that by which what was slowed takes longer: the derivative of the logarithm of
    /// throughput by that of speed where the times of an operation at one part after the other add up.
    fn elasticity(&self) -> f64 {
        self.longer() / (1.0 / (1.0 - self.dose) - 1.0)
    }

    /// The stops of the component at that place.
    pub fn stops_of(&self, place: usize) -> DuringStops {
        self.during_stops.get(place).map(|stops| stops.counts).unwrap_or_default()
    }

    /// What came to its end in the second sample of its stops, as a multiple of what usually does, where anything did.
    pub fn speeds_in(&self, place: usize) -> impl Iterator<Item = f64> {
        self.during_stops.get(place).into_iter().flat_map(|stops| stops.speeds.iter().copied())
    }

    /// The part of the throughput that was lost, for the share of the time in which one of so many components was stopped in turn.
    pub fn lost_of(&self, components: usize) -> f64 {
        (1.0 - self.change.exp()) / (self.dose * components as f64)
    }

    /// By how much the time from the end of one operation to that of the next grew, as a part of it.
    pub fn longer(&self) -> f64 {
        (-self.change).exp() - 1.0
    }

    /// By how many seconds it grew for each second that what was delayed took longer there and back.
    pub fn longer_by(&self, each_way: Nanos) -> f64 {
        self.longer() / self.baseline / self.round_trip(each_way)
    }

    /// What the delay alone kept on its way at once, of operations that go there and back once.
    pub fn on_its_way(&self, each_way: Nanos) -> f64 {
        self.baseline * self.change.exp() * self.round_trip(each_way)
    }

    fn round_trip(&self, each_way: Nanos) -> f64 {
        2.0 * each_way.as_secs_f64() * self.dose
    }
}

/// What became of the throughput in each block of a level in which something was done.
pub fn seen_in(level: &LevelRecord, doses: &[Gauge]) -> Vec<(Perturbation, Seen)> {
    let blocks = level.start.blocks();
    let of = |block: &Block| rate(level, block.measured..block.end);
    let rates: Vec<Option<f64>> = blocks.iter().map(of).collect();
    let untouched = |place: Option<usize>| {
        let block = blocks.get(place?)?;
        (*rates.get(place?)?).filter(|rate| block.perturbation.is_none() && *rate > 0.0)
    };
    let one = |(place, block): (usize, &Block)| {
        let perturbation = block.perturbation.clone()?;
        let beside = [untouched(place.checked_sub(1)), untouched(Some(place + 1))];
        let beside: Vec<f64> = beside.into_iter().flatten().collect();
        // Where nothing ended, half an operation stands for it.
        let least = 0.5 / seconds(level, (block.measured..block.end).len()).max(1e-9);
        let rate = (*rates.get(place)?).filter(|_| !beside.is_empty())?.max(least);
        let baseline = beside.iter().sum::<f64>() / beside.len() as f64;
        let dose = delivered(level, block, &perturbation, doses)?;
        // Stops that did not take place would be those in which all went on.
        let is_whole = dose >= perturbation.share * ALL_STOPS;
        // What one of two lost would be taken for what both did.
        if perturbation.in_turn && !is_whole {
            return None;
        }
        let places = 0..if perturbation.in_turn { perturbation.components.len() } else { 1 };
        let of = |place| {
            let stops = during_stops::of(level, block, &perturbation, place);
            Stops { counts: DuringStops::count(&stops), speeds: speeds(&stops).collect() }
        };
        let during_stops = places.map(|place| if is_whole { of(place) } else { Stops::default() }).collect();
        Some((perturbation, Seen { baseline, change: (rate / baseline).ln(), dose, during_stops }))
    };
    blocks.iter().enumerate().filter_map(one).collect()
}

/// The dose that a block had: the least of its components, as recorded, or the wanted one of a run that recorded none. `None` where
/// hardly any was delivered.
pub fn delivered(level: &LevelRecord, block: &Block, wanted: &Perturbation, doses: &[Gauge]) -> Option<f64> {
    let end = level.start.hold_start + level.start.sample_begin(usize::from(block.end));
    let begin = level.start.hold_start + level.start.sample_begin(usize::from(block.measured));
    let of = |subject: &str| {
        let own = doses.iter().filter(|gauge| (gauge.sampler.as_str(), gauge.quantity.as_str()) == DOSE);
        let own = own.filter(|gauge| gauge.subject == subject && gauge.at > begin && gauge.at <= end);
        // A component may have several relays, not all of which are passed.
        own.map(|gauge| gauge.value).reduce(f64::max)
    };
    let any = doses.iter().any(|gauge| (gauge.sampler.as_str(), gauge.quantity.as_str()) == DOSE);
    let told = match wanted.components.as_slice() {
        _ if !any => Some(wanted.share),
        [] => of(PROCESSORS),
        components => components
            .iter()
            .map(|name| of(name))
            .collect::<Option<Vec<f64>>>()
            .and_then(|doses| doses.into_iter().reduce(f64::min)),
    };
    let most = if wanted.means == Means::Delay { MOST_DELAYED } else { 0.99 };
    told.filter(|dose| *dose >= wanted.share * DELIVERED && *dose < most)
}
