//! A scenario out of captured traffic: populations, their devices, rates, arrival laws, sizes, targets and subscribers. What is learned
//! is a description; `report::learned` writes it as a scenario.

mod day;
mod gathering;
mod naming;
mod process;
mod shape;
mod subscribers;

pub use gathering::{Gathering, Service};
pub use subscribers::LearnedSubscribers;

use gathering::{Message, Source, is_session};
use naming::Names;
use plimsoll_capture::action::ActionCarrier;
use plimsoll_codec::marker;
use plimsoll_model::wire::WireProtocol;
use plimsoll_stats::distribution::{InterArrival, SizeDistribution};
use plimsoll_stats::fit::{Fit, Laws, sizes};
use process::{Process, Whose, process};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use shape::{Shape, Shaped, parts, shapes};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the form of [`Learned`].
const SCHEMA: u32 = 1;
/// Populations of a learned scenario: each has threads of its own when it is run.
const POPULATIONS: usize = 32;
/// Devices whose messages are so many times larger are another population.
const SIZE_CLASS: f64 = 4.0;
/// Classes of size among targets of one shape.
const SIZE_CLASSES: usize = 4;
/// A part of the target differs from message to message if so large a share of them has a value of its own.
const OF_EACH_MESSAGE: f64 = 0.9;
/// Messages that a population needs before its silence at the beginning or end of a capture says anything, and how many of its gaps such
/// a silence has.
const ACTIVE: u64 = 100;
const SILENT: f64 = 10.0;
/// Messages of an hour that are enough to judge a law by it alone.
const BUSY: u64 = 100;
/// The 97.5 % point of the normal distribution.
const POINT: f64 = 1.96;

/// How a scenario is made.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Whether the names of targets stay as they are.
    pub keep_names: bool,
    /// How many times the load of the capture; positive.
    pub times: f64,
}

/// What was learned. Times in seconds, sizes in bytes, rates in messages per second.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Learned {
    /// Version of this form.
    pub schema: u32,
    /// From the first message to the last.
    pub duration: f64,
    /// Messages that clients published.
    pub messages: u64,
    /// Whether names were replaced.
    pub anonymised: bool,
    /// How many times the load of the capture the scenario has.
    pub times: f64,
    /// The mix, the most messages first.
    pub populations: Vec<LearnedPopulation>,
    /// Who receives.
    pub subscribers: Option<LearnedSubscribers>,
    /// Hours of the day (UTC) whose rates the populations have, where they differ.
    pub hours: Vec<u8>,
    /// What the scenario does not have, and what stands between it and the traffic; for people.
    pub notes: Vec<String>,
}

/// A population. Its `devices` and `rate` are those of the capture.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedPopulation {
    /// Its name in the scenario.
    pub name: String,
    /// What is spoken.
    pub protocol: String,
    /// The scheme and port of the service, and the number of that service in the capture, from 1 on.
    pub service: LearnedService,
    /// The method, where the protocol has several.
    pub method: String,
    /// Topic or path, with `{device}`.
    pub target: String,
    /// QoS as MQTT numbers it; over CoAP whether messages are confirmable.
    pub qos: u8,
    /// Whether messages are retained.
    pub retained: bool,
    /// Protocol version, keep-alive and session of most clients of MQTT, where the capture has their CONNECT.
    pub session: Option<LearnedSession>,
    /// Devices.
    pub devices: u32,
    /// How a device was recognised: `target`, `client`, `connection` or `host`.
    pub device_by: &'static str,
    /// Messages.
    pub messages: u64,
    /// Of all messages that were learned from.
    pub share: f64,
    /// Messages per second of all devices.
    pub rate: f64,
    /// The interval in which the rate lies with 95 %, if the arrivals are as found.
    pub rate_interval: [f64; 2],
    /// Rates in the hours of [`Learned::hours`].
    pub hourly: Vec<f64>,
    /// Arrivals.
    pub arrivals: LearnedArrivals,
    /// Sizes of the content.
    pub sizes: LearnedSizes,
    /// The smallest content that a run can send, which holds its marker; bytes.
    pub least_size: u32,
    /// What is not as it was.
    pub notes: Vec<String>,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedService {
    /// From 1 on, in the order of populations.
    pub number: usize,
    /// As in an address of a scenario.
    pub scheme: &'static str,
    /// The server's port.
    pub port: u16,
    /// Its address, where names are kept.
    pub host: Option<String>,
}

/// How clients of MQTT connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedSession {
    /// 3, 4 or 5 as in CONNECT.
    pub version: u8,
    /// Seconds.
    pub keep_alive: u16,
    /// Whether sessions end with their connections.
    pub clean: bool,
    /// Whether clients give a user name.
    pub username: bool,
    /// Whether clients leave a will.
    pub will: bool,
}

/// An arrival process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedArrivals {
    /// `population` or `device`: whose process it is.
    pub per: &'static str,
    /// `constant`, `poisson`, `uniform`, `normal` or `gamma`.
    pub law: &'static str,
    /// Spread, coefficient of variation or shape, where the law has one.
    pub parameter: Option<f64>,
    /// Whether the test does not refuse it.
    pub fits: bool,
    /// Whether there were enough gaps for a test.
    pub tested: bool,
    /// Gaps that were judged.
    pub gaps: usize,
    /// Standard deviation of the gaps, divided by their mean.
    pub cv: Option<f64>,
    /// Anderson and Darling's statistic.
    pub statistic: Option<f64>,
    /// Its p-value, by parametric bootstrap.
    pub p: Option<f64>,
    /// The other laws, the likeliest first.
    pub others: Vec<OtherLaw>,
    /// Whether the gaps are those of a clock that is a little late each time.
    pub jitter: bool,
}

/// A law that was tried.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OtherLaw {
    /// Its name.
    pub law: &'static str,
    /// Its parameter.
    pub parameter: Option<f64>,
    /// Anderson and Darling's statistic.
    pub statistic: f64,
    /// Its p-value.
    pub p: f64,
}

/// Sizes of the content.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedSizes {
    /// `fixed`, `uniform`, `normal` or `choice`.
    pub kind: &'static str,
    /// Mean, bytes.
    pub mean: f64,
    /// Smallest.
    pub min: u32,
    /// Largest.
    pub max: u32,
    /// Standard deviation of the normal distribution.
    pub deviation: Option<f64>,
    /// Sizes and their shares, of `choice`.
    pub list: Vec<(u32, f64)>,
    /// The p-value of the test, where one was needed.
    pub p: Option<f64>,
    /// Whether `list` has classes of equal probability, since the sizes follow neither a list nor a law.
    pub classes: bool,
}

/// Sources of one population, before it is described.
struct Group<'a> {
    source: &'a Source,
    shape: Shape,
}

/// What the messages of a population are, device by device.
struct Devices {
    /// The device of each message, in the order of the messages.
    of_message: Vec<(f64, u32)>,
    count: usize,
    by: &'static str,
    /// The place of the part that stands for the device.
    place: Option<usize>,
    sequence: BTreeSet<usize>,
}

/// Learns from what was gathered. The same capture gives the same answer.
pub fn learn(gathered: &Gathering, wishes: &Wishes) -> Learned {
    let duration = gathered.span.map_or(0.0, |(first, last)| (last - first).0 as f64 / 1e9);
    let mut groups = groups(gathered);
    let total = |group: &Group<'_>| -> u64 {
        group.shape.members.iter().map(|member| gathered.sources[member.source].1.messages).sum()
    };
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let learned: u64 = gathered.sources.iter().map(|(_, counted)| counted.messages).sum();
    let mut notes = Vec::new();
    let unknown: u64 = groups.iter().filter(|group| group.source.target.is_empty()).map(total).sum();
    if unknown > 0 {
        notes.push(format!(
            "messages whose topic the capture does not show, since an alias stands for it, are left out: {unknown}"
        ));
    }
    groups.retain(|group| !group.source.target.is_empty());
    if groups.len() > POPULATIONS {
        let left: u64 = groups[POPULATIONS..].iter().map(total).sum();
        notes.push(format!(
            "{} smaller populations are left out, with {left} of {learned} messages",
            groups.len() - POPULATIONS
        ));
        groups.truncate(POPULATIONS);
    }
    let mut learning = Learning {
        gathered,
        names: Names::new(wishes.keep_names),
        services: Vec::new(),
        hours: gathered.span.map(day::hours).unwrap_or_default(),
        learned,
        keep_names: wishes.keep_names,
    };
    let by_source = messages_by_source(gathered);
    let described: Vec<Described> = groups
        .iter()
        .enumerate()
        .map(|(number, group)| learning.population(number, group, &by_source))
        .collect();
    let varying = varying_names(&groups);
    let subscribers = subscribers::learn(gathered, &mut learning.names, &varying, &described, &mut notes);
    let mut populations: Vec<LearnedPopulation> = Vec::new();
    let mut counts: Vec<Vec<u64>> = Vec::new();
    let mut varies = false;
    let mut changes = Vec::new();
    for Described { population, hourly, dispersion, change } in described {
        varies |= day::differ(&learning.hours, &hourly, dispersion);
        counts.push(hourly);
        changes.push(change);
        populations.push(population);
    }
    let mut hours = Vec::new();
    if !varies {
        for (population, change) in populations.iter_mut().zip(changes) {
            population.notes.extend(change);
        }
    }
    if varies {
        hours = learning.hours.iter().map(|hour| hour.of_day).collect();
        for (population, counts) in populations.iter_mut().zip(&counts) {
            let rates = learning.hours.iter().zip(counts).map(|(hour, &count)| count as f64 / hour.seconds);
            population.hourly = rates.collect();
        }
    }
    notes.push(match (learning.hours.is_empty(), varies) {
        (true, _) => "the capture is shorter than two hours: it shows no shape of the day".to_owned(),
        (false, false) => "the rates do not differ from hour to hour".to_owned(),
        (false, true) => {
            "the rates differ from hour to hour: each level is an hour of the day (UTC)".to_owned()
        }
    });
    notes.extend(limits(gathered, &learning.names, wishes));
    Learned {
        schema: SCHEMA,
        duration,
        messages: learned,
        anonymised: !wishes.keep_names,
        times: wishes.times,
        populations,
        subscribers,
        hours,
        notes,
    }
}

/// What the bounds of memory and anonymity have changed.
fn limits(gathered: &Gathering, names: &Names, wishes: &Wishes) -> Vec<String> {
    let mut notes = Vec::new();
    if gathered.untold > 0 {
        notes.push(format!(
            "messages of more clients and targets than are followed: {}; the rates are too low by them",
            gathered.untold
        ));
    }
    if gathered.unkept > 0 {
        notes.push(format!(
            "laws, sizes and devices are judged by the first {} messages; the rates count {} more",
            gathered.messages.len(),
            gathered.unkept
        ));
    }
    if !wishes.keep_names && names.replaced() > 0 {
        notes.push(format!(
            "words that fewer than three devices share, or that look like keys, have others in their place: {} (--keep-names keeps them)",
            names.replaced()
        ));
    }
    notes
}

/// Parts of targets that vary: they are names.
fn varying_names(groups: &[Group<'_>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for group in groups {
        for member in &group.shape.members {
            names.extend(group.shape.varying.iter().map(|&place| member.parts[place].text.clone()));
        }
    }
    names
}

/// Sources in groups of the same service, method, QoS, shape and class of size.
fn groups(gathered: &Gathering) -> Vec<Group<'_>> {
    let mut alike: BTreeMap<(Service, &'static str, u8, bool, usize), Vec<Shaped>> = BTreeMap::new();
    for (place, (source, _)) in gathered.sources.iter().enumerate() {
        let levels = source.levels();
        let parts = parts(path_of(&levels));
        let key = (source.service, source.method, source.qos, source.retained, parts.len());
        alike.entry(key).or_default().push(Shaped { source: place, parts, client: source.client });
    }
    let means = mean_sizes(gathered);
    let mut groups = Vec::new();
    for ((service, ..), members) in alike {
        for shape in shapes(members, is_session(service.protocol)) {
            for shape in size_classes(shape, &means) {
                let Some(first) = shape.members.first() else { continue };
                groups.push(Group { source: &gathered.sources[first.source].0, shape });
            }
        }
    }
    groups
}

/// A target without scheme and host, where a client of HTTP writes those.
fn path_of(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://") else { return target };
    rest.find('/').map_or("/", |slash| &rest[slash..])
}

/// The mean size of each source's messages.
fn mean_sizes(gathered: &Gathering) -> Vec<f64> {
    let mut sums = vec![(0_u64, 0_u64); gathered.sources.len()];
    for message in &gathered.messages {
        let sum = &mut sums[message.source as usize];
        *sum = (sum.0 + u64::from(message.bytes), sum.1 + 1);
    }
    sums.into_iter().map(|(bytes, count)| bytes as f64 / count.max(1) as f64).collect()
}

/// Divides a shape where the mean sizes of its sources, in their order, grow by [`SIZE_CLASS`] at once.
fn size_classes(mut shape: Shape, means: &[f64]) -> Vec<Shape> {
    let mean = |member: &Shaped| means[member.source].max(1.0);
    shape.members.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
    let mut ends: Vec<usize> = (1..shape.members.len())
        .filter(|&place| mean(&shape.members[place]) >= SIZE_CLASS * mean(&shape.members[place - 1]))
        .collect();
    ends.truncate(SIZE_CLASSES - 1);
    ends.push(shape.members.len());
    let mut rest = shape.members.into_iter();
    let mut begin = 0;
    ends.into_iter()
        .map(|end| {
            let mut members: Vec<Shaped> = rest.by_ref().take(end - begin).collect();
            begin = end;
            members.sort_by_key(|member| member.source);
            Shape { members, varying: shape.varying.clone() }
        })
        .collect()
}

/// The places of the messages of each source.
fn messages_by_source(gathered: &Gathering) -> Vec<Vec<u32>> {
    let mut places = vec![Vec::new(); gathered.sources.len()];
    for (place, message) in gathered.messages.iter().enumerate() {
        places[message.source as usize].push(place as u32);
    }
    places
}

/// A population, and what decides how it is written.
struct Described {
    population: LearnedPopulation,
    /// Its messages by hour.
    hourly: Vec<u64>,
    /// The variance of their number, divided by its mean.
    dispersion: f64,
    /// How its rate changes within the capture, for people.
    change: Option<String>,
}

/// What is shared by the description of all populations.
struct Learning<'a> {
    gathered: &'a Gathering,
    names: Names,
    /// In the order in which they are met.
    services: Vec<Service>,
    hours: Vec<day::Hour>,
    learned: u64,
    keep_names: bool,
}

impl Learning<'_> {
    /// Describes a population.
    fn population(&mut self, number: usize, group: &Group<'_>, by_source: &[Vec<u32>]) -> Described {
        let gathered = self.gathered;
        let members = &group.shape.members;
        let mut places: Vec<u32> =
            members.iter().flat_map(|member| by_source[member.source].iter().copied()).collect();
        places.sort_unstable_by_key(|&place| (gathered.messages[place as usize].at, place));
        let messages: Vec<Message> = places.iter().map(|&place| gathered.messages[place as usize]).collect();
        let count: u64 = members.iter().map(|member| gathered.sources[member.source].1.messages).sum();
        let devices = self.devices(group, &messages);
        let hourly = self.hourly(members);
        let judged = busiest(&devices.of_message, &self.hours, &hourly);
        let found = process(judged, devices.count, number as u64);
        let written = self.names.write(&group.shape, devices.count, devices.place, &devices.sequence);
        let mut notes = written.notes;
        let (rate, active) = self.rate(members, count);
        if active < 1.0 {
            notes.push(format!(
                "it sends in {:.0} % of the capture, and is silent before or after; the rate is that of its active time",
                100.0 * active
            ));
        }
        notes.extend(self.device_notes(group, &devices));
        notes.extend(process_notes(&found));
        // A process that has been going on has a sixth of an arrival more or less, however even it is (Cox, Renewal Theory, 4.5).
        let processes = if found.whose == Whose::Device { devices.count as f64 } else { 1.0 };
        let variance = count as f64 * found.dispersion + processes / 6.0;
        let half = POINT * variance.sqrt().max(1.0) * rate / count.max(1) as f64;
        let bytes: Vec<u32> = messages.iter().map(|message| message.bytes).collect();
        let service = self.service(group.source.service);
        let population = LearnedPopulation {
            name: format!("{}-{}", service.scheme.replace('+', "-"), number + 1),
            protocol: group.source.service.protocol.name().to_owned(),
            service,
            method: group.source.method.to_owned(),
            target: written.target,
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
            sizes: learned_sizes(&bytes, number as u64),
            least_size: least_size(group.source),
            notes,
        };
        let change = change_note(&devices.of_message, &found);
        Described { population, hourly, dispersion: found.dispersion, change }
    }

    fn service(&mut self, service: Service) -> LearnedService {
        let known = self.services.iter().position(|known| *known == service);
        let number = known.unwrap_or_else(|| {
            self.services.push(service);
            self.services.len() - 1
        });
        LearnedService {
            number: number + 1,
            scheme: scheme(&service),
            port: service.server.port,
            host: self.keep_names.then(|| service.server.ip().to_string()),
        }
    }

    /// Finds who the devices are: a combination of the parts of the target that vary, unless there are more clients.
    fn devices(&self, group: &Group<'_>, messages: &[Message]) -> Devices {
        let session = is_session(group.source.service.protocol);
        let members: BTreeMap<u32, &Shaped> =
            group.shape.members.iter().map(|member| (member.source as u32, member)).collect();
        let values = |place: usize| -> usize {
            members.values().map(|member| member.parts[place].text.as_str()).collect::<BTreeSet<_>>().len()
        };
        let count: u64 =
            members.keys().map(|&source| self.gathered.sources[source as usize].1.messages).sum();
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

    fn device_notes(&self, group: &Group<'_>, devices: &Devices) -> Vec<String> {
        let mut notes = Vec::new();
        let clients = group.shape.members.iter().map(|member| member.client).collect::<BTreeSet<_>>().len();
        let session = is_session(group.source.service.protocol);
        if session && devices.by == "target" && clients < devices.count {
            notes.push(format!(
                "{} devices publish through {clients} connections; in a run each has its own",
                devices.count
            ));
        }
        if devices.by == "client" && devices.place.is_some() {
            notes.push(
                "there are more clients than names in the target; in a run each device has a name of its own"
                    .to_owned(),
            );
        }
        if devices.by == "host" {
            notes.push(
                "a connection has about one message, and no part of the target varies: each host is a device"
                    .to_owned(),
            );
        }
        notes
    }

    /// Messages per second, and the share of the capture in which the population sends.
    fn rate(&self, members: &[Shaped], count: u64) -> (f64, f64) {
        let Some((begin, end)) = self.gathered.span else { return (0.0, 1.0) };
        let counted = members.iter().map(|member| self.gathered.sources[member.source].1);
        let (first, last) = counted
            .fold((end, begin), |(first, last), counted| (first.min(counted.first), last.max(counted.last)));
        let seconds = |from, to: plimsoll_model::Nanos| (to - from).0 as f64 / 1e9;
        let (whole, own) = (seconds(begin, end), seconds(first, last));
        if whole <= 0.0 {
            return (0.0, 1.0);
        }
        let gap = own / (count.max(2) - 1) as f64;
        let silent = seconds(begin, first).max(seconds(last, end));
        if count >= ACTIVE && own > 0.0 && silent > SILENT * gap {
            return ((count - 1) as f64 / own, own / whole);
        }
        // The span begins and ends with a message: half of each lies outside.
        let edges = 0.5 * f64::from(u8::from(first == begin) + u8::from(last == end));
        ((count as f64 - edges).max(0.5) / whole, 1.0)
    }

    fn hourly(&self, members: &[Shaped]) -> Vec<u64> {
        if self.hours.is_empty() {
            return Vec::new();
        }
        let own: BTreeSet<u32> = members.iter().map(|member| member.source as u32).collect();
        let counted = self.gathered.hours.iter().filter(|((source, _), _)| own.contains(source));
        day::counts(&self.hours, counted.map(|((_, hour), &count)| (*hour, count)))
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

/// Messages of the busiest hour, where a capture has several: over a day, a law is blurred by the change of the rate.
fn busiest<'a>(messages: &'a [(f64, u32)], hours: &[day::Hour], hourly: &[u64]) -> &'a [(f64, u32)] {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return messages };
    let most = hourly.iter().copied().max().unwrap_or(0);
    if hours.is_empty() || most < BUSY || last.0 - first.0 < 7_200.0 {
        return messages;
    }
    let mut best = 0..0;
    let mut begin = 0;
    for end in 0..messages.len() {
        while messages[end].0 - messages[begin].0 > 3_600.0 {
            begin += 1;
        }
        if end + 1 - begin > best.len() {
            best = begin..end + 1;
        }
    }
    &messages[best]
}

fn process_notes(found: &Process) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((least, most)) = found.uneven {
        notes.push(format!(
            "the mean gaps of devices lie between {least:.3} and {most:.3} s (the middle 90 %); in a run all devices send equally often"
        ));
    }
    if found.outages > 0 {
        notes.push(format!(
            "gaps of more than 50 times the mean, which no law makes, are left out as outages: {}",
            found.outages
        ));
    }
    match &found.laws {
        None => notes.push("too few gaps for a law: poisson is assumed".to_owned()),
        Some(laws) if !laws.fits => {
            notes.push("none of the laws fits: the nearest one is taken, and gaps of a run differ from those of the capture".to_owned());
        }
        Some(laws) if laws.jitter => {
            notes.push("the gaps are those of a clock that is a little late each time".to_owned())
        }
        Some(_) => {}
    }
    notes
}

/// Whether the rate of the second half of the messages' time differs from that of the first by more than chance.
fn change_note(messages: &[(f64, u32)], found: &Process) -> Option<String> {
    let (first, last) = (messages.first()?.0, messages.last()?.0);
    let half = (last - first) / 2.0;
    if messages.len() < 40 || half <= 0.0 {
        return None;
    }
    let before = messages.iter().filter(|(at, _)| at - first < half).count() as f64;
    let after = messages.len() as f64 - before;
    let error = (messages.len() as f64 * found.dispersion.max(0.01)).sqrt();
    ((before - after).abs() > 3.0 * error && before.max(after) > 1.2 * before.min(after)).then(|| {
        format!(
            "its rate is {:.4}/s in the first half and {:.4}/s in the second; the scenario has one rate",
            before / half,
            after / half
        )
    })
}

/// The name and the parameter of a law.
fn named(law: InterArrival) -> (&'static str, Option<f64>) {
    match law {
        InterArrival::Constant => ("constant", None),
        InterArrival::Exponential => ("poisson", None),
        InterArrival::Uniform { spread } => ("uniform", Some(spread)),
        InterArrival::Normal { cv } => ("normal", Some(cv)),
        InterArrival::Gamma { shape } => ("gamma", Some(shape)),
    }
}

fn arrivals(found: &Process) -> LearnedArrivals {
    let per = match found.whose {
        Whose::Population => "population",
        Whose::Device => "device",
    };
    let Some(Laws { best, fits, others, gaps, cv, jitter }) = &found.laws else {
        return LearnedArrivals {
            per,
            law: "poisson",
            parameter: None,
            fits: false,
            tested: false,
            gaps: 0,
            cv: None,
            statistic: None,
            p: None,
            others: Vec::new(),
            jitter: false,
        };
    };
    let (law, parameter) = named(best.law);
    let other = |fit: &Fit| {
        let (law, parameter) = named(fit.law);
        OtherLaw { law, parameter, statistic: fit.statistic, p: fit.p }
    };
    LearnedArrivals {
        per,
        law,
        parameter,
        fits: *fits,
        tested: true,
        gaps: *gaps,
        cv: Some(*cv),
        statistic: Some(best.statistic),
        p: Some(best.p),
        others: others.iter().filter(|fit| fit.statistic.is_finite()).map(other).collect(),
        jitter: *jitter,
    }
}

fn learned_sizes(bytes: &[u32], seed: u64) -> LearnedSizes {
    let mean = bytes.iter().map(|&size| f64::from(size)).sum::<f64>() / bytes.len().max(1) as f64;
    let (min, max) = (bytes.iter().copied().min().unwrap_or(0), bytes.iter().copied().max().unwrap_or(0));
    let blank = |kind| LearnedSizes {
        kind,
        mean,
        min,
        max,
        deviation: None,
        list: Vec::new(),
        p: None,
        classes: false,
    };
    let Some(fit) = sizes(bytes, seed) else { return blank("fixed") };
    let p = fit.p;
    match fit.distribution {
        SizeDistribution::Fixed(_) => blank("fixed"),
        SizeDistribution::Uniform { .. } => LearnedSizes { p, ..blank("uniform") },
        SizeDistribution::Normal { mean, deviation, .. } => {
            LearnedSizes { mean, deviation: Some(deviation), p, ..blank("normal") }
        }
        SizeDistribution::Choice(list) => {
            let all: BTreeSet<u32> = bytes.iter().copied().collect();
            LearnedSizes { classes: all.len() > list.len(), list, ..blank("choice") }
        }
    }
}

/// Profiles that can say another method than POST take text.
fn least_size(source: &Source) -> u32 {
    let text = !is_session(source.service.protocol) && source.method != "POST";
    (if text { marker::ASCII_LENGTH } else { marker::BINARY_LENGTH }) as u32
}

/// The scheme of a service's address in a scenario.
fn scheme(service: &Service) -> &'static str {
    match (service.protocol, service.carrier, service.secured) {
        (WireProtocol::Mqtt, ActionCarrier::WebSocket, false) => "ws",
        (WireProtocol::Mqtt, ActionCarrier::WebSocket, true) => "wss",
        (WireProtocol::Mqtt, _, false) => "mqtt",
        (WireProtocol::Mqtt, _, true) => "mqtts",
        (WireProtocol::Coap, ActionCarrier::Datagrams, _) => "coap",
        (WireProtocol::Coap, _, false) => "coap+tcp",
        (WireProtocol::Coap, _, true) => "coaps+tcp",
        (WireProtocol::Nats, _, _) => "nats",
        (WireProtocol::Amqp, _, false) => "amqp",
        (WireProtocol::Amqp, _, true) => "amqps",
        (_, _, true) => "https",
        (_, _, false) => "http",
    }
}

#[cfg(test)]
mod tests;
