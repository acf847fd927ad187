//! The plain types that every other crate speaks in: time, identifiers, the ledger, metrics and what a run
//! records. Nothing here does I/O, and nothing here knows a protocol or a platform.

pub mod arrival_trace;
pub mod cost;
pub mod counts;
pub mod curve;
pub mod experiment;
pub mod fault;
pub mod formats;
pub mod histogram;
pub mod host_check;
pub mod ids;
pub mod load;
pub mod message;
pub mod metric;
pub mod objective;
pub mod plan_check;
pub mod record;
pub mod samples;
pub mod search;
pub mod text;
pub mod time;
pub mod verdict;
pub mod wire;

pub use arrival_trace::ArrivalTrace;
pub use counts::Counts;
pub use curve::LoadCurve;
pub use histogram::Histogram;
pub use ids::{DeviceId, LevelIndex, RunId};
pub use load::Load;
pub use metric::Metric;
pub use time::Nanos;
pub use verdict::{Validity, Verdict};
