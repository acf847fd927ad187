//! What an argument about limits rests on, beside the effects of slowing the parts.

use super::effect::{self, PROCESSORS, student};
use super::in_turn::InTurn;
use super::{Part, Path};
use crate::dissection::{DissectionSummary, Occupation};
use crate::{level, usage};
use plimsoll_model::experiment::{Means, Stage};
use plimsoll_model::record::{ComponentUsage, LevelRecord, RunRecord};
use plimsoll_model::text::grouped;
use plimsoll_model::{Counts, Nanos};
use std::collections::BTreeMap;
use std::ops::Range;

/// What it uses of a processor, or of its processors, from which on a part computes all the time.
const FULL: f64 = 0.85;
/// Share of the time for which a quota must keep a component from running to be what limits it.
const THROTTLED: f64 = 0.1;
/// Processors of which so much is used are full, and of more than which they are not the same for all.
const FULL_PROCESSORS: Range<f64> = 0.9..1.05;

/// By so much the throughput may differ between two times that are compared.
const UNSTEADY: f64 = 0.1;

/// What processes of the host may wait for beside processors: as the observer names it, and for people.
const RESOURCES: [(&str, &str); 2] = [("io", "a disk"), ("memory", "memory")];

/// What is known beside the parts.
#[derive(Default)]
pub struct Evidence<'a> {
    pub parts: &'a [Part],
    /// The paths that were delayed.
    pub paths: &'a [Path],
    /// Components that were stopped in turn.
    pub in_turn: &'a [InTurn],
    /// Parts that were to be slowed, and of which no effect is known.
    pub missing: Vec<String>,
    /// By component: what it used while nothing was slowed.
    pub used: BTreeMap<String, Used>,
    /// Processors that all components may run on; `None` where that is not known, or where they differ.
    pub processors: Option<f64>,
    /// Most that a load thread used of its processor meanwhile.
    pub generator: Option<f64>,
    /// Share of the time for which the subscribers worked on messages meanwhile, each on one at a time.
    pub subscribers_work: f64,
    /// Whether what they acknowledge comes late by an emulated network.
    pub subscribers_acknowledge_late: bool,
    /// Share of operations that were refused meanwhile.
    pub refused: f64,
    /// The same while a part was slowed, by its name.
    pub refused_while: Vec<(String, f64)>,
    /// The same of one operation at a time.
    pub refused_alone: f64,
    /// Share of operations that never came to their end meanwhile, and occupied their place until they were given up.
    pub unended: f64,
    /// Most of its time that the host kept from a load thread meanwhile.
    pub kept_from_generator: f64,
    /// Operations per second meanwhile.
    pub capacity: f64,
    /// Operations per second in the level in which it was read what components used; `None` where that is not known.
    pub capacity_when_read: Option<f64>,
    /// Who was occupied by itself meanwhile, by a capture.
    pub occupations: &'a [Occupation],
    /// Mean seconds that a message alone stays in each component, by a capture.
    pub stays: BTreeMap<&'a str, f64>,
    /// Whether there is a capture.
    pub is_captured: bool,
    /// Share of the time in which some process of the host waited for something that is no processor, while nothing was slowed.
    pub pressure: Vec<(&'static str, f64)>,
}

/// What a component used while nothing was slowed, in processors on average.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// All its threads together.
    pub processor: f64,
    /// Half of the width of the 95 % interval of that, over readings.
    pub processor_half: f64,
    pub thread: Option<f64>,
    /// Threads that waited for a processor, on average.
    pub waits: f64,
    /// The part of that for which processes outside the platform held the processor.
    pub held_by_others: f64,
    /// The process that held it most, where that is known.
    pub holder: Option<String>,
    /// Share of the time for which its quota kept it from running.
    pub throttled: f64,
    /// Processors that it may run on.
    pub processors: Option<f64>,
    /// Which these are, as the kernel lists them.
    pub processor_list: Option<String>,
}

impl Used {
    /// Whether its quota kept it from running.
    pub fn is_throttled(&self) -> bool {
        self.throttled > THROTTLED
    }

    /// Whether its busiest thread had a processor all the time.
    pub fn has_full_thread(&self) -> bool {
        self.thread.is_some_and(|thread| thread > FULL)
    }

    /// Whether it computes all the time. A thread that wants to and has no processor does not wait for anything else.
    pub fn computes(&self) -> bool {
        let of_all = self.processors.map(|processors| self.processor / processors);
        let busiest = self.thread.unwrap_or(self.processor);
        // Of what all threads waited, it has its part.
        let thread = busiest + (self.waits * busiest / self.processor.max(busiest).max(1e-9)).min(1.0);
        thread > FULL || of_all.is_some_and(|share| share > FULL)
    }
}

/// The level in which it is read what components use: readings of a second would mix blocks of those behind it. The last of several has
/// about as many operations in flight as these.
pub fn saturated(record: &RunRecord) -> Option<&LevelRecord> {
    record.experiment.iter().rfind(|level| level.start.stage() == Some(Stage::Saturated))
}

impl<'a> Evidence<'a> {
    pub fn of(
        (parts, paths, in_turn, capacity): (&'a [Part], &'a [Path], &'a [InTurn], f64),
        used: BTreeMap<String, Used>,
        levels: &[&LevelRecord],
        record: &RunRecord,
        dissection: Option<&'a DissectionSummary>,
    ) -> Evidence<'a> {
        let saturated = saturated(record);
        let is_alone = |level: &&LevelRecord| level.start.stage() == Some(Stage::Alone);
        let phase_of = |level: Option<&LevelRecord>| {
            let name = level::phase(&level?.start);
            dissection?.phases.iter().find(|phase| phase.name == name)
        };
        let captured = phase_of(saturated);
        let of_alone = phase_of(record.experiment.iter().find(is_alone));
        let stays = of_alone.iter().flat_map(|phase| &phase.traces.residences);
        let stays = stays.filter_map(|hop| Some((hop.component.as_str(), hop.times.mean?))).collect();
        let pressure = |(quantity, what): (&str, &'static str)| {
            let span = usage::hold(&saturated?.start);
            let own = record
                .gauges
                .iter()
                .filter(|gauge| gauge.sampler == "pressure" && gauge.quantity == quantity);
            let within = own.filter(|gauge| span.contains(&gauge.at.as_secs_f64()));
            let (count, sum) =
                within.fold((0.0, 0.0), |(count, sum), gauge| (count + 1.0, sum + gauge.value));
            (count > 0.0).then(|| (what, sum / count))
        };
        let blocks = levels.iter().flat_map(|level| level.start.blocks());
        let mut missing: Vec<String> = blocks
            .filter_map(|block| block.perturbation.as_ref())
            .filter(|wanted| !wanted.in_turn)
            .filter(|wanted| !parts.iter().any(|part| part.components == wanted.components))
            .map(|wanted| named(&wanted.components))
            .collect();
        missing.sort();
        missing.dedup();
        let untouched = |level: &&LevelRecord| {
            let untouched = level.start.blocks().iter().filter(|block| block.perturbation.is_none());
            untouched.flat_map(|block| block.measured..block.end).collect::<Vec<u16>>()
        };
        let mut threads: BTreeMap<u16, [f64; 3]> = BTreeMap::new();
        let (mut counts, mut of_untouched, mut seconds) = (Counts::default(), Counts::default(), 0.0);
        for level in levels {
            let samples = untouched(level);
            for usage in level.threads.iter().filter(|usage| samples.contains(&usage.sample)) {
                let of = [usage.cpu, usage.run_delay + usage.steal, usage.wall].map(Nanos::as_secs_f64);
                let sums = threads.entry(usage.thread).or_default();
                sums.iter_mut().zip(of).for_each(|(sum, own)| *sum += own);
            }
            seconds += effect::seconds(level, samples.len());
            let seen = samples.iter().filter_map(|&sample| level.samples.get(usize::from(sample))?.as_ref());
            seen.for_each(|sample| of_untouched += sample.counts);
            // What is lost while a component is slowed leaves its place empty for long. Of a level that was cut off, operations were
            // under way.
            let is_whole = level.samples.iter().flatten().count() == usize::from(level.start.samples);
            level.samples.iter().flatten().filter(|_| is_whole).for_each(|sample| counts += sample.counts);
        }
        let samples =
            record.experiment.iter().filter(is_alone).flat_map(|level| level.samples.iter().flatten());
        let mut alone = Counts::default();
        samples.for_each(|sample| alone += sample.counts);
        let most = |of: fn(&[f64; 3]) -> f64| {
            let threads = threads.values().filter(|[.., wall]| *wall > 0.0);
            threads.map(|own| of(own) / own[2]).reduce(f64::max)
        };
        let delivered = of_untouched.delivered as f64 / f64::from(record.terms.subscribers.max(1));
        let work = delivered * record.terms.subscriber_work.as_secs_f64();
        Evidence {
            parts,
            paths,
            in_turn,
            missing,
            processors: processors_of(&used),
            used,
            generator: most(|[cpu, ..]| *cpu),
            kept_from_generator: most(|[_, kept, _]| *kept).unwrap_or(0.0),
            capacity,
            capacity_when_read: saturated.and_then(|level| effect::untouched(level).first().copied()),
            occupations: captured.map_or(&[], |phase| phase.occupations.as_slice()),
            stays,
            is_captured: dissection.is_some(),
            pressure: RESOURCES.into_iter().filter_map(pressure).collect(),
            subscribers_work: if seconds > 0.0 { work / seconds } else { 0.0 },
            subscribers_acknowledge_late: record.terms.subscribers_acknowledge_late,
            refused: share(of_untouched.refused, of_untouched.due),
            refused_alone: share(alone.refused, alone.due),
            refused_while: refused_while(levels),
            unended: unended(&counts, record.terms.acknowledges()),
        }
    }

    /// Two components that were slowed together.
    pub fn pair(&self, components: &[String]) -> Option<&'a Part> {
        let is_theirs = |part: &&Part| {
            part.components.len() == 2 && part.components.iter().all(|name| components.contains(name))
        };
        self.parts.iter().find(is_theirs)
    }

    /// Some components that were stopped in turn.
    pub fn in_turn(&self, members: &[&Part]) -> Option<&'a InTurn> {
        let is_theirs = |own: &&InTurn| {
            let is_member = |name: &String| members.iter().any(|part| part.components == [name.clone()]);
            own.components.len() == members.len() && own.components.iter().all(is_member)
        };
        self.in_turn.iter().find(is_theirs)
    }

    /// Each component that was slowed by itself.
    pub fn single(&self) -> impl Iterator<Item = &'a Part> {
        self.parts.iter().filter(|part| part.components.len() == 1)
    }

    /// The processors of the platform.
    pub fn shared(&self) -> Option<&'a Part> {
        self.parts.iter().find(|part| part.means == Means::Occupy)
    }

    /// For which part of the time each component waits for a processor.
    pub fn waits(&self) -> Waits {
        waits_of(&self.used)
    }

    pub fn used_by(&self, part: &Part) -> Option<Used> {
        self.used.get(part.components.first()?).cloned()
    }

    /// Whether the platform was as fast when it was read what components used as it is between slowdowns: one that still warms up
    /// computes more than later.
    pub fn is_steady(&self) -> bool {
        self.capacity_when_read.is_none_or(|then| is_near(then, self.capacity))
    }

    /// The same as a clause for people, where it was not.
    pub fn unsteady_in_words(&self) -> Option<String> {
        let then = self.capacity_when_read.filter(|_| !self.is_steady())?;
        Some(format!(
            "against it: {} operations/s while it was read what it uses, and {} later",
            grouped(then.round()),
            grouped(self.capacity.round())
        ))
    }

    /// Whether the components use all processors that they may run on, and these are the same for all.
    pub fn processors_are_full(&self) -> bool {
        are_full(&self.used)
    }

    /// What all components used of the processors.
    pub fn all_used(&self) -> f64 {
        all(&self.used)
    }
}

/// A part of a whole; nothing of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// The share of operations, or of what several subscribers should have got of them, that never came. What the generator itself did not
/// send is no loss of the platform.
fn unended(counts: &Counts, acknowledges: bool) -> f64 {
    let expected = counts.expected_deliveries.saturating_sub(counts.superseded);
    let missing = share(expected.saturating_sub(counts.delivered), expected);
    let answered = counts.acknowledged.saturating_add(counts.refused).saturating_add(counts.unsent);
    let unanswered = if acknowledges { share(counts.due.saturating_sub(answered), counts.due) } else { 0.0 };
    missing.max(unanswered)
}

/// The share of operations that were refused while each part was slowed.
fn refused_while(levels: &[&LevelRecord]) -> Vec<(String, f64)> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    for level in levels {
        for block in level.start.blocks() {
            let Some(slowed) = &block.perturbation else { continue };
            let seen =
                (block.measured..block.end).filter_map(|at| level.samples.get(usize::from(at))?.as_ref());
            let sum = all.entry(named(&slowed.components)).or_default();
            seen.for_each(|sample| *sum += sample.counts);
        }
    }
    all.into_iter().map(|(name, counts)| (name, share(counts.refused, counts.due))).collect()
}

/// What a part that is slowed is called.
fn named(components: &[String]) -> String {
    if components.is_empty() { PROCESSORS.to_owned() } else { components.join(" and ") }
}

/// Whether the platform was as fast when it was read what components used as it is now.
pub fn is_near(then: f64, now: f64) -> bool {
    (then / now - 1.0).abs() <= UNSTEADY
}

/// For which part of the time components wait for a processor, all threads of one together, by their names.
pub type Waits = BTreeMap<String, f64>;

/// The same of what components used.
pub fn waits_of(used: &BTreeMap<String, Used>) -> Waits {
    used.iter().map(|(name, used)| (name.clone(), used.waits)).collect()
}

/// What each component used in the hold of a level in which nothing was slowed.
pub fn used_in(level: &LevelRecord, components: &[ComponentUsage]) -> BTreeMap<String, Used> {
    let span = usage::hold(&level.start);
    let used = |name: &str| {
        let mean = |of: fn(&ComponentUsage) -> Option<Nanos>| usage::share(components, name, &span, of);
        let own = components.iter().filter(|usage| usage.component == name);
        let is_whole = |usage: &&ComponentUsage| {
            usage.window > Nanos::ZERO && usage::overlap(usage, &span) > 0.99 * usage.window.as_secs_f64()
        };
        let readings = own.clone().filter(is_whole);
        let readings: Vec<f64> =
            readings.map(|usage| usage.cpu.as_secs_f64() / usage.window.as_secs_f64()).collect();
        Some(Used {
            processor: mean(|usage| Some(usage.cpu))?,
            processor_half: student(&readings).map_or(0.0, |interval| (interval.hi - interval.lo) / 2.0),
            thread: mean(|usage| usage.busiest_thread),
            waits: mean(|usage| usage.run_delay).unwrap_or(0.0),
            held_by_others: mean(|usage| usage.held_by_others).unwrap_or(0.0),
            holder: usage::holder(components, name, &span),
            throttled: mean(|usage| Some(usage.throttled)).unwrap_or(0.0),
            processors: own.clone().filter_map(|usage| usage.processors).max().map(f64::from),
            processor_list: own.filter_map(|usage| usage.processor_list.clone()).max(),
        })
    };
    usage::names(components).into_iter().filter_map(|name| Some((name.to_owned(), used(name)?))).collect()
}

/// Whether components use all processors that they may run on, and these are the same for all.
pub fn are_full(used: &BTreeMap<String, Used>) -> bool {
    processors_of(used).is_some_and(|processors| FULL_PROCESSORS.contains(&(all(used) / processors)))
}

/// How many processors all may run on; `None` where that is not known, and where these are not the same for all.
pub fn processors_of(used: &BTreeMap<String, Used>) -> Option<f64> {
    // Runs of earlier versions recorded the number alone.
    if used.values().any(|used| used.processor_list.is_some()) {
        common(used.values().filter_map(|used| used.processor_list.clone()))?;
    }
    common(used.values().filter_map(|used| used.processors))
}

fn all(used: &BTreeMap<String, Used>) -> f64 {
    used.values().map(|used| used.processor).sum()
}

/// The value that all have in common.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
