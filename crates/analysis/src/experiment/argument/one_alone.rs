//! One component that limits alone, and what of it is at its limit.

use super::super::evidence::{Evidence, Used};
use super::super::{CONTENDS, Estimate, NOTHING, Part, sort};
use super::{
    ALONE, Argument, DECIDES, EXCLUDED, decides, effect_in_words, found, may_decide_as_well, percent, unknown,
};
use crate::dissection::Occupation;
use crate::limits::{Limit, LimitKind};
use plimsoll_model::Nanos;
use plimsoll_stats::proportion::wilson;
use std::ops::RangeInclusive;

/// The sum of elasticities that explain about the whole time of an operation.
const WHOLE: RangeInclusive<f64> = 0.7..=1.4;
/// By so much the time for which a component is occupied may differ from what follows from the stay of a message alone.
const STAYS: f64 = 0.25;
/// A part that uses less than this of a processor, and does not wait for one, is occupied by something else.
const IDLE: f64 = 0.5;
/// A part that uses less than this of a processor hardly computes.
const HARDLY: f64 = 0.25;
/// Threads that wait for a processor, from which on that is worth a word.
const WAITS: f64 = 0.1;
/// Share of the time in which processes of the host waited for a disk or memory, from which on that is worth a word.
const PRESSED: f64 = 0.1;

/// One component decides.
pub(super) fn one(own: &Part, contenders: &[&Part], evidence: &Evidence<'_>) -> Argument {
    let partly: Vec<String> = partly(evidence).iter().map(|part| part.name()).collect();
    if !partly.is_empty() {
        return unknown(format!(
            "{} decides the throughput, and it cannot work for long while {} is stopped: they share a lock or a processor, or \
             few operations can be between them",
            own.name(),
            partly.join(" or ")
        ));
    }
    let others: Vec<&Part> = contenders.iter().filter(|part| **part != own).copied().collect();
    if !others.is_empty() {
        return unknown(format!(
            "{} decides the throughput, but {}",
            own.name(),
            may_decide_as_well(&others, evidence)
        ));
    }
    if own.small.is_none() {
        return unknown(format!(
            "{} decides the throughput under a large dose, and there was no time for a small one: something else may limit that \
             allows up to a tenth less (load.experiment.within)",
            own.name()
        ));
    }
    let said = excluded(&[own], evidence).into_iter().chain(medium_in_words(own, evidence)).collect();
    found(alone(own, own.elasticity, said, evidence))
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

/// By what every other component is excluded, for people.
pub(super) fn excluded(named: &[&Part], evidence: &Evidence<'_>) -> Option<String> {
    let rest = evidence.single().filter(|part| !named.contains(part)).map(|part| part.elasticity.ends()[1]);
    let highest = rest.reduce(f64::max)?;
    Some(format!("each other component was slowed as well: elasticity {highest:.2} at most"))
}

/// Of components each of which may decide: stops that are short beside an operation slow those that compute, and only them. Where one decides
/// all, the others only wait for it.
pub(super) fn by_short_stops(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let computes = |part: &Part| evidence.used_by(part).is_some_and(|used| used.computes());
    let own = alone_by_short_stops(contenders, computes).filter(|own| decides(own))?;
    let named = |(part, short): &(&Part, Estimate)| format!("{} {:.2}", part.name(), short.mean);
    let all: Vec<String> = under_stops(contenders, short)?.iter().map(named).collect();
    let said = format!("with short stops, which a wait outlasts, elasticities are {}", all.join(", "));
    // What others do beside it is a part of what its long stops take.
    let elasticity = own.under_short_stops.unwrap_or(own.elasticity);
    Some(alone(own, elasticity, vec![said], evidence))
}

/// What stops of a kind did to components, where several had some, and each that may decide.
fn under_stops<'a>(
    parts: &[&'a Part],
    stops: fn(&Part) -> Option<Estimate>,
) -> Option<Vec<(&'a Part, Estimate)>> {
    let is_left_out = |part: &&Part| stops(part).is_none() && part.elasticity.ends()[1] > DECIDES;
    if parts.iter().any(is_left_out) {
        return None;
    }
    let of = |part: &&'a Part| Some((*part, stops(part)?));
    let own: Vec<(&Part, Estimate)> = parts.iter().filter_map(of).collect();
    (own.len() >= 2).then_some(own)
}

fn short(part: &Part) -> Option<Estimate> {
    part.under_short_stops
}

fn medium(part: &Part) -> Option<Estimate> {
    part.under_medium_stops.map(|medium| medium.elasticity)
}

/// The one component of some that surely decides under stops of a kind.
fn only_one<'a>(under: &[(&'a Part, Estimate)], least: f64) -> Option<&'a Part> {
    let mut sure = under.iter().filter(|(_, own)| own.ends()[0] > least).map(|(part, _)| *part);
    let (Some(own), None) = (sure.next(), sure.next()) else { return None };
    Some(own)
}

/// Whether the elasticities of all others are surely below that.
fn others_below(own: &Part, under: &[(&Part, Estimate)], most: f64) -> bool {
    under.iter().all(|(part, other)| std::ptr::eq(*part, own) || other.ends()[1] < most)
}

/// The one component that short stops show to decide. Elasticities are parts of a whole: what one has surely, the others have not, even
/// those that sleep through short stops. Of one that is not known to compute all the time, more is asked.
pub fn alone_by_short_stops<'a>(
    contenders: &[&'a Part],
    computes: impl Fn(&Part) -> bool,
) -> Option<&'a Part> {
    let under = under_stops(contenders, short)?;
    let sum: f64 = under.iter().map(|(_, short)| short.mean).sum();
    let own = only_one(&under, DECIDES).filter(|_| WHOLE.contains(&sum))?;
    if computes(own) {
        return others_below(own, &under, DECIDES).then_some(own);
    }
    // What it has not may be the part of who waits while it has a lock, and sleeps through short stops.
    let is_nearly_all = short(own).is_some_and(|own| own.mean > ALONE);
    (is_nearly_all && others_below(own, &under, EXCLUDED)).then_some(own)
}

/// The one component that medium stops show to decide: it loses what a stop takes, and has nothing that would last for so long. The others
/// lose nothing, since it goes on with what it has in hand. Of two that share a lock, each would lose the part that it has of it.
pub fn alone_by_medium_stops<'a>(parts: &[&'a Part]) -> Option<&'a Part> {
    let under = under_stops(parts, medium)?;
    let own = only_one(&under, CONTENDS).filter(|own| decides(own))?;
    others_below(own, &under, NOTHING).then_some(own)
}

/// What medium stops showed, where they excluded somebody, for people.
fn medium_in_words(own: &Part, evidence: &Evidence<'_>) -> Option<String> {
    let single: Vec<&Part> = evidence.single().collect();
    let excluded = alone_by_medium_stops(&single).filter(|alone| std::ptr::eq(*alone, own));
    let stop = excluded.and(own.under_medium_stops)?.stop;
    let named = |(part, own): &(&Part, Estimate)| format!("{} {:.2}", part.name(), own.mean);
    let all: Vec<String> = under_stops(&single, medium)?.iter().map(named).collect();
    Some(format!(
        "with stops of {:.0} ms, elasticities are {}: the others lose nothing by stops that are over so soon",
        stop * 1e3,
        all.join(", ")
    ))
}

/// Of components that stop each other, the one that calls the others and is occupied itself nearly all the time, by a capture: they stop it,
/// since it waits for their answers, but these take little of its time. That it only waits for something that is no request, such as for a
/// next attempt, is excluded by the time that a message alone stays in it: at the rate that is done, this is as much of the time. One that has
/// several workers may wait for some answer all the time, and nothing follows from that.
pub(super) fn occupied_itself(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
    let of = |part: &&Part| occupation(part, evidence);
    let all: Vec<&Occupation> = contenders.iter().map(of).collect::<Option<_>>()?;
    let place = all.iter().position(|own| itself(own).ends()[0] > DECIDES)?;
    let (part, own) = (contenders.get(place)?, all.get(place)?);
    let elasticity = itself(own);
    let stay = evidence.stays.get(own.component.as_str())?;
    let is_by_stay = (elasticity.mean / (stay * evidence.capacity) - 1.0).abs() < STAYS;
    let others: Vec<&Occupation> =
        all.iter().filter(|other| other.component != own.component).copied().collect();
    let is_explained =
        |other: &&Occupation| own.asks.contains(&other.component) && itself(other).ends()[1] < 1.0 - DECIDES;
    let all_decide = contenders.iter().all(|part| decides(part));
    if !all_decide || !others.iter().all(is_explained) || !is_by_stay || !evidence.is_steady() {
        return None;
    }
    let names: Vec<&str> = others.iter().map(|other| other.component.as_str()).collect();
    let said = vec![
        format!("stops of {} cost as much: {} waits for their answers", names.join(" and "), part.name()),
        format!(
            "on the wire, {} had no request under way for {} of the time. As much follows from the {} that a message alone stays in it. \
             Its elasticity is that part of the time",
            part.name(),
            percent(elasticity.mean),
            Nanos::from_secs_f64(*stay)
        ),
    ];
    Some(alone(part, elasticity, said, evidence))
}

/// Where a component limits by how much it is occupied itself, the elasticity of each component that it waits for is its part of the time: a
/// stop of it stops all, and tells nothing of that.
pub fn share_occupation(parts: &mut [Part], limits: &[Limit], evidence: &Evidence<'_>) {
    let named = |part: &Part| limits.iter().any(|limit| limit.names(&part.components));
    for part in parts.iter_mut().filter(|part| part.components.len() == 1 && decides(part)) {
        let Some(elasticity) = occupation(part, evidence).map(itself) else { continue };
        part.elasticity = elasticity;
        part.capacity = part.capacity.filter(|_| named(part));
    }
    sort(parts);
}

fn occupation<'a>(part: &Part, evidence: &Evidence<'a>) -> Option<&'a Occupation> {
    evidence.occupations.iter().find(|own| part.components == [own.component.clone()])
}

/// The part of the time for which a component was occupied itself.
fn itself(occupation: &Occupation) -> Estimate {
    let Occupation { itself, looks, .. } = *occupation;
    let interval = wilson(itself, looks);
    Estimate { mean: itself as f64 / looks.max(1) as f64, ci95: Some([interval.lo, interval.hi]) }
}

/// A component that decides alone, by so much; `excluded` says by what the others are not it.
fn alone(part: &Part, elasticity: Estimate, excluded: Vec<String>, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(part)];
    said.extend(excluded);
    let mut kind = evidence.used_by(part).map_or(LimitKind::Unknown, |used| {
        said.extend(use_in_words(&used));
        kind_of(&used)
    });
    if let Some(said_of_rate) = evidence.unsteady_in_words() {
        said.push(said_of_rate);
        kind = LimitKind::Unknown;
    }
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
        used if used.processor < HARDLY && used.processor + used.waits < IDLE => LimitKind::Waiting,
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
pub(super) fn pressure_in_words(evidence: &Evidence<'_>) -> Vec<String> {
    let pressed = evidence.pressure.iter().filter(|(_, share)| *share > PRESSED);
    pressed
        .map(|(what, share)| {
            format!("some process on this host waited for {what} for {} of the time", percent(*share))
        })
        .collect()
}
