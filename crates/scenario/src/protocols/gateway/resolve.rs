//! From what is written of devices that are polled to what is planned.

use super::config::Gateway;
use super::plan::GatewayPlan;
use crate::context::Context;
use crate::quantity::Quantity;
use plimsoll_model::Nanos;

/// Longer than this a gateway does not wait for an answer.
const LONGEST_DELAY: Nanos = Nanos::from_secs(4);

pub(crate) fn resolve(gateway: &Gateway, context: &mut Context<'_>) -> GatewayPlan {
    if gateway.delay.0 > LONGEST_DELAY {
        let message = format!("a device may wait {} at most before it answers", LONGEST_DELAY.show());
        context.error("gateway.delay", message);
    }
    GatewayPlan { delay: gateway.delay.0 }
}
