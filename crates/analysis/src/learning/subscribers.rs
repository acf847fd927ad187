//! Who receives: clients that subscribe and publish nothing, and the filters of most of them.

use super::LearnedPopulation;
use super::gathering::Gathering;
use super::naming::Names;
use plimsoll_codec::mqtt::topic;
use plimsoll_model::wire::WireProtocol;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Subscribers of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LearnedSubscribers {
    /// How many.
    pub count: u32,
    /// Their filters; empty where the capture does not show them.
    pub filters: Vec<String>,
    /// The QoS that they ask for; null where the capture does not show it.
    pub qos: Option<u8>,
    /// Messages that clients received, for each that was published.
    pub deliveries_per_message: f64,
}

/// Filters with their QoS, by the clients that have them.
type Groups = BTreeMap<(Vec<String>, u8), u32>;

/// Learns them. Groups beside the largest, and devices that subscribe, are noted.
pub(super) fn learn(
    gathered: &Gathering,
    names: &mut Names,
    varying: &BTreeSet<String>,
    populations: &[(LearnedPopulation, Vec<u64>, f64)],
    notes: &mut Vec<String>,
) -> Option<LearnedSubscribers> {
    let mut groups: Groups = BTreeMap::new();
    let (mut unseen, mut both, mut received) = (0, 0_u32, 0_u64);
    for client in &gathered.clients {
        received += client.received;
        let subscribes = !client.filters.is_empty() || client.received > 0;
        if subscribes && client.published > 0 {
            both += 1;
        } else if client.filters.is_empty() {
            unseen += u32::from(client.received > 0);
        } else {
            let dotted = client.service.protocol == WireProtocol::Nats;
            let qos = client.filters.iter().map(|(_, qos)| *qos).max().unwrap_or(0);
            let filters: BTreeSet<String> = client
                .filters
                .iter()
                .map(|(filter, _)| {
                    let filter = if dotted { levels(filter) } else { filter.clone() };
                    names.filter(topic::shared(&filter).map_or(filter.as_str(), |shared| shared.filter), varying)
                })
                .collect();
            *groups.entry((filters.into_iter().collect(), qos)).or_default() += 1;
        }
    }
    if both > 0 {
        notes.push(format!(
            "{both} clients both publish and subscribe; a scenario has devices and subscribers apart, so their subscriptions are left out"
        ));
    }
    let published: u64 = populations.iter().map(|(population, ..)| population.messages).sum();
    let deliveries_per_message = received as f64 / published.max(1) as f64;
    let targets: Vec<String> = populations
        .iter()
        .filter(|(population, ..)| population.service.scheme != "http" && population.service.scheme != "coap")
        .map(|(population, ..)| population.target.replace("{device}", "1").replace("{sequence}", "1"))
        .collect();
    let receives = |filters: &[String]| {
        filters.iter().any(|filter| targets.iter().any(|target| topic::matches(filter, target)))
    };
    let (useful, idle): (Groups, Groups) = groups.into_iter().partition(|((filters, _), _)| receives(filters));
    let clients: u32 = idle.values().sum();
    if clients > 0 {
        notes.push(format!(
            "{clients} clients subscribe to topics to which no learned population publishes; they are left out"
        ));
    }
    let largest = useful.iter().max_by_key(|((filters, _), count)| (**count, std::cmp::Reverse(filters)));
    let Some(((filters, qos), &count)) = largest else {
        return (unseen > 0).then_some(LearnedSubscribers {
            count: unseen,
            filters: Vec::new(),
            qos: None,
            deliveries_per_message,
        });
    };
    let others = useful.values().sum::<u32>() - count;
    if others > 0 {
        notes.push(format!(
            "{others} subscribers have other filters than the {count} of the scenario, which has one set of filters; they are left out"
        ));
    }
    if unseen > 0 {
        notes.push(format!("{unseen} clients receive by filters that the capture does not show; they are left out"));
    }
    Some(LearnedSubscribers { count, filters: filters.clone(), qos: Some(*qos), deliveries_per_message })
}

/// A filter of NATS as levels.
fn levels(filter: &str) -> String {
    let level = |level| match level {
        "*" => "+",
        ">" => "#",
        level => level,
    };
    filter.split('.').map(level).collect::<Vec<_>>().join("/")
}
