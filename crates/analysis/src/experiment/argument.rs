//! From the effects to what limits: a name is given only where each alternative was excluded by a test that is stated with it.

use super::{Estimate, NOTHING, Part};
use crate::limits::{Limit, LimitKind};
use crate::usage;
use plimsoll_model::experiment::{Means, Stage};
use plimsoll_model::record::{ComponentUsage, LevelRecord, RunRecord};
use plimsoll_model::{Counts, Nanos};
use std::collections::BTreeMap;
use std::ops::Range;

/// A part whose elasticity is surely above this decides the throughput, as far as noise lets one part be told from several.
const DECIDES: f64 = 0.6;
/// The elasticity of a part that decides alone may be so much.
const ALONE: f64 = 0.78;
/// A component that computes so much of all that is computed limits full processors by itself.
const MOST: f64 = 0.8;
/// Processors of which so much is used are full, and of more than which they are not the same for all.
const FULL_PROCESSORS: std::ops::Range<f64> = 0.9..1.05;
/// What it uses of a processor, or of its processors, from which on a part computes all the time.
const FULL: f64 = 0.85;
/// Threads that wait for a processor, from which on that is worth a word.
const WAITS: f64 = 0.1;
/// Share of the time for which a quota must keep a component from running to be what limits it.
const THROTTLED: f64 = 0.2;
/// Share of operations that were refused from which on a platform refuses because it has a limit.
const REFUSED: f64 = 0.02;
/// Share of operations without an end from which on their places are missing: fewer are in flight than it seems.
const UNENDED: f64 = 0.02;
/// An elasticity that is surely above this is more than a stop explains.
const TOO_MUCH: f64 = 1.25;
/// What a load thread uses of its processor from which on it is the generator that has no more to give.
const GENERATOR: f64 = 0.9;

/// What is known beside the parts.
pub struct Evidence<'a> {
    pub parts: &'a [Part],
    /// By component: what it used while nothing was slowed.
    pub used: BTreeMap<String, Used>,
    /// Processors that all components may run on; `None` where that is not known, or where they differ.
    pub processors: Option<f64>,
    /// Most that a load thread used of its processor meanwhile.
    generator: Option<f64>,
    /// Share of operations that were refused meanwhile.
    refused: f64,
    /// Share of operations that never came to their end meanwhile, and occupied their place until they were given up.
    unended: f64,
    /// Operations per second meanwhile.
    capacity: f64,
}

/// What a component used while nothing was slowed, in processors on average.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// All its threads together.
    pub processor: f64,
    thread: Option<f64>,
    /// Threads that waited for a processor, on average.
    waits: f64,
    /// Share of the time for which its quota kept it from running.
    throttled: f64,
    /// Processors that it may run on.
    processors: Option<f64>,
}

impl Used {
    /// Whether it computes all the time. A thread that wants to and has no processor does not wait for anything else.
    fn computes(&self) -> bool {
        let of_all = self.processors.map(|processors| self.processor / processors);
        let thread = self.thread.unwrap_or(self.processor) + self.waits.min(1.0);
        thread > FULL || of_all.is_some_and(|share| share > FULL)
    }
}

/// What limits, and what is open.
#[derive(Default)]
pub struct Argument {
    pub limits: Vec<Limit>,
    pub open: Vec<String>,
    /// Whether full processors limit.
    pub processors_are_full: bool,
}

/// When nothing was slowed in a level of an experiment, in seconds of the run's clock.
pub fn untouched_spans(level: &LevelRecord) -> Vec<Range<f64>> {
    let start = &level.start;
    let at = |sample: u16| (start.hold_start + start.sample_begin(usize::from(sample))).as_secs_f64();
    let blocks = start.experiment.iter().flat_map(|own| &own.blocks);
    blocks
        .filter(|block| block.perturbation.is_none())
        .map(|block| at(block.measured)..at(block.end))
        .collect()
}

impl<'a> Evidence<'a> {
    pub fn of(
        (parts, capacity): (&'a [Part], f64),
        levels: &[&LevelRecord],
        record: &RunRecord,
    ) -> Evidence<'a> {
        let saturated = record
            .experiment
            .iter()
            .filter(|level| level.start.experiment.as_ref().is_some_and(|own| own.stage == Stage::Saturated));
        let spans: Vec<Range<f64>> = saturated
            .map(|level| usage::hold(&level.start))
            .chain(levels.iter().flat_map(|level| untouched_spans(level)))
            .collect();
        let used = |name: &str| {
            let mean = |of: fn(&ComponentUsage) -> Option<Nanos>| {
                let shares = spans.iter().filter_map(|span| {
                    Some((usage::share(&record.components, name, span, of)?, span.end - span.start))
                });
                let (sum, time) =
                    shares.fold((0.0, 0.0), |(sum, time), (share, own)| (sum + share * own, time + own));
                (time > 0.0).then(|| sum / time)
            };
            Some(Used {
                processor: mean(|usage| Some(usage.cpu))?,
                thread: mean(|usage| usage.busiest_thread),
                waits: mean(|usage| usage.run_delay).unwrap_or(0.0),
                throttled: mean(|usage| Some(usage.throttled)).unwrap_or(0.0),
                processors: record
                    .components
                    .iter()
                    .filter(|usage| usage.component == name)
                    .filter_map(|usage| usage.processors)
                    .max()
                    .map(f64::from),
            })
        };
        let used: BTreeMap<String, Used> = usage::names(&record.components)
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), used(name)?)))
            .collect();
        let untouched = |level: &&LevelRecord| {
            let blocks = level.start.experiment.iter().flat_map(|own| &own.blocks);
            let untouched = blocks.filter(|block| block.perturbation.is_none());
            untouched.flat_map(|block| block.measured..block.end).collect::<Vec<u16>>()
        };
        let mut threads: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
        let mut counts = Counts::default();
        for level in levels {
            let samples = untouched(level);
            for usage in level.threads.iter().filter(|usage| samples.contains(&usage.sample)) {
                let (cpu, wall) = threads.entry(usage.thread).or_default();
                *cpu += usage.cpu.as_secs_f64();
                *wall += usage.wall.as_secs_f64();
            }
            let seen = samples.iter().filter_map(|&sample| level.samples.get(usize::from(sample))?.as_ref());
            seen.for_each(|sample| counts += sample.counts);
        }
        // A message that several receive is delivered more often than it is sent.
        let arrived = if counts.delivered > 0 { counts.delivered } else { counts.acknowledged };
        let known = counts.delivered > 0 || record.terms.acknowledges();
        let ended = if known { arrived.saturating_add(counts.refused) } else { counts.due };
        let share = |count: u64| if counts.due > 0 { count as f64 / counts.due as f64 } else { 0.0 };
        let generator = threads.values().filter(|(_, wall)| *wall > 0.0).map(|(cpu, wall)| cpu / wall);
        Evidence {
            parts,
            processors: common(used.values().filter_map(|used| used.processors)),
            used,
            generator: generator.reduce(f64::max),
            capacity,
            refused: share(counts.refused),
            unended: share(counts.due.saturating_sub(ended)),
        }
    }

    /// Each component that was slowed by itself.
    pub fn single(&self) -> impl Iterator<Item = &'a Part> {
        self.parts.iter().filter(|part| part.components.len() == 1)
    }

    /// The processors of the platform.
    pub fn shared(&self) -> Option<&'a Part> {
        self.parts.iter().find(|part| part.means == Means::Occupy)
    }

    fn used_by(&self, part: &Part) -> Option<Used> {
        self.used.get(part.components.first()?).copied()
    }

    /// Whether the components use all processors that they may run on, and these are the same for all.
    fn processors_are_full(&self) -> bool {
        self.processors.is_some_and(|processors| FULL_PROCESSORS.contains(&(self.all_used() / processors)))
    }

    /// What all components used of the processors.
    pub fn all_used(&self) -> f64 {
        self.used.values().map(|used| used.processor).sum()
    }
}

/// Makes the argument. Each rule excludes what the ones below it would say.
pub fn argue(evidence: &Evidence<'_>) -> Argument {
    let found = |limit| Argument { limits: vec![limit], ..Argument::default() };
    let unknown = |open: String| Argument { open: vec![open], ..Argument::default() };
    if evidence.unended > UNENDED {
        return unknown(format!(
            "{} of the operations never came to their end, and each occupied a place until it was given up: remove the \
             losses, or lower load.operation_timeout",
            percent(evidence.unended)
        ));
    }
    if let Some(part) = evidence.single().find(|part| part.elasticity.ends()[0] > TOO_MUCH) {
        return unknown(format!(
            "{}: it lost more than the stops explain, as where something has to be repeated after each",
            effect_in_words(part)
        ));
    }
    if let Some(shared) = evidence.shared().filter(|shared| decides(shared) && evidence.processors_are_full())
    {
        return Argument { processors_are_full: true, ..found(processors(shared, evidence)) };
    }
    let deciding: Vec<&Part> = evidence.single().filter(|part| decides(part)).collect();
    let may_decide = |part: &&Part| part.elasticity.ends()[1] > DECIDES;
    let contenders: Vec<&Part> = evidence.single().filter(may_decide).collect();
    if contenders.len() > 1
        && let Some(argument) = by_short_stops(&contenders, evidence)
    {
        return argument;
    }
    match deciding[..] {
        [own] => {
            let partly = partly(evidence);
            let others: Vec<String> =
                contenders.iter().filter(|part| **part != own).map(|part| part.name()).collect();
            if !partly.is_empty() {
                found(lock(&[&[own], &partly[..]].concat(), evidence))
            } else if others.is_empty() {
                found(alone(own, evidence))
            } else {
                unknown(format!(
                    "{} decides the throughput, but {} may as well: a longer experiment would decide \
                     (load.experiment.within)",
                    own.name(),
                    others.join(", ")
                ))
            }
        }
        [] => {
            let partly = partly(evidence);
            let sum: f64 = partly.iter().map(|part| part.elasticity.mean).sum();
            if partly.len() > 1 && (0.7..=1.4).contains(&sum) {
                return found(lock(&partly, evidence));
            }
            none(evidence)
        }
        _ => found(together(&deciding)),
    }
}

/// Of components each of which may decide: stops that are short beside an operation slow those that compute, and only them. What these
/// decide adds up to all where they share a lock; where one decides all, the others only wait for it.
fn by_short_stops(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Argument> {
    let short: Vec<(&Part, Estimate)> =
        contenders.iter().filter_map(|part| Some((*part, part.under_short_stops?))).collect();
    let sum: f64 = short.iter().map(|(_, short)| short.mean).sum();
    if short.len() < 2 || !(0.7..=1.4).contains(&sum) {
        return None;
    }
    let found = |limit| Some(Argument { limits: vec![limit], ..Argument::default() });
    let computes = |part: &Part| evidence.used_by(part).is_some_and(|used| used.computes());
    let sure: Vec<&Part> =
        short.iter().filter(|(_, short)| short.ends()[0] > DECIDES).map(|(part, _)| *part).collect();
    if let [own] = sure[..]
        && computes(own)
    {
        let excluded = short.iter().all(|(part, short)| *part == own || short.ends()[1] < DECIDES);
        let mut limit = alone(own, evidence);
        limit.evidence.retain(|said| !said.starts_with("each other component"));
        limit
            .evidence
            .push(format!("with short stops, which slow what computes alone: {}", in_short_stops(&short)));
        return excluded.then_some(limit).and_then(found);
    }
    let members: Vec<&Part> =
        short.iter().filter(|(_, short)| short.ends()[0] > NOTHING / 2.0).map(|(part, _)| *part).collect();
    let none_alone = short.iter().all(|(_, short)| short.ends()[1] < 1.0);
    if members.len() < 2 || !none_alone {
        return None;
    }
    let mut limit = lock(&members, evidence);
    limit
        .evidence
        .push(format!("with short stops, which leave a lock to others: {}", in_short_stops(&short)));
    found(limit)
}

fn in_short_stops(short: &[(&Part, Estimate)]) -> String {
    let told = |(part, short): &(&Part, Estimate)| format!("{} {:.2}", part.name(), short.mean);
    short.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// The components that slow the platform by a small dose although they allow more than is done then: while they are stopped, others
/// cannot work either.
fn partly<'a>(evidence: &Evidence<'a>) -> Vec<&'a Part> {
    let is_one = |part: &&Part| {
        let allows = part.capacity.and_then(|own| own.ci95).map(|[lo, _]| lo / evidence.capacity);
        let by_itself = part.small_dose.zip(allows).map(|(dose, allows)| {
            let left = (allows * (1.0 - dose)).min(1.0);
            (1.0 / left - 1.0) * (1.0 - dose) / dose
        });
        by_itself.is_some_and(|most| part.elasticity.ends()[0] > most + NOTHING / 2.0) && !decides(part)
    };
    evidence.single().filter(is_one).collect()
}

/// The value that all have in common.
fn common(mut values: impl Iterator<Item = f64>) -> Option<f64> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

fn decides(part: &Part) -> bool {
    part.elasticity.ends()[0] > DECIDES && part.elasticity.mean > ALONE
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What slowing a part did, in words.
fn effect_in_words(part: &Part) -> String {
    let how = match part.means {
        Means::Stop => format!("{} was stopped", part.name()),
        Means::Quota => format!("the quota of {} was cut", part.name()),
        Means::Occupy => "the platform's processors were occupied".to_owned(),
    };
    let doses: Vec<String> = part.doses.iter().map(|dose| percent(*dose)).collect();
    let unit = if part.means == Means::Quota { "" } else { " of the time" };
    let range = part.elasticity.ci95.map(|[lo, hi]| format!(" ({lo:.2} to {hi:.2})")).unwrap_or_default();
    format!(
        "{how} for {}{unit} in {} blocks: elasticity {:.2}{range}",
        doses.join(" and "),
        part.blocks,
        part.elasticity.mean
    )
    .replace(" was cut for ", " was cut by ")
}

/// A component that decides alone.
fn alone(part: &Part, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(part)];
    let rest: Vec<f64> =
        evidence.single().filter(|other| *other != part).map(|other| other.elasticity.ends()[1]).collect();
    if let Some(highest) = rest.iter().copied().reduce(f64::max) {
        said.push(format!("each other component was slowed as well: elasticity {highest:.2} at most"));
    }
    let kind = match evidence.used_by(part) {
        _ if part.means == Means::Quota => LimitKind::Quota,
        None => LimitKind::Unknown,
        Some(used) => {
            said.push(format!("it used {} of a processor while nothing was slowed", percent(used.processor)));
            if used.waits > WAITS {
                said.push(format!("it waited for a processor for {} of the time", percent(used.waits)));
            }
            if used.throttled > THROTTLED {
                said.push(format!(
                    "its quota kept it from running for {} of the time",
                    percent(used.throttled)
                ));
                LimitKind::Quota
            } else if used.computes() {
                LimitKind::Processor
            } else {
                LimitKind::Waiting
            }
        }
    };
    if kind == LimitKind::Waiting {
        said.push("so it is busy without computing: its workers wait for something".to_owned());
    }
    if let Some(shared) = evidence.shared().filter(|shared| shared.elasticity.ends()[0] > NOTHING) {
        said.push(format!(
            "{}: it needs them, and others that it shares them with do not decide",
            effect_in_words(shared)
        ));
    }
    Limit {
        component: part.components.first().cloned(),
        components: Vec::new(),
        kind,
        evidence: said,
        elasticity: Some(part.elasticity),
    }
}

/// Each of several components decides: while one is stopped, what the others hold is not passed on.
fn together(deciding: &[&Part]) -> Limit {
    let mut said: Vec<String> = deciding.iter().map(|part| effect_in_words(part)).collect();
    said.push("their elasticities add up to more than 1: each of them stops the others' work".to_owned());
    said.push(
        "no queue between them takes up what one cannot do: a bounded number of messages is in them"
            .to_owned(),
    );
    Limit {
        component: None,
        components: deciding.iter().flat_map(|part| part.components.clone()).collect(),
        kind: LimitKind::Pool,
        evidence: said,
        elasticity: None,
    }
}

/// The processors that all components share; of a component that computes nearly all that is computed, it is that one.
fn processors(shared: &Part, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(shared)];
    let all = evidence.all_used();
    said.push(format!(
        "the components used {all:.2} of {} processors while nothing was slowed",
        evidence.processors.unwrap_or(0.0)
    ));
    let mut by_use: Vec<(&String, f64)> = evidence
        .used
        .iter()
        .map(|(name, used)| (name, used.processor))
        .filter(|(_, used)| *used > 0.01)
        .collect();
    by_use.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told: Vec<String> =
        by_use.iter().map(|(name, used)| format!("{name} {}", percent(used / all))).collect();
    said.push(format!("of what was computed: {}", told.join(", ")));
    if let [(name, used), ..] = by_use[..]
        && used > MOST * all
    {
        return Limit {
            component: Some(name.clone()),
            components: Vec::new(),
            kind: LimitKind::Processor,
            evidence: said,
            elasticity: Some(shared.elasticity.times(used / all)),
        };
    }
    Limit {
        component: None,
        components: by_use.into_iter().map(|(name, _)| name.clone()).collect(),
        kind: LimitKind::Processors,
        evidence: said,
        elasticity: Some(shared.elasticity),
    }
}

/// Components that keep each other from working while one is stopped, and that no queue between them explains.
fn lock(members: &[&Part], evidence: &Evidence<'_>) -> Limit {
    let mut said: Vec<String> = members.iter().map(|part| effect_in_words(part)).collect();
    let components: Vec<String> = members.iter().flat_map(|part| part.components.clone()).collect();
    said.push(
        "by themselves they allow more than that: while one is stopped, another cannot work".to_owned(),
    );
    let pair = evidence.parts.iter().find(|part| {
        part.components.len() > 1 && part.components.iter().all(|name| components.contains(name))
    });
    if let Some(pair) = pair {
        let sum: f64 = members.iter().map(|part| part.elasticity.mean).sum();
        said.push(format!("{}, less than the {sum:.2} of both apart", effect_in_words(pair)));
    }
    if let Some(shared) = evidence.shared().filter(|shared| shared.elasticity.ends()[1] < DECIDES) {
        said.push(format!("{}: it is not the processors that they share", effect_in_words(shared)));
    }
    Limit {
        component: None,
        components,
        kind: LimitKind::Lock,
        evidence: said,
        elasticity: pair.map(|pair| pair.elasticity),
    }
}

/// No part of the platform decides.
fn none(evidence: &Evidence<'_>) -> Argument {
    let undecided: Vec<String> =
        evidence.parts.iter().filter(|part| part.elasticity.ends()[1] > DECIDES).map(Part::name).collect();
    if !undecided.is_empty() {
        let open = format!(
            "it is open whether {} decides the throughput: a longer experiment would decide \
             (load.experiment.within)",
            undecided.join(" or ")
        );
        return Argument { open: vec![open], ..Argument::default() };
    }
    let highest = evidence.parts.iter().map(|part| part.elasticity.ends()[1]).fold(0.0, f64::max);
    let excluded = format!("every component was slowed, and the processors: elasticity {highest:.2} at most");
    let limit = |kind, said: String| Limit {
        component: None,
        components: Vec::new(),
        kind,
        evidence: vec![said, excluded.clone()],
        elasticity: None,
    };
    if evidence.refused > REFUSED {
        let said =
            format!("{} of the operations were refused while nothing was slowed", percent(evidence.refused));
        return Argument { limits: vec![limit(LimitKind::Refusal, said)], ..Argument::default() };
    }
    if let Some(used) = evidence.generator.filter(|used| *used > GENERATOR) {
        let said = format!("a load thread used {} of its processor", percent(used));
        return Argument { limits: vec![limit(LimitKind::Generator, said)], ..Argument::default() };
    }
    let open = format!(
        "{excluded}. It may be the network, the subscribers or what was not slowed: a capture would show it (--capture)"
    );
    Argument { open: vec![open], ..Argument::default() }
}

/// Where full processors limit, the elasticity of each component is its part of what is computed on them: a stop of it lets the others
/// compute meanwhile, and tells how much it allows alone.
pub fn share_processors(parts: &mut [Part]) {
    let whole = parts.iter().find(|part| part.means == Means::Occupy).map(|part| part.elasticity);
    let single = |part: &&Part| part.components.len() == 1;
    let all: f64 = parts.iter().filter(single).filter_map(|part| part.used).sum();
    let Some(elasticity) = whole.filter(|_| all > 0.0) else { return };
    for part in parts.iter_mut().filter(|part| part.components.len() == 1) {
        if let Some(used) = part.used {
            part.elasticity = elasticity.times(used / all);
        }
    }
    parts.sort_by(|a, b| b.elasticity.mean.total_cmp(&a.elasticity.mean));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(components: &[&str], elasticity: [f64; 3]) -> Part {
        let [lo, mean, hi] = elasticity;
        Part {
            components: components.iter().map(|&name| name.to_owned()).collect(),
            means: if components.is_empty() { Means::Occupy } else { Means::Stop },
            doses: vec![0.6],
            blocks: 8,
            elasticity: Estimate { mean, ci95: Some([lo, hi]) },
            under_short_stops: None,
            small_dose: None,
            capacity: None,
            at_least: 200.0,
            used: None,
        }
    }

    const LIMITS: [f64; 3] = [0.9, 1.0, 1.1];
    const IDLE: [f64; 3] = [-0.05, 0.0, 0.05];

    fn evidence(parts: &[Part]) -> Evidence<'_> {
        Evidence {
            parts,
            used: BTreeMap::new(),
            processors: None,
            generator: None,
            refused: 0.0,
            unended: 0.0,
            capacity: 100.0,
        }
    }

    fn used(processor: f64) -> Used {
        Used { processor, thread: Some(processor), processors: Some(1.0), ..Used::default() }
    }

    /// The name that is given, and the kind; or why there is none.
    fn said(evidence: &Evidence<'_>) -> Result<(String, LimitKind), String> {
        let argument = argue(evidence);
        match &argument.limits[..] {
            [limit] => Ok((limit.name(), limit.kind)),
            _ => Err(argument.open.join("; ")),
        }
    }

    #[test]
    fn one_that_decides_alone_is_named_by_what_it_does_meanwhile() {
        let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
        let known = |used: Used| {
            let used = BTreeMap::from([("a".to_owned(), used)]);
            said(&Evidence { used, ..evidence(&parts) }).unwrap()
        };
        assert_eq!(known(used(0.97)), ("a".into(), LimitKind::Processor));
        assert_eq!(known(used(0.05)), ("a".into(), LimitKind::Waiting));
        assert_eq!(
            known(Used { waits: 0.5, ..used(0.45) }).1,
            LimitKind::Processor,
            "it waits for a processor"
        );
        assert_eq!(known(Used { throttled: 0.7, ..used(0.3) }).1, LimitKind::Quota);
    }

    #[test]
    fn full_processors_are_named_before_the_component_that_suffers_most() {
        let parts = [part(&["a"], LIMITS), part(&["b"], IDLE), part(&[], LIMITS)];
        let of = |a: f64, b: f64| {
            let used = BTreeMap::from([("a".to_owned(), used(a)), ("b".to_owned(), used(b))]);
            said(&Evidence { used, processors: Some(1.0), ..evidence(&parts) }).unwrap()
        };
        assert_eq!(of(0.6, 0.38), ("the platform's processors".into(), LimitKind::Processors));
        assert_eq!(of(0.95, 0.03), ("a".into(), LimitKind::Processor));
        assert_eq!(of(0.3, 0.1).0, "a", "they are not full");
    }

    #[test]
    fn who_may_decide_as_well_takes_the_name_away() {
        let parts = [part(&["a"], LIMITS), part(&["b"], [0.1, 0.4, 0.7])];
        assert!(said(&evidence(&parts)).unwrap_err().contains("b may as well"));
        let both = [part(&["a"], LIMITS), part(&["b"], LIMITS)];
        assert_eq!(said(&evidence(&both)).unwrap(), ("a and b".into(), LimitKind::Pool));
    }

    #[test]
    fn nobody_is_named_where_nobody_decides() {
        let parts = [part(&["a"], IDLE), part(&["b"], IDLE)];
        let of = |evidence: Evidence<'_>| said(&evidence);
        assert!(of(evidence(&parts)).unwrap_err().contains("0.05 at most"));
        let generator = of(Evidence { generator: Some(0.97), ..evidence(&parts) }).unwrap();
        assert_eq!(generator.1, LimitKind::Generator);
        assert_eq!(of(Evidence { refused: 0.3, ..evidence(&parts) }).unwrap().1, LimitKind::Refusal);
    }

    #[test]
    fn operations_without_an_end_and_effects_that_are_too_large_are_no_proof() {
        let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
        let lost = said(&Evidence { unended: 0.04, ..evidence(&parts) }).unwrap_err();
        assert!(lost.contains("4 % of the operations never came to their end"), "{lost}");
        let parts = [part(&["a"], [1.5, 1.8, 2.1]), part(&["b"], IDLE)];
        assert!(said(&evidence(&parts)).unwrap_err().contains("more than the stops explain"));
    }
}
