//! Which of the edges that a message was seen at are its course. The rule, in words, stands in `docs/dissecting.md`:
//!
//! - what is handed on is part of the course, and so is what is taken from a queue;
//! - what is read is part of it only where it leads on: the reader had not had the message before, and passes it on later, or
//!   reads as one who waits for what comes;
//! - the course ends at its deliveries: what is read after them, and what comes of that, is no part of it.

use plimsoll_capture::side::Side;
use plimsoll_capture::traces::Transfer;
use plimsoll_model::wire::WireProtocol;
use std::collections::{BTreeMap, BTreeSet};

/// An edge of the trace of one message between parties that have names.
#[derive(Clone, Copy, Debug)]
pub(super) struct CourseEdge<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub protocol: WireProtocol,
    pub transfer: Transfer,
    /// Which side of the conversation it came from.
    pub side: Side,
    /// Whether who reads in this way mostly asks before there is something: a subscriber by long polls.
    pub polled: bool,
}

impl CourseEdge<'_> {
    fn is_reading(&self) -> bool {
        matches!(self.transfer, Transfer::Read | Transfer::Awaited)
    }

    /// Whether it writes to what keeps values for others to read.
    pub fn stores(&self) -> bool {
        let store = matches!(
            self.protocol,
            WireProtocol::MongoDb | WireProtocol::Postgres | WireProtocol::Redis | WireProtocol::Kafka
        );
        store && self.side == Side::Client && !self.is_reading()
    }

    /// Whether one who passes nothing on may be its subscriber: who is pushed or called, or takes from a queue. What a broker
    /// or a store is given is no delivery.
    fn may_deliver(&self) -> bool {
        let kept = matches!(
            self.protocol,
            WireProtocol::Mqtt | WireProtocol::Amqp | WireProtocol::Amqp1 | WireProtocol::Nats
        ) || self.stores();
        self.transfer == Transfer::Taken
            || self.transfer == Transfer::Handed && (self.side == Side::Server || !kept)
    }
}

/// The course of a message: what of its trace leads to where it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Places of its edges among those that were seen.
    pub kept: Vec<usize>,
    /// Those at which a subscriber got it.
    pub deliveries: Vec<usize>,
    /// Those at which it ended: its deliveries, or where there are none, the last in each direction.
    pub ends: Vec<usize>,
    /// Residences on the way to its ends: the edge that brought it to a component, and the one that took it on.
    pub residences: BTreeMap<usize, usize>,
}

/// The course of a message that was seen at those edges. In a run, `ours` are devices and subscribers in one.
pub(super) fn course(edges: &[CourseEdge<'_>], ours: Option<&str>) -> Course {
    let passed_on = |place: usize| edges[place + 1..].iter().any(|later| later.from == edges[place].to);
    let is_delivery = |place: &usize| {
        let edge = &edges[*place];
        match ours {
            Some(ours) => edge.to == ours && edge.from != ours && !edge.is_reading(),
            None => edge.may_deliver() && !passed_on(*place),
        }
    };
    let mut deliveries: Vec<usize> = (0..edges.len()).filter(is_delivery).collect();
    let mut keep = reached(edges, deliveries.last().copied());
    deliveries.retain(|&place| keep[place]);
    for place in (0..edges.len()).rev().filter(|&place| edges[place].is_reading()) {
        let edge = &edges[place];
        let leads_on =
            edges.iter().zip(&keep).skip(place + 1).any(|(later, &kept)| kept && later.from == edge.to);
        let receives = edge.polled && ours != Some(edge.to);
        keep[place] &= leads_on || receives;
        if keep[place] && !leads_on && ours.is_none() {
            deliveries.push(place);
        }
    }
    deliveries.sort_unstable();
    let kept: Vec<usize> = (0..edges.len()).filter(|&place| keep[place]).collect();
    let is_last =
        |place: &usize| !kept.iter().any(|&later| later > *place && edges[later].from == edges[*place].to);
    let ends = if deliveries.is_empty() {
        kept.iter().copied().filter(is_last).collect()
    } else {
        deliveries.clone()
    };
    let residences = residences(edges, &kept, &ends, ours);
    Course { kept, deliveries, ends, residences }
}

/// The edges that can be on the course, as far as what was before them tells. What is read comes too late after the last
/// delivery, and brings nothing to who has had it; who has it from there alone passes nothing of the course on.
fn reached(edges: &[CourseEdge<'_>], last_delivery: Option<usize>) -> Vec<bool> {
    let (mut had, mut late): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    let mut keep = Vec::with_capacity(edges.len());
    for (place, edge) in edges.iter().enumerate() {
        let kept = if edge.is_reading() {
            !had.contains(edge.to) && last_delivery.is_none_or(|last| place < last)
        } else {
            had.contains(edge.from) || !late.contains(edge.from)
        };
        if kept {
            had.extend([edge.from, edge.to]);
        } else {
            late.insert(edge.to);
        }
        keep.push(kept);
    }
    keep
}

/// Goes back from each end: who passed it on there, what had brought it to him, who passed it on there.
fn residences(
    edges: &[CourseEdge<'_>],
    kept: &[usize],
    ends: &[usize],
    ours: Option<&str>,
) -> BTreeMap<usize, usize> {
    let mut residences: BTreeMap<usize, usize> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for &end in ends {
        // Several subscribers behind one edge are served one after another: the first counts.
        if !told.insert((edges[end].from, edges[end].to)) {
            continue;
        }
        let mut out = end;
        while let Some(brought) = brought(edges, kept, out).filter(|_| ours != Some(edges[out].from)) {
            let known = residences.entry(brought).or_insert(out);
            *known = out.min(*known);
            out = brought;
        }
    }
    residences
}

/// The edge that brought a message to who passes it on in another one: the last that gave back what it had handed on, to a
/// queue or a broker; else the first.
fn brought(edges: &[CourseEdge<'_>], kept: &[usize], out: usize) -> Option<usize> {
    let who = edges[out].from;
    let mut givers = BTreeSet::new();
    let first_of_each: Vec<usize> = kept
        .iter()
        .copied()
        .take_while(|&place| place < out)
        .filter(|&place| edges[place].to == who && givers.insert(edges[place].from))
        .collect();
    let gave_back = |place: &usize| {
        let earlier = kept.iter().take_while(|&&earlier| earlier < *place);
        earlier.copied().any(|earlier| edges[earlier].from == who && edges[earlier].to == edges[*place].from)
    };
    first_of_each.iter().copied().rfind(gave_back).or(first_of_each.first().copied())
}
