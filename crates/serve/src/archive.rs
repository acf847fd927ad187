//! What the run store holds, as the page shows it. Verdicts are those of the analysis; those of runs that ended are kept, since they do
//! not change.

use crate::annotation_page::DeletedRun;
use crate::fields::Fields;
use jiff::{SignedDuration, Timestamp};
use plimsoll_analysis::compare::Comparison;
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::RunId;
use plimsoll_model::record::RunRecord;
use plimsoll_report::series::Occurrence;
use plimsoll_report::terminal::load_line;
use plimsoll_runner::comparison::comparison;
use plimsoll_runner::stored::{observed, series};
use plimsoll_store::{Annotation, RunListing, RunReader, StoreError, annotate, mark_deleted, purge};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Runs on a page of the list.
pub const PER_PAGE: usize = 50;

/// Most runs of a history.
const MOST_OF_NAME: usize = 100;
/// How long a deleted run can be restored.
const RESTORABLE: SignedDuration = SignedDuration::from_hours(24);

/// The store.
pub struct Archive {
    store: PathBuf,
    /// What runs that ended came to, by their ids.
    known: Mutex<HashMap<String, Outcome>>,
}

/// A run in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// Wall-clock begin, RFC 3339.
    pub started: String,
    /// Levels begun.
    pub levels: u32,
    /// What it came to.
    pub outcome: Outcome,
    /// What people added to it.
    pub annotation: Annotation,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its verdict by its name in the summary; `unreadable` where the run cannot be read.
    pub verdict: &'static str,
    /// The verdict for people.
    pub word: &'static str,
    /// Its load line for people.
    pub load_line: Option<String>,
    /// Its load line.
    pub line: Option<LoadLine>,
}

/// Which runs are asked for. All that is empty asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A text that the name or a tag holds, or that the id begins with.
    pub text: String,
    /// A verdict, by its name in the summary.
    pub verdict: String,
    /// The first day, `2026-11-30`.
    pub from: String,
    /// The last day.
    pub to: String,
    /// The page of the list, from 0 for the newest runs.
    pub page: usize,
}

/// A page of the list, the newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// The runs.
    pub rows: Vec<Row>,
    /// How many there are on all pages.
    pub all: usize,
    /// How many were deleted, and are on none.
    pub deleted: usize,
}

/// A run with what it came to.
pub struct Told {
    /// Everything that was recorded.
    pub record: RunRecord,
    /// What it means.
    pub summary: Summary,
}

impl Archive {
    /// Of that store, which need not be there yet.
    pub fn new(store: PathBuf) -> Archive {
        Archive { store, known: Mutex::default() }
    }

    /// Where the store is.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// A page of the runs that are asked for.
    ///
    /// # Errors
    /// The store cannot be read. A store that is not there yet has no runs.
    pub fn list(&self, wanted: &Wanted) -> Result<Listed, StoreError> {
        let reader = match RunReader::open(&self.store) {
            Ok(reader) => reader,
            Err(StoreError::NoRuns { .. }) => return Ok(Listed::default()),
            Err(error) => return Err(error),
        };
        let annotations = reader.annotations()?;
        let of = |run: &RunListing| annotations.get(&run.id).cloned().unwrap_or_default();
        let deleted = annotations.values().filter(|annotation| annotation.deleted.is_some()).count();
        let is_shown = |run: &RunListing| of(run).deleted.is_none() && wanted.fits(run, &of(run).tags);
        let mut runs: Vec<RunListing> = reader.runs()?.into_iter().filter(is_shown).collect();
        runs.reverse();
        let row = |run: &RunListing| self.row(&reader, run, of(run));
        let first = wanted.page.saturating_mul(PER_PAGE);
        if wanted.verdict.is_empty() {
            // Without a look at the others.
            let rows = runs.iter().skip(first).take(PER_PAGE).map(row).collect();
            return Ok(Listed { rows, all: runs.len(), deleted });
        }
        let rows: Vec<Row> =
            runs.iter().map(row).filter(|row| row.outcome.verdict == wanted.verdict).collect();
        let all = rows.len();
        Ok(Listed { rows: rows.into_iter().skip(first).take(PER_PAGE).collect(), all, deleted })
    }

    /// The runs of a name, the newest last.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn history(&self, name: &str) -> Result<Vec<Row>, StoreError> {
        let reader = RunReader::open(&self.store)?;
        let mut annotations = reader.annotations()?;
        let runs: Vec<RunListing> = reader.runs()?.into_iter().filter(|run| run.name == name).collect();
        let row = |run: &RunListing| {
            let annotation = annotations.remove(&run.id).unwrap_or_default();
            annotation.deleted.is_none().then(|| self.row(&reader, run, annotation))
        };
        Ok(runs.iter().skip(runs.len().saturating_sub(MOST_OF_NAME)).filter_map(row).collect())
    }

    /// What people added to a run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn annotation(&self, id: RunId) -> Result<Annotation, StoreError> {
        let mut all = RunReader::open(&self.store)?.annotations()?;
        Ok(all.remove(&id.to_string()).unwrap_or_default())
    }

    /// Keeps the tags and the note of a run.
    ///
    /// # Errors
    /// There is none, or the store cannot be written.
    pub fn annotate(&self, id: RunId, tags: &[String], note: &str) -> Result<(), StoreError> {
        annotate(&self.store, &id.to_string(), tags, note)
    }

    /// Marks a run as deleted by now, or takes the mark away.
    ///
    /// # Errors
    /// There is none, or the store cannot be written.
    pub fn mark_deleted(&self, id: RunId, is_deleted: bool) -> Result<(), StoreError> {
        let now = is_deleted.then(|| Timestamp::now().to_string());
        mark_deleted(&self.store, &id.to_string(), now.as_deref())
    }

    /// The deleted runs, the newest first.
    ///
    /// # Errors
    /// The store cannot be read. A store that is not there yet has no runs.
    pub fn deleted(&self) -> Result<Vec<DeletedRun>, StoreError> {
        let reader = match RunReader::open(&self.store) {
            Ok(reader) => reader,
            Err(StoreError::NoRuns { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut annotations = reader.annotations()?;
        if annotations.values().all(|annotation| annotation.deleted.is_none()) {
            return Ok(Vec::new());
        }
        let deleted = |run: RunListing| {
            let when = annotations.remove(&run.id)?.deleted?;
            Some(DeletedRun { id: run.id, name: run.name, when })
        };
        let mut runs: Vec<DeletedRun> = reader.runs()?.into_iter().filter_map(deleted).collect();
        runs.reverse();
        Ok(runs)
    }

    /// Removes the runs from the store that were deleted long enough ago, as long as the host is idle.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn purge(&self, is_idle: impl Fn() -> bool) -> Result<(), StoreError> {
        let limit = Timestamp::now().checked_sub(RESTORABLE).unwrap_or_default();
        for run in self.deleted()? {
            let is_due = run.when.parse::<Timestamp>().is_ok_and(|when| when < limit);
            if is_due && purge(&self.store, &run.id, &is_idle)? {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.id);
            }
        }
        Ok(())
    }

    /// A run by its whole id.
    ///
    /// # Errors
    /// There is none, or the store cannot be read.
    pub fn run(&self, id: RunId) -> Result<Told, StoreError> {
        let record = observed(RunReader::open(&self.store)?.run_of_id(&id.to_string())?);
        let summary = summarize(&record);
        Ok(Told { record, summary })
    }

    /// Runs beside each other.
    ///
    /// # Errors
    /// One of them is not there, or the store cannot be read.
    pub fn comparison(&self, runs: Vec<RunId>) -> Result<Comparison, StoreError> {
        let records = runs.into_iter().map(|run| self.run(run).map(|told| told.record));
        Ok(comparison(&records.collect::<Result<Vec<RunRecord>, StoreError>>()?))
    }

    /// All runs of the schedule that a run belongs to; none where it belongs to none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn series(&self, record: &RunRecord) -> Result<Vec<Occurrence>, StoreError> {
        let runs = series(&RunReader::open(&self.store)?, record)?;
        Ok(runs.into_iter().map(|(started, summary)| Occurrence { started, summary }).collect())
    }

    fn row(&self, reader: &RunReader, run: &RunListing, annotation: Annotation) -> Row {
        Row {
            id: run.id.clone(),
            name: run.name.clone(),
            started: run.started.clone(),
            levels: run.levels,
            outcome: self.outcome(reader, run),
            annotation,
        }
    }

    fn outcome(&self, reader: &RunReader, run: &RunListing) -> Outcome {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = known().get(&run.id) {
            return outcome.clone();
        }
        let outcome = match reader.run_of_id(&run.id).map(observed) {
            Ok(record) => outcome(&summarize(&record)),
            Err(_) => Outcome { verdict: "unreadable", word: "unreadable", load_line: None, line: None },
        };
        if run.end.is_some() {
            known().insert(run.id.clone(), outcome.clone());
        }
        outcome
    }
}

fn outcome(summary: &Summary) -> Outcome {
    let line = summary.load_line.clone();
    let told = line.as_ref().map(|line| {
        let least = if line.at_least { "at least " } else { "" };
        format!("{least}{}", load_line(line))
    });
    Outcome { verdict: summary.verdict.name(), word: summary.verdict_word(), load_line: told, line }
}

impl Wanted {
    /// What a query asks for.
    pub fn of(query: &Fields) -> Wanted {
        let [text, verdict, from, to] =
            ["text", "verdict", "from", "to"].map(|name| query.get(name).to_owned());
        Wanted { text, verdict, from, to, page: query.get("page").parse().unwrap_or_default() }
    }

    fn fits(&self, run: &RunListing, tags: &[String]) -> bool {
        let text = self.text.trim();
        let is_tagged = || tags.iter().any(|tag| tag.contains(text));
        let named = text.is_empty() || run.name.contains(text) || run.id.starts_with(text) || is_tagged();
        // Days of RFC 3339 in UTC are ordered as texts are.
        let day = run.started.get(..10).unwrap_or_default();
        let since = self.from.is_empty() || day >= self.from.as_str();
        let until = self.to.is_empty() || day <= self.to.as_str();
        named && since && until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, name: &str, started: &str) -> RunListing {
        RunListing {
            id: id.into(),
            name: name.into(),
            started: started.into(),
            end: None,
            series: None,
            process: None,
            levels: 1,
        }
    }

    #[test]
    fn runs_are_found_by_name_id_and_day() {
        let of = run("3vk1a81x", "city-night", "2026-11-30T11:00:00Z");
        let wanted = |text: &str, from: &str, to: &str| Wanted {
            text: text.into(),
            from: from.into(),
            to: to.into(),
            ..Wanted::default()
        };
        for (text, from, to, fits) in [
            ("", "", "", true),
            (" night ", "", "", true),
            ("3vk1", "", "", true),
            ("vk1a", "", "", false),
            ("day", "", "", false),
            ("nigh", "", "", true),
            ("cold", "", "", true),
            ("", "2026-11-30", "2026-11-30", true),
            ("", "2026-12-01", "", false),
            ("", "", "2026-11-29", false),
        ] {
            assert_eq!(
                wanted(text, from, to).fits(&of, &["cold-disk".to_owned()]),
                fits,
                "{text} {from} {to}"
            );
        }
    }

    #[test]
    fn a_store_that_is_not_there_yet_has_no_runs() {
        let archive = Archive::new("/nowhere/plimsoll.db".into());
        assert_eq!(archive.list(&Wanted::default()).unwrap(), Listed::default());
        assert!(archive.run(RunId::from_bits(1)).is_err());
    }
}
