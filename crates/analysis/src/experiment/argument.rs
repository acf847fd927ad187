//! From the effects to what limits: a name is given only where each alternative was excluded by a test that is stated with it.

use super::evidence::{Evidence, Used};
use super::{Estimate, NOTHING, Part};
use crate::limits::{Limit, LimitKind};
use crate::validity::NEVER_READY;
use plimsoll_model::experiment::Means;

/// A part whose elasticity is surely above this decides the throughput, as far as noise lets one part be told from several.
const DECIDES: f64 = 0.6;
/// The elasticity of a part that decides alone may be so much.
const ALONE: f64 = 0.78;
/// A component that computes so much of all that is computed limits full processors by itself.
const MOST: f64 = 0.8;
/// A part that uses less than this of a processor, and does not wait for one, is occupied by something else.
const IDLE: f64 = 0.5;
/// A part computes at all where it uses so much of a processor.
const COMPUTES: f64 = 0.1;
/// Threads that wait for a processor, from which on that is worth a word.
const WAITS: f64 = 0.1;
/// Share of the time in which processes of the host waited for a disk or memory, from which on that is worth a word.
const PRESSED: f64 = 0.1;
/// Share of the time for which a quota must keep a component from running to be what limits it.
const THROTTLED: f64 = 0.2;
/// Share of operations that were refused from which on a platform refuses because it has a limit.
const REFUSED: f64 = 0.02;
/// Share of operations without an end from which on their places are missing: fewer are in flight than it seems.
const UNENDED: f64 = 0.02;
/// An elasticity that is surely above this is more than a stop explains.
const TOO_MUCH: f64 = 1.25;
/// A part whose elasticity may be more than this is no part that does not limit.
const EXCLUDED: f64 = 0.3;
/// Share of a component's time for which strangers may hold its processor.
const HELD: f64 = 0.05;
/// What a load thread uses of its processor from which on it is the generator that has no more to give.
const GENERATOR: f64 = 0.9;

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
    if let Some(shared) = evidence.shared().filter(|shared| decides(shared) && evidence.processors_are_full())
    {
        return Argument { processors_are_full: true, ..found(processors(shared, evidence)) };
    }
    let deciding: Vec<&Part> = evidence.single().filter(|part| decides(part)).collect();
    // What a large dose does to a part that comes near to the limit is excluded by a small one alone.
    let may_decide = |part: &&Part| {
        let most = if part.small.is_some() || decides(part) { DECIDES } else { EXCLUDED };
        part.elasticity.ends()[1] > most
    };
    let contenders: Vec<&Part> = evidence.single().filter(may_decide).collect();
    if contenders.len() > 1
        && let Some(limit) = by_short_stops(&contenders, evidence).or_else(|| held(&contenders, evidence))
    {
        return found(limit);
    }
    match deciding[..] {
        [own] => one(own, &contenders, evidence),
        [] => none(evidence),
        _ => together(&deciding),
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
    let part = evidence.single().find(|part| part.elasticity.ends()[0] > TOO_MUCH)?;
    Some(format!(
        "{}: it lost more than the stops explain, as where something has to be repeated after each",
        effect_in_words(part)
    ))
}

/// One component decides.
fn one(own: &Part, contenders: &[&Part], evidence: &Evidence<'_>) -> Argument {
    let partly: Vec<String> = partly(evidence).iter().map(|part| part.name()).collect();
    if !partly.is_empty() {
        return unknown(format!(
            "{} decides the throughput, and it cannot work for long while {} is stopped: they share a lock, or few \
             operations can be between them. A capture would show which (--capture)",
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
    let components: Vec<&str> = evidence
        .missing
        .iter()
        .map(String::as_str)
        .filter(|name| *name != super::effect::PROCESSORS)
        .collect();
    if !components.is_empty() {
        return unknown(format!(
            "{} decides the throughput, but {} could not be slowed",
            own.name(),
            components.join(", ")
        ));
    }
    found(alone(own, excluded(&[own], evidence), evidence))
}

/// By what every other component is excluded, for people.
fn excluded(named: &[&Part], evidence: &Evidence<'_>) -> Option<String> {
    let rest = evidence.single().filter(|part| !named.contains(part)).map(|part| part.elasticity.ends()[1]);
    let highest = rest.reduce(f64::max)?;
    Some(format!("each other component was slowed as well: elasticity {highest:.2} at most"))
}

/// Of components each of which may decide: stops that are short beside an operation slow those that compute, and only them. What these
/// decide adds up to all where they share a lock; where one decides all, the others only wait for it.
fn by_short_stops(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let short = under_short_stops(contenders)?;
    let told: Vec<String> =
        short.iter().map(|(part, short)| format!("{} {:.2}", part.name(), short.mean)).collect();
    let told = told.join(", ");
    let computes = |part: &Part| evidence.used_by(part).is_some_and(|used| used.computes());
    if let Some(own) = alone_by_short_stops(contenders, computes) {
        let said = format!(
            "with short stops, by which a component that only waits for others loses nothing, elasticities are {told}"
        );
        let is_it = decides(own) && evidence.missing.is_empty();
        return is_it.then(|| alone(own, Some(said), evidence));
    }
    let members: Vec<&Part> =
        short.iter().filter(|(_, short)| short.ends()[0] > NOTHING / 2.0).map(|(part, _)| *part).collect();
    let compute = |part: &&Part| evidence.used_by(part).is_some_and(|used| used.processor > COMPUTES);
    let none_alone = short.iter().all(|(_, short)| short.ends()[1] < 1.0);
    if members.len() != 2 || !none_alone || !members.iter().all(compute) {
        return None;
    }
    lock(&members, told, evidence)
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

/// Components that keep each other from working while one is stopped, by less together than apart.
fn lock(members: &[&Part], short: String, evidence: &Evidence<'_>) -> Option<Limit> {
    let components: Vec<String> = members.iter().flat_map(|part| part.components.clone()).collect();
    let is_theirs = |part: &&Part| {
        part.components.len() == 2 && part.components.iter().all(|name| components.contains(name))
    };
    let pair = evidence.parts.iter().find(is_theirs)?;
    let sum: f64 = members.iter().map(|part| part.elasticity.mean).sum();
    if pair.elasticity.ends()[1] > sum {
        return None;
    }
    let mut said: Vec<String> = members.iter().map(|part| effect_in_words(part)).collect();
    said.push(format!("{}, less than the {sum:.2} of both apart", effect_in_words(pair)));
    said.push(format!("with short stops, which leave a lock to others, elasticities are {short}"));
    if let Some(shared) = evidence.shared().filter(|_| !evidence.processors_are_full()) {
        said.push(format!("{}, but the processors are not full", effect_in_words(shared)));
    }
    let (kind, elasticity) = (LimitKind::Lock, Some(pair.elasticity));
    Some(Limit { component: None, components, kind, evidence: said, elasticity })
}

/// Of two components, one of which decides: the other one sometimes holds what the first needs, and sometimes not, when it is stopped.
/// That it comes near to the limit itself is excluded: whoever limits would go on at the beginning of each stop.
fn held(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let &[one, other] = contenders else { return None };
    let components = vec![one.components.first()?.clone(), other.components.first()?.clone()];
    let is_theirs = |part: &&Part| {
        part.components.len() == 2 && part.components.iter().all(|name| components.contains(name))
    };
    let pair = evidence.parts.iter().find(is_theirs).filter(|pair| decides(pair))?;
    let holder = [one, other].into_iter().find(|part| part.silence.is_sometimes())?;
    if !evidence.missing.is_empty() || one.elasticity.mean + other.elasticity.mean < pair.elasticity.ends()[0]
    {
        return None;
    }
    let mut said: Vec<String> = [one, other, pair].into_iter().map(effect_in_words).collect();
    said.push(holder.silence.in_words(&holder.name()));
    said.extend(excluded(contenders, evidence));
    let (kind, elasticity) = (LimitKind::Lock, Some(pair.elasticity));
    Some(Limit { component: None, components, kind, evidence: said, elasticity })
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

/// Several components decide: while one is stopped, what the others hold is not passed on. That two limits are equal by chance is
/// excluded by a small dose, which a part with some room would not notice.
fn together(deciding: &[&Part]) -> Argument {
    let names: Vec<String> = deciding.iter().map(|part| part.name()).collect();
    let is_sure =
        |part: &&Part| part.small.as_ref().is_some_and(|small| small.elasticity.ends()[0] > DECIDES);
    let at_once = stop_each_other(deciding);
    if deciding.len() > 2 || !(at_once || deciding.iter().all(is_sure)) {
        return unknown(format!(
            "{} decide the throughput, each of them: few operations can be between them, or their limits are equal. A capture \
             would show which one works longest (--capture)",
            names.join(" and ")
        ));
    }
    let mut said: Vec<String> = deciding.iter().map(|part| effect_in_words(part)).collect();
    if at_once {
        said.extend(deciding.iter().map(|part| part.silence.in_words(&part.name())));
    } else {
        said.push("each of them stops the work of the other, also by a small dose".to_owned());
    }
    found(Limit {
        component: None,
        components: deciding.iter().flat_map(|part| part.components.clone()).collect(),
        kind: LimitKind::Coupled,
        evidence: said,
        elasticity: None,
    })
}

/// Whether each of two components that decide stops the work of the other at once, so that hardly anything can be between them. Two
/// equal limits have a queue between them, and the first of them, when it is stopped, lets the other work on.
pub fn stop_each_other(deciding: &[&Part]) -> bool {
    matches!(deciding, [one, other] if [one, other].iter().all(|part| decides(part) && part.silence.is_always()))
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
    };
    let range = part.elasticity.ci95.map(|[lo, hi]| format!(" ({lo:.2} to {hi:.2})")).unwrap_or_default();
    format!("{how}: elasticity {:.2}{range}", part.elasticity.mean)
}

/// A component that decides alone; `excluded` says by what the others are not it.
fn alone(part: &Part, excluded: Option<String>, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(part)];
    said.extend(excluded);
    let kind = evidence.used_by(part).map_or(LimitKind::Unknown, |used| {
        said.extend(use_in_words(&used));
        kind_of(&used)
    });
    if kind == LimitKind::Waiting {
        said.extend(pressure_in_words(evidence));
    }
    if let Some(shared) = evidence.shared().filter(|shared| shared.elasticity.ends()[0] > NOTHING) {
        said.push(effect_in_words(shared));
    }
    Limit {
        component: part.components.first().cloned(),
        components: Vec::new(),
        kind: if part.means == Means::Quota { LimitKind::Quota } else { kind },
        evidence: said,
        elasticity: Some(part.elasticity),
    }
}

/// What of a component is at its limit, by what it used while nothing was slowed.
fn kind_of(used: &Used) -> LimitKind {
    match used {
        used if used.throttled > THROTTLED => LimitKind::Quota,
        used if used.computes() => LimitKind::Processor,
        used if used.processor + used.waits < IDLE => LimitKind::Waiting,
        _ => LimitKind::Unknown,
    }
}

fn use_in_words(used: &Used) -> Vec<String> {
    let mut said =
        vec![format!("it used {} of a processor while nothing was slowed", percent(used.processor))];
    if used.waits > WAITS {
        said.push(format!("it waited for a processor for {} of the time", percent(used.waits)));
    }
    if used.throttled > THROTTLED {
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
    let is_open = |part: &&Part| part.elasticity.ends()[1] > EXCLUDED || part.means == Means::Quota;
    let mut undecided: Vec<String> = evidence.parts.iter().filter(is_open).map(Part::name).collect();
    undecided.extend(evidence.missing.iter().cloned());
    if !undecided.is_empty() {
        return unknown(format!(
            "it is open whether {} limits the load: a longer experiment may decide it (load.experiment.within)",
            undecided.join(" or ")
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
    if evidence.refused > REFUSED {
        let said =
            format!("{} of the operations were refused while nothing was slowed", percent(evidence.refused));
        return found(limit(LimitKind::Refusal, said));
    }
    let occupied = evidence.generator.filter(|used| *used > GENERATOR);
    let occupied = occupied.map(|used| format!("a load thread used {} of its processor", percent(used)));
    let never = (evidence.never_ready > NEVER_READY).then(|| {
        format!("the generator never took up {:.1} % of the operations", evidence.never_ready * 100.0)
    });
    if let Some(said) = occupied.or(never) {
        return found(limit(LimitKind::Generator, said));
    }
    let open = format!(
        "{excluded}. It may be the network, the subscribers or what was not slowed: a capture would show it (--capture)"
    );
    let mut all = vec![open];
    all.extend(pressure_in_words(evidence));
    Argument { open: all, ..Argument::default() }
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
    use super::super::{Silence, SmallDose};
    use super::*;
    use std::collections::BTreeMap;

    fn part(components: &[&str], elasticity: [f64; 3]) -> Part {
        let [lo, mean, hi] = elasticity;
        Part {
            components: components.iter().map(|&name| name.to_owned()).collect(),
            means: if components.is_empty() { Means::Occupy } else { Means::Stop },
            dose: 0.6,
            doses: vec![0.6],
            blocks: 8,
            elasticity: Estimate { mean, ci95: Some([lo, hi]) },
            under_short_stops: None,
            small: None,
            silence: Silence::default(),
            capacity: None,
            at_least: 200.0,
            used: None,
        }
    }

    const LIMITS: [f64; 3] = [0.9, 1.0, 1.1];
    const IDLE: [f64; 3] = [-0.05, 0.0, 0.05];

    fn evidence(parts: &[Part]) -> Evidence<'_> {
        Evidence { parts, capacity: 100.0, ..Evidence::default() }
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
        let of_disk = Evidence {
            used: BTreeMap::from([("a".to_owned(), used(0.05))]),
            pressure: vec![("a disk", 0.62), ("memory", 0.01)],
            ..evidence(&parts)
        };
        let told = argue(&of_disk).limits[0].evidence.join("; ");
        assert!(
            told.contains("waited for a disk for 62 % of the time") && !told.contains("memory"),
            "{told}"
        );
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
        assert!(said(&evidence(&both)).unwrap_err().contains("or their limits are equal"));
        let [lo, mean, hi] = LIMITS;
        let small = || Some(SmallDose { dose: 0.1, elasticity: Estimate { mean, ci95: Some([lo, hi]) } });
        let sure = both.clone().map(|part| Part { small: small(), ..part });
        assert_eq!(said(&evidence(&sure)).unwrap(), ("a and b".into(), LimitKind::Coupled));
        let silence = Silence { stops: 20, silent: 18, little: 2, nearly_all: 0 };
        let at_once = both.map(|part| Part { silence, ..part });
        assert_eq!(said(&evidence(&at_once)).unwrap(), ("a and b".into(), LimitKind::Coupled));
    }

    #[test]
    fn short_stops_tell_the_limit_from_those_who_wait_for_it() {
        let of = |own: [f64; 3], other: [f64; 3], processor: f64| {
            let short = |[lo, mean, hi]: [f64; 3]| Some(Estimate { mean, ci95: Some([lo, hi]) });
            let parts = [
                Part { under_short_stops: short(own), ..part(&["store"], LIMITS) },
                Part { under_short_stops: short(other), ..part(&["worker"], LIMITS) },
            ];
            let used = BTreeMap::from([("store".to_owned(), used(processor))]);
            said(&Evidence { used, ..evidence(&parts) })
        };
        let named = |found: Result<(String, LimitKind), String>| found.ok();
        let [most, some, none] = [[0.82, 0.89, 0.96], [0.3, 0.4, 0.5], [-0.06, -0.02, 0.01]];
        assert_eq!(named(of(most, none, 0.05)), Some(("store".into(), LimitKind::Waiting)));
        assert_eq!(named(of(most, some, 0.97)), Some(("store".into(), LimitKind::Processor)));
        assert_eq!(named(of(most, some, 0.05)), None, "what hardly computes needs a clearer difference");
        assert_eq!(named(of(some, none, 0.05)), None, "the rest is nobody's");
    }

    #[test]
    fn who_sometimes_holds_what_the_limit_needs_shares_a_lock_with_it() {
        let of = |stops, silent, pair| {
            let nearly_all = stops - silent;
            let silence = Silence { stops, silent, little: 0, nearly_all };
            let holder = Part { silence, ..part(&["a"], [0.4, 0.6, 0.8]) };
            let small = Some(SmallDose { dose: 0.15, elasticity: holder.elasticity });
            let parts =
                [part(&["b"], LIMITS), Part { small, ..holder }, part(&["a", "b"], pair), part(&["c"], IDLE)];
            said(&evidence(&parts))
        };
        assert_eq!(of(40, 20, LIMITS).unwrap(), ("b and a".into(), LimitKind::Lock));
        assert!(of(40, 0, LIMITS).is_err(), "the limit goes on while it is stopped");
        assert!(of(40, 40, LIMITS).is_err(), "it is on the way of all");
        assert!(of(40, 20, IDLE).is_err(), "both together do not decide");
    }

    #[test]
    fn nobody_is_named_where_nobody_decides() {
        let parts = [part(&["a"], IDLE), part(&["b"], IDLE)];
        let of = |evidence: Evidence<'_>| said(&evidence);
        assert!(of(evidence(&parts)).unwrap_err().contains("0.05 at most"));
        let generator = of(Evidence { generator: Some(0.97), ..evidence(&parts) }).unwrap();
        assert_eq!(generator.1, LimitKind::Generator);
        let late = of(Evidence { never_ready: 0.02, ..evidence(&parts) }).unwrap();
        assert_eq!(late.1, LimitKind::Generator);
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
