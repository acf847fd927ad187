//! Runs a scenario against a simulated platform.

use plimsoll_analysis::level::Culprit;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::{Metric, Verdict};
use plimsoll_runner::preflight::HostCheck;
use plimsoll_runner::{Options, Outcome, Progress, SoFar, run};
use plimsoll_scenario::{Environment, SourceFile, load};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A scenario and what it is run against, as YAML.
pub struct Setup {
    /// The stations of the platform, one a line of YAML flow.
    pub stations: String,
    /// The other keys of the simulation, each on a line of its own.
    pub more: String,
    /// What goes wrong.
    pub faults: String,
    /// Keys of `load`, in flow style.
    pub load: String,
    pub qos: u8,
    pub subscribers: u32,
    /// In flow style.
    pub objectives: String,
    /// Further keys of the scenario, each on a line of its own.
    pub further: String,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            stations: "{ name: broker, service: 1ms }".into(),
            more: String::new(),
            faults: String::new(),
            load: "levels: [150, 300], hold: 10s, samples: 20, warm_up: 1s, again: 0s".into(),
            qos: 1,
            subscribers: 1,
            objectives: "delivered: \">= 99.9 %\", achieved: \">= 99 %\", publish_p99: \"< 50 ms\"".into(),
            further: String::new(),
        }
    }
}

impl Setup {
    /// Runs it with that seed.
    pub fn run(&self, seed: u64) -> Summary {
        self.outcome(seed).summary
    }

    /// The same with what was recorded.
    pub fn outcome(&self, seed: u64) -> Outcome {
        self.outcome_until(seed, Arc::default())
    }

    /// Runs it until the user wants to stop.
    pub fn run_until(&self, seed: u64, stop: Arc<AtomicBool>) -> Summary {
        self.outcome_until(seed, stop).summary
    }

    fn outcome_until(&self, seed: u64, stop: Arc<AtomicBool>) -> Outcome {
        let Setup { stations, more, faults, load: keys, qos, subscribers, objectives, further } = self;
        let profile = format!(
            "name: simulated\ntitle: laboratory\ncomponents: []\nsimulated:\n  stations: [ {stations} ]\n{more}  faults: [ {faults} ]\n"
        );
        let text = format!(
            "name: laboratory\nplatform: ./laboratory.yaml\nseed: {seed}\n\
             population: {{ devices: 50, subscribers: {subscribers} }}\nmqtt: {{ qos: {qos} }}\n\
             load: {{ {keys} }}\nobjectives: {{ {objectives} }}\n{further}\n"
        );
        let profile = |_: &str| Ok(profile.clone());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let source = SourceFile { name: "laboratory".into(), text };
        let plan = load(&source, &[], &environment).unwrap_or_else(|wrong| panic!("{wrong}"));
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            program: "/nonexistent".into(),
            store: folder.path().join("plimsoll.db"),
            command: Vec::new(),
            series: None,
            started: None,
            live: None,
            inputs: Default::default(),
            resume: None,
            workers: None,
            repeats: None,
            stop,
        };
        run(&Arc::new(plan), &options, &mut Silent).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Who a run blames for its first level that was not met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    Nobody,
    Component(String),
    Platform,
    Network,
    Both,
    Generator,
    Receiver,
    Host,
    PlannedFault,
    Unknown,
}

/// Who is blamed for a level.
pub fn named(level: &LevelSummary) -> Named {
    match &level.blame {
        None => Named::Nobody,
        Some(blame) => match (blame.culprit, &blame.component) {
            (Culprit::Platform, Some(component)) => Named::Component(component.clone()),
            (Culprit::Platform, None) => Named::Platform,
            (Culprit::Network, _) => Named::Network,
            (Culprit::PlatformAndNetwork, _) => Named::Both,
            (Culprit::Generator, _) => Named::Generator,
            (Culprit::Receiver, _) => Named::Receiver,
            (Culprit::Host, _) => Named::Host,
            (Culprit::PlannedFault, _) => Named::PlannedFault,
            (Culprit::Unknown, _) => Named::Unknown,
        },
    }
}

/// Who is blamed for the last level of a run that was not met; `Nobody` where all were. Of a load that was held again the last
/// hold counts.
pub fn blamed(summary: &Summary) -> Named {
    let is_last = |level: &&LevelSummary| {
        !summary.levels.iter().any(|later| later.index > level.index && later.load == level.load)
    };
    let last = summary.levels.iter().filter(is_last).rev().map(named);
    last.into_iter().find(|named| *named != Named::Nobody).unwrap_or(Named::Nobody)
}

/// How many seeds each kind has.
pub fn seeds() -> u64 {
    std::env::var("PLIMSOLL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A number between two, by seed: strengths vary evenly over all seeds.
pub fn between(seed: u64, low: f64, high: f64) -> f64 {
    // Steps of the golden ratio fill an interval evenly however many there are.
    low + (high - low) * (seed as f64 * 0.618_033_988_75).fract()
}

/// Whether a verdict is one that certifies.
pub fn certifies(summary: &Summary) -> bool {
    summary.verdict == Verdict::Met
}

struct Silent;

impl Progress for Silent {
    fn run_begun(&mut self, _: Metric) {}
    fn run_over(&mut self) {}
    fn warned(&mut self, _: &HostCheck) {}
    fn step(&mut self, _: &str) {}
    fn connected(&mut self, _: u64, _: u64) {}
    fn level_begun(&mut self, _: usize, _: Option<usize>, _: &str) {}
    fn level_goes_on(&mut self, _: f64, _: f64, _: &SoFar) {}
    fn level_ended(&mut self, _: &LevelSummary) {}
}
