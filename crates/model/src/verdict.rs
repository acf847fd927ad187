//! What a run and a level are judged to be.

use serde::{Deserialize, Serialize};

/// Whose limit a level met (rule 2 of the measurement rules).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// The platform was what was measured.
    #[default]
    Valid,
    /// The generator could not keep up with its own plan.
    GeneratorBound,
    /// Our subscribers could not read as fast as deliveries came.
    ReceiverBound,
    /// The host took the processor away from our threads.
    HostBound,
    /// Times from one worker to another one are less certain than an objective needs.
    ClockBound,
    /// The run was interrupted within the level, and resumed with it later.
    Interrupted,
}

impl Validity {
    /// The name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Validity::Valid => "valid",
            Validity::GeneratorBound => "generator_bound",
            Validity::ReceiverBound => "receiver_bound",
            Validity::HostBound => "host_bound",
            Validity::ClockBound => "clock_bound",
            Validity::Interrupted => "interrupted",
        }
    }

    /// The name for people: `host bound`.
    pub fn in_words(self) -> String {
        self.name().replace('_', " ")
    }
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least one level met its objectives, and the load line is where it was asked to be.
    Met,
    /// Every level missed an objective, or the load line is below `objectives.load_line`.
    Missed,
    /// The generator, a receiver, the host or the length of the measurement was the limit where the answer lies.
    Invalid,
    /// The run could not be done.
    Failed,
    /// The user stopped the run; what was measured is kept.
    Interrupted,
    /// The run still goes on; what was measured so far is shown.
    Running,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 6] = [
        Verdict::Met,
        Verdict::Missed,
        Verdict::Invalid,
        Verdict::Failed,
        Verdict::Interrupted,
        Verdict::Running,
    ];

    /// The name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::Invalid => "invalid",
            Verdict::Failed => "failed",
            Verdict::Interrupted => "interrupted",
            Verdict::Running => "running",
        }
    }
}
