//! How devices and subscribers speak AMQP 1.0, resolved.

use crate::secret::Secret;

/// AMQP 1.0 settings common to devices and subscribers.
#[derive(Clone, Debug, PartialEq)]
pub struct Amqp1Plan {
    /// User name; `None` for nobody in particular.
    pub username: Option<String>,
    /// Password, taken from the environment.
    pub password: Option<Secret>,
    /// The host that a connection is for; `None` for that of the address.
    pub hostname: Option<String>,
    /// What stands before the levels of an address.
    pub prefix: String,
    /// A queue that exists, from which all subscribers receive.
    pub queue: Option<String>,
    /// What the platform's end of a link shall be able to do.
    pub capabilities: Vec<String>,
    /// Whether messages are marked as durable.
    pub durable: bool,
    /// Whether the platform says what became of each message.
    pub acknowledged: bool,
    /// Most messages of a device of which it has not said that yet.
    pub in_flight: u16,
}
