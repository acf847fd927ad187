//! What can be said of platforms that are spoken to in requests and answers.

use super::Context;
use crate::plan::{PlatformPlan, Protocol};
use crate::written::{Mqtt, Scenario, Subscribers};
use plimsoll_model::Nanos;

/// Keys of `mqtt` that mean something to every protocol: the topic is the path.
const COMMON: [&str; 3] = ["topic", "connect_timeout", "reconnect"];

/// Reports what MQTT has and requests have not.
pub(super) fn check(scenario: &Scenario, platform: Option<&PlatformPlan>, context: &mut Context<'_>) {
    let speaks = platform.map(PlatformPlan::protocol).unwrap_or_default();
    if speaks != Protocol::Http && context.written("http") && !scenario.http.is_default() {
        context.error_with_help("http", format!("devices speak {speaks}, not HTTP"), "remove it");
    }
    let timeout = scenario.http.timeout.0;
    if timeout <= Nanos::ZERO {
        context.error("http.timeout", "a request needs some time for its answer");
    }
    let Some(platform) = platform.filter(|platform| platform.protocol() != Protocol::Mqtt) else { return };
    let name = platform.protocol();
    let values = |mqtt: &Mqtt| serde_json::to_value(mqtt).unwrap_or_default();
    let (written, default) = (values(&scenario.mqtt), values(&Mqtt::default()));
    for (key, value) in written.as_object().into_iter().flatten() {
        let path = format!("mqtt.{key}");
        // A resolved scenario has every default written out.
        if !COMMON.contains(&key.as_str()) && context.written(&path) && default.get(key) != Some(value) {
            let help = format!("remove it; of `mqtt`, {} hold for every protocol", COMMON.join(", "));
            context.error_with_help(&path, format!("`{key}` means nothing to {name}"), help);
        }
    }
    let subscribers = match &scenario.population.subscribers {
        Subscribers::Count(count) => *count,
        Subscribers::Group(group) => group.count,
    };
    if subscribers > 0 && platform.roles.listener.is_none() {
        let message = format!("there are no subscribers over {name}: nothing is delivered");
        let help = "remove them, answers are measured; or use a profile in which subscribers listen";
        context.error_with_help("population.subscribers", message, help);
    }
    if scenario.population.link.is_some() {
        let message = format!("no network is emulated over {name}");
        context.error_with_help("population.link", message, "remove it");
    }
}
