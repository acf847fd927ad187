//! `plimsoll runs`: what is in the run store.

use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;
use clap::builder::PossibleValuesParser;
use plimsoll_model::Verdict;
use plimsoll_observe::process::is_alive;
use plimsoll_report::listing::{self, Listed};
use plimsoll_runner::stored::observed;
use plimsoll_store::{RunListing, RunReader, StoreError, close_killed};

/// Lists the stored runs, the newest last: how each ended, and its load line
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll runs
  plimsoll runs quickstart --verdict missed
  plimsoll runs --last 5 --json
  plimsoll runs --recover

Exit code: 0, also where no run is listed.")]
pub struct Runs {
    /// Only runs whose name holds this text, or whose id begins with it
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Only runs with this verdict
    #[arg(long, value_parser = PossibleValuesParser::new(Verdict::ALL.map(Verdict::name)))]
    verdict: Option<String>,
    /// List only the N newest runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// As a JSON array
    #[arg(long)]
    json: bool,
    /// Close runs whose process was killed on this host: what they had measured is
    /// their result
    #[arg(long, conflicts_with_all = ["verdict", "last", "json"])]
    recover: bool,
    #[command(flatten)]
    store: StoreOption,
}

impl Runs {
    pub fn perform(self) -> Result<u8, Failure> {
        let reader = match RunReader::open(&self.store.store) {
            Ok(reader) => reader,
            Err(StoreError::NoRuns { path }) => {
                let none = format!("no runs yet in {}\n", path.display());
                say(if self.json { "[]\n" } else { &none });
                return Ok(exit_code::MET);
            }
            Err(error) => return Err(error.into()),
        };
        let is_asked_for = |run: &RunListing| {
            self.text.as_ref().is_none_or(|text| run.name.contains(text) || run.id.starts_with(text))
        };
        let mut runs: Vec<RunListing> = reader.runs()?.into_iter().filter(is_asked_for).collect();
        if self.recover {
            return self.recovered(&reader, &runs);
        }
        let last = self.last.map_or(usize::MAX, |last| last as usize);
        if self.verdict.is_none() {
            // Without a look at the others.
            runs.drain(..runs.len().saturating_sub(last));
        }
        let summaries = runs.into_iter().map(|run| {
            let record = reader.run_of_id(&run.id).ok().map(observed);
            let summary = record.map(|record| plimsoll_analysis::summarize(&record));
            Listed {
                run: run.id,
                name: run.name,
                started: run.started,
                levels: run.levels,
                series: run.series,
                summary,
            }
        });
        let mut listed: Vec<Listed> = summaries.filter(|listed| self.has_verdict(listed)).collect();
        listed.drain(..listed.len().saturating_sub(last));
        say(&match listed.is_empty() {
            _ if self.json => listing::json(&listed),
            true => self.none(),
            false => listing::table(&listed),
        });
        Ok(exit_code::MET)
    }

    /// Closes those of the runs whose process is gone.
    fn recovered(&self, reader: &RunReader, runs: &[RunListing]) -> Result<u8, Failure> {
        let is_killed =
            |run: &&RunListing| run.end.is_none() && !run.process.as_deref().is_some_and(is_alive);
        let mut lines = String::new();
        let mut killed = Vec::new();
        for run in runs.iter().filter(is_killed) {
            let record = reader.run_of_id(&run.id)?;
            let whole = record.levels.iter().filter(|level| level.end.is_some()).count();
            lines += &format!(
                "recovered: {} [run {}]: levels that came to their end: {whole} of {} that were begun; `plimsoll run SCENARIO --resume \
                 {}` goes on\n",
                run.name,
                run.id,
                record.levels.len(),
                run.id
            );
            killed.push(run.id.clone());
        }
        if killed.is_empty() {
            say(&format!("no run was cut short in {}\n", self.store.store.display()));
            return Ok(exit_code::MET);
        }
        close_killed(&self.store.store, &killed)?;
        say(&lines);
        Ok(exit_code::MET)
    }

    /// That no run is what was asked for.
    fn none(&self) -> String {
        let named = self.text.as_ref().map(|text| format!(" is named {text}"));
        let judged = self.verdict.as_ref().map(|verdict| format!(" is {verdict}"));
        let asked: Vec<String> = named.into_iter().chain(judged).collect();
        format!("no run{} in {}\n", asked.join(" and"), self.store.store.display())
    }

    fn has_verdict(&self, listed: &Listed) -> bool {
        let Some(wanted) = &self.verdict else { return true };
        listed.summary.as_ref().is_some_and(|summary| summary.verdict.name() == wanted)
    }
}
