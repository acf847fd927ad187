//! What outlives a connection, and what MQTT 5 puts beside a message.

use super::config::SessionKind;
use super::plan::{SessionPlan, WillPlan};
use crate::config::Scenario;
use crate::context::Context;
use crate::protocols::mqtt::config::{Mqtt, ProtocolVersion};
use crate::protocols::mqtt::resolve::LONGEST_TEXT;
use plimsoll_codec::mqtt::topic;
use plimsoll_model::Nanos;
use plimsoll_template::Template;

/// How long a session outlives its connection unless the scenario says otherwise.
const EXPIRY: Nanos = Nanos::from_secs(3600);
const NEEDS_5: &str = "write `version: \"5\"`, or leave it out";

pub(crate) fn resolve(mqtt: &Mqtt, target: &Template, context: &mut Context<'_>) -> SessionPlan {
    let old = mqtt.version == ProtocolVersion::V311;
    if old && mqtt.topic_alias {
        context.error_with_help("mqtt.topic_alias", "MQTT 3.1.1 has no topic aliases", NEEDS_5);
    }
    if mqtt.topic_alias && target.is_of_each_message() {
        context.error_with_help(
            "mqtt.topic_alias",
            "each message has a topic of its own, so an alias would stand for each only once",
            "take `{sequence}` out of `message.target`, or do without aliases",
        );
    }
    if old && !mqtt.user_properties.is_empty() {
        context.error_with_help("mqtt.user_properties", "MQTT 3.1.1 has no user properties", NEEDS_5);
    }
    if old && mqtt.session_expiry.is_some() {
        context.error_with_help(
            "mqtt.session_expiry",
            "in MQTT 3.1.1 the platform alone says how long a session is kept",
            NEEDS_5,
        );
    }
    let persistent = mqtt.session == SessionKind::Persistent;
    if mqtt.session_expiry.is_some() && !persistent {
        context.error_with_help(
            "mqtt.session_expiry",
            "a clean session ends with its connection",
            "add `session: persistent`, or leave it out",
        );
    }
    let expiry = mqtt.session_expiry.map_or(EXPIRY, |expiry| expiry.0);
    let seconds = whole_seconds(expiry, "mqtt.session_expiry", context);
    SessionPlan {
        expiry: persistent.then_some(seconds),
        will: will(mqtt, target, context),
        user_properties: user_properties(mqtt, context),
        topic_alias: mqtt.topic_alias,
    }
}

fn whole_seconds(span: Nanos, path: &str, context: &mut Context<'_>) -> u32 {
    let seconds = span.0 / Nanos::from_secs(1).0;
    if span.0 % Nanos::from_secs(1).0 != 0 || seconds >= i64::from(u32::MAX) {
        context.error(path, "MQTT carries it in whole seconds, 136 years at most");
    }
    seconds as u32
}

/// In MQTT 3.1.1 a session can only be ended by connecting once more, so that a device that was disconnected between
/// levels would find its old one.
pub(crate) fn check_levels(scenario: &Scenario, context: &mut Context<'_>) {
    let mqtt = &scenario.mqtt;
    let connects = scenario.load.devices.is_some() || scenario.load.connect_rates.is_some();
    if connects && mqtt.session == SessionKind::Persistent && mqtt.version == ProtocolVersion::V311 {
        context.error_with_help(
            "mqtt.session",
            "levels that disconnect devices cannot end their persistent sessions in MQTT 3.1.1",
            "write `version: \"5\"`, or `session: clean`",
        );
    }
}

fn will(mqtt: &Mqtt, messages: &Template, context: &mut Context<'_>) -> Option<WillPlan> {
    let will = mqtt.will.as_ref()?;
    let mut compile = |key: &str, text: &str| {
        let path = format!("mqtt.will.{key}");
        match Template::compile(text, &["run", "device"]) {
            Ok(template) if template.longest(0) <= LONGEST_TEXT => Some(template),
            Ok(_) => {
                context.error(&path, "MQTT carries 65535 bytes at most");
                None
            }
            Err(error) => {
                context.template_error(&path, error);
                None
            }
        }
    };
    let (will_topic, payload) = (compile("topic", &will.topic), compile("payload", &will.payload));
    let delay = match will.delay {
        None => 0,
        Some(_) if mqtt.version == ProtocolVersion::V311 => {
            context.error_with_help("mqtt.will.delay", "MQTT 3.1.1 has no delay of wills", NEEDS_5);
            0
        }
        Some(delay) => whole_seconds(delay.0, "mqtt.will.delay", context),
    };
    let (will_topic, payload) = (will_topic?, payload?);
    if !topic::valid_name(&will_topic.example()) {
        context.error_with_help(
            "mqtt.will.topic",
            format!("`{}` is no topic", will.topic),
            "a topic has neither `+` nor `#`, which belong in filters",
        );
        return None;
    }
    let filter = will_topic.as_filter();
    let overlaps = |filter: &Template, name: &Template| topic::matches(&filter.example(), &name.example());
    if overlaps(&filter, messages) || overlaps(&messages.as_filter(), &will_topic) {
        context.error_with_help(
            "mqtt.will.topic",
            "the topics of wills and of messages look the same",
            "give wills a topic of their own, as `plimsoll/{run}/will/{device}`",
        );
        return None;
    }
    Some(WillPlan { topic: will_topic, filter, payload, qos: will.qos.0, retain: will.retain, delay })
}

fn user_properties(mqtt: &Mqtt, context: &mut Context<'_>) -> Vec<(String, Template)> {
    let mut properties = Vec::new();
    for (name, text) in &mqtt.user_properties {
        let path = format!("mqtt.user_properties.{name}");
        match Template::compile(text, &["run", "device", "sequence", "time"]) {
            Ok(template)
                if template.longest(0) <= LONGEST_TEXT && !text.contains('\0') && !name.contains('\0') =>
            {
                properties.push((name.clone(), template));
            }
            Ok(_) => context.error(&path, "MQTT carries 65535 bytes at most, none of them null"),
            Err(error) => context.template_error(&path, error),
        }
    }
    properties
}
