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
        InTurn {
            components: components.clone(),
            lost: Estimate::of(mean, effect::student(&lost)),
            stops: (0..components.len()).map(stops).collect(),
        }
    };
    all.into_iter().map(of_components).collect()
}

impl InTurn {
    /// Whether surely nothing was done ahead.
    pub fn loses_all(&self) -> bool {
        self.lost.ends()[0] > ALL
    }

    /// Whether what one did was surely there for the other to do: one of them hardly ever kept the other from working.
    pub fn has_queue_between(&self) -> bool {
        self.lost.ends()[1] < ALL && self.stops.iter().any(|stops| stops.mostly_passes())
    }

    /// Whether only one of them works at a time, and one sometimes does while the other is stopped.
    pub fn is_exclusive(&self) -> bool {
        self.stops.iter().all(|stops| stops.halts_beyond_a_queue())
            && self.stops.iter().any(|stops| stops.passes_or_halts())
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
