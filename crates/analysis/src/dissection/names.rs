//! What those are called who have messages.

use plimsoll_capture::component::{Components, Holder, Party};
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::traces::{Edge, Traces};
use std::collections::{BTreeMap, BTreeSet};

/// An edge between components: what the two are called.
pub(super) type NamedEdge = (String, String);

/// What holders of messages are called.
pub(super) struct Names(BTreeMap<Holder, String>);

impl Names {
    /// Clients without a name that pass on what they receive are called by what they speak to whom; the others by their host.
    pub fn of(traces: &Traces, components: &Components) -> Names {
        let joined = traces.joined();
        let holders: BTreeSet<Holder> = traces.edges().iter().flat_map(|edge| [edge.from, edge.to]).collect();
        let plain = |holder: &Holder| match holder {
            Holder::Party(party) => components.name(party),
            Holder::Socket(socket) => components.name(&Party::Host(socket.address)),
        };
        let mut spoken: BTreeMap<Endpoint, [BTreeSet<String>; 2]> = BTreeMap::new();
        for edge in traces.edges() {
            for (direction, holder, other) in [(0, &edge.to, &edge.from), (1, &edge.from, &edge.to)] {
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

    pub fn edge(&self, edge: &Edge) -> NamedEdge {
        (self.name(&edge.from), self.name(&edge.to))
    }

    pub fn words(&self, traces: &Traces, number: u32) -> String {
        let Some(edge) = traces.edges().get(number as usize) else { return String::new() };
        let (from, to) = self.edge(edge);
        if edge.verb.as_str().is_empty() {
            format!("{from} to {to}, {}", edge.protocol.name())
        } else {
            format!("{from} to {to}, {} {}", edge.protocol.name(), edge.verb)
        }
    }
}
