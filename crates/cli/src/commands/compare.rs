//! `plimsoll compare`: runs side by side, or scenarios run in turns and then compared.

use super::load_options::LoadOptions;
use super::outputs;
use super::run::perform_scenario;
use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{file, say};
use clap::Args;
use plimsoll_analysis::compare::{Compared, compare};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::RunRecord;
use plimsoll_report::compare as render;
use plimsoll_scenario::{Source, read_profile};
use plimsoll_store::RunReader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Facts of the host that repeats share.
const HOST_FACTS: [&str; 3] = ["processor", "cores", "kernel"];

/// Compares runs of the same load on several platforms, mappings or settings
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll compare 3vk1 a81x
  plimsoll compare examples/quickstart.yaml mine.yaml --repeat 5 --html out.html

Runs of equal scenarios are repeats of one candidate. A difference is claimed
only of repeats in turns, with a 95 % interval over runs. Of scenario files,
each is run so often, in turns, with a new seed at each turn.")]
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
    /// Write the comparison as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    json: Option<PathBuf>,
    /// Write it as one HTML file
    #[arg(long, value_name = "FILE.html", value_parser = file())]
    html: Option<PathBuf>,
    /// Write it as Markdown
    #[arg(long, value_name = "FILE.md", value_parser = file())]
    markdown: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

impl Compare {
    pub fn perform(self) -> Result<u8, Failure> {
        let mut read: Vec<PathBuf> = Vec::new();
        for file in self.what.iter().filter(|what| is_file(what)) {
            let options = LoadOptions::brief(file.clone(), self.set.clone(), None, None);
            options.plan()?;
            read.extend(options.files_read());
        }
        let outputs = [
            ("--json", self.json.as_deref()),
            ("--html", self.html.as_deref()),
            ("--markdown", self.markdown.as_deref()),
        ];
        outputs::check(Some(&self.store.store), &read, &outputs)?;
        let records = self.records()?;
        let summaries: Vec<Summary> = records.iter().map(plimsoll_analysis::summarize).collect();
        let keys: Vec<String> = records.iter().map(key).collect();
        let runs: Vec<Compared<'_>> = records
            .iter()
            .zip(&summaries)
            .zip(&keys)
            .map(|((record, summary), key)| Compared {
                key,
                platform: platform(record),
                settings: settings(record),
                started: &record.provenance.started,
                summary,
                qualities: qualities(record),
            })
            .collect();
        let comparison = compare(&runs);
        say(&render::terminal(&comparison));
        for (path, text) in [
            (&self.json, render::json(&comparison)),
            (&self.html, render::page(&comparison)),
            (&self.markdown, render::markdown(&comparison)),
        ] {
            if let Some(path) = path {
                outputs::write(path, &text)?;
            }
        }
        Ok(exit_code::MET)
    }

    /// The runs that are named, and those of the scenario files once they have been run.
    fn records(&self) -> Result<Vec<RunRecord>, Failure> {
        let (files, named): (Vec<&String>, Vec<&String>) = self.what.iter().partition(|what| is_file(what));
        let mut ids: Vec<String> = named.into_iter().cloned().collect();
        for turn in 1..=self.repeat {
            for file in &files {
                let mut set = self.set.clone();
                set.push(format!("seed={turn}"));
                ids.push(perform_scenario((*file).clone(), set, &self.store, self.quiet)?);
            }
        }
        let reader = RunReader::open(&self.store.store)?;
        ids.iter().map(|id| Ok(reader.run(id)?)).collect()
    }
}

fn is_file(what: &str) -> bool {
    what.ends_with(".yaml") || what.ends_with(".yml") || Path::new(what).is_file()
}

/// What repeats of one candidate have in common: all that was asked for, of the same platform by the same program on the
/// same host.
fn key(record: &RunRecord) -> String {
    let from = &record.provenance;
    let host = HOST_FACTS.map(|fact| from.host.get(fact).cloned().unwrap_or_default());
    [&without_seed(&record.scenario), &from.profile, &from.plimsoll, &host.join(" ")]
        .map(String::as_str)
        .join("\n")
}

/// The scenario without its seed, which repeats do not share.
fn without_seed(scenario: &str) -> String {
    let lines = scenario.lines().filter(|line| !line.starts_with("seed:"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The platform, and its mapping where it has several.
fn platform(record: &RunRecord) -> String {
    let platform = &record.provenance.platform;
    let profile = platform.get("profile").cloned().unwrap_or_else(|| record.name.clone());
    match platform.get("mapping") {
        Some(mapping) => format!("{profile}/{mapping}"),
        None => profile,
    }
}

/// What was asked for, and of whom: what tells candidates apart is among these.
fn settings(record: &RunRecord) -> BTreeMap<String, String> {
    let from = &record.provenance;
    let mut settings = plimsoll_scenario::settings(&record.scenario);
    settings.insert("Plimsoll".into(), from.plimsoll.clone());
    let facts =
        HOST_FACTS.into_iter().filter_map(|fact| Some((fact.to_owned(), from.host.get(fact)?.clone())));
    settings.extend(facts);
    settings
}

/// What the run's profile says beside numbers; nothing where this version cannot read it any more.
fn qualities(record: &RunRecord) -> BTreeMap<String, String> {
    let source = Source { name: "profile".into(), text: record.provenance.profile.clone() };
    read_profile(source, &|_| Ok(String::new())).map(|profile| profile.qualities).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_no_part_of_what_is_compared() {
        assert_eq!(without_seed("name: a\nseed: 1\nload:\n  seed: 2"), "name: a\nload:\n  seed: 2");
    }
}
