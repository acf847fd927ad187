//! `plimsoll target ngsi`: a small NGSIv2 context broker.

use super::target_time::service_time;
use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_target::ngsi::{NgsiTarget, Settings, StoreSettings};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A small context broker that speaks NGSIv2, for tests and rehearsal:
/// entities, batch updates, queries, subscriptions; in memory or in a document store
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target ngsi --port 1026
  plimsoll target ngsi --workers 1 --delay 5ms --fail-every 100
  plimsoll target ngsi --port 1026 --store 127.0.0.1:27017

GET /statistics reports how many requests came and what became of notifications.
SIGTERM or Ctrl-C ends it.")]
pub struct Ngsi {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Requests that are served at once; others wait their turn
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// How long a worker takes for a request, in addition to the work itself
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = service_time)]
    delay: Nanos,
    /// Largest body of a request in bytes; a larger one is answered 413
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024, value_parser = clap::value_parser!(u32).range(1..=64 * 1024 * 1024))]
    max_body: u32,
    /// Answer 503 to each N-th request, which is not done (default: never)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fail_every: Option<u64>,
    /// Required X-Auth-Token; any other is answered 401 (default: anything)
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Do not notify a new subscription of entities that exist already
    #[arg(long)]
    no_first_notification: bool,
    /// A document store that keeps the entities, such as `plimsoll target documents`
    /// (default: memory). Several brokers may share one, and its subscriptions
    #[arg(long, value_name = "ADDRESS")]
    store: Option<SocketAddr>,
    /// Connections to the store; requests beyond that wait for one
    #[arg(long, value_name = "N", default_value_t = 8, requires = "store", value_parser = clap::value_parser!(u16).range(1..=1024))]
    store_connections: u16,
}

impl Ngsi {
    pub fn perform(self) -> Result<u8, Failure> {
        let settings = Settings {
            host: self.host,
            port: self.port,
            workers: usize::from(self.workers),
            delay: Duration::from_nanos(self.delay.0.unsigned_abs()),
            max_body: self.max_body as usize,
            fail_every: self.fail_every,
            token: self.token,
            tells_first: !self.no_first_notification,
            store: self
                .store
                .map(|address| StoreSettings { address, connections: usize::from(self.store_connections) }),
        };
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let target = NgsiTarget::bind(&settings).map_err(|error| undoable(&error))?;
        let address = target.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on http://{address}\n"));
        target.run(&stop).map_err(|error| undoable(&error))?;
        Ok(exit_code::MET)
    }
}
