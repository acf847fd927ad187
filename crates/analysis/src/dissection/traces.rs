//! From traces to residence times, the path of most messages, and losses by component.
//!
//! Without a ledger, what most messages pass is what all should: a message that misses an edge which at least half of those
//! of its phase that began with the same one have is lost at the component from which that edge leads. With a ledger its
//! losses count, and no others.

use super::course::{Course, CourseEdge, course};
use super::names::{NamedEdge, Names};
use super::{Ledger, TimesSummary};
use plimsoll_capture::component::{Components, Holder, Party};
use plimsoll_capture::marker::{MessageId, Search};
use plimsoll_capture::times::Times;
use plimsoll_capture::traces::{Edge, End, TraceGroup, TraceKey, Traces, Transfer};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Lost messages that are named.
const NAMED: usize = 100;

/// How many messages had a marker, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    /// Those that came to subscribers more often than they should.
    pub duplicated: u64,
}

/// A message that was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "WaySummary"))]
pub struct TraceSummary {
    /// Messages that began in it.
    pub messages: u64,
    /// Of those, lost.
    pub lost: u64,
    /// From the first passage to the last, of those that are complete.
    pub total: TimesSummary,
    /// Stays, the longest mean first.
    #[serde(rename = "hops")]
    pub residences: Vec<ResidenceSummary>,
    /// The way of most messages.
    pub path: Vec<PathStep>,
}

/// How long messages stayed in a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "HopSummary"))]
pub struct ResidenceSummary {
    /// Which.
    pub component: String,
    /// From the passage that brought a message to the first that took it on.
    #[serde(rename = "residence")]
    pub times: TimesSummary,
    /// Its part of all stays of the phase.
    pub share: f64,
    /// Messages in it at once, on average: how many came per second times their mean stay (Little's law); null where the phase has
    /// no end.
    pub present: Option<f64>,
    /// Share of the phase in which it waited for an answer of somebody else; null where that is not known.
    pub asks: Option<f64>,
    /// Messages that it had last and should have passed on.
    pub lost: u64,
}

/// A passage of the way of most messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    pub duplicates: BTreeMap<String, u64>,
    pub phases: BTreeMap<u16, TraceSummary>,
    /// Lost ones of the ledger that were seen on the wire.
    named: BTreeSet<MessageId>,
}

impl Told {
    /// Messages were lost that were seen last as `last` says.
    fn lose(&mut self, loss: &Loss, last: &str, search: &Search) {
        self.messages.lost += loss.count;
        *self.losses.entry(loss.component.clone()).or_default() += loss.count;
        let room = NAMED.saturating_sub(self.lost.len());
        self.lost.extend(loss.named.iter().take(room).map(|id| LostMessage {
            device: search.name(id.device),
            sequence: id.sequence,
            component: loss.component.clone(),
            last: last.to_owned(),
        }));
    }
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

/// What a loss is told of where that component gave the message to some of its subscribers, and what others lack was not told apart.
fn or_before(component: &str) -> String {
    format!("{component} or before it")
}

/// Components that no message was seen to leave, though messages that reached them were delivered and nobody was seen to do
/// that: what they pass on cannot be followed (it is encrypted, or the marker changes its form), so that they are not accused
/// of what is lost behind them.
fn blind(groups: &[TracedGroup<'_>], ledger: &BTreeSet<MessageId>) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), BTreeSet::new());
    for traced in groups {
        let lost = traced.group.examples.iter().filter(|id| ledger.contains(id)).count() as u64;
        for (from, to) in &traced.edges {
            left.insert(from.clone());
            if traced.group.count > lost && traced.course.deliveries.is_empty() {
                reached.insert(to.clone());
            }
        }
    }
    reached.difference(&left).cloned().collect()
}

/// A trace group and the course in it.
struct TracedGroup<'a> {
    key: &'a TraceKey,
    group: &'a TraceGroup,
    course: Course,
    /// The edges of the course.
    edges: Vec<NamedEdge>,
    /// Who had its messages last: who was given them last, or who has written them where they stay.
    holder: String,
    /// The answer to the last edge, where the course ends at something that was written or called.
    answer: Option<(String, usize)>,
}

impl TracedGroup<'_> {
    /// Who gave its messages to a subscriber last.
    fn delivered_by(&self) -> Option<&String> {
        let last = self.course.deliveries.last()?;
        let place = self.course.kept.iter().position(|kept| kept == last)?;
        Some(&self.edges.get(place)?.0)
    }
}

/// An edge with the names of its ends, and whether it was a request that was answered without an error.
type FollowedEdge<'a> = (NamedEdge, &'a Edge, bool);

fn course_edge<'a>((from, to): &'a NamedEdge, edge: &Edge, polled: bool) -> CourseEdge<'a> {
    let Edge { protocol, transfer, side, .. } = *edge;
    CourseEdge { from, to, protocol, transfer, side, polled }
}

/// The courses in all trace groups.
fn traced_groups<'a>(
    groups: &[(&'a TraceKey, &'a TraceGroup)],
    traces: &Traces,
    names: &Names,
    ours: Option<&str>,
) -> Vec<TracedGroup<'a>> {
    let polled = polled(groups, traces);
    let edges_of = |key: &TraceKey| -> Vec<FollowedEdge<'_>> {
        let edges = key.steps.iter().filter_map(|step| Some((traces.edges().get(step.edge as usize)?, step)));
        edges.map(|(edge, step)| (names.edge(edge), edge, step.settled)).collect()
    };
    let all: Vec<Vec<FollowedEdge<'_>>> = groups.iter().map(|(key, _)| edges_of(key)).collect();
    let course_of = |edges: &Vec<FollowedEdge<'_>>| {
        let edges: Vec<CourseEdge<'_>> = edges
            .iter()
            .map(|(named, edge, _)| course_edge(named, edge, polled.contains(&asked_by(edge))))
            .collect();
        course(&edges, ours)
    };
    let courses: Vec<Course> = all.iter().map(course_of).collect();
    let senders: BTreeSet<&str> = all
        .iter()
        .zip(&courses)
        .flat_map(|(edges, course)| course.kept.iter().map(|&place| edges[place].0.0.as_str()))
        .collect();
    let traced = |((&(key, group), edges), course): (
        (&(&'a TraceKey, &'a TraceGroup), &Vec<FollowedEdge<'_>>),
        &Course,
    )| {
        let last = course.kept.last().map(|&place| (place, &edges[place]));
        let stored = |named: &NamedEdge, edge: &Edge, settled: bool| {
            settled && course_edge(named, edge, false).stores() && !senders.contains(named.1.as_str())
        };
        let holder = last.map(
            |(_, (named, edge, settled))| {
                if stored(named, edge, *settled) { named.0.clone() } else { named.1.clone() }
            },
        );
        let answer = last.filter(|(_, (_, _, settled))| *settled && course.deliveries.is_empty());
        TracedGroup {
            key,
            group,
            edges: course.kept.iter().map(|&place| edges[place].0.clone()).collect(),
            holder: holder.unwrap_or_default(),
            answer: answer.map(|(place, (named, _, _))| (named.1.clone(), place)),
            course: course.clone(),
        }
    };
    groups.iter().zip(&all).zip(&courses).map(traced).collect()
}

/// What is asked of whom, by whom.
type Question = (Holder, Holder, plimsoll_model::wire::WireProtocol, plimsoll_model::wire::Label);

fn asked_by(edge: &Edge) -> Question {
    let host = |holder: Holder| match holder {
        // Each poll may have a connection of its own.
        Holder::Socket(socket) => Holder::Party(Party::Host(socket.address)),
        party => party,
    };
    (host(edge.from), host(edge.to), edge.protocol, edge.verb)
}

/// Questions by which messages come at least as often to one who waits for them as to one who comes later.
fn polled(groups: &[(&TraceKey, &TraceGroup)], traces: &Traces) -> BTreeSet<Question> {
    let mut sums: BTreeMap<Question, [u64; 2]> = BTreeMap::new();
    for (key, group) in groups {
        for edge in key.steps.iter().filter_map(|step| traces.edges().get(step.edge as usize)) {
            if let Some(place) =
                [Transfer::Awaited, Transfer::Read].iter().position(|transfer| *transfer == edge.transfer)
            {
                sums.entry(asked_by(edge)).or_default()[place] += group.count;
            }
        }
    }
    let waits = |(question, [awaited, read]): (Question, [u64; 2])| (awaited >= read).then_some(question);
    sums.into_iter().filter_map(waits).collect()
}

/// How many messages made an edge so often again, and the sum of its places in their courses.
type Shares = BTreeMap<(NamedEdge, usize), (u64, f64)>;

/// Messages of a phase by the edge that they began with, and what they passed: those of other beginnings are of another kind,
/// and what they pass says nothing of these.
type Kinds<'a> = BTreeMap<Option<&'a NamedEdge>, (u64, Shares)>;

/// What most messages of a kind pass, and how often before that, in the order in which they do. With two subscribers, most make the
/// edge to them once, and once again.
type Expected<'a> = BTreeMap<Option<&'a NamedEdge>, Vec<(&'a NamedEdge, usize)>>;

/// Residence times of each component, and what it lost.
type Residences = BTreeMap<String, (Times, u64)>;

pub(super) fn tell(
    traces: &Traces,
    components: &Components,
    search: &Search,
    ledger: Option<&Ledger>,
) -> Told {
    let receivers = ledger.and_then(|ledger| ledger.receivers);
    let ledger = ledger.map(|ledger| &ledger.lost);
    let names = Names::of(traces, components);
    let groups = traces.groups();
    let mut told = Told {
        messages: MessageSummary::default(),
        losses: BTreeMap::new(),
        lost: Vec::new(),
        duplicates: BTreeMap::new(),
        phases: BTreeMap::new(),
        named: BTreeSet::new(),
    };
    let traced = traced_groups(&groups, traces, &names, components.ours());
    let blind = ledger.map(|ledger| blind(&traced, ledger)).unwrap_or_default();
    let phases: BTreeSet<u16> = groups.iter().map(|(key, _)| key.phase).collect();
    for phase in phases {
        let own: Vec<&TracedGroup<'_>> = traced.iter().filter(|traced| traced.key.phase == phase).collect();
        let summary = tell_phase(&own, (traces, &names, &blind), search, (ledger, receivers), &mut told);
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
    groups: &[&TracedGroup<'_>],
    (traces, names, blind): (&Traces, &Names, &BTreeSet<String>),
    search: &Search,
    (ledger, receivers): (Option<&BTreeSet<MessageId>>, Option<u32>),
    told: &mut Told,
) -> TraceSummary {
    let kinds = kinds(groups, &mut told.messages.repeated);
    let expected = expected(&kinds);
    let mut residences = Residences::new();
    let mut total = Times::default();
    let mut lost_here = 0;
    let delivers = groups.iter().any(|traced| !traced.course.deliveries.is_empty());
    for traced in groups.iter().copied() {
        let TracedGroup { key, group, course, edges, .. } = traced;
        told.messages.marked += group.count;
        let expected = expected.get(&edges.first()).map(Vec::as_slice).unwrap_or_default();
        let has = |edge: &NamedEdge, before: usize| edges.iter().filter(|own| *own == edge).count() > before;
        let absent = || expected.iter().enumerate().filter(|(_, (edge, before))| !has(edge, *before));
        // Who has passed a message on later, and as often, had it, whether that was captured or not.
        let passed_on = |place: usize, (to, before): (&String, usize)| {
            let mut later = expected.iter().skip(place + 1).filter(|(edge, _)| edge.0 == *to);
            later.any(|(edge, again)| *again >= before && has(edge, *again))
        };
        let is_first = |(_, (_, before)): &(usize, &(&NamedEdge, usize))| *before == 0;
        let went_on =
            |(place, (edge, before)): &(usize, &(&NamedEdge, usize))| passed_on(*place, (&edge.1, *before));
        told.messages.unseen +=
            group.count * absent().filter(|one| is_first(one) && went_on(one)).count() as u64;
        let is_missing = |one: &(usize, &(&NamedEdge, usize))| !went_on(one);
        let missing = absent().filter(is_first).find(is_missing).map(|(_, (edge, _))| *edge);
        // Of what goes to several, a part may be missing. Some messages go to fewer, so that what is missing first comes first.
        let fewer = absent().filter(is_missing).min_by_key(|(place, (_, before))| (*before, *place));
        let fewer = fewer.map(|(_, (edge, _))| *edge);
        match key.end {
            End::UnderWay if missing.is_some() => told.messages.under_way += group.count,
            End::GivenUp => told.messages.given_up += group.count,
            _ => {}
        }
        if missing.is_none() {
            let end = course.deliveries.last().or(course.kept.last());
            end.and_then(|&place| group.since.get(place)).into_iter().for_each(|times| total.merge(times));
        }
        if receivers.is_some_and(|most| course.deliveries.len() > most as usize) {
            told.messages.duplicated += group.count;
            *told.duplicates.entry(doubled(traced, expected)).or_default() += group.count;
        }
        let missing = if ledger.is_some() { fewer } else { missing };
        if let Some(loss) = loss(traced, missing, ledger, blind, &mut told.named) {
            lost_here += loss.count;
            residences.entry(loss.component.clone()).or_default().1 += loss.count;
            let last = course.kept.last().and_then(|&place| key.steps.get(place));
            let last = last.map(|step| names.words(traces, step.edge)).unwrap_or_default();
            told.lose(&loss, &last, search);
        }
        add_residences(traced, names, traces, !delivers, &mut residences);
    }
    let messages: u64 = groups.iter().map(|traced| traced.group.count).sum();
    TraceSummary {
        messages,
        lost: lost_here,
        total: TimesSummary::of(&total),
        residences: residence_summaries(&residences),
        path: path(groups, traces, names, &shares(&kinds), messages),
    }
}

fn kinds<'a>(groups: &[&'a TracedGroup<'_>], repeated: &mut u64) -> Kinds<'a> {
    let mut kinds = Kinds::new();
    for TracedGroup { group, edges, .. } in groups.iter().copied() {
        let (count, shares) = kinds.entry(edges.first()).or_default();
        *count += group.count;
        for (place, edge) in edges.iter().enumerate() {
            let before = edges[..place].iter().filter(|earlier| *earlier == edge).count();
            *repeated += if before > 0 { group.count } else { 0 };
            let (count, places) = shares.entry((edge.clone(), before)).or_default();
            *count += group.count;
            *places += place as f64 * group.count as f64;
        }
    }
    kinds
}

/// What at least half of the messages of each kind pass.
fn expected<'a>(kinds: &'a Kinds<'_>) -> Expected<'a> {
    kinds
        .iter()
        .map(|(first, (messages, shares))| {
            let most = shares.iter().filter(|(_, (count, _))| 2 * count >= *messages);
            let mut most: Vec<(f64, (&NamedEdge, usize))> = most
                .map(|((edge, before), (count, places))| (places / *count as f64, (edge, *before)))
                .collect();
            most.sort_by(|one, other| one.0.total_cmp(&other.0));
            (*first, most.into_iter().map(|(_, passage)| passage).collect())
        })
        .collect()
}

/// What messages of all kinds pass.
fn shares(kinds: &Kinds<'_>) -> Shares {
    let mut shares = Shares::new();
    for (edge, (count, places)) in kinds.values().flat_map(|(_, shares)| shares) {
        let (sum, all) = shares.entry(edge.clone()).or_default();
        *sum += count;
        *all += places;
    }
    shares
}

/// Who first passed on once more what most messages pass less often.
fn doubled(traced: &TracedGroup<'_>, expected: &[(&NamedEdge, usize)]) -> String {
    let is_more = |(place, edge): &(usize, &NamedEdge)| {
        let before = traced.edges.iter().take(*place).filter(|earlier| earlier == edge).count();
        expected.contains(&(edge, 0)) && !expected.contains(&(edge, before))
    };
    let first = traced.edges.iter().enumerate().find(is_more).map(|(_, edge)| edge.0.clone());
    // Most messages come more often than they should.
    first.unwrap_or_else(|| traced.delivered_by().map(|by| or_before(by)).unwrap_or_default())
}

/// Messages of one trace group that are lost.
struct Loss {
    count: u64,
    component: String,
    /// Those of them that are known.
    named: Vec<MessageId>,
}

/// What is lost of a trace group that misses that edge of its kind: by the ledger, where there is one. Of its messages those are
/// counted that were not `found` in another trace.
fn loss(
    traced: &TracedGroup<'_>,
    missing: Option<&NamedEdge>,
    ledger: Option<&BTreeSet<MessageId>>,
    blind: &BTreeSet<String>,
    found: &mut BTreeSet<MessageId>,
) -> Option<Loss> {
    let TracedGroup { key, group, edges, holder, .. } = traced;
    let loss = match ledger {
        // What became of it after the capture's end is nobody's fault that the capture could show.
        Some(_) if key.end == End::UnderWay => return None,
        Some(ledger) => {
            let examples = group.examples.iter().copied();
            let named: Vec<MessageId> =
                examples.filter(|id| ledger.contains(id) && found.insert(*id)).collect();
            let had = |component: &String| edges.iter().any(|(_, to)| to == component);
            let loser = missing.filter(|edge| had(&edge.0)).map_or(holder, |edge| &edge.0);
            let component = match traced.delivered_by() {
                // It came to somebody, and by all that most messages pass: it goes to more than most do.
                Some(by) if missing.is_none() => or_before(by),
                _ if blind.contains(loser) => or_behind(loser),
                _ => loser.clone(),
            };
            Loss { count: named.len() as u64, component, named }
        }
        None => {
            let edge = missing.filter(|_| key.end == End::Seen)?;
            Loss { count: group.count, component: edge.0.clone(), named: group.examples.clone() }
        }
    };
    (loss.count > 0).then_some(loss)
}

/// The largest share first.
fn residence_summaries(residences: &Residences) -> Vec<ResidenceSummary> {
    let whole: f64 = residences.values().map(|(times, _)| times.sum()).sum();
    let mut summaries: Vec<ResidenceSummary> = residences
        .iter()
        .map(|(component, (times, lost))| ResidenceSummary {
            component: component.clone(),
            times: TimesSummary::of(times),
            share: if whole > 0.0 { times.sum() / whole } else { 0.0 },
            present: None,
            asks: None,
            lost: *lost,
        })
        .collect();
    summaries.sort_by(|one, other| {
        other.share.total_cmp(&one.share).then_with(|| one.component.cmp(&other.component))
    });
    summaries
}

/// Residences on the course to where a message was delivered; what a component waited for is of those that it waited for. Where
/// nothing is delivered the course ends with an answer, and lasts as long as that takes.
fn add_residences(
    traced: &TracedGroup<'_>,
    names: &Names,
    traces: &Traces,
    with_answer: bool,
    residences: &mut Residences,
) {
    let edge = |place: usize| {
        let step = traced.key.steps.get(place)?;
        traces.edges().get(step.edge as usize)
    };
    for (&brought, &took) in &traced.course.residences {
        let (Some(edge), Some(residence)) =
            (edge(took), traced.group.residences.get(&(brought as u8, took as u8)))
        else {
            continue;
        };
        residences.entry(names.name(&edge.from)).or_default().0.merge(&residence.own);
        for (callee, times) in &residence.waits {
            residences.entry(names.name(callee)).or_default().0.merge(times);
        }
    }
    if let Some((who, place)) = traced.answer.as_ref().filter(|_| with_answer)
        && let Some(times) = traced.group.settled.get(*place)
    {
        residences.entry(who.clone()).or_default().0.merge(times);
    }
}

/// The course of the most messages, each edge once.
fn path(
    groups: &[&TracedGroup<'_>],
    traces: &Traces,
    names: &Names,
    shares: &Shares,
    messages: u64,
) -> Vec<PathStep> {
    let Some(traced) = groups.iter().max_by_key(|traced| (traced.group.count, traced.edges.len())) else {
        return Vec::new();
    };
    let mut steps: Vec<PathStep> = Vec::new();
    for &place in &traced.course.kept {
        let step = traced.key.steps.get(place);
        let Some(edge) = step.and_then(|step| traces.edges().get(step.edge as usize)) else {
            continue;
        };
        let (from, to) = names.edge(edge);
        if steps.iter().any(|step| step.from == from && step.to == to) {
            continue;
        }
        let count = shares.get(&((from.clone(), to.clone()), 0)).map_or(0, |(count, _)| *count);
        steps.push(PathStep {
            from,
            to,
            protocol: edge.protocol.name().into(),
            verb: edge.verb.to_string(),
            share: count as f64 / messages.max(1) as f64,
            since_first: traced.group.since.get(place).and_then(|times| TimesSummary::of(times).p50),
        });
    }
    steps
}

#[cfg(test)]
mod tests;
