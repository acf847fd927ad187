//! How devices and subscribers speak NATS, resolved.

use crate::secret::Secret;

/// NATS settings common to devices and subscribers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NatsPlan {
    /// User name, where the platform asks for one.
    pub username: Option<String>,
    /// Password, taken from the environment.
    pub password: Option<Secret>,
    /// Token, taken from the environment.
    pub token: Option<Secret>,
    /// The stream that keeps messages; `None` for core NATS.
    pub stream: Option<StreamPlan>,
    /// Most messages of a device that wait for the acknowledgement of a stream.
    pub in_flight: u16,
}

/// A stream of JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// Its name; `None` for one that is named after the run.
    pub name: Option<String>,
    /// Where a stream that is made for the run keeps messages, in JetStream's word; `None` for one that exists.
    pub storage: Option<&'static str>,
}
