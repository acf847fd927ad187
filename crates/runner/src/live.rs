//! What a run measures, for programs that watch it: kept up to date as it is recorded, served as OpenMetrics
//! (`run --metrics`), sent to a Prometheus remote write or an OTLP receiver, and kept in a file (`run --now`). The verdict rests on what
//! is stored.

mod endpoint;
mod families;
mod now;
mod now_file;
mod otlp;
mod past;
mod push;

pub use endpoint::Endpoint;
pub use now::{Board, ComponentNow, CountsNow, EndedLevel, Followed, LevelNow, Now};
pub use now_file::NowFile;
pub use past::Moment;
pub use push::{Protocol, Push};

use plimsoll_codec::openmetrics::Family;
use plimsoll_model::record::{ComponentUsage, Gauge, LevelStart, Measurement, SamplePart};
use plimsoll_model::{Counts, Histogram, Metric};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most series of observers: one that invents names without end must not fill the memory.
const MOST_GAUGES: usize = 10_000;

/// What a run has measured so far. Shared between the run and those who ask.
#[derive(Default)]
pub struct Live(Mutex<State>);

/// Everything since the run began: counters of a scraper never go back.
#[derive(Default)]
struct State {
    /// Scenario and id of the run; empty before one begins.
    name: String,
    run: String,
    level: Option<LevelStart>,
    in_hold: bool,
    counts: Counts,
    times: BTreeMap<Metric, Histogram>,
    components: BTreeMap<String, Component>,
    /// By sampler, subject and quantity.
    gauges: BTreeMap<[String; 3], Gauge>,
    ended: BTreeMap<u16, Ended>,
}

/// A component: its last reading, and the processor time of all.
struct Component {
    last: ComponentUsage,
    cpu: f64,
}

/// A level that is closed.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it asked for.
    pub load: String,
    /// Operations per second that were completed.
    pub achieved: Option<f64>,
    /// How it was judged.
    pub verdict: &'static str,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, State> {
        // What was written is whole even where a reader panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins; what an earlier one left is forgotten.
    pub fn begin(&self, name: &str, run: &str) {
        *self.state() = State { name: name.to_owned(), run: run.to_owned(), ..State::default() };
    }

    /// Takes in what was measured.
    pub fn add(&self, measurement: &Measurement) {
        let mut state = self.state();
        match measurement {
            Measurement::LevelStarted(start) => {
                state.level = Some(start.clone());
                state.in_hold = false;
            }
            Measurement::SetUp(part) => state.add(part),
            Measurement::Sample(part) => {
                state.in_hold |= part.sample.is_some();
                state.add(part);
            }
            Measurement::Component(usage) => state.add_component(usage),
            Measurement::Gauges(gauges) => gauges.iter().for_each(|gauge| state.add_gauge(gauge)),
            Measurement::LevelEnded(_) => state.level = None,
            Measurement::Thread(_) | Measurement::Messages(_) => {}
        }
    }

    /// Takes in how a level was judged.
    pub fn level_ended(&self, number: u16, ended: Ended) {
        self.state().ended.insert(number, ended);
    }

    /// Adds what was measured to what a run has reported of its progress.
    fn add_to(&self, now: &mut Now) {
        self.state().add_to(now);
    }

    /// All metrics as they are now.
    pub fn families(&self) -> Vec<Family> {
        families::of(&self.state())
    }
}

impl State {
    fn add(&mut self, part: &SamplePart) {
        self.counts += part.counts;
        for (metric, seen) in &part.histograms {
            self.times.entry(*metric).or_default().merge(seen);
        }
    }

    fn add_component(&mut self, usage: &ComponentUsage) {
        let used = usage.cpu.as_secs_f64();
        let cpu = self.components.get(&usage.component).map_or(0.0, |known| known.cpu) + used;
        self.components.insert(usage.component.clone(), Component { last: usage.clone(), cpu });
    }

    fn add_gauge(&mut self, gauge: &Gauge) {
        let key = [&gauge.sampler, &gauge.subject, &gauge.quantity].map(String::clone);
        if self.gauges.len() < MOST_GAUGES || self.gauges.contains_key(&key) {
            self.gauges.insert(key, gauge.clone());
        }
    }
}

#[cfg(test)]
mod tests;
