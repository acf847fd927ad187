//! How devices and subscribers speak Kafka, resolved.

use crate::secret::Secret;
pub use plimsoll_codec::kafka::Acks;

/// Kafka settings common to devices and subscribers.
#[derive(Clone, Debug, PartialEq)]
pub struct KafkaPlan {
    /// User name, where the platform asks for one.
    pub username: Option<String>,
    /// Password, taken from the environment.
    pub password: Option<Secret>,
    /// A topic that exists; `None` for one that is made for the run.
    pub topic: Option<String>,
    /// Partitions of a topic that is made for the run.
    pub partitions: i32,
    /// Copies of each of them.
    pub replicas: i16,
    /// Which copies must have a message before it is acknowledged.
    pub acks: Acks,
    /// Most messages of a device that wait for their acknowledgement.
    pub in_flight: u16,
}
