//! The traces of messages, by their markers: who had one when, how long it resided there, and who had it last.
//!
//! Traces of single messages are kept while they are open. What is over is summed up by *trace group*: traces that consist of
//! the same edges, in the same order. What somebody reads who had the message before is no edge. Whether other readings lead on
//! is known only when all names are, and judged by whoever tells of the traces.

use crate::calls::{Call, Calls};
use crate::component::{Holder, Party};
use crate::errors::Failures;
use crate::marker::MessageId;
use crate::observations::{Exchange, Manner, Sighting};
use crate::packet::Endpoint;
use crate::phases::Phases;
use crate::request::Asking;
use crate::side::Side;
use crate::table::{Located, ObservationBatch};
use crate::times::Times;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, WireProtocol};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Edges of one message that are followed.
const LONGEST: usize = 64;
/// Messages that are followed at once; above them the one that was seen first is taken as over.
const OPEN: usize = 1 << 18;
/// A message that was not seen for so long is over.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Trace groups that are told apart.
const GROUPS: usize = 1 << 14;
/// Connections of clients without a name that are told apart; the others are known by their hosts.
const SOCKETS: usize = 1 << 12;
/// Edges that are told apart.
const EDGES: usize = 1 << 16;
/// Messages of each trace group that are named.
const EXAMPLES: usize = 200;

/// A message went from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// Who had it.
    pub from: Holder,
    /// Who has it now.
    pub to: Holder,
    /// In what.
    pub protocol: WireProtocol,
    /// By which request, or with which status.
    pub verb: Label,
    /// By whose wish.
    pub transfer: Transfer,
    /// Which side of the conversation it came from.
    pub side: Side,
}

/// By whose wish a message went from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transfer {
    /// Of who had it: in a request, a publication, a notification.
    Handed,
    /// Of who got it, as what a queue had next.
    Taken,
    /// Of who got it, and who asked for it before the other had it: a long poll.
    Awaited,
    /// Of who got it: it was there already.
    Read,
}

/// An edge of a trace group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// Its place among all edges.
    pub edge: u32,
    /// Whether it was a request that was answered without an error.
    pub settled: bool,
}

/// Times of a component with messages that one edge brought and another took on.
#[derive(Clone, Debug, Default)]
pub struct Residence {
    /// Those in which it waited for nobody.
    pub own: Times,
    /// Those in which it waited for answers, by whose.
    pub waits: FxHashMap<Holder, Times>,
}

/// Messages that went along the same edges.
#[derive(Clone, Debug, Default)]
pub struct TraceGroup {
    /// How many.
    pub count: u64,
    /// Some of them.
    pub examples: Vec<MessageId>,
    /// Times between two edges, by their places in the trace, where who has the message after the one may be who passes it
    /// on in the other.
    pub residences: FxHashMap<(u8, u8), Residence>,
    /// From the first edge to each.
    pub since: Vec<Times>,
    /// From each edge to its answer, where it was answered.
    pub settled: Vec<Times>,
}

/// How the trace of a message ended, as far as it was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was not seen any more, though there was time for it.
    Seen,
    /// It may have been under way when the capture ended.
    UnderWay,
    /// It was not followed any longer: it was not seen for a minute, or there were too many.
    GivenUp,
}

/// What tells trace groups apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceKey {
    /// The phase in which a message was seen first.
    pub phase: u16,
    /// What is known of its end.
    pub end: End,
    /// The edges.
    pub steps: Box<[Step]>,
}

/// An edge of the trace of one message.
#[derive(Debug)]
struct SeenEdge {
    at: Nanos,
    edge: u32,
    /// When the request that it was is answered.
    settled: Option<Nanos>,
    /// For whom, and how long, who passed it on had waited since it had last to do with the message.
    waited: Vec<(Party, Nanos)>,
}

/// All traces.
#[derive(Debug)]
pub struct Traces {
    phases: Arc<Phases>,
    edges: Vec<Edge>,
    numbers: FxHashMap<Edge, u32>,
    sockets: FxHashSet<Endpoint>,
    open: FxHashMap<MessageId, Vec<SeenEdge>>,
    queue: VecDeque<(Nanos, MessageId)>,
    groups: FxHashMap<TraceKey, TraceGroup>,
    /// Calls of components that had no marker.
    calls: Calls,
    /// How often a connection sent what another one of its host had received last.
    handed: FxHashMap<(Endpoint, Endpoint), u64>,
    /// Messages that are to be named, whatever their number; else some of each trace group are.
    wanted: Option<BTreeSet<MessageId>>,
    /// Who answered with errors, and whose errors those were.
    pub failures: Failures,
    /// Edges beyond those that are followed.
    pub untold: u64,
}

impl Traces {
    /// No message was seen.
    pub fn new(phases: Arc<Phases>) -> Traces {
        Traces {
            phases,
            edges: Vec::new(),
            numbers: FxHashMap::default(),
            sockets: FxHashSet::default(),
            open: FxHashMap::default(),
            queue: VecDeque::new(),
            groups: FxHashMap::default(),
            calls: Calls::default(),
            handed: FxHashMap::default(),
            wanted: None,
            failures: Failures::default(),
            untold: 0,
        }
    }

    /// Names those messages in their trace groups, and no others.
    pub fn name(&mut self, wanted: BTreeSet<MessageId>) {
        self.wanted = Some(wanted);
    }

    /// Takes in what was observed, in its order. What was answered counts before what is said at the same time.
    pub fn observe(&mut self, batch: &ObservationBatch) {
        let end = |exchange: &Located<Exchange>| exchange.observed.response.map(|response| response.last);
        for exchange in batch.exchanges.iter().filter(|one| one.observed.outcome == Outcome::Unanswered) {
            let [from, to] = self.holders(exchange.client, exchange.parties, exchange.observed.requester);
            self.failures.observe(&exchange.observed, from, to);
        }
        let mut answered: Vec<_> =
            batch.exchanges.iter().filter_map(|exchange| Some((end(exchange)?, exchange))).collect();
        answered.sort_by_key(|(end, _)| *end);
        let mut answered = answered.into_iter().peekable();
        for sighting in &batch.sightings {
            while let Some((_, exchange)) = answered.next_if(|(end, _)| *end <= sighting.observed.at) {
                self.answered(exchange);
            }
            self.seen(sighting);
        }
        answered.for_each(|(_, exchange)| self.answered(exchange));
    }

    /// A marker was seen.
    pub fn seen(&mut self, sighting: &Located<Sighting>) {
        let observed = &sighting.observed;
        if observed.manner == Manner::Echoed {
            return;
        }
        let [from, to] = self.holders(sighting.client, sighting.parties, observed.from);
        let Some(transfer) = self.transfer(sighting, from, to) else { return };
        let edge = Edge {
            from,
            to,
            protocol: sighting.protocol,
            verb: observed.verb,
            transfer,
            side: observed.from,
        };
        let next = self.edges.len() as u32;
        if next as usize >= EDGES && !self.numbers.contains_key(&edge) {
            self.untold += 1;
            return;
        }
        let number = *self.numbers.entry(edge).or_insert(next);
        if number == next {
            self.edges.push(edge);
        }
        let trace = self.open.entry(observed.message).or_default();
        if trace.is_empty() {
            self.queue.push_back((observed.at, observed.message));
        }
        if trace.len() < LONGEST {
            let since = trace.iter().rev().find_map(|seen| {
                let known = &self.edges[seen.edge as usize];
                let passed = seen.settled.filter(|&settled| settled <= observed.at).unwrap_or(seen.at);
                if known.from == from { Some(passed) } else { (known.to == from).then_some(seen.at) }
            });
            let waited = since.map(|since| self.calls.claim(from, since, observed.at)).unwrap_or_default();
            trace.push(SeenEdge { at: observed.at, edge: number, settled: None, waited });
        } else {
            self.untold += 1;
        }
        self.close_old(observed.at);
    }

    /// By whose wish a message goes from one to the other; `None` where it is read by who had it before.
    fn transfer(&self, sighting: &Located<Sighting>, from: Holder, to: Holder) -> Option<Transfer> {
        let asked = match sighting.observed.manner {
            Manner::Taken => return Some(Transfer::Taken),
            Manner::Answered(asked) => asked,
            Manner::Handed | Manner::Echoed => return Some(Transfer::Handed),
        };
        if self.has_had(sighting.observed.message, to) {
            return None;
        }
        let trace = self.open.get(&sighting.observed.message).map(Vec::as_slice).unwrap_or_default();
        let came = trace.iter().find(|seen| self.edges[seen.edge as usize].to == from);
        let waited = asked.zip(came).is_some_and(|(asked, came)| asked < came.at);
        Some(if waited { Transfer::Awaited } else { Transfer::Read })
    }

    fn has_had(&self, message: MessageId, holder: Holder) -> bool {
        self.open.get(&message).is_some_and(|trace| {
            trace.iter().any(|seen| {
                let known = &self.edges[seen.edge as usize];
                known.from == holder || known.to == holder
            })
        })
    }

    /// A request was answered: what it carried has arrived; whoever made it has waited.
    fn answered(&mut self, exchange: &Located<Exchange>) {
        let observed = &exchange.observed;
        let Some(response) = observed.response else { return };
        let [from, to] = self.holders(exchange.client, exchange.parties, observed.requester);
        self.failures.observe(observed, from, to);
        match observed.marker {
            Some(message) if observed.carried => {
                let trace = self.open.get_mut(&message).filter(|_| observed.outcome == Outcome::Answered);
                let asked = trace.into_iter().flatten().find(|seen| {
                    let known = &self.edges[seen.edge as usize];
                    known.from == from && known.to == to && seen.settled.is_none()
                });
                if let Some(asked) = asked {
                    asked.settled = Some(response.last);
                }
            }
            // Who gets what is new to him has waited for messages, not for work that they make.
            Some(message) if self.open.contains_key(&message) && !self.has_had(message, from) => {}
            _ if observed.asking == Asking::Now => {
                let Holder::Party(callee) = to else { return };
                self.calls.add(from, Call { begin: observed.request.last, end: response.last, callee });
            }
            _ => {}
        }
    }

    /// Who speaks, and to whom.
    fn holders(&mut self, socket: Endpoint, [client, server]: [Party; 2], speaks: Side) -> [Holder; 2] {
        let client = match client {
            Party::Host(_) if self.is_told_apart(&socket) => Holder::Socket(socket),
            party => Holder::Party(party),
        };
        let server = Holder::Party(server);
        match speaks {
            Side::Client => [client, server],
            Side::Server => [server, client],
        }
    }

    fn is_told_apart(&mut self, socket: &Endpoint) -> bool {
        self.sockets.contains(socket) || self.sockets.len() < SOCKETS && self.sockets.insert(*socket)
    }

    fn close_old(&mut self, now: Nanos) {
        while let Some(&(since, message)) = self.queue.front() {
            let many = self.open.len() > OPEN;
            if !many && now - since < PATIENCE {
                return;
            }
            self.queue.pop_front();
            let last = self.open.get(&message).and_then(|trace| trace.last()).map_or(since, |seen| seen.at);
            if !many && now - last < PATIENCE {
                self.queue.push_back((last, message));
            } else if let Some(trace) = self.open.remove(&message) {
                self.close(message, &trace, End::GivenUp);
            }
        }
    }

    fn close(&mut self, message: MessageId, trace: &[SeenEdge], end: End) {
        let Some(first) = trace.first() else { return };
        self.join(trace);
        let steps = trace.iter().map(|seen| Step { edge: seen.edge, settled: seen.settled.is_some() });
        let key = TraceKey { phase: self.phases.at(first.at), end, steps: steps.collect() };
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            self.untold += trace.len() as u64;
            return;
        }
        let group = self.groups.entry(key).or_default();
        group.count += 1;
        let named = match &self.wanted {
            Some(wanted) => wanted.contains(&message),
            None => group.examples.len() < EXAMPLES,
        };
        if named {
            group.examples.push(message);
        }
        group.since.resize_with(trace.len(), Times::default);
        group.settled.resize_with(trace.len(), Times::default);
        for (later, seen) in trace.iter().enumerate() {
            group.since[later].record(seen.at - first.at);
            if let Some(settled) = seen.settled {
                group.settled[later].record(settled - seen.at);
            }
            let from = self.edges[seen.edge as usize].from;
            for (earlier, before) in trace[..later].iter().enumerate() {
                if may_be_one(self.edges[before.edge as usize].to, from) {
                    let residence = group.residences.entry((earlier as u8, later as u8)).or_default();
                    residence_between(&self.edges, &trace[earlier..=later], residence);
                }
            }
        }
    }

    /// Connections of clients without a name of which one sends what another one of its host has received.
    fn join(&mut self, trace: &[SeenEdge]) {
        for (place, seen) in trace.iter().enumerate() {
            let Holder::Socket(sender) = self.edges[seen.edge as usize].from else { continue };
            let received =
                trace[..place].iter().rev().find_map(|before| match self.edges[before.edge as usize].to {
                    Holder::Socket(receiver) if receiver.address == sender.address => Some(receiver),
                    _ => None,
                });
            if let Some(receiver) = received {
                *self.handed.entry((sender, receiver)).or_default() += 1;
            }
        }
    }

    /// The capture ended at that time: what was seen so shortly before that it may yet have gone on is under way. `None` of a
    /// capture that outlasted all messages.
    pub fn finish(&mut self, end: Option<Nanos>) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(message, _)| *message);
        let span = |trace: &[SeenEdge]| match (trace.first(), trace.last()) {
            (Some(first), Some(last)) => last.at - first.at,
            _ => Nanos::ZERO,
        };
        // Twice as long as all but the slowest hundredth took: a single late one hides no loss.
        let mut spans: Vec<Nanos> = open.iter().map(|(_, trace)| span(trace)).collect();
        let slow = spans.len().saturating_sub(1) * 99 / 100;
        let long = if spans.is_empty() { Nanos::ZERO } else { *spans.select_nth_unstable(slow).1 };
        for (message, trace) in open {
            let under_way = end.zip(trace.last()).is_some_and(|(end, last)| end - last.at <= long * 2);
            self.close(message, &trace, if under_way { End::UnderWay } else { End::Seen });
        }
        self.queue.clear();
    }

    /// The edges, by their numbers.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The trace groups, those of the most messages first.
    pub fn groups(&self) -> Vec<(&TraceKey, &TraceGroup)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by(|one, other| (other.1.count, &one.0.steps).cmp(&(one.1.count, &other.0.steps)));
        groups
    }

    /// Which connections of clients belong together: one that sends what another one of its host has received is the same
    /// component's. Each is given the one that speaks for its component; who stands alone is not in it.
    pub fn joined(&self) -> FxHashMap<Endpoint, Endpoint> {
        let mut best: FxHashMap<Endpoint, (u64, Endpoint)> = FxHashMap::default();
        for (&(sender, receiver), &count) in &self.handed {
            let known = best.entry(sender).or_insert((count, receiver));
            if (count, std::cmp::Reverse(receiver)) > (known.0, std::cmp::Reverse(known.1)) {
                *known = (count, receiver);
            }
        }
        let mut speaker: FxHashMap<Endpoint, Endpoint> = FxHashMap::default();
        fn root(speaker: &FxHashMap<Endpoint, Endpoint>, mut of: Endpoint) -> Endpoint {
            while let Some(&next) = speaker.get(&of).filter(|&&next| next != of) {
                of = next;
            }
            of
        }
        let mut pairs: Vec<(Endpoint, Endpoint)> =
            best.into_iter().map(|(sender, (_, receiver))| (sender, receiver)).collect();
        pairs.sort();
        for (sender, receiver) in pairs {
            let (one, other) = (root(&speaker, sender), root(&speaker, receiver));
            let (low, high) = (one.min(other), one.max(other));
            speaker.insert(high, low);
            speaker.entry(low).or_insert(low);
        }
        let all: Vec<Endpoint> = speaker.keys().copied().collect();
        all.into_iter().map(|socket| (socket, root(&speaker, socket))).collect()
    }
}

/// Whether two may be the same: they are, or are connections of one host.
fn may_be_one(one: Holder, other: Holder) -> bool {
    match (one, other) {
        (Holder::Socket(one), Holder::Socket(other)) => one.address == other.address,
        _ => one == other,
    }
}

/// Adds the time between the first and the last edge of a stretch, without the answers that were waited for in between.
fn residence_between(edges: &[Edge], stretch: &[SeenEdge], residence: &mut Residence) {
    let (Some(brought), Some(took)) = (stretch.first(), stretch.last()) else { return };
    let who = edges[took.edge as usize].from;
    let (mut own, mut until) = (took.at - brought.at, brought.at);
    let mut waits: Vec<(Holder, Nanos)> = Vec::new();
    let mut wait = |callee: Holder, time: Nanos| {
        let time = time.min(own);
        own = own - time;
        match waits.iter_mut().find(|(known, _)| *known == callee) {
            Some((_, sum)) => *sum += time,
            None => waits.push((callee, time)),
        }
    };
    for seen in &stretch[1..] {
        let edge = &edges[seen.edge as usize];
        if !may_be_one(edge.from, who) {
            continue;
        }
        seen.waited.iter().for_each(|&(callee, time)| wait(Holder::Party(callee), time));
        // What the one who called did not wait for took nothing of its time.
        let answered = seen.settled.filter(|&settled| settled <= took.at && settled > until);
        if let Some(settled) = answered.filter(|_| !std::ptr::eq(seen, took)) {
            wait(edge.to, settled - seen.at.max(until));
            until = settled;
        }
    }
    residence.own.record(own);
    for (callee, time) in waits {
        residence.waits.entry(callee).or_default().record(time);
    }
}
