//! What a scenario says of protocols that its devices do not speak, and what theirs has not.

use super::slice::Slice;
use super::{SLICES, slice};
use crate::config::{Connection, Message, Scenario, Subscribers};
use crate::context::Context;
use crate::plan::{PlatformPlan, ReceiversPlan};

/// Takes out of one of several populations what the scenario says, for others, of protocols that its devices do not speak.
pub(crate) fn forget_inherited(
    scenario: &mut Scenario,
    platform: Option<&PlatformPlan>,
    context: &Context<'_>,
) {
    let spoken = platform.map(PlatformPlan::protocol).unwrap_or_default();
    for other in others(slice(spoken)).filter(|slice| context.inherits(slice.section)) {
        (other.forget)(scenario);
    }
    if context.inherits("connection") {
        forget_connection(&mut scenario.connection, slice(spoken).connection);
    }
}

/// The protocols whose sections mean nothing to devices that speak this one.
fn others(spoken: &'static Slice) -> impl Iterator<Item = &'static Slice> {
    SLICES.iter().filter(|slice| slice.protocol != spoken.protocol && Some(slice.protocol) != spoken.over)
}

/// Takes out what means nothing to a protocol.
fn forget_connection(connection: &mut Connection, hold: &[&str]) {
    let values = |connection: &Connection| serde_json::to_value(connection).unwrap_or_default();
    let (mut own, default) = (values(connection), values(&Connection::default()));
    if let (Some(own), Some(default)) = (own.as_object_mut(), default.as_object()) {
        own.retain(|key, _| hold.contains(&key.as_str()));
        let others = default.iter().filter(|(key, _)| !hold.contains(&key.as_str()));
        own.extend(others.map(|(key, value)| (key.clone(), value.clone())));
    }
    if let Ok(kept) = serde_json::from_value(own) {
        *connection = kept;
    }
}

/// Reports it. Without a platform devices speak MQTT.
pub(crate) fn check(scenario: &Scenario, platform: Option<&PlatformPlan>, context: &mut Context<'_>) {
    let spoken = slice(platform.map(PlatformPlan::protocol).unwrap_or_default());
    for other in others(spoken) {
        (other.unspoken)(scenario, spoken, context);
    }
    let Some(platform) = platform else { return };
    let name = spoken.name;
    let connection = (&scenario.connection, &Connection::default());
    if !context.inherits("connection") {
        context.means_nothing("connection", connection, spoken.connection, name);
    }
    let is_default = scenario.message.target == Message::default().target;
    if !spoken.has_target && context.written("message.target") && !is_default {
        let message = format!("messages have no target over {name}");
        context.error_with_help("message.target", message, "remove it");
    }
    if scenario.population.link.is_some() && !spoken.has_links {
        let message = format!("no network is emulated over {name}");
        context.error_with_help("population.link", message, "remove it");
    }
    if spoken.has_subscribers {
        let subscribers = &scenario.population.subscribers;
        let elsewhere = context.population().receivers == ReceiversPlan::Common;
        if !elsewhere
            && !spoken.has_links
            && matches!(subscribers, Subscribers::Group(group) if group.link.is_some())
        {
            let message = format!("no network is emulated over {name}");
            context.error_with_help("population.subscribers.link", message, "remove it");
        }
        return;
    }
    let subscribers = scenario.population.subscribers.count();
    let roles = &platform.roles;
    let receive = roles.listener.is_some()
        || roles.receives.is_some()
        || (roles.observes.is_some() && spoken.has_observers);
    let elsewhere = context.population().receivers == ReceiversPlan::Common;
    if subscribers > 0 && !receive && !elsewhere {
        let message =
            format!("the profile has no subscribers over {name} with this mapping: nothing is delivered");
        let help =
            "remove them, answers are measured; or use a profile or a mapping in which subscribers listen";
        context.error_with_help("population.subscribers", message, help);
    }
}
