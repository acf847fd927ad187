//! What a run stores while it goes on, without anybody's secrets, and shows to programs that watch it.

use crate::Live;
use crate::live::Ended;
use crate::secrets::Secrets;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::RunId;
use plimsoll_model::record::Measurement;
use plimsoll_store::{Added, RunPosition, RunWriter, StoreError};
use std::sync::Arc;

/// Collects measurements and stores them. After the first failure of the store nothing more is written.
pub struct Recording<'a> {
    writer: &'a mut RunWriter,
    pending: Vec<Measurement>,
    failure: Option<StoreError>,
    pub secrets: Secrets,
    live: Option<Arc<Live>>,
}

impl<'a> Recording<'a> {
    /// Into that store.
    pub fn new(writer: &'a mut RunWriter, secrets: Secrets, live: Option<Arc<Live>>) -> Recording<'a> {
        Recording { writer, pending: Vec::new(), failure: None, secrets, live }
    }

    /// Stores what the reader of the result must know of the run.
    pub fn note(&mut self, note: &str) {
        if self.failure.is_none() {
            self.failure = self.writer.add_note(self.secrets.hide(note)).err();
        }
    }

    /// Takes measurements in, to be stored with the next ones.
    pub fn add(&mut self, measurements: impl IntoIterator<Item = Measurement>) {
        let first = self.pending.len();
        self.pending.extend(measurements);
        if let Some(live) = &self.live {
            self.pending.iter().skip(first).for_each(|measurement| live.add(measurement));
        }
    }

    /// Shows how a level was judged.
    pub fn level_ended(&self, level: &LevelSummary) {
        if let Some(live) = &self.live {
            let ended = Ended {
                load: level.load.to_string(),
                achieved: level.achieved,
                verdict: level.verdict.name(),
            };
            live.level_ended(level.index, ended);
        }
    }

    /// Stores what was taken in.
    pub fn store(&mut self) {
        if self.failure.is_none() && !self.pending.is_empty() {
            self.failure = self.writer.append(&self.pending).err();
        }
        self.pending.clear();
    }

    /// Whether the store has taken everything so far.
    pub fn is_fine(&self) -> bool {
        self.failure.is_none()
    }

    /// What was recorded of the run since that position.
    ///
    /// # Errors
    /// The store is damaged or gone.
    pub fn added(&self, id: RunId, position: &mut RunPosition) -> Result<Added, StoreError> {
        self.writer.reader().added(&id.to_string(), position)
    }

    /// Stores what was taken in; the first failure of the store, if there was one.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.store();
        self.failure.map_or(Ok(()), Err)
    }
}
