//! What an experiment does to a platform: it slows a part of it for a time, in blocks between which it is left alone, and
//! looks what becomes of the throughput. The idea is that of causal profiling (Curtsinger and Berger, Coz: Finding Code that
//! Counts with Causal Profiling, SOSP 2015), with whole components in place of lines of code.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// By which means a part of the platform is slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// All processes of the components are stopped and continued again and again (SIGSTOP).
    Stop,
    /// The quota of processor time of the components is cut.
    Quota,
    /// Somebody else uses the processors of the platform.
    Occupy,
    /// What is sent to the components and comes from them takes longer, in the relays before them. They themselves are not slowed.
    Delay,
}

/// A component that can be slowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowable {
    /// Its name.
    pub component: String,
    /// Its own quota of processor time, in processors.
    pub quota: Option<f64>,
    /// Whether a relay stands before it.
    pub has_relay: bool,
}

/// What is slowed, how, and by how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Perturbation {
    /// The components; empty for the platform's processors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// By which means.
    pub means: Means,
    /// The dose: the share of the time, or of the quota, that is taken from them; 1 of a delay.
    pub share: f64,
    /// The length of each stop, of each use of the processors, and of the delay of each way.
    pub stop: Nanos,
    /// Whether each component is stopped when the one before it goes on, instead of all at the same moments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
}

impl Perturbation {
    /// Slows all of those components at the same moments.
    pub fn new(components: Vec<String>, means: Means, share: f64, stop: Nanos) -> Perturbation {
        Perturbation { components, means, share, stop, in_turn: false }
    }

    /// What is done to each component by itself, and how much later than to the first: nothing, where all are slowed together.
    pub fn of_each(&self) -> Vec<(Perturbation, Nanos)> {
        if !self.in_turn {
            return vec![(self.clone(), Nanos::ZERO)];
        }
        let one = |(place, name): (usize, &String)| {
            let own = Perturbation { components: vec![name.clone()], in_turn: false, ..self.clone() };
            (own, self.stop * place as i64)
        };
        self.components.iter().enumerate().map(one).collect()
    }

    /// From the beginning of one stop of a component to that of its next.
    pub fn cycle(&self) -> Nanos {
        Nanos((self.stop.0 as f64 / self.share.max(1e-6)).round() as i64)
    }
}

/// A perturbation between two times of the run's clock; its first stop begins at the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// What is done.
    pub perturbation: Perturbation,
    /// From when.
    pub from: Nanos,
    /// Up to when.
    pub to: Nanos,
}

/// The dose that a component, or the processors, had in fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Dose {
    /// The component; empty for the platform's processors.
    pub component: String,
    /// When the order began that was carried out.
    pub from: Nanos,
    /// The share of the order's time, or of the quota, that was taken; of a delay, the mean delay as a multiple of the ordered one.
    pub share: f64,
}

/// A part of a level of an experiment, in samples of its hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// What is slowed in it; `None` where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perturbation: Option<Perturbation>,
    /// The first sample in it.
    pub begin: u16,
    /// The first sample that counts: by then the platform should have come to rest.
    pub measured: u16,
    /// The first sample behind it.
    pub end: u16,
}

/// What a level of an experiment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// One operation at a time: how long it takes alone.
    Alone,
    /// Many operations at a time: how many come to their end in a second.
    Saturated,
    /// Each part of the platform is slowed by much.
    Large,
    /// Those for which that left the answer open are slowed by little, and pairs of them together.
    Small,
    /// The ways to those that may decide together are delayed, where relays stand before them.
    Delays,
    /// Those that compute, and those with a quota, are slowed under a load that leaves room: what becomes of latency.
    Latency,
}

/// A level of an experiment, which is no load that anybody judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentLevel {
    /// What it is for.
    pub stage: Stage,
    /// Its blocks, in the order of time; none where nothing is slowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    /// Where ways are delayed: by component behind a relay, the components that had connections to that relay when the level began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, Vec<String>>,
}

impl ExperimentLevel {
    /// A level with those blocks.
    pub fn new(stage: Stage, blocks: Vec<Block>) -> ExperimentLevel {
        ExperimentLevel { stage, blocks, callers: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_as_much_longer_than_its_stop_as_the_share_says() {
        let stop = Nanos::from_millis(50);
        let perturbation = Perturbation::new(vec!["a".into()], Means::Stop, 0.2, stop);
        assert_eq!(perturbation.cycle(), Nanos::from_millis(250));
        assert_eq!(perturbation.of_each(), [(perturbation.clone(), Nanos::ZERO)]);
        let both =
            Perturbation { components: vec!["a".into(), "b".into()], in_turn: true, ..perturbation.clone() };
        let second = Perturbation { components: vec!["b".into()], ..perturbation.clone() };
        assert_eq!(both.of_each(), [(perturbation, Nanos::ZERO), (second, stop)]);
    }
}
