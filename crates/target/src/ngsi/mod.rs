//! A small context broker that speaks NGSIv2, for tests and rehearsal: entities, batch updates, queries, subscriptions
//! with notifications. Everything is in memory, and bounded; or entities are in a document store.
//!
//! Main flow: [`NgsiTarget::run`] accepts connections, each has a thread that reads requests ([`request`]), waits for one
//! of the `workers`, and lets the [`broker`] do them; `senders` carry notifications. What requests do to entities is in
//! [`operations`], which see no difference between those of the broker and those of a [`store`].

mod attribute;
mod broker;
mod connection;
mod entities;
mod filter;
mod operations;
mod refusal;
mod request;
mod senders;
mod store;
mod subscriptions;

use crate::threads::{Connections, accept};
use crate::workers::Workers;
use broker::Broker;
use connection::Shared;
use senders::Senders;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::Store;

/// What the target is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// Requests that are served at once; others wait, first come, first served.
    pub workers: usize,
    /// How long a worker takes for a request beside the work itself.
    pub delay: Duration,
    /// Largest body of a request, in bytes.
    pub max_body: usize,
    /// Each so many requests one is answered 503 and not done; `None` for never.
    pub fail_every: Option<u64>,
    /// What X-Auth-Token must say.
    pub token: Option<String>,
    /// Whether a new subscription is told of what is there already.
    pub tells_first: bool,
    /// Where entities are kept; `None` for the memory of the target.
    pub store: Option<StoreSettings>,
}

/// A document store that keeps the entities of the target.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// How many connections the target has to it: requests beyond that wait for one.
    pub connections: usize,
}

/// Why the target could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum NgsiError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The operating system refused something else.
    #[error("the target cannot go on: {0}")]
    System(#[from] std::io::Error),
}

/// A target that listens.
pub struct NgsiTarget {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl NgsiTarget {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken, or the system gives no threads.
    pub fn bind(settings: &Settings) -> Result<NgsiTarget, NgsiError> {
        let address = SocketAddr::new(settings.host, settings.port);
        let listener = TcpListener::bind(address).map_err(|cause| NgsiError::Listen { address, cause })?;
        // Brokers before one store do not begin in the same nanosecond.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let next =
            settings.store.as_ref().map_or(1, |_| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2));
        let broker = Broker::new(Senders::start()?, settings.tells_first, next);
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            broker: Mutex::new(broker),
            store: settings.store.as_ref().map(Store::new),
            workers: Workers::new(settings.workers),
            requests: AtomicU64::new(0),
            connections: Connections::default(),
        });
        Ok(NgsiTarget { listener, shared })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set, which is looked at twenty times a second.
    ///
    /// # Errors
    /// The system fails.
    pub fn run(self, stop: &AtomicBool) -> Result<(), NgsiError> {
        accept(&self.listener, stop, |stream| connection::serve(stream, &self.shared))?;
        self.shared.connections.close_all();
        Ok(())
    }
}
