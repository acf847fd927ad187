//! `plimsoll sweep`: all runs of a scenario's matrix, and what came of each.

mod prediction;

use super::load_options::LoadOptions;
use super::outputs;
use super::run::{Occasion, perform_plan};
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{complain, file, say};
use crate::progress::TerminalProgress;
use clap::Args;
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::sweep::{Axis, Cell, Origin, Quantity, Sweep, Taken};
use plimsoll_model::{Nanos, Validity, Verdict};
use plimsoll_report::html::sweep as page;
use plimsoll_report::sweep as render;
use plimsoll_report::terminal;
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::Plan;
use plimsoll_stats::distribution::random;
use plimsoll_store::{RunReader, StoreError};
use prediction::predict;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs each combination of what varies in a scenario, several times, and compares them
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll sweep examples/work-e-1-devices.yaml --quick
  plimsoll sweep examples/work-e-1-devices.yaml --repeat 3 --resume
  plimsoll sweep mqtt://localhost:1883 --devices 100 --rate 500
      --set 'matrix.mqtt.qos=[0, 1]'

What varies stands in the scenario: matrix: { population.devices: [10, 100] },
or is set: --set 'matrix.population.devices=[10, 100]'.
Each turn runs all combinations once, in an order of its own and with a new
seed. The last level of each run counts, or that of its load line. Values have
95 % intervals over the turns.

Exit codes: 0 measured, 3 a combination has no valid run, 1 a run could not be
done, 104 wrong scenario or command line, 105 interrupted.")]
pub struct Sweeping {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    store: StoreOption,
    /// How often each combination is run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Take runs from the store that were made before, by the same version from the same
    /// scenario with the same seed
    #[arg(long)]
    resume: bool,
    /// Where to write the page with the charts (default: beside the scenario, of an
    /// address plimsoll.sweep.html)
    #[arg(long, value_name = "FILE.html", value_parser = file())]
    report: Option<PathBuf>,
    /// Write the sweep as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    json: Option<PathBuf>,
    /// Write it as comma-separated values
    #[arg(long, value_name = "FILE", value_parser = file())]
    csv: Option<PathBuf>,
    /// Write it as Markdown
    #[arg(long, value_name = "FILE.md", value_parser = file())]
    markdown: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Ids of runs by what they come from: the resolved scenario and the profile.
type Known = HashMap<(String, String), Vec<String>>;

/// What a sweep has so far.
#[derive(Default)]
struct Course {
    taken: Vec<Taken>,
    /// Why runs could not be done.
    failures: Vec<String>,
    /// Runs of the store that could not be read, and why.
    unreadable: Vec<String>,
    interrupted: bool,
}

impl Sweeping {
    pub fn perform(self) -> Result<u8, Failure> {
        let matrix = self.load.matrix()?;
        if matrix.axes.is_empty() {
            return Err(Failure::Usage(
                "nothing varies: say what does, in the scenario by `matrix: { population.devices: [10, 100] }`, else by \
                 `--set 'matrix.population.devices=[10, 100]'`; `plimsoll run` is for one run"
                    .into(),
            ));
        }
        self.check_outputs()?;
        let known = if self.resume { stored(&self.store.store)? } else { Known::new() };
        let stop = interrupt::stop_flag()
            .map_err(|error| Failure::Undoable(format!("cannot catch signals: {error}")))?;
        let course = self.run_all(&matrix, known, &stop);
        if course.taken.is_empty() {
            return Err(match (course.interrupted, course.failures.into_iter().next()) {
                (true, _) => Failure::Interrupted(super::run::KEPT),
                (false, why) => Failure::Undoable(why.unwrap_or_else(|| "no run could be done".into())),
            });
        }
        let axes = matrix.axes.iter();
        let axes = axes.map(|axis| Axis { key: axis.key.clone(), values: axis.values.clone() }).collect();
        let mut sweep = Sweep::of(&matrix.first.name, self.origin(&matrix), axes, &course.taken);
        let all = matrix.combinations() * self.repeat as usize;
        if let Some(why) = course.failures.first() {
            let failed = course.failures.len();
            sweep.notes.push(format!("{failed} of {all} runs could not be done; the first: {why}"));
        }
        if let Some(why) = course.unreadable.first() {
            let count = course.unreadable.len();
            let verb = was(count);
            sweep.notes.push(format!(
                "{count} of the store's runs could not be read and {verb} made anew; the first: {why}"
            ));
        }
        if course.interrupted {
            let made = course.taken.len();
            sweep.notes.push(format!("interrupted: {made} of {all} runs {} made", was(made)));
        }
        predict(&mut sweep, &matrix, &stop);
        self.tell(&sweep)?;
        let measured = |cell: &Cell| cell.runs.iter().any(|run| run.validity == Some(Validity::Valid));
        Ok(match () {
            () if course.interrupted => exit_code::INTERRUPTED,
            () if !course.failures.is_empty() => exit_code::UNDOABLE,
            () if !sweep.cells.iter().all(measured) => exit_code::INVALID,
            () => exit_code::MET,
        })
    }

    /// What is known of all runs beforehand.
    fn origin(&self, matrix: &Matrix) -> Origin {
        let constant = |key: &str| !matrix.varies(key);
        let load = &matrix.first.load;
        Origin {
            plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
            written: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
            quick: self.load.is_quick(),
            platform: constant("platform.profile").then(|| matrix.first.platform.profile.name.clone()),
            warm_up: constant("load.warm_up").then(|| load.warm_up.as_secs_f64()),
            hold: constant("load.hold").then(|| load.hold.as_secs_f64()),
        }
    }

    /// Runs every combination in every turn, until the user ends it. The turns have the seed of the scenario and those after it.
    fn run_all(&self, matrix: &Matrix, mut known: Known, stop: &AtomicBool) -> Course {
        let mut progress = TerminalProgress::new(self.quiet);
        let mut course = Course::default();
        let all = matrix.combinations() * self.repeat as usize;
        let mut begun = 0;
        for turn in 0..self.repeat {
            let seed = matrix.first.seed.wrapping_add(u64::from(turn));
            let mut positions: Vec<Vec<usize>> = matrix.positions().collect();
            shuffle(&mut positions, turn);
            for position in positions {
                if stop.load(Ordering::Relaxed) {
                    course.interrupted = true;
                    return course;
                }
                begun += 1;
                let name = name_of(matrix, &position);
                let plan = matrix.plan(&position, seed).map_err(Failure::from).map(|mut plan| {
                    // Each combination has the levels that it lists, so that runs can be laid beside each other.
                    plan.load.again = Nanos::ZERO;
                    plan
                });
                let outcome =
                    plan.and_then(|plan| match self.stored_run(&plan, &mut known, &mut course.unreadable) {
                        Some(summary) => Ok((summary, " (stored)")),
                        None => {
                            let outcome = perform_plan(
                                &Arc::new(plan),
                                &self.store,
                                &mut progress,
                                Occasion::default(),
                            )?;
                            Ok((outcome.summary, ""))
                        }
                    });
                // What stands in the way of one combination need not stand in that of the others.
                let failed = match outcome {
                    Ok((summary, _)) if summary.verdict == Verdict::Interrupted => {
                        course.interrupted = true;
                        return course;
                    }
                    Ok((summary, _)) if summary.verdict == Verdict::Failed => summary.reason,
                    Ok((summary, from)) => {
                        let taken = Taken::of(&position, &summary);
                        if !self.quiet {
                            let told = format!("[{begun}/{all}] {name}: {}{from}", one_line(&taken));
                            say(&format!("{}\n", terminal::wrapped(&told, "  ").join("\n").trim_start()));
                        }
                        course.taken.push(taken);
                        continue;
                    }
                    Err(failure) => failure.to_string(),
                };
                complain(&format!("[{begun}/{all}] {name}: failed: {failed}"));
                course.failures.push(format!("{name}: {failed}"));
            }
        }
        course
    }

    /// A run of that plan which the store has and which counts, once. One that cannot be read is as good as none.
    fn stored_run(&self, plan: &Plan, known: &mut Known, unreadable: &mut Vec<String>) -> Option<Summary> {
        let key = (plan.resolved.clone(), plan.platform.profile.source.clone());
        let ids = known.get_mut(&key);
        for id in ids.into_iter().flat_map(std::mem::take).rev() {
            match self.summary_of(&id) {
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

    fn summary_of(&self, id: &str) -> Result<Summary, StoreError> {
        Ok(summarize(&RunReader::open(&self.store.store)?.run_of_id(id)?))
    }

    /// Where the page goes: beside the scenario unless somewhere is named.
    fn page(&self) -> PathBuf {
        let ending = if self.load.is_quick() { "quick.sweep.html" } else { "sweep.html" };
        let beside = || self.load.file().unwrap_or(Path::new("plimsoll")).with_extension(ending);
        self.report.clone().unwrap_or_else(beside)
    }

    /// What cannot be written is found out before the first run and not after hours.
    fn check_outputs(&self) -> Result<(), Failure> {
        let page = self.page();
        let outputs = [
            ("--report", Some(page.as_path())),
            ("--json", self.json.as_deref()),
            ("--csv", self.csv.as_deref()),
            ("--markdown", self.markdown.as_deref()),
        ];
        outputs::check(Some(&self.store.store), &self.load.files_read(), &outputs)
    }

    /// Writes what came of it to all files, whatever becomes of one, and prints it.
    fn tell(&self, sweep: &Sweep) -> Result<(), Failure> {
        let page_path = self.page();
        let mut written = Ok(());
        for (path, text) in [
            (Some(&page_path), page::page as fn(&Sweep) -> String),
            (self.json.as_ref(), render::json),
            (self.csv.as_ref(), render::csv),
            (self.markdown.as_ref(), render::markdown),
        ] {
            if let Some(path) = path {
                written = written.and(outputs::write(path, &text(sweep)));
            }
        }
        say(&render::terminal(sweep));
        say(&format!("report: {}\n", page_path.display()));
        written
    }
}

/// The combination for people: what varies, with its values.
fn name_of(matrix: &Matrix, position: &[usize]) -> String {
    let values = matrix.axes.iter().zip(position).filter(|(axis, _)| axis.values.len() > 1);
    let values = values.filter_map(|(axis, value)| {
        let name = axis.key.rsplit('.').next().unwrap_or(&axis.key);
        Some(format!("{} {}", render::label(name), render::label(axis.values.get(*value)?)))
    });
    values.collect::<Vec<_>>().join(", ")
}

/// The verb of so many.
fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// What a run found, in a line.
fn one_line(taken: &Taken) -> String {
    let Some(level) = &taken.level else { return "nothing was measured".into() };
    let achieved = level.achieved.map_or("-".into(), |rate| format!("{}/s", terminal::count(rate)));
    let time = terminal::time(level.publish_time.p50);
    match level.validity {
        Validity::Valid => format!("{achieved}, {} {time}", Quantity::PublishTimeMedian.name()),
        other => format!("{achieved}, left out: {}", other.name()),
    }
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
fn stored(store: &Path) -> Result<Known, Failure> {
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
