//! Who receives: clients that subscribe and publish nothing, and the filters of most of them.

use super::gathering::{Gathering, is_session};
use super::naming::Names;
use super::population::Described;
use plimsoll_codec::mqtt::topic;
use plimsoll_model::wire::WireProtocol;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Subscribers of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedSubscribers {
    /// How many.
    pub count: u32,
    /// What they speak; null where nothing shows their filters.
    pub protocol: Option<String>,
    /// Their filters; empty where the capture does not show them.
    pub filters: Vec<String>,
    /// The QoS that they ask for; null where the protocol has none, or the capture does not show it.
    pub qos: Option<u8>,
    /// Messages that clients received, for each that was published.
    pub deliveries_per_message: f64,
}

/// What is spoken and filters with their QoS, by how many clients have them.
type Groups = BTreeMap<(WireProtocol, Vec<String>, Option<u8>), u32>;

/// Learns them. Groups beside the largest, and devices that subscribe, are noted.
pub(super) fn learn(
    gathered: &Gathering,
    names: &mut Names,
    varying: &BTreeSet<String>,
    populations: &[Described],
    notes: &mut Vec<String>,
) -> Option<LearnedSubscribers> {
    let mut groups: Groups = BTreeMap::new();
    let (mut unseen, mut both, mut received, mut single, mut idle, mut sharing) =
        (0, 0_u32, 0_u64, 0_u32, 0_u32, 0_u32);
    let published = published(gathered);
    let has_records =
        gathered.sources.iter().any(|(source, _)| source.service.protocol == WireProtocol::Kafka);
    for client in &gathered.clients {
        received += client.received;
        let subscribes = !client.filters.is_empty() || client.received > 0;
        if subscribes && client.published > 0 {
            both += 1;
        } else if client.filters.is_empty() {
            unseen += u32::from(client.received > 0);
        } else {
            let protocol = client.service.protocol;
            let dotted = protocol != WireProtocol::Mqtt;
            let useful: Vec<String> = client
                .filters
                .iter()
                .map(|(filter, _)| if dotted { levels(filter) } else { filter.clone() })
                .map(|filter| {
                    topic::shared(&filter).map_or(filter.as_str(), |shared| shared.filter).to_owned()
                })
                // A consumer of Kafka gets all keys, and records without one.
                .filter(|filter| {
                    protocol == WireProtocol::Kafka && has_records
                        || published.iter().any(|target| topic::matches(filter, target))
                })
                .collect();
            sharing += u32::from(client.filters.iter().any(|(filter, _)| topic::shared(filter).is_some()));
            if useful.is_empty() {
                idle += 1;
            } else if useful.iter().any(|filter| filter.split('/').any(|level| varying.contains(level))) {
                single += 1;
            } else {
                let qos = (!dotted).then(|| client.filters.iter().map(|(_, qos)| *qos).max()).flatten();
                let filters: BTreeSet<String> = useful.iter().map(|filter| names.filter(filter)).collect();
                *groups.entry((protocol, filters.into_iter().collect(), qos)).or_default() += 1;
            }
        }
    }
    if both > 0 {
        notes.push(format!(
            "clients that both publish and subscribe: {both}; a scenario has devices and subscribers apart, so their subscriptions are left out"
        ));
    }
    let messages: u64 = populations.iter().map(|described| described.population.messages).sum();
    let deliveries_per_message = received as f64 / messages.max(1) as f64;
    if idle > 0 {
        notes
            .push(format!("clients that subscribe to topics to which nobody publishes are left out: {idle}"));
    }
    if sharing > 0 {
        notes.push(format!(
            "clients that share a subscription: {sharing}; in a run each receives everything (`share` changes that)"
        ));
    }
    if single > 0 {
        notes.push(format!("clients that subscribe to topics of single devices are left out: {single}"));
    }
    let largest = groups.iter().max_by_key(|((_, filters, _), count)| (**count, std::cmp::Reverse(filters)));
    let Some(((protocol, filters, qos), &count)) = largest else {
        return (unseen > 0).then_some(LearnedSubscribers {
            count: unseen,
            protocol: None,
            filters: Vec::new(),
            qos: None,
            deliveries_per_message,
        });
    };
    let others = groups.values().sum::<u32>() - count;
    if others > 0 {
        notes.push(format!(
            "subscribers with other filters than those of the scenario, which has one set of them, are left out: {others}"
        ));
    }
    if unseen > 0 {
        notes.push(format!(
            "clients that receive by filters which the capture does not show are left out: {unseen}"
        ));
    }
    let mut filters = filters.clone();
    if *protocol == WireProtocol::Amqp1 && filters.len() > 1 {
        notes.push(format!(
            "a subscriber has one address over AMQP 1.0: of {} the first is taken",
            filters.len()
        ));
        filters.truncate(1);
    }
    Some(LearnedSubscribers {
        count,
        protocol: Some(protocol.name().to_owned()),
        filters,
        qos: *qos,
        deliveries_per_message,
    })
}

/// Topics to which anybody publishes, as levels.
fn published(gathered: &Gathering) -> BTreeSet<String> {
    let sources = gathered.sources.iter().map(|(source, _)| source);
    let topics = sources.filter(|source| is_session(source.service.protocol));
    topics.map(|source| source.levels()).collect()
}

/// A filter of NATS or AMQP as levels.
fn levels(filter: &str) -> String {
    let level = |level| match level {
        "*" => "+",
        ">" => "#",
        level => level,
    };
    filter.split('.').map(level).collect::<Vec<_>>().join("/")
}
