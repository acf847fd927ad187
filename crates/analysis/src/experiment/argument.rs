//! From the effects to what limits: a name is given only where each alternative was excluded by a test that is stated with it.

#[cfg(test)]
mod tests;

use super::evidence::{Evidence, Used};
use super::{Estimate, InTurn, NOTHING, Part, Path};
use crate::limits::{Limit, LimitKind};
use plimsoll_model::experiment::Means;
use std::collections::BTreeMap;

/// A part whose elasticity is surely above this decides the throughput, as far as noise lets one part be told from several.
const DECIDES: f64 = 0.6;
/// The elasticity of a part that decides alone may be so much.
const ALONE: f64 = 0.78;
/// A component that computes so much of all that is computed limits full processors by itself.
const MOST: f64 = 0.8;
/// A part that uses less than this of a processor, and does not wait for one, is occupied by something else.
const IDLE: f64 = 0.5;
/// Threads that wait for a processor, from which on that is worth a word.
const WAITS: f64 = 0.1;
/// Share of the time in which processes of the host waited for a disk or memory, from which on that is worth a word.
const PRESSED: f64 = 0.1;
/// Share of operations that were refused from which on a platform refuses because it has a limit: many are in flight, and a refusal is
/// quick, so that nearly all are refused then. Fewer may be refused for what they are.
const REFUSED: f64 = 0.5;
/// A bound on the load refuses no more than this share of operations that come one at a time.
const REFUSED_ALONE: f64 = 0.05;
/// Share of operations that were refused from which on that is worth a word.
const SOME_REFUSED: f64 = 0.02;
/// Share of operations without an end from which on their places are missing: fewer are in flight than it seems.
const UNENDED: f64 = 0.02;
/// An elasticity that is surely above this is more than a stop explains.
const TOO_MUCH: f64 = 1.25;
/// A part whose elasticity may be more than this is no part that does not limit.
const EXCLUDED: f64 = 0.3;
/// Share of a component's time for which strangers may hold its processor.
const HELD: f64 = 0.05;
/// Share of the time that the host may keep from a load thread.
const KEPT: f64 = 0.1;
/// What a load thread uses of its processor from which on it is the generator that has no more to give.
const GENERATOR: f64 = 0.9;

/// Share of the time for which subscribers of ours may work before components may only wait for them. Stops cannot tell: a component that
/// has few messages on their way to a subscriber loses its stops, too.
const SUBSCRIBERS_WORK: f64 = 0.5;
/// Share of the time from which on the subscribers, each with one message at a time, have no more to give.
const SUBSCRIBERS: f64 = 0.85;

/// What stops say too much of.
const STOP_EACH_OTHER: &str =
    "each of them stops the others, so a faster one may buy less than its elasticity says";

/// What limits, and what is open.
#[derive(Default)]
pub struct Argument {
    pub limits: Vec<Limit>,
    pub open: Vec<String>,
    /// Whether full processors limit.
    pub processors_are_full: bool,
}

/// Makes the argument. Each rule excludes what the ones below it would say.
pub fn argue(evidence: &Evidence<'_>) -> Argument {
    if let Some(open) = unfit(evidence) {
        return unknown(open);
    }
    if let Some(shared) = full_processors(evidence.parts, &evidence.used) {
        return Argument { processors_are_full: true, ..found(processors(shared, evidence)) };
    }
    let mut argument = of_components(evidence);
    let slowed = |name: &&String| *name != super::effect::PROCESSORS;
    let missing: Vec<&str> = evidence.missing.iter().filter(slowed).map(String::as_str).collect();
    let is_of_components = |limit: &Limit| limit.component.is_some() || !limit.components.is_empty();
    if let Some(limit) = argument.limits.iter().find(|limit| is_of_components(limit)) {
        let name = limit.name();
        if let Some(why) = for_subscribers(evidence) {
            return unknown(format!("{name} may limit the load, or only wait: {why}"));
        }
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return unknown(format!("{name} may limit the load, but {missing} could not be slowed"));
        }
    }
    if let Some(used) = evidence.generator.filter(|used| *used > GENERATOR) {
        let said = format!("against it: a load thread used {} of its processor", percent(used));
        let own = argument.limits.iter_mut().filter(|limit| is_of_components(limit));
        own.for_each(|limit| limit.evidence.push(said.clone()));
    }
    argument
}

/// The platform's processors, where they limit: occupying them slows the platform by that, and the components use all of them. A thread that
/// has one of several processors for itself, and decides, would gain nothing by more of them.
pub fn full_processors<'a>(parts: &'a [Part], used: &BTreeMap<String, Used>) -> Option<&'a Part> {
    let several = super::evidence::processors_of(used).is_some_and(|processors| processors > 1.5);
    let has_own = |part: &Part| {
        let own = part.components.first().filter(|_| part.components.len() == 1);
        decides(part) && own.and_then(|name| used.get(name)).is_some_and(Used::has_full_thread)
    };
    let shared = parts.iter().find(|part| part.means == Means::Occupy)?;
    let is_it = decides(shared) && super::evidence::are_full(used);
    (is_it && !(several && parts.iter().any(has_own))).then_some(shared)
}

/// Why components may only wait for subscribers of ours, where they may.
fn for_subscribers(evidence: &Evidence<'_>) -> Option<String> {
    if evidence.subscribers_work > SUBSCRIBERS_WORK {
        return Some(format!(
            "the subscribers worked for {} of the time, each on one message at a time. A run with less work shows it \
             (population.subscribers.work)",
            percent(evidence.subscribers_work)
        ));
    }
    evidence.subscribers_acknowledge_late.then(|| {
        "the emulated network delays what subscribers acknowledge, and few messages may be on their way. A run without it \
         shows it (population.subscribers.link)"
            .to_owned()
    })
}

/// What is said of the components, and of what is beside the platform.
fn of_components(evidence: &Evidence<'_>) -> Argument {
    let deciding: Vec<&Part> = evidence.single().filter(|part| decides(part)).collect();
    // What a large dose does to a part that comes near to the limit is excluded by a small one alone.
    let may_decide = |part: &&Part| {
        let most = if part.small.is_some() || decides(part) { DECIDES } else { EXCLUDED };
        part.elasticity.ends()[1] > most
    };
    let contenders: Vec<&Part> = evidence.single().filter(may_decide).collect();
    if contenders.len() > 1 {
        let by_stops = by_short_stops(&contenders, evidence);
        if let Some(limit) = by_stops.or_else(|| pool(&contenders, evidence)) {
            return found(limit);
        }
    }
    if let Some(limit) = by_turns(&contenders, evidence) {
        return found(limit);
    }
    match deciding[..] {
        [own] => one(own, &contenders, evidence),
        [] => none(evidence),
        _ => together(&deciding, &contenders, evidence),
    }
}

fn found(limit: Limit) -> Argument {
    Argument { limits: vec![limit], ..Argument::default() }
}

fn unknown(open: String) -> Argument {
    Argument { open: vec![open], ..Argument::default() }
}

/// Why the effects prove nothing, where they do not.
fn unfit(evidence: &Evidence<'_>) -> Option<String> {
    if evidence.unended > UNENDED {
        return Some(format!(
            "{} of the operations never came to their end, and each occupied a place until it was given up: remove the \
             losses, or lower load.operation_timeout",
            percent(evidence.unended)
        ));
    }
    if let Some((name, used)) = evidence.used.iter().find(|(_, used)| used.held_by_others > HELD) {
        return Some(format!(
            "processes outside the platform held the processor of {name} for {} of the time",
            percent(used.held_by_others)
        ));
    }
    if evidence.kept_from_generator > KEPT {
        return Some(format!(
            "the host kept {} of the time from a load thread",
            percent(evidence.kept_from_generator)
        ));
    }
    let lost_more =
        |part: &&Part| [part.elasticity, part.by_large].iter().any(|own| own.ends()[0] > TOO_MUCH);
    let part = evidence.single().find(lost_more)?;
    Some(format!(
        "{}: the platform lost more than the stops explain, as where something has to be repeated after each",
        effect_in_words(part)
    ))
}

/// One component decides.
fn one(own: &Part, contenders: &[&Part], evidence: &Evidence<'_>) -> Argument {
    let partly: Vec<String> = partly(evidence).iter().map(|part| part.name()).collect();
    if !partly.is_empty() {
        return unknown(format!(
            "{} decides the throughput, and it cannot work for long while {} is stopped: they share a lock or a processor, or \
             few operations can be between them",
            own.name(),
            partly.join(" or ")
        ));
    }
    let others: Vec<String> =
        contenders.iter().filter(|part| **part != own).map(|part| part.name()).collect();
    if !others.is_empty() {
        return unknown(format!(
            "{} decides the throughput, but {} may as well: a longer experiment would decide (load.experiment.within)",
            own.name(),
            others.join(", ")
        ));
    }
    found(alone(own, own.elasticity, excluded(&[own], evidence), evidence))
}

/// By what every other component is excluded, for people.
fn excluded(named: &[&Part], evidence: &Evidence<'_>) -> Option<String> {
    let rest = evidence.single().filter(|part| !named.contains(part)).map(|part| part.elasticity.ends()[1]);
    let highest = rest.reduce(f64::max)?;
    Some(format!("each other component was slowed as well: elasticity {highest:.2} at most"))
}

/// Of components each of which may decide: stops that are short beside an operation slow those that compute, and only them. Where one decides
/// all, the others only wait for it.
fn by_short_stops(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let computes = |part: &Part| evidence.used_by(part).is_some_and(|used| used.computes());
    let own = alone_by_short_stops(contenders, computes).filter(|own| decides(own))?;
    let named = |(part, short): &(&Part, Estimate)| format!("{} {:.2}", part.name(), short.mean);
    let all: Vec<String> = under_short_stops(contenders)?.iter().map(named).collect();
    let said = format!("with short stops, which a wait outlasts, elasticities are {}", all.join(", "));
    // What others do beside it is a part of what its long stops take.
    let elasticity = own.under_short_stops.unwrap_or(own.elasticity);
    Some(alone(own, elasticity, Some(said), evidence))
}

/// What short stops did to components, where they explain about the whole time of an operation.
fn under_short_stops<'a>(contenders: &[&'a Part]) -> Option<Vec<(&'a Part, Estimate)>> {
    let of = |part: &&'a Part| Some((*part, part.under_short_stops?));
    let short: Vec<(&Part, Estimate)> = contenders.iter().filter_map(of).collect();
    let sum: f64 = short.iter().map(|(_, short)| short.mean).sum();
    (short.len() >= 2 && (0.7..=1.4).contains(&sum)).then_some(short)
}

/// The one component that short stops show to decide. Elasticities are parts of a whole: what one has surely, the others have not, even
/// those that sleep through short stops. Of one that is not known to compute all the time, more is asked.
pub fn alone_by_short_stops<'a>(
    contenders: &[&'a Part],
    computes: impl Fn(&Part) -> bool,
) -> Option<&'a Part> {
    let short = under_short_stops(contenders)?;
    let mut sure = short.iter().filter(|(_, short)| short.ends()[0] > DECIDES).map(|(part, _)| *part);
    let (Some(own), None) = (sure.next(), sure.next()) else { return None };
    let most = if computes(own) { DECIDES } else { EXCLUDED };
    let excluded = short.iter().all(|(part, short)| std::ptr::eq(*part, own) || short.ends()[1] < most);
    excluded.then_some(own)
}

/// Of two components that were stopped in turn, each of which keeps the other one from working: whether always, or only while it has something
/// that both need. That their limits are equal by chance is excluded: what one did in the stop of the other would wait between them for the
/// next. One of them need not decide by itself, since some of what was not done in its stops may be made up for.
fn by_turns(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    evidence.in_turn.iter().find_map(|in_turn| share_something(in_turn, contenders, evidence))
}

fn share_something(in_turn: &InTurn, contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let member = |name: &String| evidence.single().find(|part| part.components == [name.clone()]);
    let members: Vec<&Part> = in_turn.components.iter().filter_map(member).collect();
    let pair = evidence.pair(&in_turn.components);
    // Where both work one after the other, both together lose no more than each.
    let decide = pair.is_none_or(decides) && members.iter().any(|part| decides(part));
    let slow_others = members.iter().all(|part| stops_others(part));
    if !decide || !slow_others || !may_as_well(contenders, &members).is_empty() {
        return None;
    }
    let mut said: Vec<String> = members.iter().copied().chain(pair).map(effect_in_words).collect();
    said.push(in_turn.in_words());
    if in_turn.loses_all() {
        return Some(coupled(&members, said, evidence));
    }
    let named = in_turn.components.iter().zip(&in_turn.stops);
    said.extend(named.map(|(name, stops)| stops.in_words(name)));
    said.extend(paths_in_words(&members, evidence));
    said.push(STOP_EACH_OTHER.to_owned());
    said.extend(excluded(&members, evidence));
    let limit = Limit {
        component: None,
        components: in_turn.components.clone(),
        kind: LimitKind::Lock,
        evidence: said,
        elasticity: pair.map(|pair| pair.elasticity),
    };
    in_turn.is_exclusive().then_some(limit)
}

/// The components that slow the platform by a small dose although they allow more than is done then: while they are stopped, others
/// cannot work either.
fn partly<'a>(evidence: &Evidence<'a>) -> Vec<&'a Part> {
    let is_one = |part: &&Part| {
        let allows = part.capacity.and_then(|own| own.ci95).map(|[lo, _]| lo / evidence.capacity);
        let small = part.small.as_ref();
        let by_itself = small.zip(allows).map(|(small, allows)| {
            let left = (allows * (1.0 - small.dose)).min(1.0);
            (1.0 / left - 1.0) * (1.0 - small.dose) / small.dose
        });
        by_itself.is_some_and(|most| part.elasticity.ends()[0] > most + NOTHING / 2.0) && !decides(part)
    };
    evidence.single().filter(is_one).collect()
}

/// Several components decide, and it was not shown that they share something.
fn together(deciding: &[&Part], contenders: &[&Part], evidence: &Evidence<'_>) -> Argument {
    let names: Vec<String> = deciding.iter().map(|part| part.name()).collect();
    let names = names.join(" and ");
    let others = may_as_well(contenders, deciding);
    if !others.is_empty() {
        return unknown(format!(
            "{names} decide the throughput, but {} may as well: a longer experiment would decide (load.experiment.within)",
            others.join(", ")
        ));
    }
    if let Some(equal) = evidence.in_turn(deciding).filter(|own| own.has_queue_between()) {
        return unknown(format!(
            "{names} decide the throughput, each of them, and their limits are about equal: {}",
            equal.in_words()
        ));
    }
    let which = which_by_relays(deciding, evidence).map(|said| format!(": {said}")).unwrap_or_default();
    unknown(format!(
        "{names} decide the throughput, each of them: few operations can be between them, or their limits are equal{which}"
    ))
}

/// The components that decide together, where few operations can be at once on the path to one of them; none elsewhere.
pub fn keep_few_at_once<'a>(parts: &[&'a Part], paths: &[Path]) -> Vec<&'a Part> {
    let deciding: Vec<&Part> = parts.iter().copied().filter(|part| decides(part)).collect();
    let is_theirs = |path: &Path| deciding.iter().any(|part| part.components == [path.component.clone()]);
    let is_bound = paths.iter().any(|path| path.at_once.is_some() && is_theirs(path));
    if deciding.len() > 1 && is_bound { deciding } else { Vec::new() }
}

/// Components that decide together, which keep few operations at once on the path to one of them. That something else limits is excluded by
/// the delays: it would leave room. Who computes all the time may limit by itself, since it is kept from that while it waits for others.
fn pool(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let members = keep_few_at_once(contenders, evidence.paths);
    let is_busy = |part: &&Part| evidence.used_by(part).is_none_or(|used| used.computes());
    let is_open = !may_as_well(contenders, &members).is_empty();
    if members.is_empty() || is_open || members.iter().any(is_busy) {
        return None;
    }
    let named = at_ends_of_paths(&members, evidence.paths);
    let mut said: Vec<String> = paths_in_words(&members, evidence).collect();
    said.extend(members.iter().map(|part| effect_in_words(part)));
    let within = members.iter().filter(|part| !named.contains(*part));
    said.extend(
        within
            .map(|part| format!("an operation may keep its place there while it waits for {}", part.name())),
    );
    said.push(STOP_EACH_OTHER.to_owned());
    said.extend(excluded(&members, evidence));
    let limit = Limit {
        component: None,
        components: named.iter().flat_map(|part| part.components.clone()).collect(),
        kind: LimitKind::Pool,
        evidence: said,
        elasticity: None,
    };
    (!named.is_empty()).then_some(limit)
}

/// The components at both ends of the paths that few operations can be on at once. What waits behind such a path for the next component is on
/// it all the while, so that the next path seems as narrow: the first one counts. Where nobody was seen to call, two that decide are its ends.
fn at_ends_of_paths<'a>(members: &[&'a Part], paths: &[Path]) -> Vec<&'a Part> {
    let is = |part: &Part, name: &String| part.components == [name.clone()];
    let is_theirs = |path: &&Path| members.iter().any(|part| is(part, &path.component));
    let narrow: Vec<&Path> = paths.iter().filter(|path| path.at_once.is_some()).filter(is_theirs).collect();
    let is_first = |path: &&&Path| !narrow.iter().any(|before| path.callers.contains(&before.component));
    let first: Vec<&Path> = narrow.iter().filter(is_first).copied().collect();
    if members.len() == 2 && first.iter().all(|path| path.callers.is_empty()) {
        return members.to_vec();
    }
    let is_end = |part: &&&Part| {
        first.iter().any(|path| path.callers.iter().chain([&path.component]).any(|name| is(part, name)))
    };
    members.iter().filter(is_end).copied().collect()
}

/// The contenders beside some that decide, whose elasticity may be that of a part that decides.
fn may_as_well(contenders: &[&Part], deciding: &[&Part]) -> Vec<String> {
    let is_other = |part: &&&Part| !deciding.contains(part) && part.elasticity.ends()[1] > DECIDES;
    contenders.iter().filter(is_other).map(|part| part.name()).collect()
}

/// What delays said of the paths to some components, for people.
fn paths_in_words<'a>(members: &'a [&Part], evidence: &'a Evidence<'_>) -> impl Iterator<Item = String> + 'a {
    let is_theirs = |path: &&Path| members.iter().any(|part| part.components == [path.component.clone()]);
    evidence.paths.iter().filter(is_theirs).map(Path::in_words)
}

/// The experiment that would show more of components that stop each other, where it was not made.
fn which_by_relays(members: &[&Part], evidence: &Evidence<'_>) -> Option<String> {
    let names: Vec<String> = members.iter().map(|part| part.name()).collect();
    let is_open = paths_in_words(members, evidence).next().is_none();
    is_open.then(|| {
        format!(
            "a relay before {} would show whether they keep few operations at once (platform.relays)",
            names.join(" or ")
        )
    })
}

/// Two components each of which stops with the other.
fn coupled(members: &[&Part], mut said: Vec<String>, evidence: &Evidence<'_>) -> Limit {
    said.extend(paths_in_words(members, evidence));
    said.push(STOP_EACH_OTHER.to_owned());
    said.extend(which_by_relays(members, evidence));
    Limit {
        component: None,
        components: members.iter().flat_map(|part| part.components.clone()).collect(),
        kind: LimitKind::Coupled,
        evidence: said,
        elasticity: None,
    }
}

/// Whether each of two components that decide stops the work of the other at once, so that hardly anything can be between them. Two
/// equal limits have a queue between them, and the first of them, when it is stopped, lets the other work on.
pub fn stop_each_other(deciding: &[&Part]) -> bool {
    matches!(deciding, [one, other] if [one, other].iter().all(|part| decides(part) && part.during_stops.always_halts()))
}

/// Whether a part that does not limit slows the platform by more than it would alone: others wait for it, and stop while it does.
/// What it allows by itself is not known then.
pub fn stops_others(part: &Part) -> bool {
    part.elasticity.ends()[0] > EXCLUDED
}

pub fn decides(part: &Part) -> bool {
    part.elasticity.ends()[0] > DECIDES && part.elasticity.mean > ALONE
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What slowing a part did, in words.
fn effect_in_words(part: &Part) -> String {
    let dose = percent(part.dose);
    let how = match part.means {
        Means::Stop => format!("{} was stopped for {dose} of the time", part.name()),
        Means::Quota => format!("the quota of {} was cut by {dose}", part.name()),
        Means::Occupy => format!("the platform's processors were occupied for {dose} of the time"),
        Means::Delay => format!("{} was delayed", part.name()),
    };
    let range = part.elasticity.ci95.map(|[lo, hi]| format!(" ({lo:.2} to {hi:.2})")).unwrap_or_default();
    format!("{how}: elasticity {:.2}{range}", part.elasticity.mean)
}

/// A component that decides alone, by so much; `excluded` says by what the others are not it.
fn alone(part: &Part, elasticity: Estimate, excluded: Option<String>, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(part)];
    said.extend(excluded);
    let mut kind = evidence.used_by(part).map_or(LimitKind::Unknown, |used| {
        said.extend(use_in_words(&used));
        kind_of(&used)
    });
    if let (LimitKind::Processor, Some(short)) = (kind, part.under_short_stops) {
        said.push(format!("with short stops, which a wait outlasts, its elasticity is {:.2}", short.mean));
        if short.ends()[1] < DECIDES {
            said.push("against it: it computes all the time, but operations hardly wait for that".to_owned());
            kind = LimitKind::Unknown;
        }
    }
    if kind == LimitKind::Waiting {
        said.extend(pressure_in_words(evidence));
    }
    if let Some(shared) = evidence.shared().filter(|shared| shared.elasticity.ends()[0] > NOTHING) {
        said.push(effect_in_words(shared));
    }
    Limit {
        component: part.components.first().cloned(),
        components: Vec::new(),
        kind,
        evidence: said,
        elasticity: Some(elasticity),
    }
}

/// What of a component is at its limit, by what it used while nothing was slowed.
fn kind_of(used: &Used) -> LimitKind {
    match used {
        used if used.is_throttled() => LimitKind::Quota,
        used if used.computes() => LimitKind::Processor,
        used if used.processor + used.waits < IDLE => LimitKind::Waiting,
        _ => LimitKind::Unknown,
    }
}

fn use_in_words(used: &Used) -> Vec<String> {
    let mut said =
        vec![format!("it used {} of a processor while nothing was slowed", percent(used.processor))];
    // Threads that a quota keeps from running wait for a processor, too.
    if used.waits > WAITS && !used.is_throttled() {
        said.push(format!("it waited for a processor for {} of the time", percent(used.waits)));
    }
    if used.is_throttled() {
        said.push(format!("its quota kept it from running for {} of the time", percent(used.throttled)));
    }
    said
}

/// What else processes of the host waited for. Whose processes these were is not known, so that it proves nothing.
fn pressure_in_words(evidence: &Evidence<'_>) -> Vec<String> {
    let pressed = evidence.pressure.iter().filter(|(_, share)| *share > PRESSED);
    pressed
        .map(|(what, share)| {
            format!("some process on this host waited for {what} for {} of the time", percent(*share))
        })
        .collect()
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
        && evidence
            .single()
            .any(|part| part.components == [name.clone()] && part.elasticity.ends()[0] > NOTHING)
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

/// No part of the platform decides.
fn none(evidence: &Evidence<'_>) -> Argument {
    if evidence.processors_are_full() {
        return unknown(format!(
            "the components use all of their processors, so each of them may limit the load: {:.2} of {}",
            evidence.all_used(),
            evidence.processors.unwrap_or(0.0)
        ));
    }
    let is_open = |part: &&Part| part.elasticity.ends()[1] > EXCLUDED;
    let mut undecided: Vec<String> = evidence.parts.iter().filter(is_open).map(Part::name).collect();
    undecided.extend(evidence.missing.iter().cloned());
    if !undecided.is_empty() {
        let verb = if undecided == ["the processors"] || undecided.len() > 1 { "limit" } else { "limits" };
        return unknown(format!("it is open whether {} {verb} the load", undecided.join(" or ")));
    }
    // A quota may still be used up by what the part that was cut left over.
    let has_quota = |part: &&Part| part.means == Means::Quota && part.elasticity.ends()[1] > NOTHING;
    if let Some(part) = evidence.single().find(has_quota) {
        return unknown(format!(
            "it is open whether the quota of {} limits the load: a run with another quota shows it (platform.quotas)",
            part.name()
        ));
    }
    let highest = evidence.parts.iter().map(|part| part.elasticity.ends()[1]).fold(0.0, f64::max);
    let processors = if evidence.shared().is_some() { ", and the processors" } else { "" };
    let excluded = format!("every component was slowed{processors}: elasticity {highest:.2} at most");
    let limit = |kind, said: String| Limit {
        component: None,
        components: Vec::new(),
        kind,
        evidence: vec![said, excluded.clone()],
        elasticity: None,
    };
    if evidence.refused > REFUSED && evidence.refused_alone < REFUSED_ALONE {
        let said = format!(
            "{} of the operations were refused while nothing was slowed, and {} of those that came one at a time",
            percent(evidence.refused),
            percent(evidence.refused_alone)
        );
        return found(limit(LimitKind::Refusal, said));
    }
    if let Some(used) = evidence.generator.filter(|used| *used > GENERATOR) {
        let said = format!("a load thread used {} of its processor", percent(used));
        return found(limit(LimitKind::Generator, said));
    }
    if evidence.subscribers_work > SUBSCRIBERS {
        let said = format!(
            "the subscribers worked for {} of the time, each on one message at a time",
            percent(evidence.subscribers_work)
        );
        return found(limit(LimitKind::Subscribers, said));
    }
    let refused = match evidence.refused {
        refused if refused > SOME_REFUSED => format!(" {} of the operations were refused.", percent(refused)),
        _ => String::new(),
    };
    let open = format!(
        "{excluded}.{refused} The network, the subscribers or something that was not slowed may limit the load: a capture shows \
         where messages wait (--capture)"
    );
    let mut all = vec![open];
    all.extend(pressure_in_words(evidence));
    Argument { open: all, ..Argument::default() }
}

/// Where full processors limit, the elasticity of each component is its part of what is computed on them: a stop of it lets the others
/// compute meanwhile, and tells how much it allows alone. Its interval has the errors of both figures.
pub fn share_processors(parts: &mut [Part], used: &BTreeMap<String, Used>) {
    let whole = parts.iter().find(|part| part.means == Means::Occupy).map(|part| part.elasticity);
    let all: f64 = used.values().map(|used| used.processor).sum();
    let (Some(whole), true) = (whole, all > 0.0) else { return };
    let squares: f64 = used.values().map(|used| used.processor_half.powi(2)).sum();
    for part in parts.iter_mut() {
        let [name] = &part.components[..] else { continue };
        let Some(own) = used.get(name) else { continue };
        let share = own.processor / all;
        let others = squares - own.processor_half.powi(2);
        let of_share =
            ((1.0 - share).powi(2) * own.processor_half.powi(2) + share.powi(2) * others).sqrt() / all;
        let mean = whole.mean * share;
        let half = |end: f64| ((end - whole.mean) * share).hypot(whole.mean * of_share);
        part.elasticity =
            Estimate { mean, ci95: whole.ci95.map(|[lo, hi]| [mean - half(lo), mean + half(hi)]) };
    }
    parts.sort_by(|a, b| b.elasticity.mean.total_cmp(&a.elasticity.mean));
}
