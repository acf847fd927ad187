//! Runs to be compared: scenarios that are run in turns, and what tells stored runs apart.

use crate::{Options, Outcome, Progress, RunError, run};
use plimsoll_analysis::compare::{Compared, Comparison, compare};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;
use plimsoll_model::record::RunRecord;
use plimsoll_scenario::{Diagnostics, Matrix, SourceFile, read_profile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Facts of the host that repeats share.
const HOST_FACTS: [&str; 3] = ["processor", "cores", "kernel"];

/// A scenario that is run to be compared.
pub struct Candidate {
    /// What the user calls it.
    pub name: String,
    /// The scenario, in which nothing varies.
    pub scenario: Matrix,
}

/// What is told of runs in turns while they go on.
pub trait TurnEvents {
    /// Follows the run that goes on.
    fn progress(&mut self) -> &mut dyn Progress;
    /// A run of the candidate of that name is over.
    fn run_ended(&mut self, name: &str, outcome: &Outcome);
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The scenario is wrong.
    #[error("{0}")]
    Scenario(#[from] Diagnostics),
    /// A run could not be done.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A platform could not be reached, or ended.
    #[error("{name}: {reason}")]
    Failed {
        /// The candidate.
        name: String,
        /// What was said of it.
        reason: String,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// Runs each candidate so often, in turns; each turn has a seed of its own. The ids of the runs.
///
/// # Errors
/// The first run that failed or was interrupted, for nothing can be compared with it.
pub fn run_in_turns(
    candidates: &[Candidate],
    turns: u32,
    options: &Options,
    events: &mut dyn TurnEvents,
) -> Result<Vec<String>, TurnError> {
    let mut ids = Vec::new();
    for turn in 1..=turns {
        for Candidate { name, scenario } in candidates {
            let position = scenario.positions().next().unwrap_or_default();
            let plan = Arc::new(scenario.plan(&position, turn.into())?);
            let outcome = run(&plan, options, events.progress())?;
            events.run_ended(name, &outcome);
            match outcome.summary.verdict {
                Verdict::Failed => {
                    let (name, reason) = (name.clone(), outcome.summary.reason);
                    return Err(TurnError::Failed { name, reason });
                }
                Verdict::Interrupted => return Err(TurnError::Interrupted),
                _ => ids.push(outcome.record.id),
            }
        }
    }
    Ok(ids)
}

/// Runs side by side.
pub fn comparison(records: &[RunRecord]) -> Comparison {
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
    compare(&runs)
}

/// What repeats of one candidate have in common: all that was asked for, of the same versions of the same platform by the
/// same program on the same host.
fn key(record: &RunRecord) -> String {
    let from = &record.provenance;
    let host = HOST_FACTS.map(|fact| from.host.get(fact).cloned().unwrap_or_default());
    let versions: Vec<String> = versions(record).map(|(key, version)| format!("{key} {version}")).collect();
    [&without_seed(&record.scenario), &from.profile, &from.plimsoll, &host.join(" "), &versions.join("\n")]
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
    settings.extend(versions(record));
    settings
}

/// What the platform's components say of their versions, by keys like those of settings.
fn versions(record: &RunRecord) -> impl Iterator<Item = (String, String)> + '_ {
    let facts = record.provenance.platform.iter().filter(|(name, _)| name.ends_with(" version"));
    facts.map(|(name, version)| (format!("platform.{name}"), version.clone()))
}

/// What the run's profile says beside numbers; nothing where this version cannot read it any more.
fn qualities(record: &RunRecord) -> BTreeMap<String, String> {
    let source = SourceFile { name: "profile".into(), text: record.provenance.profile.clone() };
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
