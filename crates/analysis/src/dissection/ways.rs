//! From routes to residence times, the way of most messages, and losses by component.
//!
//! Without a ledger, what most messages pass is what all should: a message that misses a passage which at least half of those
//! of its phase that began with the same one have is lost at the component from which that passage leads. With a ledger its
//! losses count, and no others.

use super::TimesSummary;
use plimsoll_capture::component::{Components, Party};
use plimsoll_capture::hops::{End, Holder, Route, RouteKey, Ways};
use plimsoll_capture::marker::{MessageId, Search};
use plimsoll_capture::packet::Endpoint;
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

/// Components that no message was seen to leave, though messages that reached them were delivered: what they pass on cannot be
/// followed (it is encrypted, or the marker changes its form), so that they are not accused of what is lost behind them.
fn blind(
    routes: &[(&RouteKey, &Route)],
    ways: &Ways,
    names: &Names,
    ledger: &BTreeSet<MessageId>,
) -> BTreeSet<String> {
    let (mut reached, mut left) = (BTreeSet::new(), BTreeSet::new());
    for (key, route) in routes {
        let lost = route.examples.iter().filter(|id| ledger.contains(id)).count() as u64;
        for &number in &key.passages {
            let (from, to) = names.edge(ways, number);
            left.insert(from);
            if route.count > lost {
                reached.insert(to);
            }
        }
    }
    reached.difference(&left).cloned().collect()
}

/// A passage between components.
type Edge = (String, String);

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
    let blind = ledger.map(|ledger| blind(&routes, ways, &names, ledger)).unwrap_or_default();
    let phases: BTreeSet<u16> = routes.iter().map(|(key, _)| key.phase).collect();
    for phase in phases {
        let own: Vec<(&RouteKey, &Route)> =
            routes.iter().filter(|(key, _)| key.phase == phase).copied().collect();
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
    routes: &[(&RouteKey, &Route)],
    (ways, names, blind): (&Ways, &Names, &BTreeSet<String>),
    search: &Search,
    ledger: Option<&BTreeSet<MessageId>>,
    told: &mut Told,
) -> WaySummary {
    let edges: Vec<Vec<Edge>> = routes
        .iter()
        .map(|(key, _)| key.passages.iter().map(|&number| names.edge(ways, number)).collect())
        .collect();
    let messages: u64 = routes.iter().map(|(_, route)| route.count).sum();
    // Messages of other beginnings are of another kind: what those pass says nothing of these.
    let mut kinds: BTreeMap<Option<&Edge>, (u64, Shares)> = BTreeMap::new();
    for ((_, route), edges) in routes.iter().zip(&edges) {
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
    for ((key, route), edges) in routes.iter().zip(&edges) {
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
        let last_holder = edges.last().map(|(_, to)| to.clone()).unwrap_or_default();
        let last = key.passages.last().map(|&number| names.words(ways, number)).unwrap_or_default();
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
                let loser = loser.unwrap_or(last_holder);
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
            total.merge(&route.total);
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
        add_stays(edges, route, &mut stays);
    }
    let whole: f64 = stays.values().map(|(times, _)| times.sum()).sum();
    let mut hops: Vec<HopSummary> = stays
        .iter()
        .map(|(component, (times, lost))| HopSummary {
            component: component.clone(),
            residence: TimesSummary::of(times),
            share: if whole > 0.0 { times.sum() / whole } else { 0.0 },
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

/// A stay lasts from the first passage to a component to the first one after it that leads away.
fn add_stays(edges: &[Edge], route: &Route, stays: &mut BTreeMap<String, (Times, u64)>) {
    let mut told = BTreeSet::new();
    for (place, (_, to)) in edges.iter().enumerate() {
        if !told.insert(to) {
            continue;
        }
        let away = edges.iter().enumerate().skip(place + 1).find(|(_, (from, _))| from == to);
        if let Some(times) = away.and_then(|(away, _)| route.stays.get(&(place as u8, away as u8))) {
            stays.entry(to.clone()).or_default().0.merge(times);
        }
    }
}

/// The most used route, each passage once.
fn path(
    routes: &[(&RouteKey, &Route)],
    ways: &Ways,
    names: &Names,
    shares: &Shares,
    messages: u64,
) -> Vec<PathStep> {
    let Some((key, route)) = routes.iter().max_by_key(|(key, route)| (route.count, key.passages.len()))
    else {
        return Vec::new();
    };
    let mut steps: Vec<PathStep> = Vec::new();
    for (place, &number) in key.passages.iter().enumerate() {
        let (from, to) = names.edge(ways, number);
        if steps.iter().any(|step| step.from == from && step.to == to) {
            continue;
        }
        let passage = &ways.passages()[number as usize];
        let count = shares.get(&(from.clone(), to.clone())).map_or(0, |(count, _)| *count);
        steps.push(PathStep {
            from,
            to,
            protocol: passage.protocol.name().into(),
            verb: passage.verb.to_string(),
            share: count as f64 / messages.max(1) as f64,
            since_first: route.since.get(place).and_then(|times| TimesSummary::of(times).p50),
        });
    }
    steps
}

/// What holders of messages are called.
struct Names(BTreeMap<Holder, String>);

impl Names {
    /// Clients without a name that pass on what they receive are called by what they speak to whom; the others by their host.
    fn of(ways: &Ways, components: &Components) -> Names {
        let joined = ways.joined();
        let holders: BTreeSet<Holder> =
            ways.passages().iter().flat_map(|passage| [passage.from, passage.to]).collect();
        let plain = |holder: &Holder| match holder {
            Holder::Party(party) => components.name(party),
            Holder::Socket(socket) => components.name(&Party::Host(socket.address)),
        };
        let mut spoken: BTreeMap<Endpoint, [BTreeSet<String>; 2]> = BTreeMap::new();
        for passage in ways.passages() {
            for (direction, holder, other) in
                [(0, &passage.to, &passage.from), (1, &passage.from, &passage.to)]
            {
                if let Holder::Socket(socket) = holder
                    && let Some(speaker) = joined.get(socket)
                {
                    spoken.entry(*speaker).or_default()[direction].insert(plain(other));
                }
            }
        }
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let name = |holder: Holder| {
            let group = match holder {
                Holder::Socket(socket) => joined.get(&socket),
                Holder::Party(_) => None,
            };
            let name = match group.and_then(|speaker| spoken.get(speaker)) {
                Some([from, to]) => format!("{}, from {} to {}", plain(&holder), list(from), list(to)),
                None => plain(&holder),
            };
            (holder, name)
        };
        Names(holders.into_iter().map(name).collect())
    }

    fn name(&self, holder: &Holder) -> String {
        self.0.get(holder).cloned().unwrap_or_default()
    }

    fn edge(&self, ways: &Ways, number: u32) -> Edge {
        match ways.passages().get(number as usize) {
            Some(passage) => (self.name(&passage.from), self.name(&passage.to)),
            None => Edge::default(),
        }
    }

    fn words(&self, ways: &Ways, number: u32) -> String {
        let (from, to) = self.edge(ways, number);
        match ways.passages().get(number as usize) {
            Some(passage) if passage.verb.as_str().is_empty() => {
                format!("{from} to {to}, {}", passage.protocol.name())
            }
            Some(passage) => format!("{from} to {to}, {} {}", passage.protocol.name(), passage.verb),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_capture::dissect::Side;
    use plimsoll_capture::heard::{ConversationId, Sighting};
    use plimsoll_capture::phases::Phases;
    use plimsoll_capture::table::Located;
    use plimsoll_model::Nanos;
    use plimsoll_model::wire::{Label, Protocol};
    use std::net::SocketAddr;
    use std::sync::Arc;

    fn end(port: u16) -> Endpoint {
        SocketAddr::from(([127, 0, 0, 1], port)).into()
    }

    /// The second component encrypts what it passes on: its messages are delivered, and none is seen to leave it.
    #[test]
    fn who_cannot_be_followed_is_not_accused() {
        let mut components = Components::default();
        components.port(1883, "broker");
        components.port(8080, "agent");
        components.endpoint(end(40_001), "broker");
        let components = Arc::new(components);
        let losses = |ledger: BTreeSet<MessageId>| {
            let mut ways = Ways::new(Arc::clone(&components), Arc::new(Phases::default()));
            ways.name(ledger.clone());
            for sequence in 0..10_u64 {
                for (client, server, later) in [(50_001, 1883, 0), (40_001, 8080, 5)] {
                    let at = Nanos::from_millis(sequence as i64 * 10 + later);
                    let message = MessageId { device: 0, sequence };
                    let (conversation, verb, from) = (ConversationId(0), Label::new("POST"), Side::Client);
                    let heard = Sighting { at, conversation, from, message, verb, echo: false };
                    let (client, server) = (end(client), end(server));
                    ways.seen(&Located { client, server, protocol: Protocol::Http, heard });
                }
            }
            ways.finish(Some(Nanos::from_secs(10)));
            tell(&ways, &components, &Search::default(), Some(&ledger)).losses
        };
        let messages =
            |range: std::ops::Range<u64>| range.map(|sequence| MessageId { device: 0, sequence }).collect();
        assert_eq!(losses(messages(4..5)), BTreeMap::from([("agent or behind it".to_owned(), 1)]));
        // None came through: nothing says that it passes anything on.
        assert_eq!(losses(messages(0..10)), BTreeMap::from([("agent".to_owned(), 10)]));
    }

    /// Publisher and subscriber are strangers on one host: that the host has sent a message does not mean that it got it.
    #[test]
    fn what_a_broker_keeps_is_lost_there_though_both_ends_are_of_one_host() {
        let components = Arc::new(Components::default());
        let mut ways = Ways::new(Arc::clone(&components), Arc::new(Phases::default()));
        for sequence in 0..10_u64 {
            for (client, from, later) in [(50_001, Side::Client, 0), (50_002, Side::Server, 5)] {
                if sequence == 4 && from == Side::Server {
                    continue;
                }
                let at = Nanos::from_millis(sequence as i64 * 10 + later);
                let message = MessageId { device: 0, sequence };
                let (conversation, verb) = (ConversationId(0), Label::new("PUBLISH"));
                let heard = Sighting { at, conversation, from, message, verb, echo: false };
                let (client, server) = (end(client), end(1883));
                ways.seen(&Located { client, server, protocol: Protocol::Mqtt, heard });
            }
        }
        ways.finish(Some(Nanos::from_secs(10)));
        let told = tell(&ways, &components, &Search::default(), None);
        assert_eq!(told.losses, BTreeMap::from([("127.0.0.1:1883".to_owned(), 1)]));
        assert_eq!((told.messages.marked, told.messages.lost, told.messages.unseen), (10, 1, 0));
        assert_eq!(told.lost[0].sequence, 4);
    }
}
