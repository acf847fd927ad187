//! How devices speak HTTP, resolved.

use plimsoll_model::Nanos;

/// How devices speak HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpPlan {
    /// Connections of each device: so many requests of it can be under way.
    pub connections: u32,
    /// Connections that all devices share, in place of their own.
    pub pool: Option<u32>,
    /// How long an answer is awaited.
    pub timeout: Nanos,
}
