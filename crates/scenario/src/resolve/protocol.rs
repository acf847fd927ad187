//! What is spoken, and what can be said of platforms that are not spoken to in MQTT.

use super::Context;
use crate::plan::{Endpoint, PlatformPlan, Protocol};
use crate::quantity::Quantity;
use crate::written::{Mqtt, OverWebSocket, Scenario, Subscribers};
use plimsoll_model::Nanos;

/// Longer than this a gateway does not wait for an answer.
const LONGEST_DELAY: Nanos = Nanos::from_secs(4);

/// Keys of `mqtt` that mean something to requests: the topic is the path.
const OF_REQUESTS: &[&str] = &["topic", "connect_timeout", "reconnect"];
/// The same where they may be secured.
const OF_HTTP: &[&str] = &["topic", "tls", "connect_timeout", "reconnect"];
/// The same where a gateway calls.
const OF_POLLED: &[&str] = &["connect_timeout"];
/// Keys of `mqtt` that mean something to WebSocket alone.
const OF_WEBSOCKET: &[&str] = &["tls", "connect_timeout", "reconnect"];

/// The address, with what the user says is spoken there.
pub(super) fn over_websocket(
    address: Option<Endpoint>,
    said: Option<OverWebSocket>,
    context: &mut Context<'_>,
) -> Option<Endpoint> {
    let websocket = address.as_ref().is_some_and(|address| address.wire.websocket);
    if said.is_some() && !websocket {
        context.error_with_help(
            "platform.protocol",
            "`protocol` says what is spoken over a WebSocket, and there is none",
            "write the address as `ws://host:port/path` or `wss://host/path`; other addresses begin with what is spoken",
        );
    }
    let address = address?;
    Some(match said {
        Some(OverWebSocket::Plain) if websocket => Endpoint { protocol: Protocol::WebSocket, ..address },
        _ => address,
    })
}

/// Reports what MQTT has and others have not.
pub(super) fn check(scenario: &Scenario, platform: Option<&PlatformPlan>, context: &mut Context<'_>) {
    let speaks = platform.map(PlatformPlan::protocol).unwrap_or_default();
    if speaks != Protocol::Http && context.written("http") && !scenario.http.is_default() {
        context.error_with_help("http", format!("devices speak {speaks}, not HTTP"), "remove it");
    }
    if speaks != Protocol::Gateway && context.written("gateway") && !scenario.gateway.is_default() {
        context.error_with_help("gateway", "no gateway polls these devices", "remove it");
    }
    if scenario.gateway.delay.0 > LONGEST_DELAY {
        let message = format!("a device may wait {} at most before it answers", LONGEST_DELAY.show());
        context.error("gateway.delay", message);
    }
    let timeout = scenario.http.timeout.0;
    if timeout <= Nanos::ZERO {
        context.error("http.timeout", "a request needs some time for its answer");
    }
    let Some(platform) = platform else { return };
    let (name, common) = match platform.protocol() {
        Protocol::WebSocket => ("WebSocket without MQTT", OF_WEBSOCKET),
        Protocol::Http => ("HTTP", OF_HTTP),
        Protocol::Coap => ("CoAP", OF_REQUESTS),
        Protocol::Gateway => ("devices that are polled", OF_POLLED),
        Protocol::Mqtt => return,
    };
    let values = |mqtt: &Mqtt| serde_json::to_value(mqtt).unwrap_or_default();
    let (written, default) = (values(&scenario.mqtt), values(&Mqtt::default()));
    for (key, value) in written.as_object().into_iter().flatten() {
        let path = format!("mqtt.{key}");
        // A resolved scenario has every default written out.
        if !common.contains(&key.as_str()) && context.written(&path) && default.get(key) != Some(value) {
            let help = format!("remove it; of `mqtt`, {} hold here too", common.join(", "));
            context.error_with_help(&path, format!("`{key}` means nothing to {name}"), help);
        }
    }
    let subscribers = match &scenario.population.subscribers {
        Subscribers::Count(count) => *count,
        Subscribers::Group(group) => group.count,
    };
    let receive = platform.roles.listener.is_some()
        || (platform.roles.observes.is_some() && platform.protocol() == Protocol::Coap);
    if subscribers > 0 && !receive {
        let message = format!("there are no subscribers over {name}: nothing is delivered");
        let help = "remove them, answers are measured; or use a profile in which subscribers listen";
        context.error_with_help("population.subscribers", message, help);
    }
    if scenario.population.link.is_some() {
        let message = format!("no network is emulated over {name}");
        context.error_with_help("population.link", message, "remove it");
    }
}
