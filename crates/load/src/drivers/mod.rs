//! One driver a folder or file, and what they have in common: sockets and when they are ready, what lies between a
//! session and its socket, what is on its way to the kernel.

pub mod coap;
pub mod coap_listener;
mod context;
pub mod gateway;
pub mod http;
mod layers;
mod link;
pub mod listener;
pub mod mqtt;
pub mod null;
mod outgoing;
mod readiness;
pub mod simulated;
mod socket;
mod timers;
pub mod together;
pub mod websocket;
mod words;

use crate::driver::Driver;
pub use context::DriverContext;
pub use layers::check_tls;
use plimsoll_model::Nanos;
use std::os::fd::BorrowedFd;

/// A driver that can be waited for together with another one.
pub trait Part: Driver {
    /// Ready to be read when the driver has something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// When it has something to do whatever the network brings.
    fn next_timer(&self) -> Nanos;

    /// Whether its next step waits for the platform, so that what comes must be read at once.
    fn is_urgent(&self) -> bool;
}
