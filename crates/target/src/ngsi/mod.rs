//! A small context broker that speaks NGSIv2, for tests and rehearsal: entities, batch updates, queries, subscriptions
//! with notifications. Everything is in memory, and bounded.
//!
//! Main flow: [`NgsiTarget::run`] accepts connections, each has a thread that reads requests ([`request`]), waits for one
//! of the `workers`, and lets the [`broker`] do them; `senders` carry notifications.

mod attribute;
mod broker;
mod connection;
mod entities;
mod filter;
mod refusal;
mod request;
mod senders;
mod subscriptions;
mod workers;

use broker::Broker;
use connection::{Connections, Shared};
use senders::Senders;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use workers::Workers;

/// How often a wish to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

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
        let broker = Broker::new(Senders::start()?, settings.tells_first);
        let shared = Arc::new(Shared {
            settings: settings.clone(),
            broker: Mutex::new(broker),
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
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        self.listener.set_nonblocking(true)?;
        while !stop.load(Ordering::Relaxed) {
            let mut wanted = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
            // The only error is an interrupting signal, after which we look again anyway.
            let _ = rustix::event::poll(&mut wanted, Some(&timeout));
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) => connection::serve(stream, &self.shared),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // No descriptors left, or a peer that is gone: asking again at once would burn the processor.
                        std::thread::sleep(LOOK);
                        break;
                    }
                }
            }
        }
        self.shared.connections.close_all();
        Ok(())
    }
}
