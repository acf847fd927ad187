//! What the engine knows of a protocol: how its clients are made.

use super::{DriverContext, Part, RunService, ServiceContext};
use plimsoll_scenario::plan::{ListenerRole, ObservePlan, Plan, Protocol};
use std::io::Result;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A driver as the engine holds it. It is called through a table of functions once a message or turn; what it does in a turn
/// is its own code.
pub type BoxedPart = Box<dyn Part + Send>;

/// Starts what all shards of a run share, if this run needs it.
pub type StartService = fn(&ServiceContext<'_>) -> Result<Option<Arc<dyn RunService>>>;

/// Makes so many queriers in all shards, to which a query is submitted as if it were a message of its device.
pub type MakeQueriers = fn(&DriverContext, u32) -> Result<BoxedPart>;

/// A row of [`DRIVERS`](super::DRIVERS). Its functions fail where the operating system refuses something, or where
/// certificates cannot be used.
pub struct DriverEntry {
    /// What is spoken.
    pub protocol: Protocol,
    /// The devices of a shard, and its subscribers where those are clients beside them.
    pub devices: fn(&DriverContext) -> Result<BoxedPart>,
    /// Subscribers that listen for what the platform brings; `None` where nobody listens over this protocol.
    pub listener: Option<ListenerEntry>,
    /// Subscribers that observe resources; `None` where the protocol has nothing of that kind.
    pub observers: Option<fn(&DriverContext, &ObservePlan) -> Result<BoxedPart>>,
    /// Those who ask; `None` where nobody asks over this protocol.
    pub queriers: Option<MakeQueriers>,
    /// The broker at that address as a URL, for platforms that are told where subscribers are notified as its clients; `None`
    /// where the protocol has no broker.
    pub broker_url: Option<fn(&Plan, SocketAddr) -> String>,
    /// What all shards of a run share, `Ok(None)` where this run needs nothing of it; `None` where no run does.
    pub service: Option<StartService>,
}

impl DriverEntry {
    /// A protocol of devices alone, as most are.
    pub const fn of_devices(
        protocol: Protocol,
        devices: fn(&DriverContext) -> Result<BoxedPart>,
    ) -> DriverEntry {
        DriverEntry {
            protocol,
            devices,
            listener: None,
            observers: None,
            queriers: None,
            broker_url: None,
            service: None,
        }
    }
}

/// How subscribers listen over a protocol.
#[derive(Clone, Copy)]
pub struct ListenerEntry {
    /// The scheme of the URLs that a platform is given.
    pub scheme: &'static str,
    /// A socket that listens at that address, whose port is free to choose, and where it does.
    pub bind: fn(SocketAddr) -> Result<(OwnedFd, SocketAddr)>,
    /// The subscribers of a shard, at its socket.
    pub serve: fn(&DriverContext, &ListenerRole, OwnedFd) -> Result<BoxedPart>,
}
