//! Addresses of platforms: what is spoken there, and how an address says it.

/// What devices speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// MQTT 3.1.1 or 5.
    #[default]
    Mqtt,
    /// HTTP/1.1, one request of a device at a time.
    Http,
    /// CoAP over UDP.
    Coap,
    /// CoAP over TCP.
    CoapTcp,
    /// WebSocket, each message one of its messages and answered by one.
    WebSocket,
    /// Calls of a gateway that polls passive devices (docs/gateway-protocol.md): devices are servers.
    Gateway,
    /// LwM2M over CoAP: devices register at a server, which observes them.
    Lwm2m,
    /// NATS, with or without JetStream.
    Nats,
    /// AMQP 0-9-1, as RabbitMQ speaks it.
    Amqp,
    /// AMQP 1.0, which has nothing but its name in common with 0-9-1.
    Amqp1,
    /// Kafka.
    Kafka,
}

/// What is spoken at an address by its scheme, unless something else is said; `None` where it has none that is known.
pub fn protocol_of(address: &str) -> Option<Protocol> {
    let (name, _) = address.trim_start().split_once("://")?;
    SCHEMES.iter().find(|scheme| scheme.name == name).map(|scheme| scheme.protocol)
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 11] = [
        Protocol::Mqtt,
        Protocol::Http,
        Protocol::Coap,
        Protocol::CoapTcp,
        Protocol::WebSocket,
        Protocol::Gateway,
        Protocol::Lwm2m,
        Protocol::Nats,
        Protocol::Amqp,
        Protocol::Amqp1,
        Protocol::Kafka,
    ];

    /// The protocol that its addresses name: LwM2M is spoken over CoAP.
    pub(crate) fn addressed_as(self) -> Protocol {
        if self == Protocol::Lwm2m { Protocol::Coap } else { self }
    }

    /// The word for it in files, as in `speaks: mqtt`.
    pub(crate) fn key(self) -> String {
        match self {
            Protocol::CoapTcp => "coap_tcp".to_owned(),
            Protocol::Amqp => "amqp".to_owned(),
            Protocol::Amqp1 => "amqp1".to_owned(),
            other => other.to_string().to_lowercase(),
        }
    }

    /// The key of a component's port at which it is spoken, as `mqtt_port`.
    pub(crate) fn port_key(self) -> String {
        format!("{}_port", self.key())
    }

    /// Whether it is spoken over datagrams, so that nobody accepts a connection.
    pub fn uses_datagrams(self) -> bool {
        matches!(self, Protocol::Coap | Protocol::Lwm2m)
    }

    /// Whether a platform that speaks it accepts a connection of each client.
    pub fn accepts_connections(self) -> bool {
        !self.uses_datagrams() && self != Protocol::Gateway
    }

    /// Whether messages go to topics that subscribers filter.
    pub fn has_topics(self) -> bool {
        matches!(self, Protocol::Mqtt | Protocol::Nats | Protocol::Amqp | Protocol::Amqp1 | Protocol::Kafka)
    }

    /// Whether dots separate the levels of its topics.
    pub(crate) fn has_dotted_topics(self) -> bool {
        matches!(self, Protocol::Nats | Protocol::Amqp | Protocol::Amqp1)
    }

    /// Whether a message is a request with a path.
    pub fn sends_requests(self) -> bool {
        matches!(self, Protocol::Http | Protocol::Coap | Protocol::CoapTcp)
    }
}

/// The name as people write it.
impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Protocol::Mqtt => "MQTT",
            Protocol::Http => "HTTP",
            Protocol::Coap => "CoAP",
            Protocol::CoapTcp => "CoAP over TCP",
            Protocol::WebSocket => "WebSocket",
            Protocol::Gateway => "gateway",
            Protocol::Lwm2m => "LwM2M",
            Protocol::Nats => "NATS",
            Protocol::Amqp => "AMQP 0-9-1",
            Protocol::Amqp1 => "AMQP 1.0",
            Protocol::Kafka => "Kafka",
        })
    }
}

/// What lies between what is spoken and TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// TLS, over UDP DTLS.
    pub tls: bool,
    /// WebSocket, over TLS where that is there too.
    pub websocket: bool,
}

/// What an address begins with, and what that means.
pub(crate) struct Scheme {
    /// What stands before `://`.
    pub name: &'static str,
    /// What is spoken there.
    pub protocol: Protocol,
    /// What lies between that and TCP or UDP.
    pub wire: Wire,
    /// The port that is meant where the address names none.
    pub port: u16,
    /// Whether a path may follow.
    pub has_path: bool,
}

const CLEAR: Wire = Wire { tls: false, websocket: false };
const SECURED: Wire = Wire { tls: true, websocket: false };
const WEBSOCKET: Wire = Wire { tls: false, websocket: true };
const SECURED_WEBSOCKET: Wire = Wire { tls: true, websocket: true };

/// All schemes, in the order in which people are told of them. What is spoken over a WebSocket is MQTT unless the scenario says
/// otherwise.
pub(crate) const SCHEMES: [Scheme; 19] = [
    Scheme { name: "mqtt", protocol: Protocol::Mqtt, wire: CLEAR, port: 1883, has_path: false },
    Scheme { name: "mqtts", protocol: Protocol::Mqtt, wire: SECURED, port: 8883, has_path: false },
    Scheme { name: "ws", protocol: Protocol::Mqtt, wire: WEBSOCKET, port: 80, has_path: true },
    Scheme { name: "wss", protocol: Protocol::Mqtt, wire: SECURED_WEBSOCKET, port: 443, has_path: true },
    Scheme { name: "http", protocol: Protocol::Http, wire: CLEAR, port: 80, has_path: true },
    Scheme { name: "https", protocol: Protocol::Http, wire: SECURED, port: 443, has_path: true },
    Scheme { name: "coap", protocol: Protocol::Coap, wire: CLEAR, port: 5683, has_path: true },
    Scheme { name: "coaps", protocol: Protocol::Coap, wire: SECURED, port: 5684, has_path: true },
    Scheme { name: "coap+tcp", protocol: Protocol::CoapTcp, wire: CLEAR, port: 5683, has_path: true },
    Scheme { name: "coaps+tcp", protocol: Protocol::CoapTcp, wire: SECURED, port: 5684, has_path: true },
    Scheme { name: "nats", protocol: Protocol::Nats, wire: CLEAR, port: 4222, has_path: false },
    // What the tools of NATS write.
    Scheme { name: "tls", protocol: Protocol::Nats, wire: SECURED, port: 4222, has_path: false },
    Scheme { name: "amqp", protocol: Protocol::Amqp, wire: CLEAR, port: 5672, has_path: false },
    Scheme { name: "amqps", protocol: Protocol::Amqp, wire: SECURED, port: 5671, has_path: false },
    // Others write `amqp` for both.
    Scheme { name: "amqp1", protocol: Protocol::Amqp1, wire: CLEAR, port: 5672, has_path: false },
    Scheme { name: "amqps1", protocol: Protocol::Amqp1, wire: SECURED, port: 5671, has_path: false },
    Scheme { name: "kafka", protocol: Protocol::Kafka, wire: CLEAR, port: 9092, has_path: false },
    // Brokers have no port by custom for that.
    Scheme { name: "kafkas", protocol: Protocol::Kafka, wire: SECURED, port: 9093, has_path: false },
    // Nobody has assigned a port; this is the first of work E.
    Scheme { name: "gateway", protocol: Protocol::Gateway, wire: CLEAR, port: 5000, has_path: true },
];

impl Scheme {
    /// How addresses of what is spoken there begin. A WebSocket without MQTT is addressed as one with it, and LwM2M as CoAP.
    pub fn of(protocol: Protocol, wire: Wire) -> &'static Scheme {
        let spoken = if protocol == Protocol::WebSocket { Protocol::Mqtt } else { protocol.addressed_as() };
        let found = SCHEMES.iter().find(|scheme| scheme.protocol == spoken && scheme.wire == wire);
        found.unwrap_or(&SCHEMES[0])
    }
}

/// Where a platform is reached, as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What is spoken there.
    pub protocol: Protocol,
    /// What lies between that and TCP.
    pub wire: Wire,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path of the WebSocket or before that of requests, from its first slash; empty without one.
    pub path: String,
}

impl Endpoint {
    /// What the address begins with, before `://`.
    pub fn scheme(&self) -> &'static str {
        Scheme::of(self.protocol, self.wire).name
    }
}
