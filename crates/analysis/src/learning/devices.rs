//! Who the devices of a population are.

use super::gathering::{Gathering, Message, is_session};
use super::groups::Group;
use super::shape::Shaped;
use std::collections::{BTreeMap, BTreeSet};

/// A part of the target differs from message to message if so large a share of them has a value of its own.
const OF_EACH_MESSAGE: f64 = 0.9;

/// What the messages of a population are, device by device.
pub(super) struct Devices {
    /// The device of each message, in the order of the messages.
    pub of_message: Vec<(f64, u32)>,
    pub count: usize,
    pub by: &'static str,
    /// The place of the part that stands for the device.
    pub place: Option<usize>,
    pub sequence: BTreeSet<usize>,
}

impl Devices {
    /// Finds who the devices are: a combination of the parts of the target that vary, unless there are more clients.
    pub fn of(gathered: &Gathering, group: &Group<'_>, messages: &[Message]) -> Devices {
        let session = is_session(group.source.service.protocol);
        let members: BTreeMap<u32, &Shaped> =
            group.shape.members.iter().map(|member| (member.source as u32, member)).collect();
        let values = |place: usize| -> usize {
            members.values().map(|member| member.parts[place].text.as_str()).collect::<BTreeSet<_>>().len()
        };
        let count: u64 = members.keys().map(|&source| gathered.sources[source as usize].1.messages).sum();
        let is_sequence =
            |&place: &usize| count >= 20 && values(place) as f64 >= OF_EACH_MESSAGE * count as f64;
        let sequence: BTreeSet<usize> = group.shape.varying.iter().copied().filter(is_sequence).collect();
        let own: Vec<usize> = group.shape.varying.difference(&sequence).copied().collect();
        let mut tuples: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
        let mut by_tuple: BTreeMap<u32, u32> = BTreeMap::new();
        for (&source, member) in &members {
            let tuple: Vec<&str> = own.iter().map(|&place| member.parts[place].text.as_str()).collect();
            let next = tuples.len() as u32;
            by_tuple.insert(source, *tuples.entry(tuple).or_insert(next));
        }
        let clients: BTreeSet<u32> = members.values().map(|member| member.client).collect();
        // The part with the most values names the device; of several, the last.
        let place = own.iter().copied().max_by_key(|&place| (values(place), place));
        let at = |message: &Message| {
            (message.at - messages.first().map_or(message.at, |first| first.at)).0 as f64 / 1e9
        };
        let numbered = |of_message: Vec<(f64, u64)>, by, place| {
            let mut numbers: BTreeMap<u64, u32> = BTreeMap::new();
            let of_message = of_message
                .into_iter()
                .map(|(at, device)| {
                    let next = numbers.len() as u32;
                    (at, *numbers.entry(device).or_insert(next))
                })
                .collect();
            Devices { of_message, count: numbers.len(), by, place, sequence: sequence.clone() }
        };
        if session && clients.len() >= tuples.len() {
            let client = |message: &Message| u64::from(members.get(&message.source).map_or(0, |m| m.client));
            let by = if place.is_some() && clients.len() == tuples.len() { "target" } else { "client" };
            return numbered(messages.iter().map(|m| (at(m), client(m))).collect(), by, place);
        }
        if !own.is_empty() {
            let tuple = |m: &Message| u64::from(by_tuple.get(&m.source).copied().unwrap_or(0));
            return numbered(messages.iter().map(|m| (at(m), tuple(m))).collect(), "target", place);
        }
        let client = |m: &Message| u64::from(members.get(&m.source).map_or(0, |member| member.client));
        let end = |m: &Message| client(m) << 16 | u64::from(m.port);
        let ends = messages.iter().map(end).collect::<BTreeSet<_>>().len();
        if messages.len() >= 2 * ends {
            return numbered(messages.iter().map(|m| (at(m), end(m))).collect(), "connection", place);
        }
        numbered(messages.iter().map(|m| (at(m), client(m))).collect(), "host", place)
    }

    /// What people should know of them.
    pub fn notes(&self, group: &Group<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let clients = group.shape.members.iter().map(|member| member.client).collect::<BTreeSet<_>>().len();
        let session = is_session(group.source.service.protocol);
        if session && self.by == "target" && clients < self.count {
            notes.push(format!(
                "{} devices publish through {clients} connections; in a run each has its own",
                self.count
            ));
        }
        if self.by == "client" && self.place.is_some() {
            notes.push(
                "there are more clients than names in the target; in a run each device has a name of its own"
                    .to_owned(),
            );
        }
        if self.by == "host" {
            notes.push(
                "a connection has about one message, and no part of the target varies: each host is a device"
                    .to_owned(),
            );
        }
        notes
    }
}
