//! One driver a folder or file, the table of them, and what they have in common: sockets and when they are ready, what lies
//! between a session and its socket, what is on its way to the kernel.

pub mod amqp;
pub mod amqp1;
pub mod answers;
pub mod coap;
pub mod coap_tcp;
mod context;
mod entry;
pub mod gateway;
pub mod http;
pub mod kafka;
pub mod lwm2m;
pub mod messaging;
pub mod mqtt;
pub mod nats;
pub mod null;
mod queriers;
pub(crate) mod readiness;
mod service;
pub mod simulated;
pub(crate) mod socket;
mod stream;
mod timers;
pub mod websocket;
mod whom;
mod words;

use crate::driver::Driver;
pub use coap_tcp::reasons as coap_tcp_reasons;
pub use context::DriverContext;
pub use entry::{BoxedPart, DriverEntry, ListenerEntry, StartService};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Plan, Protocol, ReceiveRole};
pub use service::{RunService, ServiceContext, StageReader};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
pub use stream::layers::{check_tls, tls_of_client};

/// Every protocol that can be spoken, one row each. Where a role is open to several, the first that has it takes it.
pub static DRIVERS: &[DriverEntry] = &[
    mqtt::ENTRY,
    http::ENTRY,
    coap::ENTRY,
    coap_tcp::ENTRY,
    websocket::ENTRY,
    gateway::ENTRY,
    lwm2m::ENTRY,
    nats::ENTRY,
    amqp::ENTRY,
    amqp1::ENTRY,
    kafka::ENTRY,
];

/// The row of a protocol.
///
/// # Errors
/// The table has none.
pub fn driver_of(protocol: Protocol) -> std::io::Result<&'static DriverEntry> {
    let missing = || std::io::Error::other(format!("no driver speaks {protocol}"));
    DRIVERS.iter().find(|entry| entry.protocol == protocol).ok_or_else(missing)
}

/// What makes the queriers of a protocol.
///
/// # Errors
/// Nobody asks over that protocol.
pub fn queriers_of(protocol: Protocol) -> std::io::Result<entry::MakeQueriers> {
    let missing = || std::io::Error::other(format!("no driver asks over {protocol}"));
    driver_of(protocol)?.queriers.ok_or_else(missing)
}

/// What the devices' protocol has for a role, else the first that has something.
///
/// # Errors
/// No protocol has.
pub fn role_of<T>(plan: &Plan, role: fn(&'static DriverEntry) -> Option<T>) -> std::io::Result<T> {
    let missing = || std::io::Error::other("no driver has what the platform's profile asks for");
    role(driver_of(plan.protocol())?).or_else(|| DRIVERS.iter().find_map(role)).ok_or_else(missing)
}

/// Subscribers of a shard that receive over connections of their own, whatever devices speak.
///
/// # Errors
/// The operating system refuses something, or certificates cannot be used.
pub fn receivers(context: &DriverContext, role: &ReceiveRole) -> std::io::Result<BoxedPart> {
    match role {
        ReceiveRole::WebSocket(role) => websocket::receivers(context, role),
        ReceiveRole::Http(role) => http::receivers(context, role),
    }
}

/// What the shards of a run share; `None` where they share nothing.
///
/// # Errors
/// Those of the service: the operating system refuses what it needs.
pub fn service(context: &ServiceContext<'_>) -> std::io::Result<Option<Arc<dyn RunService>>> {
    for make in DRIVERS.iter().filter_map(|entry| entry.service) {
        if let Some(service) = make(context)? {
            return Ok(Some(service));
        }
    }
    Ok(None)
}

/// A driver that can be waited for together with another one.
pub trait Part: Driver {
    /// Ready to be read when the driver has something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// When it has something to do whatever the network brings.
    fn next_timer(&self) -> Nanos;

    /// Whether its next step waits for the platform, so that what comes must be read at once.
    fn is_urgent(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_one_row() {
        for entry in DRIVERS {
            let found = driver_of(entry.protocol).unwrap();
            assert!(std::ptr::eq(found, entry), "{} has two", entry.protocol);
        }
        assert!(Protocol::ALL.into_iter().all(|protocol| driver_of(protocol).is_ok()));
    }
}
