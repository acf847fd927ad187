//! What a capture says: in the terminal, and as exchanges for other tools.

pub mod csv;
pub mod otlp;
pub mod parquet;
pub mod terminal;

use plimsoll_analysis::dissection::DissectionSummary;

/// The summary as indented JSON with a final line feed.
pub fn json(summary: &DissectionSummary) -> String {
    // A summary holds nothing that JSON cannot.
    let mut text = serde_json::to_string_pretty(summary).unwrap_or_default();
    text.push('\n');
    text
}

/// The JSON Schema of the summary.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(DissectionSummary).to_value()
}
