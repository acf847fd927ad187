//! The platform under test: its profile, where it is, what is spoken there.

use super::{RolePlan, Secret};
use crate::profile::{Component, Profile};
use plimsoll_model::Nanos;
use std::collections::BTreeMap;

/// The platform under test.
#[derive(Clone, Debug)]
pub struct PlatformPlan {
    /// How to talk to it and how to start it.
    pub profile: Profile,
    /// `host:port` of a platform that runs already; `None` where the profile starts it.
    pub address: Option<Endpoint>,
    /// What each role says to it.
    pub roles: RolePlan,
    /// Ports of a platform that runs already, by the names that its profile gives them.
    pub ports: BTreeMap<String, u16>,
    /// Processes of a platform that runs already on this host.
    pub components: Vec<RunningPlan>,
    /// Whether the controller undoes after the run what it did before it.
    pub clean_up: bool,
    /// Values of the profile's variables that came from the environment, and those of the address's query
    /// that are secrets.
    pub secrets: Vec<Secret>,
    /// In which state a run finds it.
    pub state: StatePlan,
}

/// A component that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningPlan {
    /// What it is called.
    pub name: String,
    /// Where its process is.
    pub place: RunningPlace,
}

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunningPlace {
    /// It has that number.
    Process(u32),
    /// It listens at that port of this host.
    Port(u16),
    /// systemd has started it as that unit.
    Unit(String),
    /// It is the first process of that container.
    Container(String),
}

/// In which state a run finds a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePlan {
    /// Whether it is brought back to its first state before the run; never for one that is started for the run.
    pub reset: bool,
    /// The command that does so, before the profile's own steps; empty for none.
    pub command: Vec<String>,
    /// How many things it is filled with.
    pub preload: u32,
}

impl PlatformPlan {
    /// What devices speak: what the profile says, else the address, else MQTT.
    pub fn protocol(&self) -> Protocol {
        let told = self.address.as_ref().map(|address| address.protocol);
        self.roles.device.protocol.or(told).unwrap_or_default()
    }

    /// Whether devices send their events to a gateway that tells a test manager what becomes of them, one that we start.
    pub fn tells_lives(&self) -> bool {
        let told = |component: &Component| component.gateway_port.is_some();
        self.address.is_none()
            && self.protocol() != Protocol::Gateway
            && self.profile.components.iter().any(told)
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

/// What devices speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// MQTT 3.1.1 or 5.
    #[default]
    Mqtt,
    /// HTTP/1.1, one request of a device at a time.
    Http,
    /// CoAP over UDP.
    Coap,
    /// WebSocket, each message one of its messages and answered by one.
    WebSocket,
    /// Calls of a gateway that polls passive devices (docs/gateway-protocol.md): devices are servers.
    Gateway,
}

impl Protocol {
    /// Whether a message is a request with a path.
    pub fn sends_requests(self) -> bool {
        matches!(self, Protocol::Http | Protocol::Coap)
    }
}

/// The name as people write it.
impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Protocol::Mqtt => "MQTT",
            Protocol::Http => "HTTP",
            Protocol::Coap => "CoAP",
            Protocol::WebSocket => "WebSocket",
            Protocol::Gateway => "gateway",
        })
    }
}

/// How devices are polled by a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayPlan {
    /// What each device waits before it answers a call: the network that is not there.
    pub delay: Nanos,
}

/// What lies between what is spoken and TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// TLS, over UDP DTLS.
    pub tls: bool,
    /// WebSocket, over TLS where that is there too.
    pub websocket: bool,
}
