//! Relays before components of the platform.

use super::component;
use crate::config::Relay;
use crate::context::Context;
use crate::plan::{LONGEST_RELAY_DELAY, RelayPlan, SHORTEST_RELAY_PERIOD};
use crate::profile::Profile;
use plimsoll_model::Nanos;
use std::collections::BTreeMap;

pub(super) fn resolve(
    written: &BTreeMap<String, Relay>,
    profile: &Profile,
    context: &mut Context<'_>,
) -> Vec<RelayPlan> {
    let help = "start a relay yourself with `plimsoll target relay --to ADDRESS`, and give its address as the platform's";
    if written.is_empty() || !component::any("platform.relays", profile, help, context) {
        return Vec::new();
    }
    written.iter().map(|(name, relay)| plan(name, relay, profile, context)).collect()
}

fn plan(name: &str, relay: &Relay, profile: &Profile, context: &mut Context<'_>) -> RelayPlan {
    let path = format!("platform.relays.{name}");
    let help = "a relay stands before a port that the profile names, as with `ready_port`";
    component::with_port(name, &path, profile, help, context);
    let time = |given: &Option<crate::quantity::Duration>| given.map_or(Nanos::ZERO, |time| time.0);
    let (delay, jitter) = (time(&relay.delay), time(&relay.jitter));
    for (key, value) in [("delay", delay), ("jitter", jitter)] {
        if value > LONGEST_RELAY_DELAY {
            context.error(&format!("{path}.{key}"), "a relay delays by one minute at most");
        }
    }
    let cut = relay.cut.as_ref().map(|cut| (cut.every.0, cut.length.0));
    let half_open = relay.half_open.map(|every| every.0);
    let periods = [("cut", cut.map(|(every, _)| every)), ("half_open", half_open)];
    for (key, _) in periods.iter().filter(|(_, every)| every.is_some_and(|it| it < SHORTEST_RELAY_PERIOD)) {
        context.error(&format!("{path}.{key}"), "it comes again after 1ms at the earliest");
    }
    if cut.is_some_and(|(every, length)| length >= every) {
        context.error(&format!("{path}.cut"), "`for` must be shorter than `every`");
    }
    RelayPlan {
        component: name.to_owned(),
        delay,
        jitter,
        rate: relay.rate.map(|rate| rate.0.0),
        loss: relay.loss.map_or(0.0, |share| share.0.0),
        cut,
        half_open,
    }
}
