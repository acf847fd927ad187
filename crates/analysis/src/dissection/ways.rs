//! From routes to residence times, the way of most messages, and losses by component.
//!
//! Without a ledger, what most messages pass is what all should: a message that misses a passage which at least half of those
//! of its phase that began with the same one have is lost at the component from which that passage leads. With a ledger its
//! losses count, and no others.

use super::TimesSummary;
use super::course::{Course, Leg, course};
use super::names::{Edge, Names};
use plimsoll_capture::component::{Components, Holder, Party};
use plimsoll_capture::hops::{End, Gain, Passage, Route, RouteKey, Ways};
use plimsoll_capture::marker::{MessageId, Search};
use plimsoll_capture::times::Times;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Lost messages that are named.
const NAMED: usize = 100;

/// How many messages had a marker, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MessageSummary {
    /// Messages with a marker.
    pub marked: u64,
    /// Those that did not come as far as they should.
    pub lost: u64,
    /// Those that may have been under way when the capture ended.
    pub under_way: u64,
    /// Those that were not followed to their end: not seen for a minute, or too many at once.
    pub given_up: u64,
    /// Passages that the capture does not hold, though the message was seen to go on behind them.
    pub unseen: u64,
    /// Passages that a message made more than once between the same two.
    pub repeated: u64,
}

/// A message that was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LostMessage {
    /// Its device.
    pub device: String,
    /// Its number.
    pub sequence: u64,
    /// Who had it last.
    pub component: String,
    /// How it was seen last: from whom to whom, in what.
    pub last: String,
}

/// What a component lost.
pub type ComponentLosses = BTreeMap<String, u64>;

/// The ways of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaySummary {
    /// Messages that began in it.
    pub messages: u64,
    /// Of those, lost.
    pub lost: u64,
    /// From the first passage to the last, of those that are complete.
    pub total: TimesSummary,
    /// Stays, the longest mean first.
    pub hops: Vec<HopSummary>,
    /// The way of most messages.
    pub path: Vec<PathStep>,
}

/// How long messages stayed in a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HopSummary {
    /// Which.
    pub component: String,
    /// From the passage that brought a message to the first that took it on.
    pub residence: TimesSummary,
    /// Its part of all stays of the phase.
    pub share: f64,
    /// Share of the phase in which it waited for an answer of somebody else; null where that is not known.
    pub asks: Option<f64>,
    /// Messages that it had last and should have passed on.
    pub lost: u64,
}

/// A passage of the way of most messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PathStep {
    /// Who had a message.
    pub from: String,
    /// Who got it.
    pub to: String,
    /// In what.
    pub protocol: String,
    /// By which request.
    pub verb: String,
    /// Part of the phase's messages that make this passage.
    pub share: f64,
    /// Median of the time since the first passage.
    pub since_first: Option<f64>,
}

pub(super) struct Told {
    pub messages: MessageSummary,
    pub losses: ComponentLosses,
    pub lost: Vec<LostMessage>,
    pub phases: BTreeMap<u16, WaySummary>,
    /// Lost ones of the ledger that were seen on the wire.
    named: BTreeSet<MessageId>,
}

/// Stands for a component where the ledger has lost a message that no capture holds, or none up to its end.
const NOWHERE: &str = "not seen on the wire";

/// What became of messages that a component of [`super::DissectionSummary::losses_by_component`] lost.
pub fn last_seen(component: &str) -> String {
    if component == NOWHERE { component.to_owned() } else { format!("last seen at {component}") }
}

/// What a loss is told of where it was seen to reach that component, and nothing is ever seen to leave it.
fn or_behind(component: &str) -> String {
    format!("{component} or behind it")
}

/// Components that no message was seen to leave, though messages that reached them were delivered and nobody was seen to do
/// that: what they pass on cannot be followed (it is encrypted, or the marker changes its form), so that they are not accused
/// of what is lost behind them.
fn blind(routes: &[Taken<'_>], ledger: &BTreeSet<MessageId>) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), BTreeSet::new());
    for taken in routes {
        let lost = taken.route.examples.iter().filter(|id| ledger.contains(id)).count() as u64;
        for (from, to) in &taken.edges {
            left.insert(from.clone());
            if taken.route.count > lost && taken.course.deliveries.is_empty() {
                reached.insert(to.clone());
            }
        }
    }
    reached.difference(&left).cloned().collect()
}

/// A route and the way in it.
struct Taken<'a> {
    key: &'a RouteKey,
    route: &'a Route,
    course: Course,
    /// The passages of the way.
    edges: Vec<Edge>,
    /// Who had its messages last: who was given them last, or who has written them where they stay.
    holder: String,
    /// The answer to the last passage, where the way ends at something that was written or called.
    answer: Option<(String, usize)>,
}

/// The ways in all routes.
fn taken<'a>(
    routes: &[(&'a RouteKey, &'a Route)],
    ways: &Ways,
    names: &Names,
    ours: Option<&str>,
) -> Vec<Taken<'a>> {
    let polled = polled(routes, ways);
    let legs_of = |key: &RouteKey| -> Vec<(Edge, &Passage, bool)> {
        let passages =
            key.steps.iter().filter_map(|step| Some((ways.passages().get(step.passage as usize)?, step)));
        passages.map(|(passage, step)| (names.edge(passage), passage, step.settled)).collect()
    };
    let all: Vec<_> = routes.iter().map(|(key, _)| legs_of(key)).collect();
    let courses: Vec<Course> = all
        .iter()
        .map(|legs| {
            let legs: Vec<Leg<'_>> = legs
                .iter()
                .map(|((from, to), passage, _)| Leg {
                    from,
                    to,
                    protocol: passage.protocol,
                    gain: passage.gain,
                    side: passage.side,
                    polled: polled.contains(&asked_by(passage)),
                })
                .collect();
            course(&legs, ours)
        })
        .collect();
    let senders: BTreeSet<&str> = all
        .iter()
        .zip(&courses)
        .flat_map(|(legs, course)| course.kept.iter().map(|&place| legs[place].0.0.as_str()))
        .collect();
    let one = |(((key, route), legs), course): ((&(&'a RouteKey, &'a Route), &Vec<_>), &Course)| {
        let legs: &Vec<(Edge, &Passage, bool)> = legs;
        let last = course.kept.last().map(|&place| (place, &legs[place]));
        let stored = |(from, to): &Edge, passage: &Passage, settled: bool| {
            let leg = Leg {
                from,
                to,
                protocol: passage.protocol,
                gain: passage.gain,
                side: passage.side,
                polled: false,
            };
            settled && leg.stores() && !senders.contains(to.as_str())
        };
        let holder = last.map(
            |(_, (edge, passage, settled))| {
                if stored(edge, passage, *settled) { edge.0.clone() } else { edge.1.clone() }
            },
        );
        let answer = last.filter(|(_, (_, _, settled))| *settled && course.deliveries.is_empty());
        Taken {
            key,
            route,
            edges: course.kept.iter().map(|&place| legs[place].0.clone()).collect(),
            holder: holder.unwrap_or_default(),
            answer: answer.map(|(place, (edge, _, _))| (edge.1.clone(), place)),
            course: course.clone(),
        }
    };
    routes.iter().zip(&all).zip(&courses).map(one).collect()
}

/// What is asked of whom, by whom.
type Question = (Holder, Holder, plimsoll_model::wire::Protocol, plimsoll_model::wire::Label);

fn asked_by(passage: &Passage) -> Question {
    let host = |holder: Holder| match holder {
        // Each poll may have a connection of its own.
        Holder::Socket(socket) => Holder::Party(Party::Host(socket.address)),
        party => party,
    };
    (host(passage.from), host(passage.to), passage.protocol, passage.verb)
}

/// Questions by which messages come at least as often to one who waits for them as to one who comes later.
fn polled(routes: &[(&RouteKey, &Route)], ways: &Ways) -> BTreeSet<Question> {
    let mut sums: BTreeMap<Question, [u64; 2]> = BTreeMap::new();
    for (key, route) in routes {
        for passage in key.steps.iter().filter_map(|step| ways.passages().get(step.passage as usize)) {
            if let Some(place) = [Gain::Awaited, Gain::Read].iter().position(|gain| *gain == passage.gain) {
                sums.entry(asked_by(passage)).or_default()[place] += route.count;
            }
        }
    }
    let waits = |(question, [awaited, read]): (Question, [u64; 2])| (awaited >= read).then_some(question);
    sums.into_iter().filter_map(waits).collect()
}

/// How many messages made a passage, and the sum of its places in their ways.
type Shares = BTreeMap<Edge, (u64, f64)>;

pub(super) fn tell(
    ways: &Ways,
    components: &Components,
    search: &Search,
    ledger: Option<&BTreeSet<MessageId>>,
) -> Told {
    let names = Names::of(ways, components);
    let routes = ways.routes();
    let mut told = Told {
        messages: MessageSummary::default(),
        losses: BTreeMap::new(),
        lost: Vec::new(),
        phases: BTreeMap::new(),
        named: BTreeSet::new(),
    };
    let taken = taken(&routes, ways, &names, components.ours());
    let blind = ledger.map(|ledger| blind(&taken, ledger)).unwrap_or_default();
    let phases: BTreeSet<u16> = routes.iter().map(|(key, _)| key.phase).collect();
    for phase in phases {
        let own: Vec<&Taken<'_>> = taken.iter().filter(|taken| taken.key.phase == phase).collect();
        let summary = tell_phase(&own, (ways, &names, &blind), search, ledger, &mut told);
        told.phases.insert(phase, summary);
    }
    let nowhere = ledger.map_or(0, |ledger| ledger.difference(&told.named).count() as u64);
    if nowhere > 0 {
        told.messages.lost += nowhere;
        told.losses.insert(NOWHERE.into(), nowhere);
    }
    told
}

fn tell_phase(
    routes: &[&Taken<'_>],
    (ways, names, blind): (&Ways, &Names, &BTreeSet<String>),
    search: &Search,
    ledger: Option<&BTreeSet<MessageId>>,
    told: &mut Told,
) -> WaySummary {
    let messages: u64 = routes.iter().map(|taken| taken.route.count).sum();
    // Messages of other beginnings are of another kind: what those pass says nothing of these.
    let mut kinds: BTreeMap<Option<&Edge>, (u64, Shares)> = BTreeMap::new();
    for Taken { route, edges, .. } in routes.iter().copied() {
        let (count, shares) = kinds.entry(edges.first()).or_default();
        *count += route.count;
        for (place, edge) in edges.iter().enumerate() {
            if edges[..place].contains(edge) {
                told.messages.repeated += route.count;
                continue;
            }
            let (count, places) = shares.entry(edge.clone()).or_default();
            *count += route.count;
            *places += place as f64 * route.count as f64;
        }
    }
    let expected: BTreeMap<Option<&Edge>, Vec<&Edge>> = kinds
        .iter()
        .map(|(first, (messages, shares))| {
            let most = shares.iter().filter(|(_, (count, _))| 2 * count >= *messages);
            let mut most: Vec<(f64, &Edge)> =
                most.map(|(edge, (count, places))| (places / *count as f64, edge)).collect();
            most.sort_by(|one, other| one.0.total_cmp(&other.0));
            (*first, most.into_iter().map(|(_, edge)| edge).collect())
        })
        .collect();
    let mut shares = Shares::new();
    for (edge, (count, places)) in kinds.values().flat_map(|(_, shares)| shares) {
        let (sum, all) = shares.entry(edge.clone()).or_default();
        *sum += count;
        *all += places;
    }
    let mut stays: BTreeMap<String, (Times, u64)> = BTreeMap::new();
    let mut total = Times::default();
    let mut lost_here = 0;
    let delivers = routes.iter().any(|taken| !taken.course.deliveries.is_empty());
    for taken in routes.iter().copied() {
        let Taken { key, route, course, edges, holder, .. } = taken;
        told.messages.marked += route.count;
        let expected = expected.get(&edges.first()).map(Vec::as_slice).unwrap_or_default();
        let absent = || expected.iter().enumerate().filter(|(_, edge)| !edges.contains(edge));
        // Who has passed a message on later had it, whether that was captured or not.
        let passed_on = |place: usize, to: &String| {
            expected.iter().skip(place + 1).any(|later| later.0 == *to && edges.contains(later))
        };
        told.messages.unseen +=
            route.count * absent().filter(|(place, edge)| passed_on(*place, &edge.1)).count() as u64;
        let missing = absent().find(|(place, edge)| !passed_on(*place, &edge.1)).map(|(_, edge)| *edge);
        let last = course.kept.last().and_then(|&place| key.steps.get(place));
        let last = last.map(|step| names.words(ways, step.passage)).unwrap_or_default();
        let (count, loser, named): (u64, String, Vec<MessageId>) = match ledger {
            // What became of it after the capture's end is nobody's fault that the capture could show.
            Some(_) if key.end == End::UnderWay => (0, String::new(), Vec::new()),
            Some(ledger) => {
                let named: Vec<MessageId> = route
                    .examples
                    .iter()
                    .filter(|id| ledger.contains(id) && told.named.insert(**id))
                    .copied()
                    .collect();
                let had = |component: &String| edges.iter().any(|(_, to)| to == component);
                let loser = missing.filter(|edge| had(&edge.0)).map(|edge| edge.0.clone());
                let loser = loser.unwrap_or_else(|| holder.clone());
                let loser = if blind.contains(&loser) { or_behind(&loser) } else { loser };
                (named.len() as u64, loser, named)
            }
            None => match missing {
                Some(edge) if key.end == End::Seen => (route.count, edge.0.clone(), route.examples.clone()),
                _ => (0, String::new(), Vec::new()),
            },
        };
        match key.end {
            End::UnderWay if missing.is_some() => told.messages.under_way += route.count,
            End::GivenUp => told.messages.given_up += route.count,
            _ => {}
        }
        if missing.is_none() {
            let end = course.deliveries.last().or(course.kept.last());
            end.and_then(|&place| route.since.get(place)).into_iter().for_each(|times| total.merge(times));
        }
        if count > 0 {
            lost_here += count;
            told.messages.lost += count;
            *told.losses.entry(loser.clone()).or_default() += count;
            stays.entry(loser.clone()).or_default().1 += count;
            for id in named.iter().take(NAMED.saturating_sub(told.lost.len())) {
                told.lost.push(LostMessage {
                    device: search.name(id.device),
                    sequence: id.sequence,
                    component: loser.clone(),
                    last: last.clone(),
                });
            }
        }
        add_stays(taken, names, ways, !delivers, &mut stays);
    }
    let whole: f64 = stays.values().map(|(times, _)| times.sum()).sum();
    let mut hops: Vec<HopSummary> = stays
        .iter()
        .map(|(component, (times, lost))| HopSummary {
            component: component.clone(),
            residence: TimesSummary::of(times),
            share: if whole > 0.0 { times.sum() / whole } else { 0.0 },
            asks: None,
            lost: *lost,
        })
        .collect();
    hops.sort_by(|one, other| {
        other.share.total_cmp(&one.share).then_with(|| one.component.cmp(&other.component))
    });
    WaySummary {
        messages,
        lost: lost_here,
        total: TimesSummary::of(&total),
        hops,
        path: path(routes, ways, names, &shares, messages),
    }
}

/// Stays on the way to where a message was delivered; what a component waited for is of those that it waited for. Where
/// nothing is delivered the way ends with an answer, and lasts as long as that takes.
fn add_stays(
    taken: &Taken<'_>,
    names: &Names,
    ways: &Ways,
    with_answer: bool,
    stays: &mut BTreeMap<String, (Times, u64)>,
) {
    let passage = |place: usize| {
        let step = taken.key.steps.get(place)?;
        ways.passages().get(step.passage as usize)
    };
    for (&brought, &took) in &taken.course.stays {
        let (Some(passage), Some(stay)) =
            (passage(took), taken.route.stays.get(&(brought as u8, took as u8)))
        else {
            continue;
        };
        stays.entry(names.name(&passage.from)).or_default().0.merge(&stay.own);
        for (callee, times) in &stay.waits {
            stays.entry(names.name(callee)).or_default().0.merge(times);
        }
    }
    if let Some((who, place)) = taken.answer.as_ref().filter(|_| with_answer)
        && let Some(times) = taken.route.settled.get(*place)
    {
        stays.entry(who.clone()).or_default().0.merge(times);
    }
}

/// The most used route, each passage once.
fn path(routes: &[&Taken<'_>], ways: &Ways, names: &Names, shares: &Shares, messages: u64) -> Vec<PathStep> {
    let Some(taken) = routes.iter().max_by_key(|taken| (taken.route.count, taken.edges.len())) else {
        return Vec::new();
    };
    let mut steps: Vec<PathStep> = Vec::new();
    for &place in &taken.course.kept {
        let step = taken.key.steps.get(place);
        let Some(passage) = step.and_then(|step| ways.passages().get(step.passage as usize)) else {
            continue;
        };
        let (from, to) = names.edge(passage);
        if steps.iter().any(|step| step.from == from && step.to == to) {
            continue;
        }
        let count = shares.get(&(from.clone(), to.clone())).map_or(0, |(count, _)| *count);
        steps.push(PathStep {
            from,
            to,
            protocol: passage.protocol.name().into(),
            verb: passage.verb.to_string(),
            share: count as f64 / messages.max(1) as f64,
            since_first: taken.route.since.get(place).and_then(|times| TimesSummary::of(times).p50),
        });
    }
    steps
}

#[cfg(test)]
mod tests;
