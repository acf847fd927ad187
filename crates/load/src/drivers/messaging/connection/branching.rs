//! A connection as the trunk of others, and as a branch: see [`branches`](super::super::branches).

use super::super::Io;
use super::super::branches::Notice;
use super::super::session::{Happened, Session};
use super::{Connection, State};
use crate::driver::Event;
use plimsoll_model::Nanos;
use std::net::SocketAddr;

/// How a connection belongs with others; most belong with none.
pub(super) struct Branching<S> {
    /// Of a branch: the connection that it belongs to.
    trunk: Option<u32>,
    /// The branches of a trunk, how many of them are not ready yet, and those that are still to be made.
    branches: Vec<u32>,
    awaited: usize,
    wanted: Vec<(SocketAddr, S)>,
}

impl<S> Branching<S> {
    fn of(trunk: Option<u32>) -> Box<Branching<S>> {
        Box::new(Branching { trunk, branches: Vec::new(), awaited: 0, wanted: Vec::new() })
    }
}

impl<S: Session> Connection<S> {
    /// Of a branch: the connection that it belongs to.
    pub(super) fn trunk(&self) -> Option<u32> {
        self.branching.as_ref().and_then(|branching| branching.trunk)
    }

    /// Whether it is one beside the client's own.
    pub fn is_branch(&self) -> bool {
        self.trunk().is_some()
    }

    /// Notes what branches the session wants from now on, where that changes.
    pub(super) fn note_branches(&mut self, slot: u32, io: &mut Io) {
        let Some(wanted) = self.session.take_branches() else { return };
        self.end_branches(io);
        if !wanted.is_empty() {
            let branching = self.branching.get_or_insert_with(|| Branching::of(None));
            branching.awaited = wanted.len();
            branching.wanted = wanted;
            io.notices.push_back(Notice::Wanted { slot });
        }
    }

    /// Its branches are of no use any more.
    pub(super) fn end_branches(&mut self, io: &mut Io) {
        let Some(branching) = &mut self.branching else { return };
        branching.wanted.clear();
        branching.awaited = 0;
        if !branching.branches.is_empty() {
            io.notices.push_back(Notice::Unwanted(std::mem::take(&mut branching.branches)));
        }
    }

    /// The branches that are to be made of the trunk in that slot, and where each connects.
    pub fn take_wanted(&mut self, slot: u32, pauses: (Nanos, Nanos)) -> Vec<(SocketAddr, Connection<S>)> {
        let client = self.client;
        let wanted = self.branching.as_mut().map(|branching| std::mem::take(&mut branching.wanted));
        let branch = |(address, session)| {
            let branching = Some(Branching::of(Some(slot)));
            (address, Connection { branching, ..Connection::new(client, session, pauses) })
        };
        wanted.unwrap_or_default().into_iter().map(branch).collect()
    }

    /// The branch in that slot is one of its own.
    pub fn add_branch(&mut self, slot: u32) {
        self.branching.get_or_insert_with(|| Branching::of(None)).branches.push(slot);
    }

    /// Another one takes the place of a connection that has ended.
    pub fn replace_with(&mut self, other: Connection<S>) {
        *self = Connection { stream: self.stream.successor(), ..other };
    }

    /// Whether a branch is one of its own, and it awaits or uses that one.
    fn has(&self, branch: u32) -> bool {
        let is_there = matches!(self.state, State::Opening | State::Ready);
        is_there && self.branching.as_ref().is_some_and(|branching| branching.branches.contains(&branch))
    }

    /// A branch is ready.
    pub fn branch_ready(&mut self, slot: u32, branch: u32, io: &mut Io, events: &mut Vec<Event>) {
        if !self.has(branch) {
            return;
        }
        let Some(branching) = &mut self.branching else { return };
        // Each of its branches becomes ready once.
        branching.awaited = branching.awaited.saturating_sub(1);
        if branching.awaited > 0 {
            return;
        }
        let at = io.stream.clock.now();
        if self.session.branches_ready(self.out.bytes()) == Happened::Ready {
            self.became_ready(slot, at, io, events);
        }
        self.plan_waking(slot, at, io);
        self.send(slot, io, events);
    }

    /// A branch is no more: the client cannot receive everything, and connects again.
    pub fn branch_failed(
        &mut self,
        slot: u32,
        branch: u32,
        (reason, lasting): (String, bool),
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        if !self.has(branch) {
            return;
        }
        self.say_last_words(slot, io, events);
        if self.has(branch) {
            let lasting = lasting && self.state == State::Opening;
            self.failed(slot, format!("another server of the platform: {reason}"), lasting, io, events);
        }
    }
}
