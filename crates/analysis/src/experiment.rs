//! What an experiment says: how much of the throughput each part of the platform decides, which one limits it, and what a faster
//! one would buy. The elasticity of a part is its part of the time of an operation, by what an operation takes longer when the part
//! is slowed: 1 where throughput falls and rises as its speed does, 0 where it does not depend on it (docs/why.md).
//!
//! Doses come in four kinds. Many long stops tell what a part allows by itself, whether it computes or waits. A few long stops tell
//! whether it limits at present, or only would if it were that slow. Stops that are short beside an operation slow what computes,
//! and leave a lock or a place in a pool with others meanwhile. Stops of medium length outlast an operation, but not what other
//! components have in hand: they separate who limits from those who feed it.

mod argument;
mod during_stops;
pub mod effect;
mod evidence;
mod forecast;
mod in_turn;
pub mod latency;
pub(crate) mod observed;
mod path;
mod questions;

use crate::dissection::DissectionSummary;
use crate::limits::{Limit, LimitKind};
use effect::Effect;
use evidence::Used;
use observed::Observed;
use plimsoll_model::experiment::{Means, Stage};
use plimsoll_model::record::{Gauge, LevelRecord, RunRecord, Terms};
use plimsoll_model::{Metric, Nanos, Verdict};
use plimsoll_stats::Interval;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

pub use argument::EXCLUDED;
pub use during_stops::DuringStops;
pub use evidence::Waits;
pub use forecast::Faster;
pub use in_turn::InTurn;
pub use latency::{Latency, LatencyPart};
pub use path::Path;
pub use questions::{
    all_contenders, compute_all_the_time, contenders, excluded_by_medium_stops, limited_by_path, open,
    open_by_medium_stops, open_in_turn, open_processors, open_without_small_dose, processors_limit,
    several_surely_contend, share_something, short_stops_tell, unsettled, used_up_quotas, waits_in,
};

/// A part whose elasticity is surely below this does not limit.
const NOTHING: f64 = 0.15;
/// A part whose elasticity under a large dose may be this could decide, alone or with others.
const CONTENDS: f64 = 0.5;
/// Half of the width of an interval with which an effect is known well enough.
const SETTLED: f64 = 0.085;
/// The same of a part that decides, by both doses.
const DECIDED: f64 = 0.065;
/// The same of processors that components share: the elasticity of each is a part of theirs, with an error of its own.
const SHARED: f64 = 0.06;
/// What is left of a wait when a stop begins, as a part of the longest wait that is possible, and half of the width of its 95 % interval.
/// Any wait up to that is equally probable, and so is any rest between half of it, as of waits that are all the same, and all of it, as of
/// exponential ones: mean 1/2 * 3/4, standard deviation 0.23 (JCGM 100:2008, 4.3.7 and 5.1).
const HIDDEN: f64 = 0.375;
const HIDDEN_SPREAD: f64 = 0.455;
/// Most of a stop that waits hide: stops are at least six times as long as an operation alone.
const MOST_HIDDEN: f64 = 1.0 / 6.0;
/// The same of medium stops, which are four times as long.
const MOST_HIDDEN_IN_MEDIUM: f64 = 0.25;
/// The length of stops that are short beside an operation.
pub const SHORT_STOP: Nanos = Nanos::from_millis(1);
/// Stops that are shorter than the longest ones by this factor are of another kind.
pub const SHORTER: i64 = 4;
/// With an elasticity of so much under a large dose, a part limits alone or nearly so.
const NEARLY_ALL: f64 = 0.8;

/// What was learned by slowing the parts of the platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Experiment {
    /// Operations per second of the untouched platform with many operations in flight.
    pub capacity: Estimate,
    /// Operations in flight meanwhile.
    pub in_flight: u32,
    /// Mean seconds of one operation alone; null where that was not measured.
    pub alone: Option<f64>,
    /// Length of each stop, in seconds.
    pub stop: f64,
    /// The parts, by their elasticity, the highest first.
    pub parts: Vec<Part>,
    /// The paths to components that may decide together, where relays stand before them.
    pub paths: Vec<Path>,
    /// Two components that may decide together, stopped one after the other; empty where that was not done.
    pub in_turn: Vec<InTurn>,
    /// What a faster limiting part would buy; empty where none is known.
    pub faster: Vec<Faster>,
    /// What a slower component does to the times that objectives look at, under a load that leaves room. Components that hardly compute
    /// are not in it.
    pub latencies: Vec<Latency>,
    /// Why there is no answer, or not the whole one, for people; empty where there is.
    pub open: Vec<String>,
}

/// A mean with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval; null with too few blocks.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    fn of(mean: f64, interval: Option<Interval>) -> Estimate {
        Estimate { mean, ci95: interval.map(|interval| [interval.lo, interval.hi]) }
    }

    /// The lower and the upper end; where there is no interval, nothing is excluded.
    fn ends(&self) -> [f64; 2] {
        self.ci95.unwrap_or([f64::NEG_INFINITY, f64::INFINITY])
    }

    fn times(&self, factor: f64) -> Estimate {
        Estimate { mean: self.mean * factor, ci95: self.ci95.map(|ends| ends.map(|end| end * factor)) }
    }
}

/// A component, the platform's processors, or several components that were slowed together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Part {
    /// The components; empty for the processors that all components share.
    pub components: Vec<String>,
    /// How it was slowed.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["stop", "quota", "occupy"])))]
    pub means: Means,
    /// The share of its time, or of its quota, that was taken in each stage.
    pub doses: Vec<f64>,
    /// Blocks in which it was slowed.
    pub blocks: usize,
    /// The elasticity of the platform's capacity to its speed.
    pub elasticity: Estimate,
    /// The same with stops that are short beside an operation; null where there were none.
    pub under_short_stops: Option<Estimate>,
    /// The same with stops of a few operations, which what others have in hand may outlast; null where there were none.
    pub under_medium_stops: Option<MediumStops>,
    /// The dose from which the elasticity follows.
    #[serde(skip)]
    dose: f64,
    /// The elasticity by the large dose of long stops.
    #[serde(skip)]
    by_large: Estimate,
    /// What a small dose of long stops did.
    #[serde(skip)]
    small: Option<SmallDose>,
    /// Its few long stops, by how much came to its end meanwhile.
    pub during_stops: DuringStops,
    /// Operations per second that it allows by itself; null where it was not seen to bound anything.
    pub capacity: Option<Estimate>,
    /// Operations per second that it allows at least.
    pub at_least: f64,
    /// Processors that it used on average while nothing was slowed; null where that was not read.
    pub used: Option<f64>,
}

/// A small dose, and the elasticity by it alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SmallDose {
    dose: f64,
    elasticity: Estimate,
}

/// The elasticity by stops of medium length, a small dose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MediumStops {
    /// Length of each, in seconds.
    pub stop: f64,
    /// The elasticity by them alone.
    pub elasticity: Estimate,
    #[serde(skip)]
    dose: f64,
}

impl MediumStops {
    /// Whether more of them could show that a part does not limit, or that it may.
    fn is_open(self) -> bool {
        let [lo, hi] = self.elasticity.ends();
        [NOTHING, CONTENDS].iter().any(|bound| lo < *bound && *bound < hi)
    }

    /// Whether the part may lose nothing by them.
    fn may_exclude(self) -> bool {
        self.elasticity.ends()[0] < NOTHING
    }
}

impl Part {
    /// Its name for people.
    pub fn name(&self) -> String {
        if self.components.is_empty() { "the processors".to_owned() } else { self.components.join(" and ") }
    }

    /// What it can do by itself at most, as a multiple of what the platform does, if it never has to wait for a processor, for which it
    /// waits for that part of the time at present: while another one is stopped, that one leaves it the processor.
    fn can(&self, capacity: f64, waits: f64) -> f64 {
        let can = self.capacity.map_or(f64::INFINITY, |own| own.ends()[1] / capacity);
        // Each operation takes 1 / can of the time in which the platform does one, and of that it waits for a processor.
        let without_waits = 1.0 / can - waits;
        if without_waits > 0.0 { 1.0 / without_waits } else { f64::INFINITY }
    }

    /// Corrects the elasticity of a stopped component for waits that go on in its stops, and widens its interval by what is not known of them.
    /// Where the component does not compute, its wait may be any part of an operation alone, which is given as a part of a stop.
    fn allow_for_waits(&mut self, alone: f64, used: &BTreeMap<String, Used>) {
        let ([name], Means::Stop) = (&self.components[..], self.means) else { return };
        let computes = used.get(name).map_or(0.0, |used| used.processor.min(1.0));
        let longest = (alone * (1.0 - computes)).clamp(0.0, MOST_HIDDEN);
        // By how much more it is slowed than it seems, where waits hide that part of each stop.
        let more = |hidden: f64| (1.0 - self.dose * (1.0 - hidden)) / ((1.0 - self.dose) * (1.0 - hidden));
        let middle = more(HIDDEN * longest);
        let room = more((HIDDEN + HIDDEN_SPREAD) * longest) - middle;
        let Estimate { mean, ci95 } = self.elasticity;
        let end = |end: f64| mean * middle + ((end - mean) * middle).hypot(room * mean).copysign(end - mean);
        self.elasticity = Estimate { mean: mean * middle, ci95: ci95.map(|ends| ends.map(end)) };
    }
}

impl Experiment {
    /// The components that were not slowed for latency.
    pub fn not_in_latencies(&self) -> Vec<&str> {
        let slowed = |name: &str| {
            self.latencies.iter().any(|latency| latency.parts.iter().any(|part| part.component == name))
        };
        let single = self.parts.iter().filter_map(|part| match part.components.as_slice() {
            [name] => Some(name.as_str()),
            _ => None,
        });
        single.filter(|name| !slowed(name)).collect()
    }

    /// Adds what was observed to what the experiment found, or to why it found nothing.
    pub(crate) fn confront(&mut self, limits: &mut [Limit], observed: &Observed<'_>) {
        for limit in limits.iter_mut() {
            limit.evidence.extend(observed.on(limit, self.capacity.mean));
        }
        if limits.is_empty() {
            self.open.extend(observed.stay(self.capacity.mean));
        }
    }

    /// The verdict on a run that is nothing but an experiment, and why.
    pub(crate) fn judge(&self, limits: &[Limit]) -> (Verdict, String) {
        let is_ours = |limit: &Limit| matches!(limit.kind, LimitKind::Generator | LimitKind::Subscribers);
        match limits {
            [] => (Verdict::Invalid, self.open.first().cloned().unwrap_or_default()),
            limits => {
                let at = Some(self.capacity.mean);
                let said: Vec<String> = limits.iter().map(|limit| limit.in_words(at)).collect();
                // What the platform can do was not seen then, as in a level that the generator bounds.
                let verdict = if limits.iter().any(is_ours) { Verdict::Invalid } else { Verdict::Met };
                (verdict, said.join("; "))
            }
        }
    }
}

/// How notes begin that say why an experiment slowed nothing, or not all that it was to slow.
pub const NOTHING_SLOWED: &str = "nothing was slowed";
/// See [`NOTHING_SLOWED`].
pub const ENDED_EARLY: &str = "the experiment ended early";

/// Why an experiment showed nothing, by the notes of its run.
pub(crate) fn why_nothing(notes: &[String]) -> String {
    let tells = |note: &&String| note.starts_with(NOTHING_SLOWED) || note.starts_with(ENDED_EARLY);
    notes.iter().rfind(tells).cloned().unwrap_or_else(|| NOTHING_SLOWED.to_owned())
}

/// The mean time of one operation alone, in seconds, in a level of one operation in flight.
pub fn alone(level: &LevelRecord, terms: &Terms) -> Option<f64> {
    let of = |metric: Metric| {
        let seen = level.samples.iter().flatten().filter_map(|sample| sample.histograms.get(&metric));
        let (count, sum) = seen.fold((0.0, 0.0), |(count, sum), seen| {
            let own = seen.count() as f64;
            (count + own, sum + own * seen.mean().unwrap_or(0.0))
        });
        (count > 0.0).then(|| sum / count / 1e9)
    };
    let acknowledged = of(Metric::PublishTime).filter(|_| terms.acknowledges());
    [acknowledged, of(Metric::SubscribeTime)].into_iter().flatten().reduce(f64::max)
}

/// Operations per second of a level in which nothing was slowed, or of its untouched blocks.
pub fn capacity(level: &LevelRecord) -> Option<f64> {
    let rates = effect::untouched(level);
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// The result of a run's experiment, and what limits, with what a capture of it says; `None` of a run without one.
pub fn of(record: &RunRecord, dissection: Option<&DissectionSummary>) -> Option<(Experiment, Vec<Limit>)> {
    let at = |stage: Stage| record.experiment.iter().find(|level| level.start.stage() == Some(stage));
    let large = at(Stage::Large)?;
    let slows = |level: &&LevelRecord| {
        matches!(level.start.stage(), Some(Stage::Large | Stage::Small | Stage::Delays))
    };
    let levels: Vec<&LevelRecord> = record.experiment.iter().filter(slows).collect();
    let rates: Vec<f64> =
        levels.iter().flat_map(|level| effect::untouched(level)).filter(|rate| *rate > 0.0).collect();
    if rates.is_empty() {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let interval = effect::student(&rates).map(|own| Interval { lo: own.lo.max(0.0), ..own });
    let capacity = Estimate::of(mean, interval);
    let mut parts = parts(&levels, &record.gauges, capacity);
    let alone = at(Stage::Alone).and_then(|level| alone(level, &record.terms));
    let stop = large.start.longest_stop().unwrap_or_default().as_secs_f64();
    let saturated = evidence::saturated(record);
    let used = saturated.map(|level| evidence::used_in(level, &record.components)).unwrap_or_default();
    if let (Some(alone), Some(_)) = (alone, saturated) {
        parts.iter_mut().for_each(|part| part.allow_for_waits(alone / stop, &used));
    }
    let in_flight = large.start.load.in_flight().unwrap_or_default();
    let paths = path::of(record, in_flight);
    let in_turn = in_turn::of(&levels, &record.gauges);
    let seen = (&parts[..], &paths[..], &in_turn[..], capacity.mean);
    let evidence = evidence::Evidence::of(seen, used, &levels, record, dissection);
    let argument = argument::argue(&evidence);
    let mut told = parts.clone();
    if argument.is_by_occupation {
        argument::share_occupation(&mut told, &argument.limits, &evidence);
    }
    let faster = forecast::of(&argument.limits, &told, capacity, &evidence);
    let used = evidence.used;
    let mut parts = told;
    let named = |part: &Part| {
        argument.limits.is_empty() || argument.limits.iter().any(|limit| limit.names(&part.components))
    };
    for part in &mut parts {
        part.used = match &part.components[..] {
            [name] => used.get(name).map(|used| used.processor),
            _ => None,
        };
        part.capacity = part.capacity.filter(|_| named(part) || !argument::stops_others(part));
    }
    if argument.processors_are_full {
        argument::share_processors(&mut parts, &used);
    }
    let experiment = Experiment {
        capacity,
        in_flight,
        alone,
        stop,
        parts,
        paths,
        in_turn,
        faster,
        latencies: latency::of(record),
        open: argument.open,
    };
    Some((experiment, argument.limits))
}

/// The highest elasticity first, by what it surely is.
fn sort(parts: &mut [Part]) {
    let order = |part: &Part| (part.elasticity.ends()[0], part.elasticity.mean);
    parts.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
}

/// The parts that were slowed in some levels, the highest elasticity first. What medium stops exclude has the elasticity of these.
fn parts(levels: &[&LevelRecord], doses: &[Gauge], capacity: Estimate) -> Vec<Part> {
    let effects: Vec<Effect> = effect::of(levels, doses);
    let longest = effects.iter().map(|effect| effect.stop).max().unwrap_or_default();
    let parts_of = |components: &[String]| {
        let own = || effects.iter().filter(|effect| effect.components == components);
        let is_shorter = |effect: &&Effect| effect.means == Means::Stop && effect.stop * SHORTER < longest;
        let is_short = |effect: &&Effect| is_shorter(effect) && effect.stop <= SHORT_STOP;
        let is_medium = |effect: &&Effect| is_shorter(effect) && !is_short(effect);
        let long = || own().filter(|effect| !is_shorter(effect));
        let large = long().max_by(|a, b| a.wanted.total_cmp(&b.wanted))?;
        let small =
            long().min_by(|a, b| a.wanted.total_cmp(&b.wanted)).filter(|small| small.wanted < large.wanted);
        let doses = Doses { large, small, short: own().find(is_short), medium: own().find(is_medium) };
        Some(part(&doses, capacity))
    };
    let mut slowed: Vec<&[String]> = effects.iter().map(|effect| effect.components.as_slice()).collect();
    slowed.sort();
    slowed.dedup();
    let mut parts: Vec<Part> = slowed.into_iter().filter_map(parts_of).collect();
    exclude_by_medium_stops(&mut parts, capacity);
    sort(&mut parts);
    parts
}

/// What each component can do by itself at most, as a multiple of what the platform does, by its name; from the parts of the time for which
/// components wait for a processor.
fn can(parts: &[Part], capacity: f64, waits: &Waits) -> impl Fn(&str) -> f64 {
    move |name| {
        let own = parts.iter().find(|part| part.components == [name.to_owned()]);
        own.map_or(f64::INFINITY, |part| part.can(capacity, waits.get(name).copied().unwrap_or(0.0)))
    }
}

/// The parts that are one component each.
fn single(parts: &[Part]) -> Vec<&Part> {
    parts.iter().filter(|part| part.components.len() == 1).collect()
}

/// Where medium stops show who decides alone: the long ones of the others last until that one has done what it had in hand, and show
/// nothing of them.
fn exclude_by_medium_stops(parts: &mut [Part], capacity: Estimate) {
    let single = single(parts);
    let Some(name) = argument::alone_by_medium_stops(&single).map(|own| own.components.clone()) else {
        return;
    };
    for part in parts {
        let Some(MediumStops { elasticity, dose, .. }) = part.under_medium_stops else { continue };
        if part.components != name {
            part.small = Some(SmallDose { dose, elasticity });
            // Waits may go on in a part of each stop.
            let surely = dose * (1.0 - MOST_HIDDEN_IN_MEDIUM);
            let most = elasticity.ends()[1].clamp(0.0, 1.0);
            part.at_least = part.at_least.max(capacity.mean / (1.0 - surely + most * dose));
            (part.elasticity, part.dose, part.capacity) = (elasticity, dose, None);
        }
    }
}

/// What both doses say of a part that decides, where the small one says what the large one does: the mean of both, each by its exactness.
/// An interval that is too wide agrees with anything, unless it excludes that the part does not decide.
fn agreed(small: &Effect, large: &Effect) -> Option<Estimate> {
    let (own, other) = (small.interval?, large.interval?);
    let is_known = own.hi - own.lo <= 2.0 * SETTLED || own.lo > argument::DECIDES;
    let agrees = (own.lo..=own.hi).contains(&large.elasticity) && is_known && large.elasticity > NEARLY_ALL;
    let weight = |interval: Interval| (interval.hi - interval.lo).max(1e-6).powi(-2);
    let (of_small, of_large) = (weight(own), weight(other));
    let mean = (small.elasticity * of_small + large.elasticity * of_large) / (of_small + of_large);
    let half = 0.5 / (of_small + of_large).sqrt();
    agrees.then_some(Estimate { mean, ci95: Some([mean - half, mean + half]) })
}

/// What the doses of a part did.
struct Doses<'a> {
    large: &'a Effect,
    small: Option<&'a Effect>,
    short: Option<&'a Effect>,
    medium: Option<&'a Effect>,
}

/// A part by its effects: the small dose goes before the large one, which can pass a bound that lies near.
fn part(&Doses { large, small, short, medium }: &Doses<'_>, capacity: Estimate) -> Part {
    let both = small.and_then(|small| agreed(small, large));
    let told = small.unwrap_or(large);
    let ends = Estimate::of(large.elasticity, large.interval).ends();
    let bounds = ends[0] > NOTHING / 2.0;
    // The lower the elasticity, the more the part allows.
    let allows = |elasticity: f64| large.capacity_at(elasticity) * capacity.mean;
    let own = Estimate {
        mean: allows(large.elasticity),
        ci95: large.interval.map(|interval| [allows(interval.hi), allows(interval.lo.max(0.0))]),
    };
    let long = [Some(large), small].into_iter().flatten();
    let all = || long.clone().chain(short).chain(medium);
    Part {
        components: large.components.clone(),
        means: large.means,
        doses: all().map(|effect| effect.dose).collect(),
        blocks: all().map(|effect| effect.blocks).sum(),
        elasticity: both.unwrap_or(Estimate::of(told.elasticity, told.interval)),
        under_short_stops: short.map(|short| Estimate::of(short.elasticity, short.interval)),
        under_medium_stops: medium.map(|medium| MediumStops {
            stop: medium.stop.as_secs_f64(),
            elasticity: Estimate::of(medium.elasticity, medium.interval),
            dose: medium.dose,
        }),
        dose: if both.is_some() { large.dose } else { told.dose },
        by_large: Estimate::of(large.elasticity, large.interval),
        small: small.map(|small| SmallDose {
            dose: small.dose,
            elasticity: Estimate::of(small.elasticity, small.interval),
        }),
        at_least: allows(ends[1].clamp(0.0, 1.0)),
        during_stops: long.chain(short).map(|effect| effect.during_stops).sum(),
        // Occupied processors leave to the components what these do not need by themselves.
        capacity: (bounds && large.means != Means::Occupy).then_some(own),
        used: None,
    }
}
