//! The NATS driver: sessions of [`session`] over the connections of [`messaging`](super::messaging). With JetStream a stream
//! keeps the messages: [`jetstream`] has the texts of its requests and answers.

mod jetstream;
mod session;

use super::messaging::MessagingDriver;
use super::{DriverContext, DriverEntry};
use plimsoll_scenario::plan::Protocol;
use session::{Session, Settings};
use std::sync::Arc;

/// Devices and subscribers.
pub const ENTRY: DriverEntry =
    DriverEntry::of_devices(Protocol::Nats, |context| Ok(Box::new(driver(context)?)));

/// Clients of one shard that speak NATS.
pub type NatsDriver = MessagingDriver<Session>;

/// A driver for the clients of a share, none of them connected yet.
///
/// # Errors
/// The kernel refuses an epoll instance.
pub fn driver(context: &DriverContext) -> std::io::Result<NatsDriver> {
    let settings = Arc::new(Settings::new(&context.plan, context.run));
    MessagingDriver::new(context, |client, filters| Session::new(client, filters, &settings))
}
