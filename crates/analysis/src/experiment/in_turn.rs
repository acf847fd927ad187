//! Two components that were stopped in turn. Where each has a limit of its own, what one did while the other was stopped waits between
//! them, and the other one does it in the next stop: half of the stopped time is lost. Where few operations can be between them, nothing
//! is done ahead, and all of it is lost. Where only one of them works at a time, each stop halts the other one if it came at that time.

use super::effect::{self, Seen};
use super::{DuringStops, Estimate};
use plimsoll_model::record::{Gauge, LevelRecord};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// From this part of the stopped time on, what is lost is surely more than half of it: all but for what was under way.
const ALL: f64 = 0.7;
/// Stops in which something came to its end, at least, that show how fast.
const FEWEST: usize = 5;
/// By so much more than it allows by itself a component is faster where another one kept it from something.
const FASTER: f64 = 1.02;

/// Two components that were stopped in turn, and what became of the throughput.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct InTurn {
    /// The components.
    pub components: Vec<String>,
    /// The part of the time in which one of them was stopped that the platform lost.
    pub lost: Estimate,
    /// The stops of each.
    pub stops: Vec<DuringStops>,
    /// What came to its end in the second third of the stops of each, as a multiple of what usually does, without the stops in which nothing
    /// did then; null where these were too few. In the first third, what was held back until then may come at once.
    pub speeds: Vec<Option<Estimate>>,
}

/// Those of some levels.
pub fn of(levels: &[&LevelRecord], doses: &[Gauge]) -> Vec<InTurn> {
    let seen = levels.iter().flat_map(|level| effect::seen_in(level, doses));
    let seen: Vec<_> = seen.filter(|(perturbation, _)| perturbation.in_turn).collect();
    let mut all: Vec<&Vec<String>> = seen.iter().map(|(perturbation, _)| &perturbation.components).collect();
    all.sort();
    all.dedup();
    let of_components = |components: &Vec<String>| {
        let own: Vec<&Seen> =
            seen.iter().filter(|(own, _)| own.components == *components).map(|(_, seen)| seen).collect();
        let lost: Vec<f64> = own.iter().map(|seen| seen.lost_of(components.len())).collect();
        let mean = lost.iter().sum::<f64>() / lost.len().max(1) as f64;
        let stops = |place| own.iter().map(|seen| seen.stops_of(place)).sum();
        let speed = |place| {
            let all: Vec<f64> = own.iter().flat_map(|seen| seen.speeds_in(place)).collect();
            let interval = effect::student(&all).filter(|_| all.len() >= FEWEST)?;
            Some(Estimate::of((interval.lo + interval.hi) / 2.0, Some(interval)))
        };
        InTurn {
            components: components.clone(),
            lost: Estimate::of(mean, effect::student(&lost)),
            stops: (0..components.len()).map(stops).collect(),
            speeds: (0..components.len()).map(speed).collect(),
        }
    };
    all.into_iter().map(of_components).collect()
}

impl InTurn {
    /// Whether surely nothing was done ahead.
    pub fn loses_all(&self) -> bool {
        self.lost.ends()[0] > ALL
    }

    /// Whether what one did was surely there for the other to do: one of them hardly ever kept the other from working, nor had anything of what
    /// that needs, as the speeds of both show.
    pub fn has_queue_between(&self, can: impl Fn(&str) -> f64) -> bool {
        let passes = self.stops.iter().any(|stops| stops.mostly_passes());
        let are_known = self.speeds.iter().all(Option::is_some)
            && self.components.iter().all(|name| can(name).is_finite());
        self.lost.ends()[1] < ALL && passes && are_known && !self.is_faster_alone(can)
    }

    /// Whether only one of them works at a time, and one sometimes does while the other is stopped. Two signs show that: all or nothing goes on
    /// in the stops of one; or what goes on is more than the other can do by itself, as a multiple of the usual throughput, since it has to
    /// share nothing then.
    pub fn is_exclusive(&self, can: impl Fn(&str) -> f64) -> bool {
        let all_or_nothing = self.stops.iter().all(|stops| stops.halts_beyond_a_queue())
            && self.stops.iter().any(|stops| stops.passes_or_halts());
        all_or_nothing || self.stops.iter().all(|stops| stops.sometimes_halts()) && self.is_faster_alone(can)
    }

    fn is_faster_alone(&self, can: impl Fn(&str) -> f64) -> bool {
        self.faster_alone(can).is_some()
    }

    /// The one of two that is surely faster while the other stands still than it can be by itself, and its speed then.
    fn faster_alone(&self, can: impl Fn(&str) -> f64) -> Option<(&str, Estimate)> {
        let [one, other] = &self.components[..] else { return None };
        let working = [other, one].into_iter().zip(&self.speeds);
        let known = working.filter_map(|(name, speed)| Some((name.as_str(), (*speed)?)));
        known.into_iter().find(|(name, speed)| speed.ends()[0] > can(name) * FASTER)
    }

    /// The same for people.
    pub fn faster_in_words(&self, can: impl Fn(&str) -> f64) -> Option<String> {
        let (name, speed) = self.faster_alone(&can)?;
        let [lo, hi] = speed.ends();
        Some(format!(
            "where something went on meanwhile, {name} did {:.2} ({lo:.2} to {hi:.2}) times as much as usual. By itself it can do {:.2} times \
             as much at most: the other one kept it from something",
            speed.mean,
            can(name)
        ))
    }

    /// Whether more such stops may show what is between the two.
    pub fn is_open(&self, can: impl Fn(&str) -> f64) -> bool {
        !self.loses_all() && !self.has_queue_between(&can) && !self.is_exclusive(&can)
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let range = self.lost.ci95.map(|[lo, hi]| format!(" ({:.0} to {:.0})", lo * 100.0, hi * 100.0));
        format!(
            "{} were stopped in turn: the platform lost {:.0} %{} of that time",
            self.components.join(" and "),
            self.lost.mean * 100.0,
            range.unwrap_or_default()
        )
    }
}
