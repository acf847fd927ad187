//! What a protocol has once in a run, for all shards: a name service, say, or a reader of what a component of the platform
//! logs.

use crate::clock::Clock;
use crate::driver::Event;
use plimsoll_model::record::LevelEnd;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Plan;
use std::any::Any;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What a [`RunService`] is made from.
pub struct ServiceContext<'a> {
    /// What is to be done.
    pub plan: &'a Plan,
    /// The run.
    pub run: RunId,
    /// Where devices reach the platform, or it reaches them.
    pub address: SocketAddr,
    /// Where a component of the platform sends the log of the stages that messages pass at it, if it sends one.
    pub stage_log: Option<SocketAddr>,
    /// Shards that share the service.
    pub shards: u32,
    /// The run's clock.
    pub clock: Clock,
}

/// See the module. It is made before any driver, and dropped when all shards have ended.
pub trait RunService: Any + Send + Sync {
    /// Whether clients may begin to connect, or why they never may; `None` while the service still waits for the platform,
    /// for so long by now.
    fn begun(&self, waited: Nanos) -> Option<Result<(), String>>;

    /// What tells a shard of the stages of its devices' messages; `None` where their driver does.
    fn stage_reader(&self, shard: u32) -> Option<Box<dyn StageReader + Send>>;

    /// Whether the stages of every message are awaited beside its answer.
    fn awaits_stages(&self) -> bool;

    /// A level has ended: adds what the service knows of it.
    fn level_ended(&self, end: &mut LevelEnd);
}

/// What tells one shard which stages its devices' messages have passed at a component of the platform.
pub trait StageReader {
    /// Ready to be read when there is something to tell; `None` where there never is.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Adds what was told since the last call. It costs next to nothing where that is nothing.
    fn read(&mut self, events: &mut Vec<Event>);

    /// A level is closed: adds what is told once a level.
    fn level_closed(&mut self, events: &mut Vec<Event>);
}

/// The service as what it is, for the driver that it belongs to; `None` for another one's.
pub(super) fn downcast<T: RunService>(service: &Arc<dyn RunService>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(service) as _;
    any.downcast().ok()
}
