//! What devices do where a message does not come to its end.

use crate::config::Retry;
use crate::context::Context;
use crate::plan::{PlatformPlan, Protocol, RetryPlan};
use crate::quantity::Quantity;
use plimsoll_model::Nanos;

pub(super) fn resolve(
    retry: Option<&Retry>,
    platform: Option<&PlatformPlan>,
    acknowledged: bool,
    context: &mut Context<'_>,
) -> Option<RetryPlan> {
    let retry = retry?;
    let protocol = platform.map(PlatformPlan::protocol).unwrap_or_default();
    match protocol {
        Protocol::Mqtt if acknowledged => {}
        Protocol::Mqtt => {
            let help = "write `mqtt: { qos: 1 }`, or remove `retry`";
            context.error_with_help("retry", "the platform does not acknowledge messages at QoS 0", help);
        }
        Protocol::Http => {}
        other => {
            let message = format!("devices do not retry over {other}");
            let help = "remove `retry`; devices over MQTT and HTTP retry";
            context.error_with_help("retry", message, help);
        }
    }
    let pauses = (retry.backoff.from.0, retry.backoff.to.0);
    if pauses.0 > pauses.1 {
        context.error("retry.backoff.to", "the longest pause is shorter than the first");
    }
    let timeout = retry.timeout.0;
    if timeout < Nanos::from_millis(1) {
        context.error("retry.timeout", format!("{} are too short: 1ms at least", timeout.show()));
    }
    Some(RetryPlan { attempts: retry.attempts, timeout: Some(timeout), pauses, jitter: retry.jitter.0.0 })
}
