//! Who an endpoint belongs to: a component, where that is known, else an address.

use crate::packet::Endpoint;
use rustc_hash::FxHashMap;
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

/// What is known of endpoints.
#[derive(Clone, Debug, Default)]
pub struct Components {
    names: Vec<String>,
    endpoints: FxHashMap<Endpoint, u32>,
    ports: FxHashMap<u16, u32>,
    hosts: FxHashMap<[u8; 16], u32>,
    /// The component that is no part of the platform.
    ours: Option<u32>,
}

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
    }

    /// All of a host is that component's.
    pub fn host(&mut self, address: [u8; 16], name: &str) {
        let component = self.component(name);
        self.hosts.insert(address, component);
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

    /// Whether that is an end of a component.
    pub fn knows(&self, endpoint: &Endpoint) -> bool {
        matches!(self.server(endpoint), Party::Component(_))
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
