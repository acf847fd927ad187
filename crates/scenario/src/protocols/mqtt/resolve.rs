//! From what is written of MQTT to what is planned.

use super::config::{Mqtt, ProtocolVersion};
use super::plan::MqttPlan;
use super::session;
use crate::config::Scenario;
use crate::context::Context;
use crate::secret::Secret;
use plimsoll_codec::mqtt::{QoS, Version};
use plimsoll_model::Nanos;
use plimsoll_template::Template;

/// Longest text that MQTT carries, in bytes (MQTT 3.1.1, 1.5.3).
pub(crate) const LONGEST_TEXT: usize = 65_535;
/// Longest keep-alive that MQTT carries (MQTT 3.1.1, 3.1.2.10).
const LONGEST_KEEP_ALIVE: Nanos = Nanos::from_secs(65_535);

pub(crate) fn resolve(mqtt: &Mqtt, target: &Template, context: &mut Context<'_>) -> Option<MqttPlan> {
    let version = match mqtt.version {
        ProtocolVersion::V311 => Version::V311,
        ProtocolVersion::V5 => Version::V5,
    };
    let keep_alive = mqtt.keep_alive.0;
    if keep_alive > LONGEST_KEEP_ALIVE || keep_alive.0 % Nanos::from_secs(1).0 != 0 {
        context.error("mqtt.keep_alive", "MQTT carries the keep-alive in whole seconds, 65535 at most");
    }
    if version == Version::V311 {
        if mqtt.receive_maximum.is_some() {
            context.error_with_help(
                "mqtt.receive_maximum",
                "MQTT 3.1.1 has no receive maximum",
                "write `version: \"5\"`, or leave it out; `in_flight` bounds our own sending in both versions",
            );
        }
        if mqtt.password.is_some() && mqtt.username.is_none() {
            context.error_with_help(
                "mqtt.password",
                "MQTT 3.1.1 carries no password without a user name",
                "add `username`, or write `version: \"5\"`",
            );
        }
    }
    let password = password(mqtt, context);
    let session = session::resolve::resolve(mqtt, target, context);
    if mqtt.retain && target.is_of_each_message() {
        context.error_with_help(
            "mqtt.retain",
            "each message has a topic of its own, so each would stay on the platform for ever",
            "take `{sequence}` out of `message.target`, or do not retain",
        );
    }
    Some(MqttPlan {
        version,
        qos: mqtt.qos.0,
        keep_alive,
        username: mqtt.username.clone(),
        password: password.ok()?,
        retain: mqtt.retain,
        receive_maximum: mqtt.receive_maximum,
        in_flight: mqtt.in_flight,
        session,
    })
}

/// The password from the environment; the error was reported.
fn password(mqtt: &Mqtt, context: &mut Context<'_>) -> Result<Option<Secret>, ()> {
    let Some(source) = &mqtt.password else { return Ok(None) };
    let password = context.secret(source, "mqtt.password.env").ok_or(())?;
    if password.0.len() > LONGEST_TEXT {
        context.error("mqtt.password.env", "the password is longer than the 65535 bytes that MQTT carries");
        return Err(());
    }
    Ok(Some(password))
}

/// Whether a device awaits the acknowledgements of what it publishes, so that only so many are in flight.
pub(crate) fn has_window(scenario: &Scenario) -> bool {
    scenario.mqtt.qos.0 != QoS::AtMostOnce
}
