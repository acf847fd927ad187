//! What the commands on stored runs have in common.

use crate::failure::Failure;
use clap::Args;
use plimsoll_model::record::RunRecord;
use plimsoll_report::series::Occurrence;
use plimsoll_runner::stored::{observed, series};
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

impl StoredRun {
    /// Reads it.
    pub fn read(&self) -> Result<RunRecord, Failure> {
        Ok(observed(self.open()?.run(&self.run)?))
    }

    /// All runs of the schedule that a run belongs to, in the order of time; none where it belongs to none.
    pub fn series(&self, record: &RunRecord) -> Result<Vec<Occurrence>, Failure> {
        let runs = series(&self.open()?, record)?;
        Ok(runs.into_iter().map(|(started, summary)| Occurrence { started, summary }).collect())
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
