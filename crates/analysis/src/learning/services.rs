//! Where messages go: services with numbers of their own, in the order in which populations have them.

use super::gathering::Service;
use super::learned::LearnedService;
use plimsoll_capture::action::ActionCarrier;
use plimsoll_model::wire::WireProtocol;

/// The services that were met so far.
#[derive(Debug)]
pub(super) struct Services {
    known: Vec<Service>,
    /// Whether their addresses may be named.
    keep_names: bool,
}

impl Services {
    /// None yet.
    pub fn new(keep_names: bool) -> Services {
        Services { known: Vec::new(), keep_names }
    }

    /// A service as a scenario needs it.
    pub fn learned(&mut self, service: Service) -> LearnedService {
        let place = self.known.iter().position(|known| *known == service).unwrap_or_else(|| {
            self.known.push(service);
            self.known.len() - 1
        });
        LearnedService {
            number: place + 1,
            scheme: scheme(&service),
            port: service.server.port,
            host: self.keep_names.then(|| service.server.ip().to_string()),
        }
    }
}

/// The scheme of a service's address in a scenario.
fn scheme(service: &Service) -> &'static str {
    match (service.protocol, service.carrier, service.secured) {
        (WireProtocol::Mqtt, ActionCarrier::WebSocket, false) => "ws",
        (WireProtocol::Mqtt, ActionCarrier::WebSocket, true) => "wss",
        (WireProtocol::Mqtt, _, false) => "mqtt",
        (WireProtocol::Mqtt, _, true) => "mqtts",
        (WireProtocol::Coap, ActionCarrier::Datagrams, _) => "coap",
        (WireProtocol::Coap, _, false) => "coap+tcp",
        (WireProtocol::Coap, _, true) => "coaps+tcp",
        (WireProtocol::Nats, _, _) => "nats",
        (WireProtocol::Amqp, _, false) => "amqp",
        (WireProtocol::Amqp, _, true) => "amqps",
        (WireProtocol::Amqp1, _, false) => "amqp1",
        (WireProtocol::Amqp1, _, true) => "amqps1",
        (WireProtocol::Kafka, _, false) => "kafka",
        (WireProtocol::Kafka, _, true) => "kafkas",
        (_, _, true) => "https",
        (_, _, false) => "http",
    }
}
