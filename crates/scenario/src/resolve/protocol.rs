//! What is spoken, and what can be said of platforms that are not spoken to in MQTT.

use super::Context;
use crate::plan::{Endpoint, PlatformPlan, Protocol};
use crate::quantity::Quantity;
use crate::written::{Connection, Message, Mqtt, OverWebSocket, Scenario, Subscribers};
use plimsoll_model::Nanos;
use serde::Serialize;

/// Longer than this a gateway does not wait for an answer.
const LONGEST_DELAY: Nanos = Nanos::from_secs(4);

/// Keys of `connection` that mean something to each protocol.
fn of_connection(protocol: Protocol) -> &'static [&'static str] {
    match protocol {
        Protocol::Mqtt => &["tls", "timeout", "reconnect", "offline", "source_addresses"],
        Protocol::Http | Protocol::WebSocket => &["tls", "timeout", "reconnect", "source_addresses"],
        Protocol::Coap => &["timeout", "reconnect", "source_addresses"],
        Protocol::Gateway => &["timeout", "source_addresses"],
    }
}

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
    let speaks = platform.protocol();
    let name = match speaks {
        Protocol::WebSocket => "WebSocket without MQTT",
        Protocol::Http => "HTTP",
        Protocol::Coap => "CoAP",
        Protocol::Gateway => "devices that are polled",
        Protocol::Mqtt => return,
    };
    means_nothing("mqtt", (&scenario.mqtt, &Mqtt::default()), &[], name, context);
    let connection = (&scenario.connection, &Connection::default());
    means_nothing("connection", connection, of_connection(speaks), name, context);
    if !speaks.sends_requests() && context.written("message.target") && !is_default_target(scenario) {
        let message = format!("messages have no target over {name}");
        context.error_with_help("message.target", message, "remove it");
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

fn is_default_target(scenario: &Scenario) -> bool {
    scenario.message.target == Message::default().target
}

/// Reports the keys of a section that differ from their defaults, beside those that hold. A resolved scenario has every default
/// written out.
fn means_nothing<T: Serialize>(
    section: &str,
    (written, default): (&T, &T),
    hold: &[&str],
    name: &str,
    context: &mut Context<'_>,
) {
    let values = |section: &T| serde_json::to_value(section).unwrap_or_default();
    let (written, default) = (values(written), values(default));
    for (key, value) in written.as_object().into_iter().flatten() {
        let path = format!("{section}.{key}");
        if hold.contains(&key.as_str()) || !context.written(&path) || default.get(key) == Some(value) {
            continue;
        }
        let help = match hold {
            [] => "remove it".to_owned(),
            hold => format!("remove it; of `{section}`, {} hold here", hold.join(", ")),
        };
        context.error_with_help(&path, format!("`{key}` means nothing to {name}"), help);
    }
}
