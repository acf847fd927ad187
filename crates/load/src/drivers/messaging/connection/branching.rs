//! A connection as the trunk of others, and as a branch: see [`branches`](super::super::branches).

use super::super::Io;
use super::super::branches::News;
use super::super::session::{Happened, Session};
use super::{Connection, State};
use crate::driver::Event;
use plimsoll_model::Nanos;
use std::net::SocketAddr;

impl<S: Session> Connection<S> {
    /// Whether it is one beside the client's own.
    pub fn is_branch(&self) -> bool {
        self.trunk.is_some()
    }

    /// Notes what branches the session wants from now on, where that changes.
    pub(super) fn note_branches(&mut self, slot: u32, io: &mut Io) {
        let Some(wanted) = self.session.take_branches() else { return };
        self.shed(io);
        if !wanted.is_empty() {
            self.awaited = wanted.len();
            self.wanted = wanted;
            io.news.push_back(News::Wanted { slot });
        }
    }

    /// Its branches are of no use any more.
    pub(super) fn shed(&mut self, io: &mut Io) {
        self.wanted.clear();
        self.awaited = 0;
        if !self.branches.is_empty() {
            io.news.push_back(News::Shed(std::mem::take(&mut self.branches)));
        }
    }

    /// The branches that are to be made of the trunk in that slot, and where each connects.
    pub fn take_wanted(&mut self, slot: u32, pauses: (Nanos, Nanos)) -> Vec<(SocketAddr, Connection<S>)> {
        let branch = |(address, session)| {
            let branch = Connection { trunk: Some(slot), ..Connection::new(self.client, session, pauses) };
            (address, branch)
        };
        self.wanted.drain(..).map(branch).collect()
    }

    /// The branch in that slot is one of its own.
    pub fn add_branch(&mut self, slot: u32) {
        self.branches.push(slot);
    }

    /// Another one takes the place of a connection that has ended. Events of the old socket are not those of the new one.
    pub fn replace_with(&mut self, other: Connection<S>) {
        let stream = std::mem::take(&mut self.stream);
        *self = Connection { stream, ..other };
    }

    /// A branch is ready.
    pub fn branch_ready(&mut self, slot: u32, branch: u32, io: &mut Io, events: &mut Vec<Event>) {
        if !self.branches.contains(&branch) || self.awaited == 0 {
            return;
        }
        self.awaited -= 1;
        if self.awaited > 0 {
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
        let is_there = matches!(self.state, State::Opening | State::Ready);
        if is_there && self.branches.contains(&branch) {
            let lasting = lasting && self.state == State::Opening;
            self.failed(slot, format!("another server of the platform: {reason}"), lasting, io, events);
        }
    }
}
