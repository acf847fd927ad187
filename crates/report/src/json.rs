//! The machine-readable summary.

use plimsoll_analysis::summary::Summary;

/// The summary as indented JSON with a final line feed.
pub fn render(summary: &Summary) -> String {
    // A summary holds nothing that JSON cannot; numbers that are no numbers become null.
    let mut text = serde_json::to_string_pretty(summary).unwrap_or_default();
    text.push('\n');
    text
}

/// The JSON Schema of the summary.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Summary).to_value()
}
