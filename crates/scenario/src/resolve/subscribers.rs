//! The subscribers and what they subscribe to.

use super::population;
use super::target::IN_TARGETS;
use crate::config::{ProtocolVersion, QosLevel, Scenario, SubscriberGroup, Subscribers};
use crate::context::Context;
use crate::plan::{Piece, Protocol, ReceiversPlan, SubscriberPlan};
use crate::protocols::mqtt::LONGEST_TEXT;
use crate::protocols::routing;
use plimsoll_codec::mqtt::topic;
use plimsoll_template::Template;

/// The subscribers, with the defaults of their filters and QoS filled in.
pub(super) fn resolve(
    scenario: &mut Scenario,
    protocol: Protocol,
    context: &mut Context<'_>,
) -> Option<SubscriberPlan> {
    let (group, path) = match &scenario.population.subscribers {
        Subscribers::Count(count) => (SubscriberGroup::of(*count), "population.subscribers"),
        Subscribers::Group(group) => (group.clone(), "population.subscribers.filters"),
    };
    let qos = group.qos.unwrap_or(scenario.mqtt.qos);
    // Subscribers in common are resolved by themselves, too, and what they wrote is in the words of their own protocol.
    let elsewhere = context.population().receivers == ReceiversPlan::Common;
    let is_theirs = elsewhere && context.written("population.subscribers.filters");
    let texts = match group.filters.filter(|_| !is_theirs) {
        Some(texts) => texts,
        // Messages go to the path of the platform's address.
        None if scenario.message.target.is_empty() => Vec::new(),
        // A topic that does not compile was reported already.
        None => {
            let levels = routing::levels(&scenario.message.target, protocol);
            vec![Template::compile(&levels, IN_TARGETS).ok()?.as_filter().text()]
        }
    };
    let texts = texts.iter().map(|text| routing::filter_levels(text, protocol)).collect();
    let shares = elsewhere || protocol != Protocol::Mqtt || scenario.mqtt.version != ProtocolVersion::V311;
    let (share, texts) = share(group.share, texts, shares, path, context);
    if let Some(name) = share.as_ref().filter(|_| protocol == Protocol::Nats) {
        routing::check_group(name, "population.subscribers.share", context);
    }
    routing::check_number(texts.len(), (protocol, scenario.amqp1.queue.is_some()), path, context);
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
                if !topic::valid_filter(&filter.example()) || filter.longest(0) > LONGEST_TEXT {
                    let help = "`+` stands for a whole level, `#` for everything below the last; 1 to 65535 bytes, \
                                none of them null";
                    context.error_with_help(&path, format!("`{text}` is no topic filter"), help);
                }
                routing::check_of_filter(&filter, protocol, (text, &path), context);
                filters.push(filter);
            }
            Err(error) => context.template_error(&path, error),
        }
    }
    // Elsewhere, the levels of MQTT mean nothing.
    let has_qos = protocol == Protocol::Mqtt || !protocol.has_topics();
    if !has_qos && group.qos.is_some() && !elsewhere {
        let message = format!("subscribers over {protocol} have no QoS");
        context.error_with_help("population.subscribers.qos", message, "remove it");
    }
    let whole = filters.len() == texts.len();
    let work = group.work.0;
    let link = population::link(group.link, "population.subscribers.link", context);
    let written = SubscriberGroup {
        count: group.count,
        qos: has_qos.then_some(qos),
        filters: (!texts.is_empty()).then_some(texts),
        share: share.clone(),
        devices: group.devices,
        work: group.work,
        link: group.link,
        at: group.at,
        beside: group.beside,
    };
    scenario.population.subscribers = Subscribers::Group(written);
    let QosLevel(qos) = qos;
    let devices = group.devices;
    whole.then_some(SubscriberPlan { count: group.count, qos, filters, share, devices, work, link })
}

/// The group of a shared subscription, as its own key or in the filters, and the filters without it. `shares` is whether the protocol
/// has groups.
fn share(
    written: Option<String>,
    texts: Vec<String>,
    shares: bool,
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
        if !shares {
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
