//! The AMQP 0-9-1 driver: sessions of [`session`] over the connections of [`messaging`](super::messaging).

mod session;

use super::messaging::MessagingDriver;
use super::{DriverContext, DriverEntry};
use plimsoll_scenario::plan::Protocol;
use session::{Session, Settings};
use std::sync::Arc;

/// Devices and subscribers.
pub const ENTRY: DriverEntry =
    DriverEntry::of_devices(Protocol::Amqp, |context| Ok(Box::new(driver(context)?)));

/// Clients of one shard that speak AMQP 0-9-1.
pub type AmqpDriver = MessagingDriver<Session>;

/// A driver for the clients of a share, none of them connected yet.
///
/// # Errors
/// The kernel refuses an epoll instance, or certificates cannot be used.
pub fn driver(context: &DriverContext) -> std::io::Result<AmqpDriver> {
    let settings = Arc::new(Settings::new(&context.plan, context.run));
    MessagingDriver::new(context, |client, filters| Session::new(client, filters, &settings))
}
