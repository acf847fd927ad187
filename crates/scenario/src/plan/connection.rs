//! How clients connect, whatever they speak: patience, source addresses, and what lies between messages and TCP (nothing, TLS,
//! WebSocket, or WebSocket over TLS).

use super::{Plan, Protocol};
use plimsoll_model::Nanos;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// How clients connect, whatever they speak.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// What lies between messages and TCP.
    pub transport: TransportPlan,
    /// How long connecting may take, up to where the protocol can send a message.
    pub timeout: Nanos,
    /// First and longest pause before connecting again; each pause is drawn between half and the whole of a value
    /// that doubles from the first to the longest.
    pub reconnect: (Nanos, Nanos),
    /// What becomes of messages that are due while there is no connection.
    pub offline: Offline,
    /// Source addresses that connections take turns in; empty leaves the choice to the engine.
    pub source_addresses: Vec<IpAddr>,
}

/// What becomes of the messages that are due while a device has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// They are sent when the connection is back.
    Buffer,
    /// They are not sent.
    Drop,
    /// The newest is sent when the connection is back, the others are not.
    KeepLatest,
}

/// What lies between messages and TCP; the default is nothing.
#[derive(Clone, Debug, Default)]
pub struct TransportPlan {
    /// TLS, directly over TCP.
    pub tls: Option<TlsPlan>,
    /// WebSocket, over TLS where that is there too.
    pub websocket: Option<WebSocketPlan>,
}

/// How clients secure their connections.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// The authorities of which one must have signed the platform's certificate; empty for those that this host trusts.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Who the clients say that they are, for a platform that asks.
    pub identities: Identities,
    /// The name that the platform's certificate must have, also told to the platform.
    pub server_name: ServerName<'static>,
    /// Whether the platform's certificate is checked at all.
    pub verify: bool,
    /// Whether a client that connects again resumes its earlier session.
    pub resumption: bool,
}

/// Who clients say that they are: empty where they show nothing, one for all, or one for each by its number.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Of the devices.
    pub devices: Arc<[ClientIdentity]>,
    /// Of the subscribers.
    pub subscribers: Arc<[ClientIdentity]>,
    /// The number of the first device, and that of the first subscriber.
    pub first_device: u32,
    /// See `first_device`.
    pub first_subscriber: u32,
}

/// A client certificate and its key.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// The certificate, followed by those that lead to its authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key, which is not shown.
    pub key: Arc<PrivateKeyDer<'static>>,
}

/// Where the WebSocket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketPlan {
    /// Host and, where it is not the usual one, port: the `Host` of the request.
    pub host: String,
    /// Path of the request.
    pub path: String,
}

impl Plan {
    /// What lies below what the controller and queriers say over a protocol: what lies below the devices' messages, where both go to
    /// one port. At a port of their own, nothing does.
    pub fn transport_beside_devices(&self, protocol: Protocol, port: Option<&str>) -> TransportPlan {
        match (port, protocol == self.protocol()) {
            (Some(_), _) => TransportPlan::default(),
            (None, true) => self.connection.transport.clone(),
            // As over `https://`.
            (None, false) => TransportPlan { websocket: None, ..self.connection.transport.clone() },
        }
    }

    /// The WebSocket that the controller and queriers ask for at an address, before the path of their role.
    pub fn websocket_beside_devices(&self, address: SocketAddr, port: Option<&str>) -> WebSocketPlan {
        let own = self.transport_beside_devices(Protocol::WebSocket, port).websocket;
        let base = self.platform.address.as_ref().map(|address| address.path.clone()).unwrap_or_default();
        own.unwrap_or_else(|| WebSocketPlan { host: address.to_string(), path: base })
    }
}
