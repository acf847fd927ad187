//! `plimsoll sweep`: all runs of a scenario's matrix, and what came of each.

mod prediction;

use super::load_options::LoadOptions;
use super::run::perform_plan;
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{file, say};
use crate::progress::TerminalProgress;
use clap::Args;
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::sweep::{Axis, Quantity, Sweep, Taken};
use plimsoll_model::{Validity, Verdict};
use plimsoll_report::html::sweep as page;
use plimsoll_report::sweep as render;
use plimsoll_report::terminal;
use plimsoll_scenario::Matrix;
use plimsoll_scenario::plan::Plan;
use plimsoll_stats::distribution::random;
use plimsoll_store::RunReader;
use prediction::predict;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs each combination of what varies in a scenario, several times, and compares them
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll sweep examples/work-e-1-devices.yaml --quick
  plimsoll sweep examples/work-e-1-devices.yaml --repeat 3 --resume

What varies stands in the scenario: matrix: { population.devices: [10, 100] }. Each
turn runs all combinations once, in an order of its own and with a new seed. The last
level of each run counts, or that of its load line. Values have 95 % intervals over
the turns.

Exit codes: 0 measured, 3 a combination has no valid run, 1 a run could not be done,
104 wrong scenario or command line, 105 interrupted.")]
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
    /// Where to write the page with the charts (default: beside the scenario)
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
type Known = HashMap<(String, String), String>;

/// What a sweep has so far.
#[derive(Default)]
struct Course {
    taken: Vec<Taken>,
    failed: u32,
    interrupted: bool,
}

impl Sweeping {
    pub fn perform(self) -> Result<u8, Failure> {
        let matrix = self.matrix(1)?;
        if matrix.axes.is_empty() {
            return Err(Failure::Usage(
                "the scenario has no `matrix`: write what varies, as in `matrix: { population.devices: [10, 100] }`, \
                 or run it with `plimsoll run`"
                    .into(),
            ));
        }
        let known = if self.resume { stored(&self.store.store)? } else { Known::new() };
        let course = self.run_all(matrix.cells.len(), &known)?;
        if course.taken.is_empty() {
            return Err(match course.interrupted {
                true => Failure::Interrupted,
                false => Failure::Undoable("no run could be done".into()),
            });
        }
        let axes = matrix.axes.iter();
        let axes = axes.map(|axis| Axis { key: axis.key.clone(), values: axis.values.clone() }).collect();
        let name = matrix.cells.first().map(|cell| cell.plan.name.as_str()).unwrap_or_default();
        let mut sweep = Sweep::of(name, axes, &course.taken);
        predict(&mut sweep, &matrix);
        self.tell(&sweep)?;
        let measured = |cell: &plimsoll_analysis::sweep::Cell| {
            cell.runs.iter().any(|run| run.validity == Some(Validity::Valid))
        };
        Ok(match () {
            () if course.interrupted => exit_code::INTERRUPTED,
            () if course.failed > 0 => exit_code::UNDOABLE,
            () if !sweep.cells.iter().all(measured) => exit_code::INVALID,
            () => exit_code::MET,
        })
    }

    /// The combinations with the seed of a turn.
    fn matrix(&self, turn: u32) -> Result<Matrix, Failure> {
        self.load.with(&format!("seed={turn}")).matrix()
    }

    /// Runs every combination in every turn, until the user ends it.
    fn run_all(&self, cells: usize, known: &Known) -> Result<Course, Failure> {
        let stop = interrupt::stop_flag()
            .map_err(|error| Failure::Undoable(format!("cannot catch signals: {error}")))?;
        let mut progress = TerminalProgress::new(self.quiet);
        let mut course = Course::default();
        let all = cells as u64 * u64::from(self.repeat);
        let mut begun = 0;
        for turn in 1..=self.repeat {
            let matrix = self.matrix(turn)?;
            let names: Vec<String> =
                matrix.cells.iter().map(|cell| name_of(&matrix, &cell.position)).collect();
            let mut cells: Vec<_> = matrix.cells.into_iter().zip(names).collect();
            shuffle(&mut cells, turn);
            for (cell, name) in cells {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    course.interrupted = true;
                    return Ok(course);
                }
                begun += 1;
                let plan = Arc::new(cell.plan);
                let outcome = match self.stored_run(&plan, known)? {
                    Some(summary) => Ok((summary, true)),
                    None => perform_plan(&plan, &self.store, &mut progress, None)
                        .map(|done| (done.summary, false)),
                };
                let told = match outcome {
                    Ok((summary, _)) if summary.verdict == Verdict::Interrupted => {
                        course.interrupted = true;
                        return Ok(course);
                    }
                    Ok((summary, _)) if summary.verdict == Verdict::Failed => {
                        course.failed += 1;
                        format!("failed: {}", summary.reason)
                    }
                    Ok((summary, before)) => {
                        let taken = Taken::of(&cell.position, &summary);
                        let told = one_line(&taken);
                        course.taken.push(taken);
                        if before { format!("{told} (from the store)") } else { told }
                    }
                    // What stands in the way of one combination need not stand in that of the others.
                    Err(failure) => {
                        course.failed += 1;
                        format!("failed: {failure}")
                    }
                };
                if !self.quiet {
                    say(&format!("[{begun}/{all}] {name}: {told}\n"));
                }
            }
        }
        Ok(course)
    }

    /// A run of that plan which the store has.
    fn stored_run(&self, plan: &Plan, known: &Known) -> Result<Option<Summary>, Failure> {
        let key = (plan.resolved.clone(), plan.platform.profile.source.clone());
        let Some(id) = known.get(&key) else { return Ok(None) };
        Ok(Some(summarize(&RunReader::open(&self.store.store)?.run(id)?)))
    }

    fn tell(&self, sweep: &Sweep) -> Result<(), Failure> {
        say(&render::terminal(sweep));
        let beside = || Path::new(&self.load.what).with_extension("sweep.html");
        let report = self.report.clone().unwrap_or_else(beside);
        for (path, text) in [
            (Some(&report), page::page as fn(&Sweep) -> String),
            (self.json.as_ref(), render::json),
            (self.csv.as_ref(), render::csv),
            (self.markdown.as_ref(), render::markdown),
        ] {
            if let Some(path) = path {
                std::fs::write(path, text(sweep)).map_err(|error| Failure::unwritable(path, &error))?;
            }
        }
        say(&format!("report: {}\n", report.display()));
        Ok(())
    }
}

/// The combination for people: what varies, with its values.
fn name_of(matrix: &Matrix, position: &[usize]) -> String {
    let values = matrix.axes.iter().zip(position).filter(|(axis, _)| axis.values.len() > 1);
    let values = values.filter_map(|(axis, value)| {
        let name = axis.key.rsplit('.').next().unwrap_or(&axis.key);
        Some(format!("{name} {}", axis.values.get(*value)?))
    });
    values.collect::<Vec<_>>().join(", ")
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
    if !store.exists() {
        return Ok(known);
    }
    let reader = RunReader::open(store)?;
    for run in reader.complete(env!("CARGO_PKG_VERSION"))? {
        known.insert((run.scenario, run.profile), run.id);
    }
    Ok(known)
}
