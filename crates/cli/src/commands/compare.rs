//! `plimsoll compare`: runs side by side, or scenarios run in turns and then compared.

use super::detach_options::DetachOptions;
use super::live_options::LiveOptions;
use super::load_options::LoadOptions;
use super::outputs;
use super::run::options;
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{file, say};
use crate::progress::TerminalProgress;
use clap::Args;
use plimsoll_model::record::RunRecord;
use plimsoll_report::compare as render;
use plimsoll_report::html::compare as page;
use plimsoll_runner::comparison::{Candidate, TurnError, TurnEvents, comparison, run_in_turns};
use plimsoll_runner::live::Followed;
use plimsoll_runner::{Options, Outcome, Progress};
use plimsoll_store::RunReader;
use std::path::{Path, PathBuf};

/// Compares runs of the same load on several platforms, mappings or settings
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll compare 3vk1 a81x
  plimsoll compare examples/quickstart.yaml mine.yaml --repeat 5 --html out.html

Runs of equal scenarios are repeats of one candidate. A difference is claimed
only of repeats in turns, with a 95 % interval over runs. Of scenario files,
each runs that often, in turns, with a new seed at each turn.")]
pub struct Compare {
    /// Runs (ids, their beginnings, or names of scenarios), or scenario files to be run first
    #[arg(value_name = "RUN|SCENARIO.yaml", required = true, num_args = 1..)]
    what: Vec<String>,
    #[command(flatten)]
    store: StoreOption,
    /// How often each scenario file is run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Sets any key of every scenario, as in --set load.hold=10s (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set the keys under `quick` of every scenario, for short runs
    #[arg(long)]
    quick: bool,
    /// Write the comparison as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    json: Option<PathBuf>,
    /// Write it as one HTML file
    #[arg(long, value_name = "FILE.html", value_parser = file())]
    html: Option<PathBuf>,
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

impl Compare {
    pub fn perform(self) -> Result<u8, Failure> {
        let _lock = self.detach.begin()?;
        let mut read: Vec<PathBuf> = Vec::new();
        let mut candidates = Vec::new();
        for file in self.what.iter().filter(|what| is_file(what)) {
            let options = LoadOptions::brief(file.clone(), self.set.clone(), None, None).quickly(self.quick);
            options.plan()?;
            candidates.push(Candidate { name: file.clone(), scenario: options.matrix()? });
            read.extend(options.files_read());
        }
        let outputs = [
            ("--json", self.json.as_deref()),
            ("--html", self.html.as_deref()),
            ("--markdown", self.markdown.as_deref()),
            ("--now", self.live.file()),
        ];
        outputs::check(Some(&self.store.store), &read, &outputs)?;
        let comparison = comparison(&self.records(&candidates)?);
        say(&render::terminal(&comparison));
        for (path, text) in [
            (&self.json, render::json(&comparison)),
            (&self.html, page::page(&comparison)),
            (&self.markdown, render::markdown(&comparison)),
        ] {
            if let Some(path) = path {
                outputs::write(path, &text)?;
            }
        }
        Ok(exit_code::MET)
    }

    /// The runs that are named, and those of the scenario files once they have been run.
    fn records(&self, candidates: &[Candidate]) -> Result<Vec<RunRecord>, Failure> {
        let named = self.what.iter().filter(|what| !is_file(what));
        let mut ids: Vec<String> = named.cloned().collect();
        if !candidates.is_empty() {
            let watched = self.live.begin()?;
            let progress = watched.follow(TerminalProgress::new(self.quiet));
            let options = Options { live: watched.live(), ..options(&self.store)? };
            let events = &mut ToldTurns { progress, quiet: self.quiet };
            let ran = run_in_turns(candidates, self.repeat, &options, events);
            watched.finish();
            ids.extend(ran?);
        }
        let reader = RunReader::open(&self.store.store)?;
        ids.iter().map(|id| Ok(reader.run(id)?)).collect()
    }
}

/// Tells of the runs of scenario files.
struct ToldTurns {
    progress: Followed<TerminalProgress>,
    quiet: bool,
}

impl TurnEvents for ToldTurns {
    fn progress(&mut self) -> &mut dyn Progress {
        &mut self.progress
    }

    fn run_ended(&mut self, name: &str, outcome: &Outcome) {
        if !self.quiet {
            let (id, verdict) = (&outcome.record.id, outcome.summary.verdict.name());
            say(&format!("{name}: run {id} {verdict}\n"));
        }
    }
}

impl From<TurnError> for Failure {
    fn from(error: TurnError) -> Failure {
        match error {
            TurnError::Scenario(error) => error.into(),
            TurnError::Run(error) => error.into(),
            TurnError::Failed { .. } => Failure::Undoable(error.to_string()),
            TurnError::Interrupted => Failure::Interrupted(super::run::KEPT),
        }
    }
}

fn is_file(what: &str) -> bool {
    what.ends_with(".yaml") || what.ends_with(".yml") || Path::new(what).is_file()
}
