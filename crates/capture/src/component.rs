//! Who an endpoint belongs to: a component, where that is known, else an address.

use crate::packet::Endpoint;
use plimsoll_model::Nanos;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;
use std::net::SocketAddr;

/// One of the parties on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A component, by its place among the [`Components`].
    Component(u32),
    /// A server without a name.
    Server(Endpoint),
    /// A host that calls.
    Host([u8; 16]),
    /// Those that are not told apart, since there are too many.
    Others,
}

/// Who has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A component or a server or a host.
    Party(Party),
    /// A connection of a client that has no name.
    Socket(Endpoint),
}

/// What is known of endpoints.
#[derive(Clone, Debug, Default)]
pub struct Components {
    names: Vec<String>,
    endpoints: FxHashMap<Endpoint, u32>,
    ports: FxHashMap<u16, u32>,
    hosts: FxHashMap<[u8; 16], u32>,
    /// Ports at which servers listen, named or not.
    listening: FxHashSet<u16>,
    /// Ends that were a component's for a while.
    spans: FxHashMap<Endpoint, Vec<Span>>,
    /// Connections whose opening was seen, by the ports of client and server.
    opened: FxHashMap<(u16, u16), Vec<Opened>>,
    /// The component that is no part of the platform.
    ours: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from: Nanos,
    until: Nanos,
    component: u32,
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    at: Nanos,
    address: Option<[u8; 16]>,
    /// Whose it is; `None` where it is no component's.
    component: Option<u32>,
}

/// How far what the kernel tells of an opening may be from its first packet.
const TOLD_LATE: Nanos = Nanos::from_millis(1500);

impl Components {
    /// The component of that name, which is made where there is none.
    pub fn component(&mut self, name: &str) -> u32 {
        match self.names.iter().position(|known| known == name) {
            Some(place) => place as u32,
            None => {
                self.names.push(name.to_owned());
                self.names.len() as u32 - 1
            }
        }
    }

    /// An address and port, of a server or of a client's connection, is that component's.
    pub fn endpoint(&mut self, endpoint: Endpoint, name: &str) {
        let component = self.component(name);
        self.endpoints.insert(endpoint, component);
    }

    /// A port is that component's, whatever the address.
    pub fn port(&mut self, port: u16, name: &str) {
        let component = self.component(name);
        self.ports.insert(port, component);
        self.listens(port);
    }

    /// Somebody listens at that port: whoever speaks from another one to it has called.
    pub fn listens(&mut self, port: u16) {
        self.listening.insert(port);
    }

    /// Which of two ends has called the other, where one of them alone is known to listen. Of a connection whose opening was
    /// not captured, nothing else tells that for sure.
    pub fn opener(&self, ports: [u16; 2]) -> Option<usize> {
        let listens = ports.map(|port| self.listening.contains(&port));
        (listens[0] != listens[1]).then(|| usize::from(listens[0]))
    }

    /// All of a host is that component's.
    pub fn host(&mut self, address: [u8; 16], name: &str) {
        let component = self.component(name);
        self.hosts.insert(address, component);
    }

    /// An address and port were that component's from one moment to another, since 1970.
    pub fn owned(&mut self, endpoint: Endpoint, (from, until): (Nanos, Nanos), name: &str) {
        let component = self.component(name);
        self.spans.entry(endpoint).or_default().push(Span { from, until, component });
    }

    /// A connection was opened from one port to another at that time, from that address where it is known: by that component,
    /// or by a process that belongs to none.
    pub fn opened(&mut self, at: Nanos, address: Option<[u8; 16]>, ports: (u16, u16), name: Option<&str>) {
        let component = name.map(|name| self.component(name));
        self.opened.entry(ports).or_default().push(Opened { at, address, component });
    }

    /// Who calls from there to there, in a conversation that began at that time; `opens` says that its first packet opened it.
    pub fn caller(&self, from: &Endpoint, to: &Endpoint, at: Nanos, opens: bool) -> Party {
        let opened = self.opened.get(&(from.port, to.port)).into_iter().flatten();
        let fits = opened.filter(|one| one.address.is_none_or(|address| address == from.address));
        let apart = |one: &&Opened| Nanos((one.at - at).0.abs());
        match fits.min_by_key(apart).filter(|one| apart(one) <= TOLD_LATE) {
            Some(Opened { component: Some(component), .. }) => Party::Component(*component),
            // A stranger's, whoever had that port before or after.
            Some(_) => Party::Host(from.address),
            // Openings are told, and this one was not: whoever had that port about that time may have had it before or after.
            None if opens && !self.opened.is_empty() => self.client(from),
            None => self.spanned(from, at).unwrap_or_else(|| self.client(from)),
        }
    }

    /// Whose server that was at that time.
    pub fn called(&self, endpoint: &Endpoint, at: Nanos) -> Party {
        self.spanned(endpoint, at).unwrap_or_else(|| self.server(endpoint))
    }

    fn spanned(&self, endpoint: &Endpoint, at: Nanos) -> Option<Party> {
        let spans = self.spans.get(endpoint)?.iter();
        let at_that_time = spans.filter(|span| (span.from..=span.until).contains(&at));
        at_that_time.max_by_key(|span| span.from).map(|span| Party::Component(span.component))
    }

    /// Devices, subscribers and whoever else stands outside the platform are that component: what it is given is delivered.
    pub fn outside(&mut self, name: &str) {
        self.ours = Some(self.component(name));
    }

    /// The component that stands outside the platform, where one is known.
    pub fn ours(&self) -> Option<&str> {
        self.ours.and_then(|place| self.names.get(place as usize)).map(String::as_str)
    }

    /// Whose server that is.
    pub fn server(&self, endpoint: &Endpoint) -> Party {
        let known = self.endpoints.get(endpoint).or_else(|| self.ports.get(&endpoint.port));
        known
            .or_else(|| self.hosts.get(&endpoint.address))
            .map_or(Party::Server(*endpoint), |&known| Party::Component(known))
    }

    /// Who calls from there.
    pub fn client(&self, endpoint: &Endpoint) -> Party {
        let known = self.endpoints.get(endpoint).or_else(|| self.hosts.get(&endpoint.address));
        known.map_or(Party::Host(endpoint.address), |&known| Party::Component(known))
    }

    /// What to call a party.
    pub fn name(&self, party: &Party) -> String {
        match party {
            Party::Component(place) => self.names.get(*place as usize).cloned().unwrap_or_default(),
            Party::Server(endpoint) => SocketAddr::from(*endpoint).to_string(),
            Party::Others => "others".to_owned(),
            Party::Host(address) => Endpoint { address: *address, port: 0 }.ip().to_string(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(port: u16) -> Endpoint {
        Endpoint::from(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// The planted fault: a port changes hands between two looks, and the trace of openings has lost one of them.
    #[test]
    fn a_port_that_changed_hands_is_nobodys_where_its_opening_should_have_been_told() {
        let (client, server, second) = (end(20_007), end(80), Nanos::from_secs);
        let mut components = Components::default();
        components.owned(client, (second(1), second(3)), "front");
        let front = Party::Component(components.component("front"));
        let stranger = Party::Host(client.address);
        assert_eq!(components.caller(&client, &server, second(2), true), front, "nothing tells of openings");
        components.opened(second(9), None, (20_001, 80), Some("front"));
        assert_eq!(components.caller(&client, &server, second(2), true), stranger);
        assert_eq!(components.caller(&client, &server, second(2), false), front, "it was open before");
        components.opened(second(2), None, (20_007, 80), Some("front"));
        assert_eq!(components.caller(&client, &server, second(2), true), front);
    }
}
