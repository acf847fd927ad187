//! An MQTT broker of our own, 3.1.1 and 5 on every port: the default of `plimsoll target broker`. No limit is silent: what
//! is not delivered is counted, with its cause, in the record.
//!
//! Main flow: [`Broker::run`] turns in one loop over epoll (`server`). Bytes that were read go to the `hub`, which knows no
//! sockets: it cuts packets, keeps `session`s and `link`s (connections), finds a topic's `subscriptions`, and appends what
//! is to be sent. `deliveries` is what a session owes its client, `retained` the retained messages.

mod context;
mod deliveries;
mod hub;
mod link;
mod memory;
mod message;
mod reasons;
mod record;
mod retained;
mod server;
mod session;
mod subscriptions;
mod timers;
mod topics;

use crate::record_file::Unwritable;
use crate::tcp::Door;
use hub::Limits;
use record::Record;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What the broker is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// Another port, which speaks the same.
    pub port_v5: Option<u16>,
    /// Most clients that are connected.
    pub max_connections: usize,
    /// The largest packet that clients may send, bytes.
    pub max_payload: usize,
    /// Most deliveries handed to one connection before others have their turn.
    pub max_outgoing: u64,
    /// Bytes kept for all clients together: what would have to wait beyond them is dropped.
    pub memory: usize,
    /// Where to write the record.
    pub record: Option<PathBuf>,
}

/// Why the broker could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The record cannot be written.
    #[error(transparent)]
    Record(#[from] Unwritable),
    /// The operating system refused something else.
    #[error("the broker cannot go on: {0}")]
    System(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for BrokerError {
    fn from(error: rustix::io::Errno) -> BrokerError {
        BrokerError::System(error.into())
    }
}

/// A broker that listens.
pub struct Broker {
    doors: Vec<Door>,
    settings: Settings,
}

impl Broker {
    /// Begins to listen.
    ///
    /// # Errors
    /// A port is taken.
    pub fn bind(settings: &Settings) -> Result<Broker, BrokerError> {
        let ports = [Some(settings.port), settings.port_v5].into_iter().flatten();
        let doors = ports.enumerate().map(|(number, port)| {
            let address = SocketAddr::new(settings.host, port);
            let refused = |cause| BrokerError::Listen { address, cause };
            Door::open(address, server::door_id(number)).map_err(refused)
        });
        Ok(Broker { doors: doors.collect::<Result<_, _>>()?, settings: settings.clone() })
    }

    /// Where it listens, one address for each port.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        self.doors.iter().map(Door::address).collect()
    }

    /// Serves until `stop` is set, which is looked at ten times a second, then completes the record.
    ///
    /// # Errors
    /// The record cannot be written, or the system fails.
    pub fn run(self, stop: &AtomicBool) -> Result<(), BrokerError> {
        let Broker { doors, settings } = self;
        let limits = Limits {
            connections: settings.max_connections,
            packet: settings.max_payload,
            handed: settings.max_outgoing.max(1),
            memory: settings.memory,
        };
        let record = settings.record.as_deref().map(Record::begin).transpose()?;
        server::Server::new(doors, limits, record)?.run(stop)
    }
}
