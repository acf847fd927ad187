//! What a component may use at most.

use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a component may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaPlan {
    /// Processors; `None` for any.
    pub processors: Option<f64>,
    /// Memory in bytes; `None` for any.
    pub memory: Option<u64>,
    /// The time in which processors are shared out: what it does not use of one period is lost; `None` for that of the kernel.
    pub period: Option<Nanos>,
}

impl fmt::Display for QuotaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1024.0 * 1024.0;
        let processors = self.processors.map(|processors| format!("{processors} processors"));
        let processors = match (processors, self.period) {
            (Some(processors), Some(period)) => {
                Some(format!("{processors} in each {} ms", period.as_secs_f64() * 1e3))
            }
            (processors, _) => processors,
        };
        let memory =
            self.memory.map(|bytes| format!("{} MiB of memory", (bytes as f64 / MIB * 10.0).round() / 10.0));
        f.write_str(&processors.into_iter().chain(memory).collect::<Vec<_>>().join(" and "))
    }
}
