//! How devices speak CoAP, resolved.

use plimsoll_model::Nanos;

/// How devices speak CoAP over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoapPlan {
    /// Whether requests are repeated until they are acknowledged.
    pub confirmable: bool,
    /// Requests of a device that can be under way.
    pub outstanding: u32,
    /// Sockets that all devices share, in place of their own.
    pub sockets: Option<u32>,
    /// The least time until a request is repeated for the first time.
    pub ack_timeout: Nanos,
    /// How often a request is repeated at most.
    pub max_retransmit: u32,
    /// How long an answer is awaited at most.
    pub timeout: Nanos,
    /// Bytes of a block in which larger messages are sent; `None` where only what fits in no datagram is.
    pub block_size: Option<u16>,
}
