//! From the effects to what limits: a name is given only where each alternative was excluded by a test that is stated with it.

mod one_alone;
mod several;
mod shared_processors;
#[cfg(test)]
mod tests;

pub use one_alone::{alone_by_medium_stops, alone_by_short_stops, share_occupation};
pub use several::{keep_few_at_once, loses_medium_stops, stop_each_other};
pub use shared_processors::{full_processors, share_processors};

use super::evidence::Evidence;
use super::{NOTHING, Part};
use crate::limits::{Limit, LimitKind};
use one_alone::{by_short_stops, occupied_itself, one, pressure_in_words};
use plimsoll_model::experiment::Means;
use several::{by_turns, pool, together};
use shared_processors::processors;

// A part whose own limit is c times the throughput has the elasticity (1 / c - 0.85) / 0.15 under the smallest dose, 0.15. The three bounds
// stand for limits that are 6, 3 and 12 % above the throughput.

/// A part whose elasticity is surely above this decides the throughput, as far as noise separates one part from several.
pub(super) const DECIDES: f64 = 0.6;
/// The mean elasticity of a part that decides is above this.
const ALONE: f64 = 0.78;
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
pub const EXCLUDED: f64 = 0.3;
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

/// What limits, and what is open.
#[derive(Default)]
pub struct Argument {
    pub limits: Vec<Limit>,
    pub open: Vec<String>,
    /// Whether full processors limit.
    pub processors_are_full: bool,
    /// Whether a component limits that calls others, by how much it is occupied itself.
    pub is_by_occupation: bool,
}

/// Makes the argument. Each rule excludes what the ones below it would say.
pub fn argue(evidence: &Evidence<'_>) -> Argument {
    if let Some(open) = unfit(evidence) {
        return unknown(open);
    }
    let full = full_processors(evidence.parts, &evidence.used).filter(|_| evidence.is_steady());
    let argument = match full {
        Some(shared) => Argument { processors_are_full: true, ..found(processors(shared, evidence)) },
        None => of_components(evidence),
    };
    let slowed = |name: &&String| *name != super::effect::PROCESSORS;
    let missing: Vec<&str> = evidence.missing.iter().filter(slowed).map(String::as_str).collect();
    // All processors together are shown to limit by using them, whoever could not be slowed.
    let is_of_components = |limit: &&Limit| {
        limit.component.is_some() || !limit.components.is_empty() && limit.kind != LimitKind::Processors
    };
    let Some(limit) = argument.limits.iter().find(is_of_components) else { return argument };
    let name = limit.name();
    if let Some(why) = for_subscribers(evidence).or_else(|| for_generator(evidence)) {
        return unknown(format!("{name} may limit the load, or only wait: {why}"));
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return unknown(format!("{name} may limit the load, but {missing} could not be slowed"));
    }
    argument
}

/// Why components may only wait for the load generator, where they may: one that has few messages on their way loses its stops, too.
fn for_generator(evidence: &Evidence<'_>) -> Option<String> {
    let used = evidence.generator.filter(|used| *used > GENERATOR)?;
    Some(format!("a load thread used {} of its processor, and may have no more to give", percent(used)))
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
        if let Some(limit) = by_short_stops(&contenders, evidence) {
            return found(limit);
        }
        if let Some(limit) = pool(&contenders, evidence) {
            return found(limit);
        }
        if let Some(limit) = occupied_itself(&contenders, evidence) {
            return Argument { is_by_occupation: true, ..found(limit) };
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
    // Who surely decides nothing may wait for a processor: that changes nothing either.
    let matters = |name: &str| {
        let own = evidence.single().find(|part| part.components == [name.to_owned()]);
        own.is_none_or(|part| part.elasticity.ends()[1] > NOTHING)
    };
    let held = evidence.used.iter().filter(|(name, used)| used.held_by_others > HELD && matters(name));
    if let Some((name, used)) = held.max_by(|a, b| a.1.held_by_others.total_cmp(&b.1.held_by_others)) {
        let holder = used.holder.as_ref().map(|holder| format!(" ({holder})")).unwrap_or_default();
        return Some(format!(
            "processes outside the platform{holder} held the processor of {name} for {} of the time (bound {}): an experiment without \
             them may show what limits",
            percent(used.held_by_others),
            percent(HELD)
        ));
    }
    if evidence.kept_from_generator > KEPT {
        return Some(format!(
            "the host kept {} of the time from a load thread",
            percent(evidence.kept_from_generator)
        ));
    }
    let refuses_more = |(_, refused): &&(String, f64)| *refused > evidence.refused + SOME_REFUSED;
    let refusing = evidence.refused_while.iter().filter(|_| evidence.refused <= REFUSED).find(refuses_more);
    if let Some((name, refused)) = refusing {
        return Some(format!(
            "Plimsoll saw {} of the operations refused while it slowed {name}, and {} while it slowed nothing: somebody gives up \
             in the stops",
            percent(*refused),
            percent(evidence.refused)
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

/// Whether a part that does not limit slows the platform by more than it would alone: others wait for it, and stop while it does.
/// What it allows by itself is not known then.
pub fn stops_others(part: &Part) -> bool {
    part.elasticity.ends()[0] > EXCLUDED
}

pub fn decides(part: &Part) -> bool {
    part.elasticity.ends()[0] > DECIDES && part.elasticity.mean > ALONE
}

/// Why it is open whether some parts that contend decide as well, for people.
fn may_decide_as_well(others: &[&Part], evidence: &Evidence<'_>) -> String {
    let names: Vec<String> = others.iter().map(|part| part.name()).collect();
    // Small doses are left out of those that were seen to stop each other.
    let stops_each_other = |part: &&&Part| {
        let is_in = |own: &&super::InTurn| part.components.iter().all(|name| own.components.contains(name));
        evidence.in_turn.iter().filter(is_in).any(super::InTurn::loses_all)
    };
    let why = match others.iter().all(|part| part.small.is_some()) {
        true => "stops cannot separate limits within 10 % of each other",
        false if others.iter().all(|part| stops_each_other(&part)) => {
            "each of them stops the others for nearly all of a stop; a relay before each may tell more (platform.relays)"
        }
        false => "there was no time for a small dose (load.experiment.within)",
    };
    format!("{} may as well: {why}", names.join(", "))
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
