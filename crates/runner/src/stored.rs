//! Runs as they stand in a store: whether they still go on, and which belong to one schedule.

use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::RunRecord;
use plimsoll_observe::process::is_alive;
use plimsoll_store::{RunReader, StoreError};

/// A run as it was stored, with whether it still goes on.
pub fn observed(mut record: RunRecord) -> RunRecord {
    record.goes_on = record.end.is_none() && record.provenance.process.as_deref().is_some_and(is_alive);
    record
}

/// When each run of the schedule began that a run belongs to (RFC 3339), and what it came to, in the order of time; none where it
/// belongs to none.
///
/// # Errors
/// The store is damaged.
pub fn series(reader: &RunReader, record: &RunRecord) -> Result<Vec<(String, Summary)>, StoreError> {
    let first = record.provenance.series.as_ref().unwrap_or(&record.id);
    let listed = reader.runs()?;
    if !listed.iter().any(|run| run.series.as_ref() == Some(first)) {
        return Ok(Vec::new());
    }
    let of_series = listed.iter().filter(|run| run.id == *first || run.series.as_ref() == Some(first));
    let summarized = of_series
        .map(|run| Ok((run.started.clone(), plimsoll_analysis::summarize(&reader.run_of_id(&run.id)?))));
    summarized.collect()
}
