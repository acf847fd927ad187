//! What those are called who have messages.

use plimsoll_capture::component::{Components, Holder, Party};
use plimsoll_capture::hops::{Passage, Ways};
use plimsoll_capture::packet::Endpoint;
use std::collections::{BTreeMap, BTreeSet};

/// A passage between components.
pub(super) type Edge = (String, String);

/// What holders of messages are called.
pub(super) struct Names(BTreeMap<Holder, String>);

impl Names {
    /// Clients without a name that pass on what they receive are called by what they speak to whom; the others by their host.
    pub fn of(ways: &Ways, components: &Components) -> Names {
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

    pub fn name(&self, holder: &Holder) -> String {
        self.0.get(holder).cloned().unwrap_or_default()
    }

    pub fn edge(&self, passage: &Passage) -> Edge {
        (self.name(&passage.from), self.name(&passage.to))
    }

    pub fn words(&self, ways: &Ways, number: u32) -> String {
        let Some(passage) = ways.passages().get(number as usize) else { return String::new() };
        let (from, to) = self.edge(passage);
        if passage.verb.as_str().is_empty() {
            format!("{from} to {to}, {}", passage.protocol.name())
        } else {
            format!("{from} to {to}, {} {}", passage.protocol.name(), passage.verb)
        }
    }
}
