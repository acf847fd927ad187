//! MQTT settings, topics and subscribers.

use super::Context;
use super::target::{IN_TARGETS, is_of_each_message};
use crate::diagnostic::Diagnostic;
use crate::plan::{MqttPlan, Piece, PlatformPlan, Secret, SessionPlan, SubscriberPlan, Template};
use crate::template::{TemplateError, Variables};
use crate::written::{Mqtt, ProtocolVersion, QosLevel, Scenario, SubscriberGroup, Subscribers};
use plimsoll_codec::mqtt::{QoS, Version, topic};
use plimsoll_model::Nanos;

/// Longest text that MQTT carries, in bytes (MQTT 3.1.1, 1.5.3).
pub(super) const LONGEST_TEXT: usize = 65_535;
/// Longest keep-alive that MQTT carries (MQTT 3.1.1, 3.1.2.10).
const LONGEST_KEEP_ALIVE: Nanos = Nanos::from_secs(65_535);

pub(super) fn resolve(mqtt: &mut Mqtt, target: &Template, context: &mut Context<'_>) -> Option<MqttPlan> {
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
    if mqtt.retain && is_of_each_message(target) {
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
        session: SessionPlan::default(),
    })
}

/// The password from the environment; the error was reported.
fn password(mqtt: &Mqtt, context: &mut Context<'_>) -> Result<Option<Secret>, ()> {
    let Some(source) = &mqtt.password else { return Ok(None) };
    match (context.environment.variable)(&source.env) {
        Some(value) if value.len() <= LONGEST_TEXT => Ok(Some(Secret(value))),
        Some(_) => {
            context
                .error("mqtt.password.env", "the password is longer than the 65535 bytes that MQTT carries");
            Err(())
        }
        None => {
            context.error_with_help(
                "mqtt.password.env",
                format!("the environment variable `{}` is not set", source.env),
                format!("set it before the run: `export {}=...`", source.env),
            );
            Err(())
        }
    }
}

/// The subscribers, with the defaults of their filters and QoS filled in.
pub(super) fn subscribers(scenario: &mut Scenario, context: &mut Context<'_>) -> Option<SubscriberPlan> {
    let (group, path) = match &scenario.population.subscribers {
        Subscribers::Count(count) => (SubscriberGroup::of(*count), "population.subscribers"),
        Subscribers::Group(group) => (group.clone(), "population.subscribers.filters"),
    };
    let qos = group.qos.unwrap_or(scenario.mqtt.qos);
    let texts = match group.filters {
        Some(texts) => texts,
        // Messages go to the path of the platform's address.
        None if scenario.message.target.is_empty() => Vec::new(),
        // A topic that does not compile was reported already.
        None => vec![Template::compile(&scenario.message.target, IN_TARGETS).ok()?.as_filter().text()],
    };
    let (share, texts) = share(group.share, texts, scenario.mqtt.version, path, context);
    let mut filters = Vec::new();
    for (position, text) in texts.iter().enumerate() {
        let path = format!("{path}.{position}");
        match Template::compile(text, &["run", "subscriber"]) {
            Ok(filter) if share.is_some() && filter.pieces.contains(&Piece::Subscriber) => {
                filters.push(filter);
                context.error_with_help(
                    &path,
                    "those who share a subscription have the same filters",
                    "take `{subscriber}` out, or let each subscriber get everything",
                );
            }
            Ok(filter) => {
                if !topic::valid_filter(&example(&filter)) || filter.longest(0) > LONGEST_TEXT {
                    let help = "`+` stands for a whole level, `#` for everything below the last; 1 to 65535 bytes, \
                                none of them null";
                    context.error_with_help(&path, format!("`{text}` is no topic filter"), help);
                }
                filters.push(filter);
            }
            Err(error) => report(context, &path, error),
        }
    }
    let whole = filters.len() == texts.len();
    let work = group.work.0;
    let link = super::population::link(group.link, "population.subscribers.link", context);
    let written = SubscriberGroup {
        count: group.count,
        qos: Some(qos),
        filters: (!texts.is_empty()).then_some(texts),
        share: share.clone(),
        devices: group.devices,
        work: group.work,
        link: group.link,
    };
    scenario.population.subscribers = Subscribers::Group(written);
    let QosLevel(qos) = qos;
    let devices = group.devices;
    whole.then_some(SubscriberPlan { count: group.count, qos, filters, share, devices, work, link })
}

/// The group of a shared subscription, as its own key or in the filters, and the filters without it.
fn share(
    written: Option<String>,
    texts: Vec<String>,
    version: ProtocolVersion,
    path: &str,
    context: &mut Context<'_>,
) -> (Option<String>, Vec<String>) {
    const KEY: &str = "population.subscribers.share";
    let mut group = written.clone();
    let mut plain = Vec::new();
    for (position, text) in texts.into_iter().enumerate() {
        let path = format!("{path}.{position}");
        let Some((name, filter)) = text.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) else {
            if group.is_some() && written.is_none() {
                let help = "write `$share/` before all of them, or before none";
                context.error_with_help(&path, "one filter is shared and another is not", help);
            }
            plain.push(text);
            continue;
        };
        let first = position == 0 && written.is_none();
        if !first && group.as_deref() != Some(name) {
            let help = "give all filters the same group";
            context.error_with_help(&path, "subscribers can be in one group only", help);
        }
        group.get_or_insert(name.to_owned());
        plain.push(filter.to_owned());
    }
    if let Some(name) = &group {
        let path = if written.is_some() { KEY } else { path };
        if version == ProtocolVersion::V311 {
            let help = "write `mqtt: { version: \"5\" }`, or do not share";
            context.error_with_help(path, "MQTT 3.1.1 has no shared subscriptions", help);
        }
        if !topic::valid_name(name) || name.contains(['/', '{']) {
            let help = "a group is a plain word, as `workers`";
            context.error_with_help(path, format!("`{name}` is no name of a group"), help);
        }
    }
    (group, plain)
}

/// Reports a text that is no template, where it can be on the variable itself.
pub(super) fn report(context: &mut Context<'_>, path: &str, error: TemplateError) {
    let span = context.root.locate(path).find(&error.written);
    context.found.push(Diagnostic::new(&span, error.message).help(error.help));
}

/// One of the texts that a template renders to.
pub(super) fn example(template: &Template) -> String {
    let variables = Variables { run: "00000000", ..Variables::default() };
    let mut out = Vec::new();
    template.render(&variables, &mut || 0, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a device awaits the acknowledgements of what it publishes, so that only so many are in flight.
pub(super) fn has_window(scenario: &Scenario) -> bool {
    scenario.mqtt.qos.0 != QoS::AtMostOnce
}

/// Whether messages are acknowledged: by MQTT, by an answer of the platform's own, or by what a gateway's log tells.
pub(super) fn is_acknowledged(scenario: &Scenario, platform: Option<&PlatformPlan>) -> bool {
    let otherwise =
        |platform: &PlatformPlan| platform.roles.device.answer.is_some() || platform.tells_lives();
    has_window(scenario) || platform.is_some_and(otherwise)
}
