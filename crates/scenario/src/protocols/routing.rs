//! Subjects of NATS and routing keys of AMQP as levels that slashes separate, as topics of MQTT have them. NATS and RabbitMQ themselves
//! translate between the two in that way, so that filters of all match the same messages.

use crate::config::{Scenario, Subscribers};
use crate::context::Context;
use crate::plan::Protocol;
use plimsoll_codec::levels::dotted_filter;
use plimsoll_codec::nats::{SubjectError, check_filter, check_subject};
use plimsoll_codec::{amqp, nats};
use plimsoll_template::Template;

/// A subject or a routing key as levels.
pub(crate) fn levels(text: &str, protocol: Protocol) -> String {
    if protocol.has_dotted_topics() { text.replace('.', "/") } else { text.to_owned() }
}

/// A filter as levels, with the wildcards of topics.
pub(crate) fn filter_levels(filter: &str, protocol: Protocol) -> String {
    if !protocol.has_dotted_topics() {
        return filter.to_owned();
    }
    let level = |level| match level {
        "*" => "+",
        ">" if protocol == Protocol::Nats => "#",
        level => level,
    };
    filter.split(['.', '/']).map(level).collect::<Vec<_>>().join("/")
}

/// Levels of a filter in the words of their protocol, for people.
pub(crate) fn shown(levels: &str, protocol: Protocol) -> String {
    match protocol {
        Protocol::Nats => dotted_filter(levels, nats::REST),
        // Brokers of AMQP 1.0 that have wildcards have those of 0-9-1.
        Protocol::Amqp | Protocol::Amqp1 => dotted_filter(levels, amqp::REST),
        _ => levels.to_owned(),
    }
}

/// Longest routing key, bytes (AMQP 0-9-1, section 4.2.5.3).
const LONGEST_KEY: usize = 255;

/// Reports levels that are too long for AMQP.
fn check_length(template: &Template, text: &str, key: &str, context: &mut Context<'_>) {
    if template.longest(0) > LONGEST_KEY {
        let message = format!("`{text}` is longer than the {LONGEST_KEY} bytes of a routing key");
        context.error_with_help(key, message, "shorten it");
    }
}

/// Reports a subject or a routing key that the platform would not take. `text` is what was written at the key.
pub(crate) fn check(
    template: &Template,
    protocol: Protocol,
    (text, key): (&str, &str),
    context: &mut Context<'_>,
) {
    match protocol {
        Protocol::Nats => report(check_subject(&template.example()), text, key, context),
        Protocol::Amqp => check_length(template, text, key, context),
        Protocol::Amqp1 if template.is_of_each_message() => {
            let message = format!(
                "`{text}` differs from message to message, and over AMQP 1.0 a device has one address"
            );
            context.error_with_help(key, message, "take `{sequence}` out");
        }
        _ => {}
    }
}

/// Reports a filter that the platform would not take.
pub(crate) fn check_of_filter(
    template: &Template,
    protocol: Protocol,
    (text, key): (&str, &str),
    context: &mut Context<'_>,
) {
    match protocol {
        Protocol::Nats => report(check_filter(&template.example()), text, key, context),
        Protocol::Amqp => check_length(template, text, key, context),
        _ => {}
    }
}

/// Reports a queue without a name, and subscribers that take turns at a queue and of which each is expected to get everything.
pub(crate) fn check_queue(scenario: &Scenario, queue: &Option<String>, key: &str, context: &mut Context<'_>) {
    if queue.as_ref().is_some_and(String::is_empty) {
        let help = "write the name of a queue that exists at the platform, or remove `queue`";
        context.error_with_help(key, "the name of the queue is empty", help);
    }
    let is_shared = match &scenario.population.subscribers {
        Subscribers::Group(group) => group.share.is_some(),
        Subscribers::Count(_) => false,
    };
    if queue.is_some() && scenario.population.subscribers.count() > 1 && !is_shared {
        let message = "subscribers take turns at a queue, so that each message comes to one of them";
        let help = "write `subscribers: { count: 2, share: workers }`, with a name of your choice";
        context.error_with_help(key, message, help);
    }
}

/// Reports more filters of a subscriber than it can have. Where it receives from a queue, they only say what comes.
pub(crate) fn check_number(
    filters: usize,
    (protocol, has_queue): (Protocol, bool),
    key: &str,
    context: &mut Context<'_>,
) {
    if protocol == Protocol::Amqp1 && filters > 1 && !has_queue {
        let message = "a subscriber receives from one address over AMQP 1.0";
        context.error_with_help(key, message, "write one filter, with wildcards if it matches more");
    }
}

/// Reports a group of subscribers whose name cannot stand in a subject.
pub(crate) fn check_group(name: &str, key: &str, context: &mut Context<'_>) {
    if name.contains(|c: char| c.is_whitespace() || c.is_control() || ".*>".contains(c)) {
        let help = "a group is a plain word, as `workers`";
        context.error_with_help(key, format!("`{name}` is no name of a queue group of NATS"), help);
    }
}

fn report(checked: Result<(), SubjectError>, text: &str, key: &str, context: &mut Context<'_>) {
    if let Err(error) = checked {
        let help = match error {
            SubjectError::EmptyLevel => {
                "remove the separator at its beginning or end, or where two stand in a row"
            }
            SubjectError::Space => "take spaces and control characters out",
            SubjectError::Wildcard => "wildcards belong in filters",
        };
        context.error_with_help(key, format!("`{text}` is no subject of NATS: {error}"), help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_slashes_separate_levels() {
        assert_eq!(levels("city.{device}/x", Protocol::Nats), "city/{device}/x");
        for (written, levels) in [("a.*.>", "a/+/#"), ("a/+/#", "a/+/#"), (">", "#"), ("a*.b", "a*/b")] {
            assert_eq!(filter_levels(written, Protocol::Nats), levels);
        }
        assert_eq!(filter_levels("a.*.#", Protocol::Amqp), "a/+/#");
        let shown = |protocol| shown("a/+/#", protocol);
        assert_eq!([Protocol::Nats, Protocol::Amqp, Protocol::Mqtt].map(shown), ["a.*.>", "a.*.#", "a/+/#"]);
        assert_eq!(
            (levels("a.b", Protocol::Mqtt), filter_levels("a.*", Protocol::Mqtt)),
            ("a.b".into(), "a.*".into())
        );
    }
}
