//! The description of a population.

use super::arrivals::{arrivals, change_note, process_notes};
use super::course::Course;
use super::devices::Devices;
use super::gathering::{Gathering, Message};
use super::groups::Group;
use super::learned::{LearnedPopulation, LearnedSession};
use super::naming::Names;
use super::process::{Process, Whose, process};
use super::rate::rate;
use super::services::Services;
use super::shape::Shaped;
use super::sizes::{learned_sizes, least_size};
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;
use std::collections::{BTreeMap, BTreeSet};

/// The 97.5 % point of the normal distribution.
const POINT: f64 = 1.96;

/// A population, and what decides how it is written.
pub(super) struct Described {
    pub population: LearnedPopulation,
    /// Its messages in each window of the course.
    pub counts: Vec<u64>,
    /// The variance of their number, divided by its mean.
    pub dispersion: f64,
    /// How its rate changes within the capture, for people.
    pub change: Option<String>,
    /// When each of its messages came, and from which device; empty where no trace is wanted.
    pub times: Vec<(Nanos, u32)>,
}

/// What is shared by the description of all populations.
pub(super) struct Learning<'a> {
    pub gathered: &'a Gathering,
    pub names: Names,
    pub services: Services,
    pub course: Course,
    /// Messages of all populations.
    pub learned: u64,
    /// Whether any trace is wanted.
    pub traces: bool,
}

impl Learning<'_> {
    /// Describes a population.
    pub fn population(&mut self, number: usize, group: &Group<'_>, by_source: &[Vec<u32>]) -> Described {
        let gathered = self.gathered;
        let members = &group.shape.members;
        let mut places: Vec<u32> =
            members.iter().flat_map(|member| by_source[member.source].iter().copied()).collect();
        places.sort_unstable_by_key(|&place| (gathered.messages[place as usize].at, place));
        let messages: Vec<Message> = places.iter().map(|&place| gathered.messages[place as usize]).collect();
        let count = group.messages(gathered);
        let devices = Devices::of(gathered, group, &messages);
        let begin = gathered.span.map_or(Nanos::ZERO, |(first, _)| first);
        let since: Vec<f64> = messages.iter().map(|message| (message.at - begin).0 as f64 / 1e9).collect();
        let counts = self.course.counts(gathered, members, &since);
        let found = self.process(&devices, &counts, number);
        let written = self.names.write(&group.shape, devices.count, devices.place, &devices.sequence);
        let mut notes = written.notes;
        let (rate, active) = rate(gathered, members, count);
        if active < 1.0 {
            notes.push(format!(
                "it sends in {:.0} % of the capture, and is silent before or after; the rate is that of its active time",
                100.0 * active
            ));
        }
        notes.extend(devices.notes(group));
        let of = |protocol| {
            let source = Some(group.source).filter(|source| source.service.protocol == protocol);
            source.map(|source| source.topic.as_str())
        };
        // A device has one address over AMQP 1.0.
        let target = match of(WireProtocol::Amqp1) {
            Some(_) => written.target.replace("{sequence}", "each"),
            None => written.target,
        };
        notes.extend(protocol_note(group, &target));
        notes.extend(process_notes(&found));
        // A process that has been going on has a sixth of an arrival more or less, however even it is (Cox, Renewal Theory, 4.5).
        let processes = if found.whose == Whose::Device { devices.count as f64 } else { 1.0 };
        let variance = count as f64 * found.dispersion + processes / 6.0;
        let half = POINT * variance.sqrt().max(1.0) * rate / count.max(1) as f64;
        let bytes: Vec<u32> = messages.iter().map(|message| message.bytes).collect();
        let service = self.services.learned(group.source.service);
        let population = LearnedPopulation {
            name: format!("{}-{}", service.scheme.replace('+', "-"), number + 1),
            protocol: group.source.service.protocol.name().to_owned(),
            service,
            method: group.source.method.to_owned(),
            // A record without a key has one in a run, by which its device has a partition.
            target: if target.is_empty() { "{device}".to_owned() } else { target },
            topic: of(WireProtocol::Kafka).and_then(|topic| self.names.topic(topic)),
            prefix: of(WireProtocol::Amqp1).and_then(|prefix| self.names.prefix(prefix)),
            qos: group.source.qos,
            retained: group.source.retained,
            session: self.session(members),
            devices: devices.count.max(1) as u32,
            device_by: devices.by,
            messages: count,
            share: count as f64 / self.learned.max(1) as f64,
            rate,
            rate_interval: [(rate - half).max(0.0), rate + half],
            hourly: Vec::new(),
            arrivals: arrivals(&found),
            trace: None,
            sizes: learned_sizes(&bytes, number as u64),
            least_size: least_size(group.source),
            notes,
        };
        let change = change_note(&devices.of_message, &found);
        let numbered = messages.iter().zip(&devices.of_message).filter(|_| self.traces);
        let times = numbered.map(|(message, (_, device))| (message.at, *device)).collect();
        Described { population, counts, dispersion: found.dispersion, change, times }
    }

    /// The process of a population: where its rate changes, that of its busiest time.
    fn process(&self, devices: &Devices, counts: &[u64], number: usize) -> Process {
        let judge = |messages: &[(f64, u32)]| process(messages, devices.count, number as u64);
        let busiest = self.course.busiest(&devices.of_message, counts);
        if matches!(self.course, Course::Hours(_)) {
            return judge(busiest);
        }
        let whole = judge(&devices.of_message);
        if self.course.differ(counts, whole.dispersion) { judge(busiest) } else { whole }
    }

    /// How most of the clients connected.
    fn session(&self, members: &[Shaped]) -> Option<LearnedSession> {
        let clients: BTreeSet<u32> = members.iter().map(|member| member.client).collect();
        let mut sessions: BTreeMap<LearnedSession, usize> = BTreeMap::new();
        for client in clients {
            let Some(connect) = &self.gathered.clients[client as usize].introduced else { continue };
            let session = LearnedSession {
                version: connect.version,
                keep_alive: connect.keep_alive,
                clean: connect.clean,
                username: connect.username,
                will: connect.will,
            };
            *sessions.entry(session).or_default() += 1;
        }
        sessions.into_iter().max_by_key(|(_, count)| *count).map(|(session, _)| session)
    }
}

/// How a run differs from the capture, since it speaks something else.
fn protocol_note(group: &Group<'_>, target: &str) -> Option<String> {
    let note = match group.source.service.protocol {
        WireProtocol::Http2 => "the capture speaks HTTP/2; a run sends the same requests over HTTP/1.1",
        WireProtocol::Kafka if target.is_empty() => {
            "the records have no key; in a run each device has one of its own, by which it has a partition"
        }
        _ => return None,
    };
    Some(note.to_owned())
}
