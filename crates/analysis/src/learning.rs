//! A scenario out of captured traffic: populations, their devices, rates, arrival laws, sizes, targets and subscribers. What is learned
//! is a description; `report::learned` writes it as a scenario.
//!
//! Main flow: a capture's actions are [gathered](Gathering), its sources put into [`groups`], and each group is described as a
//! [`population`]: its [`devices`], its [`process`], its [`sizes`].

mod arrivals;
mod course;
mod day;
mod devices;
mod gathering;
mod groups;
mod learned;
mod naming;
mod population;
mod process;
mod rate;
mod services;
mod shape;
mod sizes;
mod subscribers;
mod traces;

pub use gathering::{Gathering, Service};
pub use learned::{
    Learned, LearnedArrivals, LearnedPoint, LearnedPopulation, LearnedService, LearnedSession, LearnedSizes,
    LearnedTrace, OtherLaw,
};
pub use subscribers::LearnedSubscribers;
pub use traces::{TraceRow, Traces};

use arrivals::misfit_note;
use course::Course;
use groups::{Group, groups, varying_names};
use learned::SCHEMA;
use naming::Names;
use population::{Described, Learning};
use services::Services;
use traces::traced;

/// Populations of a learned scenario: each has threads of its own when it is run.
const POPULATIONS: usize = 32;

/// How a scenario is made.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Whether the names of targets stay as they are.
    pub keep_names: bool,
    /// How many times the load of the capture; positive.
    pub times: f64,
    /// Of which populations the exact times are kept.
    pub traces: Traces,
}

/// Learns from what was gathered. The same capture gives the same answer.
pub fn learn(gathered: &Gathering, wishes: &Wishes) -> Learned {
    let duration = gathered.span.map_or(0.0, |(first, last)| (last - first).0 as f64 / 1e9);
    let mut groups = groups(gathered);
    let total = |group: &Group<'_>| group.messages(gathered);
    groups.sort_by_key(|group| std::cmp::Reverse(total(group)));
    let learned: u64 = gathered.sources.iter().map(|(_, counted)| counted.messages).sum();
    let mut notes = Vec::new();
    let unknown: u64 = groups.iter().filter(|group| group.source.is_unknown()).map(total).sum();
    if unknown > 0 {
        notes.push(format!(
            "messages whose topic or path the capture does not show, since a number stands for it, are left out: {unknown}"
        ));
    }
    groups.retain(|group| !group.source.is_unknown());
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
        services: Services::new(wishes.keep_names),
        course: Course::of(gathered),
        learned,
        traces: wishes.traces != Traces::Never,
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
    let (mut counts, mut changes, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let (mut varies, mut dispersion) = (false, 0.0_f64);
    for described in described {
        varies |= learning.course.differ(&described.counts, described.dispersion);
        dispersion = dispersion.max(described.dispersion);
        counts.push(described.counts);
        changes.push(described.change);
        times.push(described.times);
        populations.push(described.population);
    }
    let course = &learning.course;
    let followed = match wishes.traces {
        // It has the changes by itself.
        Traces::All => Followed::Nothing,
        _ if !varies => Followed::Nothing,
        _ if course.has_one_mix(&counts, dispersion) => Followed::Curve,
        _ if !course.hours().is_empty() => Followed::Levels,
        _ => Followed::Nothing,
    };
    let hours = match followed {
        Followed::Nothing => Vec::new(),
        Followed::Curve | Followed::Levels => course.hours().iter().map(|hour| hour.of_day).collect(),
    };
    if !hours.is_empty() {
        for (population, counts) in populations.iter_mut().zip(&counts) {
            let rates = course.hours().iter().zip(counts).map(|(hour, &count)| count as f64 / hour.seconds);
            population.hourly = rates.collect();
        }
    }
    let curve = if followed == Followed::Curve { course.points(&counts) } else { Vec::new() };
    // Times along a curve are those of a law.
    let wanted = if followed == Followed::Nothing { wishes.traces } else { Traces::Never };
    let rows = traced(times, &mut populations, wanted);
    for (population, change) in populations.iter_mut().zip(changes) {
        let is_traced = population.trace.is_some();
        population.notes.extend(misfit_note(&population.arrivals, is_traced));
        if followed == Followed::Nothing && !is_traced {
            population.notes.extend(change);
        }
    }
    notes.extend(course_notes(course, followed, varies).map(str::to_owned));
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
        curve,
        rows,
        notes,
    }
}

/// How a scenario has the changes of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    /// Not at all: there are none, or a trace has them, or nothing could.
    Nothing,
    /// The sum of all rates follows a curve.
    Curve,
    /// Each hour is a level, in which each population has a rate of its own.
    Levels,
}

/// What people should know of the changes of rates.
fn course_notes(course: &Course, followed: Followed, varies: bool) -> impl Iterator<Item = &'static str> {
    let is_day = !course.hours().is_empty();
    let short = "the capture is shorter than two hours: it shows no shape of the day";
    let change = match (followed, is_day) {
        (Followed::Curve, true) => {
            Some("the rates differ from hour to hour: the load follows a curve through them (UTC)")
        }
        (Followed::Curve, false) => {
            Some("the rates change in the time of the capture: the load follows them")
        }
        (Followed::Levels, _) => Some(
            "the rates differ from hour to hour, and the mix does, too: each level is an hour of the day (UTC)",
        ),
        (Followed::Nothing, true) if !varies => Some("the rates do not differ from hour to hour"),
        (Followed::Nothing, _) => None,
    };
    [(!is_day).then_some(short), change].into_iter().flatten()
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

/// The places of the messages of each source.
fn messages_by_source(gathered: &Gathering) -> Vec<Vec<u32>> {
    let mut places = vec![Vec::new(); gathered.sources.len()];
    for (place, message) in gathered.messages.iter().enumerate() {
        places[message.source as usize].push(place as u32);
    }
    places
}

#[cfg(test)]
mod tests;
