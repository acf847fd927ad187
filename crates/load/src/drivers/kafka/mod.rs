//! The Kafka driver: sessions of [`session`] over the connections of [`messaging`](super::messaging). [`reading`] is what a subscriber
//! reads, and from where on; [`group`] how it shares that with others.

mod group;
mod reading;
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
    DriverEntry::of_devices(Protocol::Kafka, |context| Ok(Box::new(driver(context)?)));

/// Clients of one shard that speak Kafka.
pub type KafkaDriver = MessagingDriver<Session>;

/// A driver for the clients of a share, none of them connected yet.
///
/// # Errors
/// The kernel refuses an epoll instance, or certificates cannot be used.
pub fn driver(context: &DriverContext) -> std::io::Result<KafkaDriver> {
    let settings = Arc::new(Settings::new(&context.plan, context.run, context.address.ip()));
    let contents = Contents::new(&context.plan, context.run);
    MessagingDriver::new(context, |client, filters| {
        let mut key = Vec::new();
        if let Client::Device(device) = client {
            contents.render_topic(device, 0, &mut key);
        }
        Session::new(client, (&key, filters), &settings)
    })
}
