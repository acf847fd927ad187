//! What was learned from captures: as a scenario, for the terminal, as JSON.

mod scenario;
mod terminal;
mod trace;

use plimsoll_analysis::learning::Learned;
pub use scenario::scenario;
pub use terminal::terminal;
pub use trace::trace;

/// The JSON Schema of what was learned.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Learned).to_value()
}

/// What was learned as indented JSON with a final line feed.
pub fn json(learned: &Learned) -> String {
    // What was learned holds nothing that JSON cannot.
    let mut text = serde_json::to_string_pretty(learned).unwrap_or_default();
    text.push('\n');
    text
}
