//! What clients did, gathered while a capture is read: who published what, when, and how large it was. Memory is bounded by the
//! constants below, whatever the capture holds.

use plimsoll_capture::action::{Action, ActionCarrier, ClientAction, Connect};
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::table::Located;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;
use std::collections::{BTreeSet, HashMap};

/// Messages whose times and sizes are kept: the first ones.
const MESSAGES: usize = 1 << 21;
/// Pairs of client and target that are told apart.
const SOURCES: usize = 1 << 17;
/// Clients, and connections that have said who they are.
const CLIENTS: usize = 1 << 17;
/// Counts by source and hour.
const COUNTS: usize = 1 << 20;
/// Filters of a client.
const FILTERS: usize = 64;
/// Nanoseconds of an hour.
const HOUR: i64 = 3_600_000_000_000;

/// Where and how something is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// What is spoken.
    pub protocol: WireProtocol,
    /// What carries it.
    pub carrier: ActionCarrier,
    /// Whether under TLS.
    pub secured: bool,
    /// The server.
    pub server: Endpoint,
}

/// What one client publishes to one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub service: Service,
    /// Its place among the clients.
    pub client: u32,
    pub method: &'static str,
    pub target: String,
    /// Kafka's topic, within which the target is a key, or what stands before the levels of an address of AMQP 1.0.
    pub topic: String,
    pub qos: u8,
    pub retained: bool,
}

impl Source {
    /// Whether the capture does not show where it publishes. Of Kafka, records without a key are like that, and known by their topic.
    pub fn is_unknown(&self) -> bool {
        self.target.is_empty() && self.service.protocol != WireProtocol::Kafka
    }

    /// The target as levels between slashes.
    pub fn levels(&self) -> String {
        match self.service.protocol {
            WireProtocol::Nats | WireProtocol::Amqp | WireProtocol::Amqp1 => self.target.replace('.', "/"),
            _ => self.target.clone(),
        }
    }
}

/// What is counted of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub messages: u64,
    pub first: Nanos,
    pub last: Nanos,
}

/// A client: of MQTT by its identifier, else a connection; of protocols whose connections come and go, a host.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub service: Service,
    pub introduced: Option<Connect>,
    pub filters: BTreeSet<(String, u8)>,
    pub published: u64,
    pub received: u64,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub at: Nanos,
    pub source: u32,
    pub bytes: u32,
    /// The port of the client.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Named(Service, String),
    Connection(Service, Endpoint),
    Host(Service, [u8; 16]),
}

/// All that is gathered.
#[derive(Debug, Default)]
pub struct Gathering {
    pub(super) clients: Vec<Client>,
    identities: HashMap<Identity, u32>,
    /// Who speaks on a connection, since it said so.
    introduced: HashMap<(Service, Endpoint), u32>,
    pub(super) sources: Vec<(Source, Counted)>,
    places: HashMap<Source, u32>,
    pub(super) messages: Vec<Message>,
    /// Messages by source and hour since 1970.
    pub(super) hours: HashMap<(u32, i64), u64>,
    /// Messages of sources beyond those that are told apart.
    pub(super) untold: u64,
    /// Messages whose times and sizes were not kept.
    pub(super) unkept: u64,
    /// The first and last message of all.
    pub(super) span: Option<(Nanos, Nanos)>,
}

/// Whether a client of it keeps its connection, so that a connection is a client.
pub(super) fn is_session(protocol: WireProtocol) -> bool {
    matches!(
        protocol,
        WireProtocol::Mqtt
            | WireProtocol::Nats
            | WireProtocol::Amqp
            | WireProtocol::Amqp1
            | WireProtocol::Kafka
    )
}

impl Gathering {
    /// Takes the next thing that a client did.
    pub fn take(&mut self, located: Located<ClientAction>) {
        let Located { client: end, server, observed, .. } = located;
        let ClientAction { at, protocol, carrier, secured, action, .. } = observed;
        let service = Service { protocol, carrier, secured, server };
        match action {
            Action::Connect(connect) => self.introduce(service, end, connect),
            Action::Publish(publish) => {
                let Some(client) = self.client(service, end) else {
                    self.untold += 1;
                    return;
                };
                self.clients[client as usize].published += 1;
                let source = Source {
                    service,
                    client,
                    method: publish.method,
                    target: publish.target,
                    topic: publish.topic,
                    qos: publish.qos,
                    retained: publish.retained,
                };
                self.publish(source, at, publish.bytes, end.port);
            }
            Action::Subscribe { filter, qos } => {
                if let Some(client) = self.client(service, end) {
                    let filters = &mut self.clients[client as usize].filters;
                    if filters.len() < FILTERS {
                        filters.insert((filter, qos));
                    }
                }
            }
            Action::Receive => {
                if let Some(client) = self.client(service, end) {
                    self.clients[client as usize].received += 1;
                }
            }
        }
    }

    fn introduce(&mut self, service: Service, end: Endpoint, connect: Connect) {
        let identity = match connect.client.is_empty() {
            true => Identity::Connection(service, end),
            false => Identity::Named(service, connect.client.clone()),
        };
        let Some(client) = self.identify(identity, service) else { return };
        self.clients[client as usize].introduced = Some(connect);
        if self.introduced.len() < CLIENTS || self.introduced.contains_key(&(service, end)) {
            self.introduced.insert((service, end), client);
        }
    }

    /// The client at that end, where there is room for one.
    fn client(&mut self, service: Service, end: Endpoint) -> Option<u32> {
        if !is_session(service.protocol) {
            return self.identify(Identity::Host(service, end.address), service);
        }
        match self.introduced.get(&(service, end)) {
            Some(&client) => Some(client),
            None => self.identify(Identity::Connection(service, end), service),
        }
    }

    fn identify(&mut self, identity: Identity, service: Service) -> Option<u32> {
        if let Some(&known) = self.identities.get(&identity) {
            return Some(known);
        }
        if self.clients.len() >= CLIENTS {
            return None;
        }
        let place = self.clients.len() as u32;
        let filters = BTreeSet::new();
        self.clients.push(Client { service, introduced: None, filters, published: 0, received: 0 });
        self.identities.insert(identity, place);
        Some(place)
    }

    fn publish(&mut self, source: Source, at: Nanos, bytes: u64, port: u16) {
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        let place = match self.places.get(&source) {
            Some(&place) => place,
            None if self.sources.len() >= SOURCES => {
                self.untold += 1;
                return;
            }
            None => {
                let place = self.sources.len() as u32;
                self.sources.push((source.clone(), Counted { messages: 0, first: at, last: at }));
                self.places.insert(source, place);
                place
            }
        };
        let counted = &mut self.sources[place as usize].1;
        counted.messages += 1;
        (counted.first, counted.last) = (counted.first.min(at), counted.last.max(at));
        let hour = (place, at.0.div_euclid(HOUR));
        if self.hours.len() < COUNTS || self.hours.contains_key(&hour) {
            *self.hours.entry(hour).or_default() += 1;
        }
        if self.messages.len() < MESSAGES {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.messages.push(Message { at, source: place, bytes, port });
        } else {
            self.unkept += 1;
        }
    }
}
