//! What a component may use at most.

use std::fmt;

/// What a component that the profile starts may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaPlan {
    /// Processors; `None` for any.
    pub processors: Option<f64>,
    /// Memory in bytes; `None` for any.
    pub memory: Option<u64>,
}

impl fmt::Display for QuotaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1024.0 * 1024.0;
        let processors = self.processors.map(|processors| format!("{processors} processors"));
        let memory =
            self.memory.map(|bytes| format!("{} MiB of memory", (bytes as f64 / MIB * 10.0).round() / 10.0));
        f.write_str(&processors.into_iter().chain(memory).collect::<Vec<_>>().join(" and "))
    }
}
