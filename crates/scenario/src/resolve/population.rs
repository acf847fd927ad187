//! Who takes part: emulated networks, and who follows whom.

use crate::config::Link;
use crate::context::Context;
use crate::plan::{Each, LinkPlan, Piece, PlatformPlan, SubscriberPlan};
use plimsoll_model::Nanos;

/// Longest delay of one way.
const LONGEST_DELAY: Nanos = Nanos::from_secs(60);

/// An emulated network.
pub(super) fn link(written: Option<Link>, path: &str, context: &mut Context<'_>) -> LinkPlan {
    let Some(Link { delay, jitter }) = written else { return LinkPlan::default() };
    if delay.0 > LONGEST_DELAY {
        let message = "one way can take a minute at most";
        context.error_with_help(
            &format!("{path}.delay"),
            message,
            "a satellite link has 300ms, a mobile one 50ms",
        );
    }
    if jitter.0 > delay.0 {
        let message = "a delay that varies by more than itself would be negative";
        context.error_with_help(&format!("{path}.jitter"), message, "lower `jitter` or raise `delay`");
    }
    LinkPlan { delay: delay.0, jitter: jitter.0 }
}

/// Following some devices needs subscriptions to each, which only a profile with such steps makes.
pub(super) fn check_followed(
    platform: &PlatformPlan,
    subscribers: &SubscriberPlan,
    devices: u32,
    context: &mut Context<'_>,
) {
    const KEY: &str = "population.subscribers.devices";
    let Some(followed) = subscribers.devices else { return };
    let roles = &platform.roles;
    let by_pair = roles.set_up.iter().any(|step| step.each == Each::Pair);
    if !by_pair && !roles.asks_for_each_device() {
        let name = &platform.profile.name;
        let message =
            format!("the profile `{name}` makes no subscription for each pair of device and subscriber");
        let help = "over MQTT give each subscriber `filters` with `{subscriber}` in them";
        context.error_with_help(KEY, message, help);
    }
    // Filters of those who are notified of what set-up steps ask for say nothing about devices.
    let by_filters = subscribers.filters.iter().any(|filter| filter.pieces.contains(&Piece::Subscriber));
    if by_filters && roles.notified.is_none() {
        let help = "keep one: `filters` say by themselves who follows whom";
        context.error_with_help(KEY, "`devices` and filters with `{subscriber}` exclude each other", help);
    }
    if followed > devices {
        let message = format!("there are only {devices} devices to follow");
        context.error_with_help(KEY, message, "leave it out where each follows all");
    }
}
