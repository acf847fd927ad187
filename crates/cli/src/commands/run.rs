//! `plimsoll run`: brings the platform up, loads it, measures, stores, prints, writes the report.

use super::detach_options::DetachOptions;
use super::live_options::LiveOptions;
use super::load_options::{LoadOptions, WITHOUT_FILE};
use super::nats_options::NatsOptions;
use super::outputs;
use super::stored::StoreOption;
use crate::failure::Failure;
use crate::output::{complain, file, say};
use crate::progress::{TerminalProgress, colour};
use crate::{exit_code, interrupt};
use clap::{Arg, Args, ValueEnum};
use jiff::Zoned;
use plimsoll_analysis::summary::Summary;
use plimsoll_codec::credentials::hide_in_argument;
use plimsoll_model::text::grouped;
use plimsoll_report::series::{self, Occurrence};
use plimsoll_report::terminal::Detail;
use plimsoll_report::{github, html, json, junit, terminal};
use plimsoll_runner::fleet::{GATHERING, Place, Wanted};
use plimsoll_runner::live::Followed;
use plimsoll_runner::resume::Resume;
use plimsoll_runner::series::{SeriesEvents, run_series};
use plimsoll_runner::takeover::run_with_who_is_there;
use plimsoll_runner::{Options, Outcome, Progress, RunError};
use plimsoll_scenario::duration;
use plimsoll_scenario::plan::{Plan, SchedulePlan};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Starts or finds the platform, loads it, measures, stores, prints and writes a report
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll run examples/quickstart.yaml --summary-json out.json
  plimsoll run mqtt://localhost:1883 --devices 100 \\
      --rate 100..1500/100 --hold 30s
  plimsoll run mqtt://localhost:1883 --devices 100 --search 100..200k
  plimsoll run examples/chain.yaml --capture -v
  plimsoll run nightly.yaml --junit plimsoll.xml --format github
  plimsoll run ws://localhost/in --protocol websocket --devices 100 --rate 500
  plimsoll run city.yaml --metrics 127.0.0.1:9464
  plimsoll run weekend.yaml --resume last
  plimsoll run paper.tar.gz
  plimsoll run city.yaml --workers nats://nats.example:4222,min=4

Exit codes: 0 met, 99 objectives missed, 3 measurement invalid, 1 could not be
done, 104 wrong scenario or command line, 105 interrupted.")]
pub struct Run {
    #[command(flatten)]
    options: RunOptions,
    /// After the levels, slow each part of the platform in turn, and say which one
    /// limits the load; the command why does only that
    #[arg(long)]
    why: bool,
    /// Continue a run that was interrupted, as by a reboot: keep its finished levels,
    /// run the interrupted one again, then the others. RUN is its id or the beginning
    /// of it, or last; scenario, files and version must be the same
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
}

/// Slows each part of the platform in turn, and says which one limits the load
///
/// Many operations are in flight meanwhile. A part that is stopped for a share of the
/// time, and costs the platform the same share of its throughput, limits it. The
/// levels of the scenario are not run. Two or three parts take 3 to 10 minutes, slow or
/// many ones longer, and load.experiment.within bounds it (20 minutes). Nothing else
/// should use this machine meanwhile.
#[derive(Args)]
#[command(mut_args(of_scenarios))]
#[command(after_help = "Examples:
  plimsoll why examples/chain.yaml
  plimsoll why examples/mosquitto.yaml --set load.experiment.within=10m
  plimsoll run examples/chain.yaml --why

Exit codes: 0 the limit is known, 3 it is not known (the reason says what to
do), 99 the platform died.
1 could not be done, 104 wrong scenario or command line, 105 interrupted.")]
pub struct Why {
    #[command(flatten)]
    options: RunOptions,
}

/// An argument of a command that takes scenarios alone: options in the place of one are left out of its help.
fn of_scenarios(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "what" => argument.value_name("SCENARIO.yaml").help("Scenario file"),
        _ if argument.get_help_heading() == Some(WITHOUT_FILE) => argument.hide(true),
        _ => argument,
    }
}

/// What a run is, and what becomes of its result.
#[derive(Args)]
pub struct RunOptions {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    store: StoreOption,
    /// Where to write the machine-readable result
    #[arg(long, value_name = "FILE", value_parser = file())]
    summary_json: Option<PathBuf>,
    /// Where to write the report (default: beside the scenario; without a file:
    /// plimsoll.RUN.report.html)
    #[arg(long, value_name = "FILE.html", conflicts_with = "no_report", value_parser = file())]
    report: Option<PathBuf>,
    /// Capture packets meanwhile, and say which component took the time and lost
    /// messages; record.capture in the scenario has more settings
    #[arg(long)]
    capture: bool,
    /// Write no report
    #[arg(long)]
    no_report: bool,
    /// Where to write the result as JUnit XML: a test for the verdict, one for each
    /// level
    #[arg(long, value_name = "FILE", value_parser = file())]
    junit: Option<PathBuf>,
    /// What to print: text, or with it an annotation of GitHub Actions and the
    /// summary of its job
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Let other machines send and receive: nats://HOST:4222[,min=N][,wait=TIME] for
    /// workers at a NATS server, local:N for N processes of this one
    #[arg(long, value_name = "WHERE")]
    workers: Option<String>,
    #[command(flatten)]
    nats: NatsOptions,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    detach: DetachOptions,
    #[command(flatten)]
    amount: Amount,
}

/// For whom the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// People.
    Text,
    /// People and GitHub Actions.
    Github,
}

/// The file to which a step of GitHub Actions appends the summary of its job.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// Workers of a run at most, and those that are started on this host: each of these is a process with threads of its own, and a
/// thousand of them stop the host.
const MOST_WORKERS: usize = 10_000;
const MOST_LOCAL: usize = 64;

/// What is told of a run that the user stopped.
pub const KEPT: &str = "what was run is kept in the store";

/// A word that nobody could know before.
fn new_word() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// How much is printed.
#[derive(Args)]
pub struct Amount {
    /// Print everything: ledger, generator, components, sizes, and each level's reasons
    #[arg(short, long)]
    verbose: bool,
    /// Print the verdict in one line, and no progress
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

impl Amount {
    /// The same, for what prints a result.
    pub fn detail(&self) -> Detail {
        match (self.verbose, self.quiet) {
            (true, _) => Detail::Full,
            (_, true) => Detail::Line,
            _ => Detail::Short,
        }
    }
}

impl Run {
    pub fn perform(self) -> Result<u8, Failure> {
        let Run { mut options, why, resume } = self;
        if why {
            options.load.check_is_file()?;
            options.load = options.load.with("load.experiment.with_levels=true");
        }
        options.perform(resume.as_deref())
    }
}

impl Why {
    pub fn perform(self) -> Result<u8, Failure> {
        let Why { mut options } = self;
        options.load.check_is_file()?;
        options.load = options.load.with("load.experiment.with_levels=false");
        options.perform(None)
    }
}

impl RunOptions {
    fn perform(self, resume: Option<&str>) -> Result<u8, Failure> {
        let _lock = self.detach.begin()?;
        let mut plan = self.load.plan()?;
        if self.capture && plan.record.capture.is_none() {
            plan = self.load.with("record.capture.limit=1024MiB").plan()?;
        }
        let plan = Arc::new(plan);
        let inputs = self.load.inputs();
        let resume = resume.map(|run| Resume::of(&self.store.store, run, &plan, &inputs)).transpose()?;
        // The run has no id yet, which may be a part of the default name; any other tries out the same folder.
        let report = self.report_path("RUN");
        let written = [
            ("--summary-json", self.summary_json.as_deref()),
            ("--report", report.as_deref()),
            ("--junit", self.junit.as_deref()),
            ("--now", self.live.file()),
        ];
        outputs::check(Some(&self.store.store), &self.load.files_read(), &written)?;
        if let Some(schedule) = &plan.schedule {
            return self.perform_series(&plan, schedule);
        }
        let workers = self.workers(&plan)?;
        let watched = self.live.begin()?;
        let progress = &mut watched.follow(TerminalProgress::new(self.amount.quiet));
        let resume = resume.map(Arc::new);
        let repeats = self.load.repeats(&plan);
        let options =
            Options { live: watched.live(), inputs, resume, workers, repeats, ..options(&self.store)? };
        let outcome = run_with_who_is_there(&plan, &options, progress);
        watched.finish();
        let outcome = outcome?;
        // An output may be a pipe that nobody reads.
        interrupt::end_at_next_signal();
        let is_written = self.tell(&outcome, &[]);
        Ok(code(exit_code::of(outcome.summary.verdict), is_written))
    }

    /// The workers that the run is to have.
    fn workers(&self, plan: &Plan) -> Result<Option<Wanted>, Failure> {
        let Some(place) = &self.workers else { return Ok(None) };
        let wrong = |why: &str| {
            Failure::Usage(format!(
                "--workers {}: {why}: write nats://HOST:4222, or with ,min=2 and ,wait=5m after it, or local:2",
                hide_in_argument(place)
            ))
        };
        let count = |text: &str, most: usize| match text.parse::<usize>() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(wrong(&format!("from 1 to {} workers can be had", grouped(most as f64)))),
        };
        let place = match place.strip_prefix("local:") {
            Some(local) => Place::Local(count(local, MOST_LOCAL)?),
            None => {
                let (url, settings) = place.split_once(',').unwrap_or((place, ""));
                let (mut least, mut wait) = (1, GATHERING);
                for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
                    match setting.split_once('=') {
                        Some(("min", value)) => least = count(value, MOST_WORKERS)?,
                        Some(("wait", value)) => {
                            wait = duration(value).map_err(|why| wrong(&why))?.to_duration()
                        }
                        _ => return Err(wrong("only min and wait can be set")),
                    }
                }
                Place::At(self.nats.server(url)?, least, wait)
            }
        };
        Ok(Some(Wanted { place, source: self.load.source(plan.seed) }))
    }

    /// One run after the other, each told when it is over; the code of the worst of them.
    fn perform_series(&self, plan: &Arc<Plan>, schedule: &SchedulePlan) -> Result<u8, Failure> {
        let workers = self.workers(plan)?;
        let watched = self.live.begin()?;
        let inputs = self.load.inputs();
        let repeats = self.load.repeats(plan);
        let options = Options { live: watched.live(), inputs, workers, repeats, ..options(&self.store)? };
        let progress = watched.follow(TerminalProgress::new(self.amount.quiet));
        let mut told = ToldSeries { command: self, progress, occurrences: Vec::new(), are_written: true };
        let worst = run_series(plan, schedule, &options, &mut told);
        watched.finish();
        if told.occurrences.len() > 1 {
            say(&series::render(&told.occurrences));
        }
        if options.stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted(KEPT));
        }
        Ok(code(worst.map_or(exit_code::MET, exit_code::of), told.are_written))
    }

    /// Prints and writes how a run ended; `series` has all runs of its schedule so far. What cannot be written is told. Returns
    /// whether each file was written that the command line names.
    #[must_use]
    fn tell(&self, outcome: &Outcome, series: &[Occurrence]) -> bool {
        let Outcome { record, summary } = outcome;
        let text = terminal::render(summary, self.amount.detail(), colour());
        match self.format {
            Format::Text => say(&text),
            Format::Github => say(&github::without_commands(&text, new_word())),
        }
        let report = self.report_path(&record.id);
        let texts = [
            (self.summary_json.as_ref(), json::render(summary)),
            (self.junit.as_ref(), junit::render(summary)),
            (report.as_ref(), html::render_in_series(record, summary, series)),
        ];
        let mut told = String::new();
        let mut is_written = true;
        for (path, text) in texts {
            let Some(path) = path else { continue };
            match outputs::write(path, &text) {
                Ok(()) if report.as_ref() == Some(path) => told = format!("report: {}\n", path.display()),
                Ok(()) => {}
                Err(failure) => {
                    complain(&failure.to_string());
                    is_written &= report.as_ref() == Some(path) && self.report.is_none();
                }
            }
        }
        match self.amount.detail() {
            Detail::Line => {}
            Detail::Short => say(&format!("\n{told}more: plimsoll show {} -v\n", record.id)),
            Detail::Full => say(&told),
        }
        if self.format == Format::Github {
            self.tell_github(summary);
        }
        is_written
    }

    /// An annotation, and where a job of GitHub Actions wants one, its summary.
    fn tell_github(&self, summary: &Summary) {
        let file = self.load.file().and_then(Path::to_str);
        say(&github::annotation(summary, file));
        let Some(path) = std::env::var_os(STEP_SUMMARY).map(PathBuf::from) else { return };
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(github::markdown(summary).as_bytes()));
        if let Err(error) = written {
            complain(&Failure::unwritable(&path, &error).to_string());
        }
    }

    /// Where the report goes; nowhere where none is wanted.
    fn report_path(&self, id: &str) -> Option<PathBuf> {
        (!self.no_report).then(|| self.report.clone().unwrap_or_else(|| self.load.report_of(id)))
    }
}

/// The exit code, given that of the verdict: who asked for a file and does not get it must not take the run for a success.
const fn code(verdict: u8, is_written: bool) -> u8 {
    if verdict == exit_code::MET && !is_written { exit_code::UNDOABLE } else { verdict }
}

/// Tells of the runs of a schedule.
struct ToldSeries<'a> {
    command: &'a RunOptions,
    progress: Followed<TerminalProgress>,
    occurrences: Vec<Occurrence>,
    /// Whether each file was written that the command line names.
    are_written: bool,
}

impl SeriesEvents for ToldSeries<'_> {
    fn progress(&mut self) -> &mut dyn Progress {
        &mut self.progress
    }

    fn waits_until(&mut self, begin: &Zoned) {
        if !self.command.amount.quiet {
            complain(&format!("the next run begins at {}", begin.strftime("%Y-%m-%d %H:%M:%S %Z")));
        }
    }

    fn run_ended(&mut self, outcome: Outcome) {
        let started = outcome.record.provenance.started.clone();
        self.occurrences.push(Occurrence { started, summary: outcome.summary.clone() });
        self.are_written &= self.command.tell(&outcome, &self.occurrences);
    }

    fn run_failed(&mut self, why: RunError) {
        complain(&Failure::from(why).to_string());
    }
}

/// What every run of this program needs beside its plan.
pub fn options(store: &StoreOption) -> Result<Options, Failure> {
    let undoable = |what: &str, error: std::io::Error| Failure::Undoable(format!("{what}: {error}"));
    Ok(Options {
        program: std::env::current_exe().map_err(|error| undoable("cannot find this program", error))?,
        store: store.store.clone(),
        command: command_line(),
        series: None,
        started: None,
        stop: interrupt::stop_flag().map_err(|error| undoable("cannot catch signals", error))?,
        live: None,
        inputs: BTreeMap::new(),
        resume: None,
        workers: None,
        repeats: None,
    })
}

/// The command line as typed, with passwords and values of queries left out of addresses.
fn command_line() -> Vec<String> {
    std::env::args().map(|argument| hide_in_argument(&argument)).collect()
}
