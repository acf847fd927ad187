//! The ways that messages take, by their markers: who had one when, how long it stayed there, and who had it last.
//!
//! Paths of single messages are kept while they are open. What is over is summed up by *route*: the passages that a path
//! consists of, in their order.

use crate::component::{Components, Party};
use crate::dissect::Side;
use crate::heard::Sighting;
use crate::marker::MessageId;
use crate::packet::Endpoint;
use crate::phases::Phases;
use crate::table::Located;
use crate::times::Times;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Protocol};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Passages of one message that are followed.
const LONGEST: usize = 64;
/// Messages that are followed at once; above them the one that was seen first is taken as over.
const OPEN: usize = 1 << 18;
/// A message that was not seen for so long is over.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Routes that are told apart.
const ROUTES: usize = 1 << 14;
/// Connections of clients without a name that are told apart; the others are known by their hosts.
const SOCKETS: usize = 1 << 12;
/// Passages that are told apart.
const PASSAGES: usize = 1 << 16;
/// Messages of each route that are named.
const EXAMPLES: usize = 200;

/// Who has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A component or a server or a host.
    Party(Party),
    /// A connection of a client that has no name.
    Socket(Endpoint),
}

/// A message went from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Passage {
    /// Who had it.
    pub from: Holder,
    /// Who has it now.
    pub to: Holder,
    /// In what.
    pub protocol: Protocol,
    /// By which request, or with which status.
    pub verb: Label,
}

/// Messages that went the same way.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// How many.
    pub count: u64,
    /// Some of them.
    pub examples: Vec<MessageId>,
    /// From the first passage to the last.
    pub total: Times,
    /// Times between two passages, by their places in the route, where who has the message after the one may be who passes it
    /// on in the other.
    pub stays: FxHashMap<(u8, u8), Times>,
    /// From the first passage to each.
    pub since: Vec<Times>,
}

/// How the way of a message ended, as far as it was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was not seen any more, though there was time for it.
    Seen,
    /// It may have been under way when the capture ended.
    UnderWay,
    /// It was not followed any longer: it was not seen for a minute, or there were too many.
    GivenUp,
}

/// What tells routes apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteKey {
    /// The phase in which a message was seen first.
    pub phase: u16,
    /// What is known of its end.
    pub end: End,
    /// Places among the passages.
    pub passages: Box<[u32]>,
}

/// All ways.
#[derive(Debug)]
pub struct Ways {
    components: Arc<Components>,
    phases: Arc<Phases>,
    passages: Vec<Passage>,
    numbers: FxHashMap<Passage, u32>,
    sockets: FxHashSet<Endpoint>,
    open: FxHashMap<MessageId, Vec<(Nanos, u32)>>,
    queue: VecDeque<(Nanos, MessageId)>,
    routes: FxHashMap<RouteKey, Route>,
    /// How often a connection sent what another one of its host had received last.
    handed: FxHashMap<(Endpoint, Endpoint), u64>,
    /// Messages that are to be named, whatever their number; else some of each route are.
    wanted: Option<BTreeSet<MessageId>>,
    /// Passages beyond those that are followed.
    pub untold: u64,
}

impl Ways {
    /// No message was seen.
    pub fn new(components: Arc<Components>, phases: Arc<Phases>) -> Ways {
        Ways {
            components,
            phases,
            passages: Vec::new(),
            numbers: FxHashMap::default(),
            sockets: FxHashSet::default(),
            open: FxHashMap::default(),
            queue: VecDeque::new(),
            routes: FxHashMap::default(),
            handed: FxHashMap::default(),
            wanted: None,
            untold: 0,
        }
    }

    /// Names those messages in their routes, and no others.
    pub fn name(&mut self, wanted: BTreeSet<MessageId>) {
        self.wanted = Some(wanted);
    }

    /// A marker was seen. An echo, in the answer to the request that had it, passes nothing on.
    pub fn seen(&mut self, sighting: &Located<Sighting>) {
        let heard = &sighting.heard;
        if heard.echo {
            return;
        }
        let client = match self.components.client(&sighting.client) {
            Party::Host(_) if self.is_told_apart(&sighting.client) => Holder::Socket(sighting.client),
            party => Holder::Party(party),
        };
        let server = Holder::Party(self.components.server(&sighting.server));
        let (from, to) = match heard.from {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let passage = Passage { from, to, protocol: sighting.protocol, verb: heard.verb };
        let next = self.passages.len() as u32;
        if next as usize >= PASSAGES && !self.numbers.contains_key(&passage) {
            self.untold += 1;
            return;
        }
        let number = *self.numbers.entry(passage).or_insert(next);
        if number == next {
            self.passages.push(passage);
        }
        let path = self.open.entry(heard.message).or_default();
        if path.is_empty() {
            self.queue.push_back((heard.at, heard.message));
        }
        if path.len() < LONGEST {
            path.push((heard.at, number));
        } else {
            self.untold += 1;
        }
        self.close_old(heard.at);
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
            let last = self.open.get(&message).and_then(|path| path.last()).map_or(since, |(at, _)| *at);
            if !many && now - last < PATIENCE {
                self.queue.push_back((last, message));
            } else if let Some(path) = self.open.remove(&message) {
                self.close(message, &path, End::GivenUp);
            }
        }
    }

    fn close(&mut self, message: MessageId, path: &[(Nanos, u32)], end: End) {
        let (Some((first, _)), Some((last, _))) = (path.first(), path.last()) else { return };
        for (place, (_, number)) in path.iter().enumerate() {
            let Some(Holder::Socket(sender)) =
                self.passages.get(*number as usize).map(|passage| passage.from)
            else {
                continue;
            };
            let received =
                path[..place].iter().rev().find_map(|(_, before)| match self.passages[*before as usize].to {
                    Holder::Socket(receiver) if receiver.address == sender.address => Some(receiver),
                    _ => None,
                });
            if let Some(receiver) = received {
                *self.handed.entry((sender, receiver)).or_default() += 1;
            }
        }
        let numbers: Vec<u32> = path.iter().map(|(_, number)| *number).collect();
        let key = RouteKey { phase: self.phases.at(*first), end, passages: numbers.into() };
        if self.routes.len() >= ROUTES && !self.routes.contains_key(&key) {
            self.untold += path.len() as u64;
            return;
        }
        let route = self.routes.entry(key).or_default();
        route.count += 1;
        let named = match &self.wanted {
            Some(wanted) => wanted.contains(&message),
            None => route.examples.len() < EXAMPLES,
        };
        if named {
            route.examples.push(message);
        }
        route.total.record(*last - *first);
        route.since.resize_with(path.len(), Times::default);
        for (later, (at, number)) in path.iter().enumerate() {
            route.since[later].record(*at - *first);
            let from = self.passages[*number as usize].from;
            for (earlier, (before, number)) in path[..later].iter().enumerate() {
                if may_be_one(self.passages[*number as usize].to, from) {
                    route.stays.entry((earlier as u8, later as u8)).or_default().record(*at - *before);
                }
            }
        }
    }

    /// The capture ended at that time: what was seen so shortly before that it may yet have gone on is under way. `None` of a
    /// capture that outlasted all messages.
    pub fn finish(&mut self, end: Option<Nanos>) {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_by_key(|(message, _)| *message);
        let span = |path: &[(Nanos, u32)]| match (path.first(), path.last()) {
            (Some((first, _)), Some((last, _))) => *last - *first,
            _ => Nanos::ZERO,
        };
        // Twice as long as all but the slowest hundredth took: a single late one hides no loss.
        let mut spans: Vec<Nanos> = open.iter().map(|(_, path)| span(path)).collect();
        let slow = spans.len().saturating_sub(1) * 99 / 100;
        let long = if spans.is_empty() { Nanos::ZERO } else { *spans.select_nth_unstable(slow).1 };
        for (message, path) in open {
            let under_way = end.zip(path.last()).is_some_and(|(end, (last, _))| end - *last <= long * 2);
            self.close(message, &path, if under_way { End::UnderWay } else { End::Seen });
        }
        self.queue.clear();
    }

    /// The passages, by their numbers.
    pub fn passages(&self) -> &[Passage] {
        &self.passages
    }

    /// The routes and what went over them, the most used first.
    pub fn routes(&self) -> Vec<(&RouteKey, &Route)> {
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_by(|one, other| (other.1.count, &one.0.passages).cmp(&(one.1.count, &other.0.passages)));
        routes
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
