//! Calls that components make while they have messages, and which carry no marker themselves: a component that reads before it
//! writes waits for the one that it reads from, and that time is not its own.

use crate::component::{Holder, Party};
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Callers that are told apart; of the others nothing is known.
const CALLERS: usize = 256;
/// Calls of one caller that nobody has claimed yet.
const UNCLAIMED: usize = 1024;

/// A request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// When it was made.
    pub begin: Nanos,
    /// When it was answered.
    pub end: Nanos,
    /// By whom.
    pub callee: Party,
}

/// Calls by their callers, in the order in which they were answered.
#[derive(Debug, Default)]
pub(crate) struct Calls(FxHashMap<Holder, VecDeque<Call>>);

impl Calls {
    /// A component has called. Of a connection without a name it is not known what else its component does.
    pub fn add(&mut self, caller: Holder, call: Call) {
        if !matches!(caller, Holder::Party(Party::Component(_)))
            || self.0.len() >= CALLERS && !self.0.contains_key(&caller)
        {
            return;
        }
        let calls = self.0.entry(caller).or_default();
        if calls.len() >= UNCLAIMED {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    /// The time for which the caller has waited between two moments, by whom it has called. A call belongs to one message:
    /// the first that the caller passes on after it. Of calls at the same time, one counts.
    pub fn claim(&mut self, caller: Holder, since: Nanos, until: Nanos) -> Vec<(Party, Nanos)> {
        let Some(calls) = self.0.get_mut(&caller) else { return Vec::new() };
        let first = calls.partition_point(|call| call.end < since);
        let mut waited: Vec<(Party, Nanos)> = Vec::new();
        let (mut free, mut place) = (since, first);
        while let Some(&call) = calls.get(place) {
            if call.begin < free || call.end > until {
                place += 1;
                continue;
            }
            calls.remove(place);
            free = call.end;
            match waited.iter_mut().find(|(callee, _)| *callee == call.callee) {
                Some((_, time)) => *time += call.end - call.begin,
                None => waited.push((call.callee, call.end - call.begin)),
            }
        }
        waited
    }
}
