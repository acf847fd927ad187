//! What every driver of a shard is made from.

use super::RunService;
use super::service::downcast;
use crate::clock::Clock;
use crate::run_context::RunContext;
use crate::share::Share;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Plan;
use std::net::SocketAddr;
use std::sync::Arc;

/// The run, the shard's share of it, and where the platform is.
#[derive(Clone)]
pub struct DriverContext {
    /// What is to be done.
    pub plan: Arc<Plan>,
    /// The run.
    pub run: RunId,
    /// Where these clients reach the platform.
    pub address: SocketAddr,
    /// Where devices learn of the platform before, where it has such a server (LwM2M).
    pub bootstrap: Option<SocketAddr>,
    /// Which devices of the population belong to the shard.
    pub share: Share,
    /// Which subscribers do, and how many connect by this plan in all shards.
    pub subscribers: (Share, u32),
    /// The run's clock.
    pub clock: Clock,
    /// What the runner gives to all load threads while they work.
    pub run_context: Arc<RunContext>,
    /// What all shards share, where the run has something of that kind.
    pub service: Option<Arc<dyn RunService>>,
}

impl DriverContext {
    /// The service of that type.
    ///
    /// # Errors
    /// The run has none, or another one.
    pub fn service<T: RunService>(&self) -> std::io::Result<Arc<T>> {
        let service = self.service.as_ref().and_then(downcast);
        service.ok_or_else(|| std::io::Error::other("the run lacks what its driver shares between shards"))
    }
}
