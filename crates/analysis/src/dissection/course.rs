//! Which passages of a message are its way. The rule, in words, stands in `docs/dissecting.md`:
//!
//! - what is handed on is part of the way, and so is what is taken from a queue;
//! - what is read is part of it only where it leads on: the reader had not had the message before, and passes it on later, or
//!   reads as one who waits for what comes;
//! - the way ends at its deliveries: what is read after them, and what comes of that, is no part of it.

use plimsoll_capture::hops::Gain;
use plimsoll_capture::side::Side;
use plimsoll_model::wire::Protocol;
use std::collections::{BTreeMap, BTreeSet};

/// A passage of one message between parties that have names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub protocol: Protocol,
    pub gain: Gain,
    /// Which side of the conversation it came from.
    pub side: Side,
    /// Whether who reads in this way mostly asks before there is something: a subscriber by long polls.
    pub polled: bool,
}

impl Leg<'_> {
    fn is_reading(&self) -> bool {
        matches!(self.gain, Gain::Read | Gain::Awaited)
    }

    /// Whether it writes to what keeps values for others to read.
    pub fn stores(&self) -> bool {
        let store = matches!(
            self.protocol,
            Protocol::MongoDb | Protocol::Postgres | Protocol::Redis | Protocol::Kafka
        );
        store && self.side == Side::Client && !self.is_reading()
    }

    /// Whether one who passes nothing on may be its subscriber: who is pushed or called, or takes from a queue. What a broker
    /// or a store is given is no delivery.
    fn may_deliver(&self) -> bool {
        let kept = matches!(self.protocol, Protocol::Mqtt | Protocol::Amqp | Protocol::Nats) || self.stores();
        self.gain == Gain::Taken || self.gain == Gain::Handed && (self.side == Side::Server || !kept)
    }
}

/// The way of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Places of its passages among those that were seen.
    pub kept: Vec<usize>,
    /// Those at which a subscriber got it.
    pub deliveries: Vec<usize>,
    /// Those at which it ended: its deliveries, or where there are none, the last in each direction.
    pub ends: Vec<usize>,
    /// Stays on the way to its ends: the passage that brought it to a component, and the one that took it on.
    pub stays: BTreeMap<usize, usize>,
}

/// The way of a message that was seen to make those passages. In a run, `ours` are devices and subscribers in one.
pub(super) fn course(legs: &[Leg<'_>], ours: Option<&str>) -> Course {
    let passed_on = |place: usize| legs[place + 1..].iter().any(|later| later.from == legs[place].to);
    let is_delivery = |place: &usize| {
        let leg = &legs[*place];
        match ours {
            Some(ours) => leg.to == ours && leg.from != ours && !leg.is_reading(),
            None => leg.may_deliver() && !passed_on(*place),
        }
    };
    let mut deliveries: Vec<usize> = (0..legs.len()).filter(is_delivery).collect();
    let mut keep = reached(legs, deliveries.last().copied());
    deliveries.retain(|&place| keep[place]);
    for place in (0..legs.len()).rev().filter(|&place| legs[place].is_reading()) {
        let leg = &legs[place];
        let leads_on =
            legs.iter().zip(&keep).skip(place + 1).any(|(later, &kept)| kept && later.from == leg.to);
        let receives = leg.polled && ours != Some(leg.to);
        keep[place] &= leads_on || receives;
        if keep[place] && !leads_on && ours.is_none() {
            deliveries.push(place);
        }
    }
    deliveries.sort_unstable();
    let kept: Vec<usize> = (0..legs.len()).filter(|&place| keep[place]).collect();
    let is_last =
        |place: &usize| !kept.iter().any(|&later| later > *place && legs[later].from == legs[*place].to);
    let ends = if deliveries.is_empty() {
        kept.iter().copied().filter(is_last).collect()
    } else {
        deliveries.clone()
    };
    let stays = stays(legs, &kept, &ends, ours);
    Course { kept, deliveries, ends, stays }
}

/// The passages that can be on the way, as far as what was before them tells. What is read comes too late after the last
/// delivery, and brings nothing to who has had it; who has it from there alone passes nothing of the way on.
fn reached(legs: &[Leg<'_>], last_delivery: Option<usize>) -> Vec<bool> {
    let (mut had, mut late): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    let mut keep = Vec::with_capacity(legs.len());
    for (place, leg) in legs.iter().enumerate() {
        let kept = if leg.is_reading() {
            !had.contains(leg.to) && last_delivery.is_none_or(|last| place < last)
        } else {
            had.contains(leg.from) || !late.contains(leg.from)
        };
        if kept {
            had.extend([leg.from, leg.to]);
        } else {
            late.insert(leg.to);
        }
        keep.push(kept);
    }
    keep
}

/// Goes back from each end: who passed it on there, what had brought it to him, who passed it on there.
fn stays(legs: &[Leg<'_>], kept: &[usize], ends: &[usize], ours: Option<&str>) -> BTreeMap<usize, usize> {
    let mut stays: BTreeMap<usize, usize> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for &end in ends {
        // Several subscribers behind one passage are served one after another: the first counts.
        if !told.insert((legs[end].from, legs[end].to)) {
            continue;
        }
        let mut out = end;
        while let Some(brought) = brought(legs, kept, out).filter(|_| ours != Some(legs[out].from)) {
            let known = stays.entry(brought).or_insert(out);
            *known = out.min(*known);
            out = brought;
        }
    }
    stays
}

/// The passage that brought a message to who passes it on in another one: the last that gave back what it had handed on, to a
/// queue or a broker; else the first.
fn brought(legs: &[Leg<'_>], kept: &[usize], out: usize) -> Option<usize> {
    let who = legs[out].from;
    let mut givers = BTreeSet::new();
    let first_of_each: Vec<usize> = kept
        .iter()
        .copied()
        .take_while(|&place| place < out)
        .filter(|&place| legs[place].to == who && givers.insert(legs[place].from))
        .collect();
    let gave_back = |place: &usize| {
        let earlier = kept.iter().take_while(|&&earlier| earlier < *place);
        earlier.copied().any(|earlier| legs[earlier].from == who && legs[earlier].to == legs[*place].from)
    };
    first_of_each.iter().copied().rfind(gave_back).or(first_of_each.first().copied())
}
