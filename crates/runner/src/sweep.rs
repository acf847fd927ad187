//! All runs of a scenario's matrix, turn after turn, and what came of each.

mod prediction;

use crate::{Options, Progress, run};
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::sweep::{Axis, Origin, Sweep, Taken};
use plimsoll_model::text::one_line;
use plimsoll_model::{Nanos, Validity, Verdict};
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::Plan;
use plimsoll_stats::distribution::random;
use plimsoll_store::{RunReader, StoreError};
use prediction::predict;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Longest name of what varies, and longest value of it, in characters.
const NAME: usize = 32;

/// What is swept, and how.
pub struct Sweeping<'a> {
    /// The combinations.
    pub matrix: &'a Matrix,
    /// How often each is run.
    pub turns: u32,
    /// Whether runs that the store has are taken from there.
    pub resume: bool,
    /// Whether the scenario's short form is run.
    pub quick: bool,
}

/// A run of a sweep, among all of them.
pub struct Place {
    /// Which it is, from 1.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// The combination for people: what varies, with its values.
    pub name: String,
}

/// What a sweep tells while it goes on.
pub trait SweepEvents {
    /// Follows the run that goes on.
    fn progress(&mut self) -> &mut dyn Progress;
    /// A run is over, or was in the store already.
    fn run_taken(&mut self, place: &Place, taken: &Taken, was_stored: bool);
    /// A run could not be done: why.
    fn run_failed(&mut self, place: &Place, why: &str);
}

/// What came of a sweep.
#[derive(Default)]
pub struct Swept {
    /// All runs; `None` where none was made.
    pub sweep: Option<Sweep>,
    /// Why runs could not be done.
    pub failures: Vec<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
}

/// Ids of runs by what they come from: the resolved scenario and the profile.
type Known = HashMap<(String, String), Vec<String>>;

/// What a sweep has so far.
#[derive(Default)]
struct Collected {
    taken: Vec<Taken>,
    failures: Vec<String>,
    /// Runs of the store that could not be read, and why.
    unreadable: Vec<String>,
    interrupted: bool,
}

impl Sweeping<'_> {
    /// Runs every combination in every turn, until the user ends it, and adds what is predicted.
    ///
    /// # Errors
    /// The store that is to be resumed from cannot be read.
    pub fn run(&self, options: &Options, events: &mut dyn SweepEvents) -> Result<Swept, StoreError> {
        let known = if self.resume { stored(&options.store)? } else { Known::new() };
        let collected = self.run_all(options, known, events);
        let sweep = (!collected.taken.is_empty()).then(|| {
            let axes = self.matrix.axes.iter();
            let axes = axes.map(|axis| Axis { key: axis.key.clone(), values: axis.values.clone() }).collect();
            let mut sweep = Sweep::of(&self.matrix.first.name, self.origin(), axes, &collected.taken);
            sweep.notes.extend(self.notes(&collected));
            predict(&mut sweep, self.matrix, &options.stop);
            sweep
        });
        Ok(Swept { sweep, failures: collected.failures, interrupted: collected.interrupted })
    }

    fn all(&self) -> usize {
        self.matrix.combinations() * self.turns as usize
    }

    /// What of the runs is missing, for people.
    fn notes(&self, collected: &Collected) -> Vec<String> {
        let (all, mut notes) = (self.all(), Vec::new());
        if let Some(why) = collected.failures.first() {
            let failed = collected.failures.len();
            notes.push(format!("{failed} of {all} runs could not be done; the first: {why}"));
        }
        if let Some(why) = collected.unreadable.first() {
            let count = collected.unreadable.len();
            let verb = was(count);
            notes.push(format!(
                "{count} of the store's runs could not be read and {verb} made again; the first: {why}"
            ));
        }
        if collected.interrupted {
            let made = collected.taken.len();
            notes.push(format!("interrupted: {made} of {all} runs {} made", was(made)));
        }
        notes
    }

    /// What is known of all runs beforehand.
    fn origin(&self) -> Origin {
        let constant = |key: &str| !self.matrix.varies(key);
        let first = &self.matrix.first;
        Origin {
            plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
            written: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
            quick: self.quick,
            platform: constant("platform.profile").then(|| first.platform.profile.name.clone()),
            warm_up: constant("load.warm_up").then(|| first.load.warm_up.as_secs_f64()),
            hold: constant("load.hold").then(|| first.load.hold.as_secs_f64()),
        }
    }

    /// The turns have the seed of the scenario and those after it.
    fn run_all(&self, options: &Options, mut known: Known, events: &mut dyn SweepEvents) -> Collected {
        let mut collected = Collected::default();
        let mut begun = 0;
        for turn in 0..self.turns {
            let seed = self.matrix.first.seed.wrapping_add(u64::from(turn));
            let mut positions: Vec<Vec<usize>> = self.matrix.positions().collect();
            shuffle(&mut positions, turn);
            for position in positions {
                if options.stop.load(Ordering::Relaxed) {
                    collected.interrupted = true;
                    return collected;
                }
                begun += 1;
                let place = Place { number: begun, of: self.all(), name: self.name_of(&position) };
                match self.run_one(&position, seed, options, &mut known, &mut collected.unreadable, events) {
                    Ok((summary, _)) if summary.verdict == Verdict::Interrupted => {
                        collected.interrupted = true;
                        return collected;
                    }
                    Ok((summary, was_stored)) => {
                        let taken = Taken::of(&position, &summary);
                        events.run_taken(&place, &taken, was_stored);
                        collected.taken.push(taken);
                    }
                    // What stands in the way of one combination need not stand in that of the others.
                    Err(why) => {
                        events.run_failed(&place, &why);
                        collected.failures.push(format!("{}: {why}", place.name));
                    }
                }
            }
        }
        collected
    }

    /// A run of a combination, and whether the store had it.
    fn run_one(
        &self,
        position: &[usize],
        seed: u64,
        options: &Options,
        known: &mut Known,
        unreadable: &mut Vec<String>,
        events: &mut dyn SweepEvents,
    ) -> Result<(Summary, bool), String> {
        let mut plan = self.matrix.plan(position, seed).map_err(|error| error.to_string())?;
        // Each combination has the levels that it lists, so that runs can be laid beside each other.
        plan.load.again = Nanos::ZERO;
        if let Some(summary) = stored_run(&options.store, &plan, known, unreadable) {
            return Ok((summary, true));
        }
        let outcome = run(&Arc::new(plan), options, events.progress()).map_err(|error| error.to_string())?;
        match outcome.summary.verdict {
            Verdict::Failed => Err(outcome.summary.reason),
            _ => Ok((outcome.summary, false)),
        }
    }

    fn name_of(&self, position: &[usize]) -> String {
        let values = self.matrix.axes.iter().zip(position).filter(|(axis, _)| axis.values.len() > 1);
        let values = values.filter_map(|(axis, value)| {
            let name = axis.key.rsplit('.').next().unwrap_or(&axis.key);
            Some(format!("{} {}", one_line(name, NAME), one_line(axis.values.get(*value)?, NAME)))
        });
        values.collect::<Vec<_>>().join(", ")
    }
}

/// A run of that plan which the store has and which counts, once. One that cannot be read is as good as none.
fn stored_run(store: &Path, plan: &Plan, known: &mut Known, unreadable: &mut Vec<String>) -> Option<Summary> {
    let key = (plan.resolved.clone(), plan.platform.source());
    let ids = known.get_mut(&key);
    for id in ids.into_iter().flat_map(std::mem::take).rev() {
        match summary_of(store, &id) {
            Ok(summary) => {
                let level = Taken::of(&[], &summary).level;
                if level.is_some_and(|level| level.validity == Validity::Valid) {
                    return Some(summary);
                }
            }
            Err(error) => unreadable.push(format!("{id}: {error}")),
        }
    }
    None
}

fn summary_of(store: &Path, id: &str) -> Result<Summary, StoreError> {
    Ok(summarize(&RunReader::open(store)?.run_of_id(id)?))
}

/// The verb of so many.
fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// Puts the combinations in the order of a turn, so that what changes with time is no part of what varies.
fn shuffle<T>(cells: &mut [T], turn: u32) {
    let mut numbers = random(u64::from(turn), &[0x7377_6565_7000]);
    for last in (1..cells.len()).rev() {
        let other = (numbers.fraction() * (last + 1) as f64) as usize;
        cells.swap(last, other.min(last));
    }
}

/// The runs of a store that came to their end, by their scenarios: those of this version.
fn stored(store: &Path) -> Result<Known, StoreError> {
    let mut known = Known::new();
    let reader = match RunReader::open(store) {
        Err(StoreError::NoRuns { .. }) => return Ok(known),
        opened => opened?,
    };
    for run in reader.complete(env!("CARGO_PKG_VERSION"))? {
        known.entry((run.scenario, run.profile)).or_default().push(run.id);
    }
    Ok(known)
}
