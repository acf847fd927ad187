//! Faults that a scenario plans: what goes wrong on purpose, where and when, and what was done in fact.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FaultKind {
    /// The component is killed (SIGKILL) and started again when the fault ends.
    Kill,
    /// The component is asked to end (SIGTERM) and started again at once.
    Restart,
    /// All processes of the component are stopped (SIGSTOP), and continued when the fault ends.
    Pause,
    /// The component keeps a share of the processor time that it may use.
    Processor {
        /// That share.
        keep: f64,
    },
    /// Each process of the component may have no more data than that.
    Memory {
        /// In bytes.
        limit: u64,
    },
    /// The folder of the component's files is full.
    Disk {
        /// Bytes that the folder has in all.
        size: u64,
    },
    /// All connections to the component are reset, new ones too, and datagrams are lost.
    Cut,
    /// What is sent on connections that exist vanishes, and nobody sees an end; new connections get nowhere until the fault ends.
    HalfOpen,
    /// What is sent to the component and comes from it takes longer.
    Delay {
        /// Each way.
        delay: Nanos,
        /// What is added at most, drawn uniformly.
        jitter: Nanos,
    },
    /// The ways to and from the component carry so many bits a second, which all connections share.
    Rate {
        /// Bits a second, each way.
        bits: u64,
    },
    /// Packets to and from the component get lost.
    Loss {
        /// The share of them.
        share: f64,
    },
}

impl FaultKind {
    /// Its name in scenarios and results.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Restart => "restart",
            FaultKind::Pause => "pause",
            FaultKind::Processor { .. } => "processor",
            FaultKind::Memory { .. } => "memory",
            FaultKind::Disk { .. } => "disk",
            FaultKind::Cut => "cut",
            FaultKind::HalfOpen => "half_open",
            FaultKind::Delay { .. } => "delay",
            FaultKind::Rate { .. } => "rate",
            FaultKind::Loss { .. } => "loss",
        }
    }

    /// Whether it happens on the way to the component, in a relay.
    pub fn is_on_the_way(self) -> bool {
        matches!(
            self,
            FaultKind::Cut
                | FaultKind::HalfOpen
                | FaultKind::Delay { .. }
                | FaultKind::Rate { .. }
                | FaultKind::Loss { .. }
        )
    }

    /// Whether the component ends by it.
    pub fn ends_component(self) -> bool {
        matches!(self, FaultKind::Kill | FaultKind::Restart)
    }
}

/// A fault as it is planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// The component that has it, or to which the way leads.
    pub component: String,
    /// What.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// When it begins, from the beginning of the hold.
    pub at: Nanos,
    /// How long it lasts; zero of a restart, which lasts as long as the component takes.
    pub length: Nanos,
}

impl PlannedFault {
    /// When it ends, from the beginning of the hold.
    pub fn end(&self) -> Nanos {
        self.at + self.length
    }
}

/// In one clause, for people: `mosquitto is stopped (SIGSTOP)`.
impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.component;
        match self.kind {
            FaultKind::Kill => write!(f, "{name} is killed"),
            FaultKind::Restart => write!(f, "{name} is restarted"),
            FaultKind::Pause => write!(f, "{name} is stopped"),
            FaultKind::Processor { keep } => {
                write!(f, "{name} keeps {} of its processor time", percent(keep))
            }
            FaultKind::Memory { limit } => {
                let limit = in_units(limit, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1, "bytes")]);
                write!(f, "each process of {name} may have {limit} of data")
            }
            FaultKind::Disk { .. } => write!(f, "the folder of {name} is full"),
            FaultKind::Cut => write!(f, "connections to {name} are cut"),
            FaultKind::HalfOpen => write!(f, "connections to {name} are half-open"),
            FaultKind::Delay { delay, jitter: Nanos::ZERO } => {
                write!(f, "the way to {name} takes {delay} longer, each way")
            }
            FaultKind::Delay { delay, jitter } => {
                write!(f, "the way to {name} takes {delay} and up to {jitter} longer, each way")
            }
            FaultKind::Rate { bits } => {
                let bits = in_units(bits, &[(1_000_000, "Mbit"), (1_000, "kbit"), (1, "bit")]);
                write!(f, "the way to {name} carries {bits}/s, each way")
            }
            FaultKind::Loss { share } => {
                write!(f, "the way to {name} loses {} of the packets", percent(share))
            }
        }
    }
}

/// A number in the first of those units of which it is a whole number.
fn in_units(number: u64, units: &[(u64, &str)]) -> String {
    let unit = units.iter().find(|(size, _)| number.is_multiple_of(*size));
    unit.map_or(number.to_string(), |(size, name)| format!("{} {name}", number / size))
}

fn percent(share: f64) -> String {
    let percent = (share * 1e6).round() / 1e4;
    format!("{percent} %")
}

/// What was done of a planned fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// When it began in fact, on the run's clock; `None` where it did not, or nobody reported it.
    pub began: Option<Nanos>,
    /// When it ended in fact; `None` as above.
    pub ended: Option<Nanos>,
    /// By which means, for people.
    #[serde(default)]
    pub means: String,
    /// Why it could not be done as planned, for people; `None` where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl FaultRecord {
    /// From when to when it was there; `None` where that is not known.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        self.began.zip(self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_described_by_what_happens() {
        let fault = |kind| {
            PlannedFault { component: "broker".into(), kind, at: Nanos::ZERO, length: Nanos::ZERO }
                .to_string()
        };
        assert_eq!(fault(FaultKind::Loss { share: 0.05 }), "the way to broker loses 5 % of the packets");
        assert_eq!(
            fault(FaultKind::Rate { bits: 200_000 }),
            "the way to broker carries 200 kbit/s, each way"
        );
        assert!(fault(FaultKind::Memory { limit: 64 << 20 }).ends_with("may have 64 MiB of data"));
        assert_eq!(fault(FaultKind::Processor { keep: 0.2 }), "broker keeps 20 % of its processor time");
    }
}
