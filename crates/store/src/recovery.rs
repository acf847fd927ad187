//! Runs whose process was killed: they have no end, although nobody goes on with them.

use crate::StoreError;
use crate::schema::{self, Patience};
use plimsoll_model::record::RunEnd;
use rusqlite::params;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Enters that runs without an end were killed, by their whole ids, and folds the log of the store into its file.
///
/// # Errors
/// The file cannot be opened or written.
pub fn close_killed(path: &Path, runs: &[String]) -> Result<(), StoreError> {
    let stop = AtomicBool::new(false);
    let is_busy = |error: &StoreError| error.is_busy();
    let mut connection =
        schema::patiently((Patience::ToKeep, &stop), is_busy, || schema::open_for_writing(path))?;
    let killed = serde_json::to_string(&RunEnd::Killed).unwrap_or_default();
    let written = schema::patiently((Patience::ToKeep, &stop), schema::is_busy, || {
        let transaction = connection.transaction()?;
        for run in runs {
            transaction
                .execute("UPDATE run SET ended = ? WHERE id = ? AND ended IS NULL", params![killed, run])?;
        }
        transaction.commit()
    });
    written.map_err(|cause| StoreError::Write { path: path.to_owned(), cause })?;
    // Another reader may prevent it.
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    Ok(())
}
