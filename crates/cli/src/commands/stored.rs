//! What the commands on stored runs have in common.

use crate::failure::Failure;
use clap::Args;
use plimsoll_model::record::RunRecord;
use plimsoll_observe::process::is_alive;
use plimsoll_report::series::Occurrence;
use plimsoll_store::RunReader;
use std::path::{Path, PathBuf};

/// The run store.
#[derive(Args)]
pub struct StoreOption {
    /// The run store
    #[arg(long, value_name = "FILE", default_value = "plimsoll.db", env = "PLIMSOLL_STORE")]
    pub store: PathBuf,
}

/// A run in a store.
#[derive(Args)]
pub struct StoredRun {
    /// The run: its id or the beginning of it, or `last`. The name of a scenario stands
    /// for its latest run
    #[arg(value_name = "RUN", default_value = "last")]
    run: String,
    #[command(flatten)]
    store: StoreOption,
}

/// A run as it was stored, with whether it still goes on.
pub fn observed(mut record: RunRecord) -> RunRecord {
    record.goes_on = record.end.is_none() && record.provenance.process.as_deref().is_some_and(is_alive);
    record
}

impl StoredRun {
    /// Reads it.
    pub fn read(&self) -> Result<RunRecord, Failure> {
        Ok(observed(self.open()?.run(&self.run)?))
    }

    /// All runs of the schedule that a run belongs to, in the order of time; none where it belongs to none.
    pub fn series(&self, record: &RunRecord) -> Result<Vec<Occurrence>, Failure> {
        let reader = self.open()?;
        let first = record.provenance.series.as_ref().unwrap_or(&record.id);
        let listed = reader.runs()?;
        if !listed.iter().any(|run| run.series.as_ref() == Some(first)) {
            return Ok(Vec::new());
        }
        let mut runs = Vec::new();
        for run in listed.iter().filter(|run| run.id == *first || run.series.as_ref() == Some(first)) {
            let summary = plimsoll_analysis::summarize(&reader.run_of_id(&run.id)?);
            runs.push(Occurrence { started: run.started.clone(), summary });
        }
        Ok(runs)
    }

    /// The store that holds it.
    pub fn store(&self) -> &Path {
        &self.store.store
    }

    /// Opens the store that holds it.
    pub fn open(&self) -> Result<RunReader, Failure> {
        Ok(RunReader::open(&self.store.store)?)
    }
}
