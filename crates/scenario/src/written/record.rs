//! What is recorded beside counts and times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is recorded beside counts and times.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Record {
    /// The message log: one record for each message that was taken up, with its stamps and its fate, about 100 bytes in
    /// the run store. `export --format messages` gives it.
    pub messages: bool,
    /// The age of the newest value of each device at each subscriber, as time goes by. An objective on freshness switches
    /// it on.
    pub freshness: bool,
    /// The network's own round trip, four times a second: a connection of TCP to the platform's address that is closed at
    /// once, or refused. It tells a slow network from a slow platform.
    pub network: bool,
}

impl Default for Record {
    fn default() -> Record {
        Record { messages: false, freshness: false, network: true }
    }
}
