//! One HTML file that opens offline.

use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::RunRecord;

/// The report of a run.
pub fn render(_record: &RunRecord, summary: &Summary) -> String {
    crate::json::render(summary)
}
