//! Several components that limit together: few operations can be between them, or they share what one has at a time.

use super::super::evidence::Evidence;
use super::super::{InTurn, Part, Path, can};
use super::one_alone::excluded;
use super::{
    Argument, DECIDES, EXCLUDED, decides, effect_in_words, may_decide_as_well, stops_others, unknown,
};
use crate::limits::{Limit, LimitKind};

/// What the elasticities of components that stop each other do not mean, for people.
const STOP_EACH_OTHER: &str =
    "each of them stops the others, so a faster one may buy less than its elasticity says";

/// Of two components that were stopped in turn, each of which keeps the other one from working: whether always, or only while it has something
/// that both need. That their limits are equal by chance is excluded: what one did in the stop of the other would wait between them for the
/// next. One of them need not decide by itself, since some of what was not done in its stops may be made up for.
pub(super) fn by_turns(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
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
        return members
            .iter()
            .all(|part| loses_medium_stops(part))
            .then(|| coupled(&members, said, evidence));
    }
    let waits = evidence.waits();
    let can = can(evidence.parts, evidence.capacity, &waits);
    let named = in_turn.components.iter().zip(&in_turn.stops);
    said.extend(named.map(|(name, stops)| stops.in_words(name)));
    said.extend(in_turn.faster_in_words(&can));
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
    in_turn.is_exclusive(can).then_some(limit)
}

/// Whether a component surely loses a good part of medium stops, if it had some. If not, long ones outlast what is in hand behind it, and that
/// another one cannot work meanwhile says nothing of both.
pub fn loses_medium_stops(part: &Part) -> bool {
    part.under_medium_stops.is_none_or(|medium| medium.elasticity.ends()[0] > EXCLUDED)
}

/// Several components decide, and it was not shown that they share something.
pub(super) fn together(deciding: &[&Part], contenders: &[&Part], evidence: &Evidence<'_>) -> Argument {
    let names: Vec<String> = deciding.iter().map(|part| part.name()).collect();
    let names = names.join(" and ");
    let others = may_as_well(contenders, deciding);
    if !others.is_empty() {
        return unknown(format!(
            "{names} decide the throughput, but {}",
            may_decide_as_well(&others, evidence)
        ));
    }
    let waits = evidence.waits();
    let can = can(evidence.parts, evidence.capacity, &waits);
    if let Some(equal) = evidence.in_turn(deciding).filter(|own| own.has_queue_between(can)) {
        return unknown(format!(
            "{names} decide the throughput, each of them, and their limits are about equal: {}",
            equal.in_words()
        ));
    }
    let by_capture = "a capture may show that one of them is occupied itself while it calls none (--capture)";
    let by_capture = Some(by_capture.to_owned()).filter(|_| !evidence.is_captured);
    let which: Vec<String> = which_by_relays(deciding, evidence).into_iter().chain(by_capture).collect();
    let which = if which.is_empty() { String::new() } else { format!(": {}", which.join("; ")) };
    unknown(format!(
        "{names} decide the throughput, each of them: few operations can be between them, they share something that one has at \
         a time, or their limits are equal{which}"
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
pub(super) fn pool(contenders: &[&Part], evidence: &Evidence<'_>) -> Option<Limit> {
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
    said.push("what keeps a place there may also be outside the platform".to_owned());
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

/// The contenders beside some that decide, whose elasticity may be that of a part that decides.
fn may_as_well<'a>(contenders: &[&'a Part], deciding: &[&Part]) -> Vec<&'a Part> {
    let is_other = |part: &&Part| !deciding.contains(part) && part.elasticity.ends()[1] > DECIDES;
    contenders.iter().copied().filter(is_other).collect()
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
