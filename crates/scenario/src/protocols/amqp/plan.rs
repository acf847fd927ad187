//! How devices and subscribers speak AMQP 0-9-1, resolved.

use crate::secret::Secret;

/// AMQP settings common to devices and subscribers.
#[derive(Clone, Debug, PartialEq)]
pub struct AmqpPlan {
    /// User name.
    pub username: String,
    /// Password, taken from the environment; `None` for `guest`.
    pub password: Option<Secret>,
    /// The virtual host.
    pub virtual_host: String,
    /// The exchange to which devices publish, and to which the queues of subscribers are bound.
    pub exchange: String,
    /// A queue that exists, from which all subscribers consume.
    pub queue: Option<String>,
    /// Whether messages are marked as persistent.
    pub persistent: bool,
    /// Whether the broker confirms messages.
    pub confirms: bool,
    /// Most messages of a device that wait for their confirm.
    pub in_flight: u16,
}
