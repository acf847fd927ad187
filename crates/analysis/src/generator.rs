//! How the load generator itself fared.

use crate::time_summary::{TimeSummary, observed};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The load generator's own health.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Generator {
    /// Ready minus due; null where nothing was due.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub lateness: TimeSummary,
    /// For how long the load thread was at work while an operation was late, of operations that were late by more than 0.5 ms; null
    /// where none was.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub at_work_when_late: TimeSummary,
    /// Read minus received by the kernel; null where nothing was received.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub receiver_lag: TimeSummary,
    /// Processor use of each load thread, 1 for a whole processor; null where it could not be read.
    pub cpu: Vec<Option<f64>>,
    /// Share of the time that load threads were runnable without a processor.
    pub run_delay: Option<f64>,
    /// Share of the time that the hypervisor took from the load threads' processors.
    pub steal: Option<f64>,
    /// Processor time of all load threads per million operations sent, in seconds.
    pub cpu_per_million: Option<f64>,
}
