//! Branches: further connections of a client beside its own, the trunk. What a client receives may stand on several servers of a
//! platform.
//!
//! They have the slots behind those of the clients. The engine does not hear that they are ready or lost: the trunk is ready when all of
//! them are, and is lost when one of them is.

use super::MessagingDriver;
use super::session::Session;
use crate::driver::Event;

/// What a connection has to say about others, which the driver alone knows.
pub(super) enum Notice {
    /// The trunk in that slot wants branches.
    Wanted { slot: u32 },
    /// These branches are of no use any more.
    Unwanted(Vec<u32>),
    /// A branch of a trunk is ready.
    Ready { slot: u32, of: u32 },
    /// A branch of a trunk is no more.
    Failed { slot: u32, of: u32, reason: String, lasting: bool },
}

impl<S: Session> MessagingDriver<S> {
    /// Does what connections have said about others.
    pub(super) fn tend_branches(&mut self, events: &mut Vec<Event>) {
        while let Some(notice) = self.io.notices.pop_front() {
            match notice {
                Notice::Wanted { slot } => self.open_branches(slot, events),
                Notice::Unwanted(slots) => slots.into_iter().for_each(|slot| self.end_branch(slot)),
                Notice::Ready { slot, of } => {
                    if let Some(trunk) = self.connections.get_mut(of as usize) {
                        trunk.branch_ready(of, slot, &mut self.io, events);
                    }
                }
                Notice::Failed { slot, of, reason, lasting } => {
                    if let Some(trunk) = self.connections.get_mut(of as usize) {
                        trunk.branch_failed(of, slot, (reason, lasting), &mut self.io, events);
                    }
                }
            }
        }
    }

    /// Connects the branches that a trunk wants.
    fn open_branches(&mut self, of: u32, events: &mut Vec<Event>) {
        let Some(trunk) = self.connections.get_mut(of as usize) else { return };
        for (address, branch) in trunk.take_wanted(of, self.io.stream.pauses) {
            let slot = match self.free.pop() {
                Some(slot) => {
                    if let Some(place) = self.connections.get_mut(slot as usize) {
                        place.replace_with(branch);
                    }
                    slot
                }
                None => {
                    self.connections.push(branch);
                    (self.connections.len() - 1) as u32
                }
            };
            if let Some(trunk) = self.connections.get_mut(of as usize) {
                trunk.add_branch(slot);
            }
            if let Some(branch) = self.connections.get_mut(slot as usize) {
                branch.open_at(slot, address, &mut self.io, events);
            }
        }
    }

    fn end_branch(&mut self, slot: u32) {
        if let Some(branch) = self.connections.get_mut(slot as usize) {
            branch.release(&mut self.io);
            self.free.push(slot);
        }
    }
}
