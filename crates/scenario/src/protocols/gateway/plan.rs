//! How devices are polled by a gateway, resolved.

use plimsoll_model::Nanos;

/// How devices are polled by a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayPlan {
    /// What each device waits before it answers a call: the network that is not there.
    pub delay: Nanos,
}
