//! Which subscribers expect the messages of which device.

use plimsoll_codec::mqtt::topic;
use plimsoll_model::RunId;
use plimsoll_scenario::plan::Variables;
use plimsoll_scenario::plan::{Piece, Plan, PopulationPlan, ReceiversPlan, Template};
use std::collections::HashMap;

/// The subscribers that one or more devices have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Receivers {
    /// The first `n` of the subscribers.
    All(u32),
    /// These, in rising order.
    Listed(Vec<u32>),
    /// One of the first `n` subscribers, whichever the platform chooses: a shared subscription.
    OneOf(u32),
}

impl Receivers {
    /// How many deliveries of a message they expect together.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Receivers::All(count) => *count as usize,
            Receivers::Listed(list) => list.len(),
            Receivers::OneOf(count) => (*count).min(1) as usize,
        }
    }

    /// How many subscribers may receive: those who share a subscription are one receiver, but each keeps its own order.
    pub fn seats(&self) -> usize {
        match self {
            Receivers::OneOf(count) => *count as usize,
            _ => self.len(),
        }
    }

    /// The place of a subscriber among those who may receive.
    #[inline]
    pub fn seat(&self, subscriber: u32) -> Option<usize> {
        match self {
            Receivers::OneOf(count) => (subscriber < *count).then_some(subscriber as usize),
            _ => self.position(subscriber),
        }
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which of the expected deliveries one to that subscriber is.
    #[inline]
    pub fn position(&self, subscriber: u32) -> Option<usize> {
        match self {
            Receivers::All(count) => (subscriber < *count).then_some(subscriber as usize),
            Receivers::Listed(list) => list.binary_search(&subscriber).ok(),
            Receivers::OneOf(count) => (subscriber < *count).then_some(0),
        }
    }
}

/// Who expects what, for the whole population.
#[derive(Clone, Debug)]
pub struct Topology {
    groups: Vec<Receivers>,
    /// Of each device; empty where all have the first one, as in a run of so many that this would take gigabytes.
    group_of_device: Vec<u32>,
    devices: u32,
    /// The number of the first device, and that of the first subscriber that may receive.
    first_device: u32,
    first_subscriber: u32,
}

impl Topology {
    /// Matches every device's topic with every subscriber's filters. What set-up steps have asked the platform for comes
    /// at topics of its own, which say nothing about the device.
    pub fn of(plan: &Plan, run: RunId) -> Topology {
        let subscribers = plan.subscribers.count;
        let PopulationPlan { first_device, first_subscriber, receivers, .. } = &plan.population;
        let (first_device, first_subscriber) = (*first_device, *first_subscriber);
        // Where devices have paths and subscribers topics, the platform says what becomes of the one in the other.
        let translated = *receivers == ReceiversPlan::Common && !plan.protocol().has_topics();
        let asked_for = plan.platform.roles.notified.is_some() || translated;
        let differ = !asked_for && plan.subscribers.filters.iter().any(depends_on_subscriber);
        let filters: Vec<Vec<String>> = if differ {
            (0..subscribers).map(|place| filters_of(plan, run, first_subscriber + place)).collect()
        } else {
            vec![filters_of(plan, run, first_subscriber)]
        };
        let some = plan.subscribers.devices.is_some();
        // Where nobody receives, there is nothing to match.
        let matched = if subscribers == 0 { 0 } else { plan.devices };
        let mut groups = Vec::new();
        let mut known: HashMap<Receivers, u32> = HashMap::new();
        let mut group_of_device = Vec::with_capacity(matched as usize);
        for device in 0..matched {
            let name = topic_of(plan, run, first_device + device);
            let matches =
                |of: &Vec<String>| asked_for || of.iter().any(|filter| topic::matches(filter, &name));
            let receivers = match filters.as_slice() {
                [_] if some => {
                    let follows =
                        |&subscriber: &u32| plan.subscribers.is_follower(subscriber, device, plan.devices);
                    Receivers::Listed((0..subscribers).filter(follows).collect())
                }
                [same] if matches(same) && plan.subscribers.share.is_some() => Receivers::OneOf(subscribers),
                [same] if matches(same) => Receivers::All(subscribers),
                [_] => Receivers::All(0),
                each => {
                    let list: Vec<u32> =
                        (0u32..).zip(each).filter(|(_, of)| matches(of)).map(|(s, _)| s).collect();
                    if list.len() == subscribers as usize {
                        Receivers::All(subscribers)
                    } else {
                        Receivers::Listed(list)
                    }
                }
            };
            let group = *known.entry(receivers.clone()).or_insert_with(|| {
                groups.push(receivers);
                groups.len() as u32 - 1
            });
            group_of_device.push(group);
        }
        if groups.len() == 1 {
            group_of_device = Vec::new();
        }
        Topology { groups, group_of_device, devices: plan.devices, first_device, first_subscriber }
    }

    /// The place of a subscriber among those who may receive.
    #[inline]
    pub fn place(&self, subscriber: u32) -> Option<u32> {
        subscriber.checked_sub(self.first_subscriber)
    }

    /// Every subscriber expects every device.
    #[cfg(test)]
    pub fn uniform(devices: u32, subscribers: u32) -> Topology {
        Topology { groups: vec![Receivers::All(subscribers)], ..Topology::grouped(devices) }
    }

    /// All subscribers share what they expect of every device.
    #[cfg(test)]
    pub fn shared(devices: u32, subscribers: u32) -> Topology {
        Topology { groups: vec![Receivers::OneOf(subscribers)], ..Topology::grouped(devices) }
    }

    #[cfg(test)]
    fn grouped(devices: u32) -> Topology {
        let (groups, group_of_device) = (Vec::new(), Vec::new());
        Topology { groups, group_of_device, devices, first_device: 0, first_subscriber: 0 }
    }

    /// How many devices there are.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Whether a device is one of them.
    #[inline]
    pub fn has(&self, device: u32) -> bool {
        device.wrapping_sub(self.first_device) < self.devices()
    }

    /// The subscribers that expect a device's messages.
    pub fn receivers(&self, device: u32) -> &Receivers {
        const NOBODY: &Receivers = &Receivers::All(0);
        let place = device.wrapping_sub(self.first_device);
        let group = match self.group_of_device.as_slice() {
            [] => (place < self.devices).then_some(0),
            each => each.get(place as usize).copied(),
        };
        group.and_then(|group| self.groups.get(group as usize)).unwrap_or(NOBODY)
    }
}

fn depends_on_subscriber(filter: &Template) -> bool {
    filter.pieces.contains(&Piece::Subscriber)
}

/// The topic of a device's messages; a topic that carries the sequence is matched by its first message.
pub fn topic_of(plan: &Plan, run: RunId, device: u32) -> String {
    address(&plan.message.target, run, device, 0)
}

/// The filter that matches what all devices publish.
pub fn published_by(plan: &Plan, run: RunId) -> String {
    address(&plan.message.target.as_filter(), run, 0, 0)
}

/// What a subscriber subscribes to: its filters, as a share of its group where it has one, and the wills of devices.
pub fn subscriptions_of(plan: &Plan, run: RunId, subscriber: u32) -> Vec<String> {
    let filters = filters_of(plan, run, subscriber);
    // Wills that the filters match already would come twice.
    let wills = plan.mqtt.session.will.as_ref().filter(|will| {
        let topic = address(&will.topic, run, 0, 0);
        !filters.iter().any(|filter| topic::matches(filter, &topic))
    });
    let wills = wills.map(|will| address(&will.filter, run, 0, 0));
    let shared = |filter: String| match &plan.subscribers.share {
        Some(group) => format!("$share/{group}/{filter}"),
        None => filter,
    };
    filters.into_iter().chain(wills).map(shared).collect()
}

/// Topic and content of a device's will.
pub fn will_of(plan: &Plan, run: RunId, device: u32) -> Option<(String, String)> {
    let will = plan.mqtt.session.will.as_ref()?;
    Some((address(&will.topic, run, device, 0), address(&will.payload, run, device, 0)))
}

/// The filter that matches the wills of a run.
pub fn will_filter(plan: &Plan, run: RunId) -> Option<String> {
    Some(address(&plan.mqtt.session.will.as_ref()?.filter, run, 0, 0))
}

/// The topic filters of a subscriber, without the group in which they may be shared.
pub fn filters_of(plan: &Plan, run: RunId, subscriber: u32) -> Vec<String> {
    plan.subscribers.filters.iter().map(|filter| address(filter, run, 0, subscriber)).collect()
}

fn address(template: &Template, run: RunId, device: u32, subscriber: u32) -> String {
    let run = run.to_string();
    let variables = Variables { run: &run, device, subscriber, ..Variables::default() };
    let mut out = Vec::new();
    template.render(&variables, &mut || 0, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::{Environment, SourceFile, load};

    /// Who expects the messages of each of four devices that publish to `d/NUMBER`.
    fn expected(subscriber: &str, population: &str) -> Vec<Vec<u32>> {
        let profile = format!(
            "name: p\ntitle: p\ncomponents: []\ncontroller:\n  set_up:\n\
             \x20 - {{ name: s, each: pair, request: {{ path: /s }} }}\n\
             device: {{ speaks: mqtt, topic: \"d/{{device}}\" }}\nsubscriber: {subscriber}\n"
        );
        let text = format!(
            "name: t\nplatform: {{ profile: ./p.yaml, address: \"mqtt://h:1\", ports: {{ http: 2 }} }}\n\
             population: {{ devices: 4, subscribers: {population} }}\nload: {{ levels: [1/s] }}\n"
        );
        let environment = Environment { profile: &|_| Ok(profile.clone()), variable: &|_| None };
        let plan = load(&SourceFile { name: "t".into(), text }, &[], &environment)
            .unwrap_or_else(|found| panic!("{found}"));
        let topology = Topology::of(&plan, RunId::from_bits(7));
        let expects = |device, subscriber| topology.receivers(device).position(subscriber).is_some();
        let those = |device| (0..2).filter(|&subscriber| expects(device, subscriber)).collect();
        (0..4).map(those).collect()
    }

    #[test]
    fn filters_say_who_expects_what_unless_set_up_steps_do() {
        let filters = "filters: [\"d/{subscriber}\"]";
        let by_topic = expected(&format!("{{ {filters} }}"), "2");
        assert_eq!(by_topic, [vec![0], vec![1], vec![], vec![]]);
        let asked_for = format!("{{ listens: mqtt, {filters} }}");
        assert_eq!(expected(&asked_for, "2"), vec![vec![0, 1]; 4]);
        let some = expected(&asked_for, "{ count: 2, devices: 3 }");
        assert_eq!(some, [vec![0, 1], vec![0, 1], vec![0], vec![1]]);
    }
}
