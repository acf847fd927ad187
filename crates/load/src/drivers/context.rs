//! What every driver of a shard is made from.

use crate::clock::Clock;
use crate::given::Given;
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
    /// Which clients belong to the shard.
    pub share: Share,
    /// The run's clock.
    pub clock: Clock,
    /// What the runner gives to all load threads while they work.
    pub given: Arc<Given>,
}
