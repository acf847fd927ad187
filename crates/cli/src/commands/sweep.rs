//! `plimsoll sweep`: all runs of a scenario's matrix, and what came of each.

use super::detach_options::DetachOptions;
use super::live_options::LiveOptions;
use super::load_options::LoadOptions;
use super::outputs;
use super::run::options;
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{complain, file, say};
use crate::progress::TerminalProgress;
use clap::Args;
use plimsoll_analysis::sweep::{Cell, Quantity, Sweep as Runs, Taken};
use plimsoll_model::{Metric, Validity};
use plimsoll_report::html::sweep as page;
use plimsoll_report::sweep as render;
use plimsoll_report::text;
use plimsoll_runner::live::Followed;
use plimsoll_runner::sweep::{Place, SweepEvents, Sweeping};
use plimsoll_runner::{Options, Progress};
use std::path::{Path, PathBuf};

/// Runs each combination of what varies in a scenario, several times, and compares them
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll sweep examples/work-e-1-devices.yaml --quick
  plimsoll sweep examples/work-e-1-devices.yaml --repeat 3 --resume
  plimsoll sweep mqtt://localhost:1883 --devices 100 --rate 500 \\
      --set 'matrix.mqtt.qos=[0, 1]'

The scenario lists what varies: matrix: { population.devices: [10, 100] },
or is set: --set 'matrix.population.devices=[10, 100]'.
Each turn runs all combinations once, in an order of its own and with a new
seed. The last level of each run counts, or that of its load line. Values have
95 % intervals over the turns.

Exit codes: 0 measured, 3 a combination has no valid run, 1 a run failed, 104
wrong scenario or command line, 105 interrupted.")]
pub struct Sweep {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    store: StoreOption,
    /// How often each combination is run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Reuse stored runs of the same version, scenario and seed
    #[arg(long)]
    resume: bool,
    /// Where to write the page with the charts (default: beside the scenario; for an
    /// address: plimsoll.sweep.html)
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
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    detach: DetachOptions,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Tells of the runs of a sweep.
pub(super) struct ToldSweep {
    progress: Followed<TerminalProgress>,
    quiet: bool,
}

impl ToldSweep {
    /// Of all of them, or of failures alone.
    pub fn new(quiet: bool) -> ToldSweep {
        ToldSweep { progress: Followed::new(TerminalProgress::new(quiet), None), quiet }
    }
}

impl SweepEvents for ToldSweep {
    fn progress(&mut self) -> &mut dyn Progress {
        &mut self.progress
    }

    fn run_taken(&mut self, place: &Place, taken: &Taken, was_stored: bool) {
        if !self.quiet {
            let from = if was_stored { " (stored)" } else { "" };
            let told = format!("{}: {}{from}", numbered(place), one_line(taken));
            say(&format!("{}\n", text::wrapped(&told, "  ").join("\n").trim_start()));
        }
    }

    fn run_failed(&mut self, place: &Place, why: &str) {
        complain(&format!("{}: failed: {why}", numbered(place)));
    }
}

fn numbered(place: &Place) -> String {
    let name = if place.name.is_empty() { "run" } else { &place.name };
    format!("[{}/{}] {name}", place.number, place.of)
}

impl Sweep {
    pub fn perform(self) -> Result<u8, Failure> {
        let _lock = self.detach.begin()?;
        let matrix = self.load.matrix()?;
        if matrix.axes.is_empty() {
            return Err(Failure::Usage(
                "nothing varies: say what does, in the scenario by `matrix: { population.devices: [10, 100] }`, else by \
                 `--set 'matrix.population.devices=[10, 100]'`; `plimsoll run` is for one run"
                    .into(),
            ));
        }
        self.check_outputs()?;
        let (turns, resume, quick) = (self.repeat, self.resume, self.load.is_quick());
        let sweeping = Sweeping { matrix: &matrix, turns, resume, quick };
        let watched = self.live.begin()?;
        let progress = watched.follow(TerminalProgress::new(self.quiet));
        let options = Options { live: watched.live(), ..options(&self.store)? };
        let swept = sweeping.run(&options, &mut ToldSweep { progress, quiet: self.quiet });
        watched.finish();
        let swept = swept?;
        let Some(sweep) = swept.sweep else {
            return Err(match (swept.interrupted, swept.failures.into_iter().next()) {
                (true, _) => Failure::Interrupted(super::run::KEPT),
                (false, why) => Failure::Undoable(why.unwrap_or_else(|| "no run could be done".into())),
            });
        };
        self.tell(&sweep)?;
        let measured = |cell: &Cell| cell.runs.iter().any(|run| run.validity == Some(Validity::Valid));
        Ok(match () {
            () if swept.interrupted => exit_code::INTERRUPTED,
            () if !swept.failures.is_empty() => exit_code::UNDOABLE,
            () if !sweep.cells.iter().all(measured) => exit_code::INVALID,
            () => exit_code::MET,
        })
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
            ("--now", self.live.file()),
        ];
        outputs::check(Some(&self.store.store), &self.load.files_read(), &outputs)
    }

    /// Writes what came of it to all files, whatever becomes of one, and prints it.
    fn tell(&self, sweep: &Runs) -> Result<(), Failure> {
        let page_path = self.page();
        let mut written = Ok(());
        for (path, text) in [
            (Some(&page_path), page::page as fn(&Runs) -> String),
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

/// What a run found, in a line.
fn one_line(taken: &Taken) -> String {
    let Some(level) = &taken.level else { return "nothing was measured".into() };
    let achieved = level.achieved.map_or("-".into(), |rate| format!("{}/s", text::count(rate)));
    let time = text::time(level.times[Metric::PublishTime].p50);
    match level.validity {
        Validity::Valid => format!("{achieved}, {} {time}", Quantity::PublishTimeMedian.name()),
        other => {
            format!("{achieved}, left out: {} (`plimsoll show {}` says why)", other.in_words(), taken.run)
        }
    }
}
