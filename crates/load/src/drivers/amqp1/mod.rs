//! The AMQP 1.0 driver: sessions of [`session`] over the connections of [`messaging`](super::messaging).

mod session;

use super::messaging::MessagingDriver;
use super::{DriverContext, DriverEntry};
use crate::content::Contents;
use crate::driver::Client;
use plimsoll_scenario::plan::Protocol;
use session::{Session, Settings};
use std::sync::Arc;

/// Devices and subscribers.
pub const ENTRY: DriverEntry =
    DriverEntry::of_devices(Protocol::Amqp1, |context| Ok(Box::new(driver(context)?)));

/// Clients of one shard that speak AMQP 1.0.
pub type Amqp1Driver = MessagingDriver<Session>;

/// A driver for the clients of a share, none of them connected yet.
///
/// # Errors
/// The kernel refuses an epoll instance, or certificates cannot be used.
pub fn driver(context: &DriverContext) -> std::io::Result<Amqp1Driver> {
    let settings = Arc::new(Settings::new(&context.plan, context.run));
    let contents = Contents::new(&context.plan, context.run);
    MessagingDriver::new(context, |client, filters| {
        let mut topic = Vec::new();
        if let Client::Device(device) = client {
            contents.render_topic(device, 0, &mut topic);
        }
        Session::new(client, (&topic, filters), &settings)
    })
}
