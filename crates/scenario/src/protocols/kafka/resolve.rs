//! From what is written of Kafka to what is planned.

use super::config::Acks;
use super::plan::{self, KafkaPlan};
use crate::config::{Scenario, Subscribers};
use crate::context::Context;

/// Longest name of a topic, bytes.
const LONGEST: usize = 249;

pub(crate) fn resolve(scenario: &Scenario, context: &mut Context<'_>) -> KafkaPlan {
    let kafka = &scenario.kafka;
    match (&kafka.username, &kafka.password) {
        (None, Some(_)) => {
            let message = "Kafka takes no password without a user name";
            context.error_with_help("kafka.password", message, "add `username`");
        }
        (Some(_), None) => {
            let help = "add `password: { env: PLIMSOLL_PASSWORD }`";
            context.error_with_help("kafka.username", "Kafka takes no user name without a password", help);
        }
        _ => {}
    }
    if let Some(topic) = &kafka.topic {
        check_topic(topic, context);
        for key in ["partitions", "replicas"] {
            let path = format!("kafka.{key}");
            if context.written(&path) {
                let message = format!("`{key}` is for a topic that is made for the run, and this one exists");
                context.error_with_help(&path, message, "remove it, or `topic`");
            }
        }
    } else if let Subscribers::Group(group) = &scenario.population.subscribers
        && group.share.is_some()
        && group.count > u32::from(kafka.partitions)
    {
        let message = format!(
            "{} subscribers share {} partitions, so that some have nothing to read",
            group.count, kafka.partitions
        );
        let help = format!("write `kafka: {{ partitions: {} }}` or more", group.count);
        context.error_with_help("population.subscribers.share", message, &help);
    }
    let password = kafka.password.as_ref();
    KafkaPlan {
        username: kafka.username.clone(),
        password: password.and_then(|source| context.secret(source, "kafka.password.env")),
        topic: kafka.topic.clone(),
        partitions: i32::from(kafka.partitions),
        replicas: i16::try_from(kafka.replicas).unwrap_or(i16::MAX),
        acks: match kafka.acks {
            Acks::All => plan::Acks::All,
            Acks::Leader => plan::Acks::Leader,
            Acks::None => plan::Acks::None,
        },
        in_flight: kafka.in_flight,
    }
}

/// Reports a topic that cannot be.
fn check_topic(topic: &str, context: &mut Context<'_>) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if topic.is_empty() || topic.len() > LONGEST || !topic.chars().all(fits) {
        let help = "a topic of Kafka has letters, digits, dots, underscores and hyphens, 249 at most";
        context.error_with_help("kafka.topic", format!("`{topic}` is no name of a topic"), help);
    }
}
