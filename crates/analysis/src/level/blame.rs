//! Who is to blame that a level was not met.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Who is to blame, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Blame {
    /// Who.
    pub culprit: Culprit,
    /// The component, where it is known which one.
    pub component: Option<String>,
    /// It in one clause, for a headline: `worker lost 139 of 3209 deliveries`.
    pub claim: String,
    /// What shows it, for people.
    pub evidence: String,
}

/// Who can be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Culprit {
    /// The platform.
    Platform,
    /// The way between us and the platform.
    Network,
    /// Both of them.
    PlatformAndNetwork,
    /// The load generator.
    Generator,
    /// Our subscribers.
    Receiver,
    /// The host of the generator or of the platform.
    Host,
    /// A fault that the scenario planned: the platform met its objectives before it, and again after it.
    PlannedFault,
    /// It cannot be said.
    Unknown,
}

impl Culprit {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Culprit::Platform => "the platform",
            Culprit::Network => "the network",
            Culprit::PlatformAndNetwork => "the platform and the network",
            Culprit::Generator => "the load generator",
            Culprit::Receiver => "our subscribers",
            Culprit::Host => "the host",
            Culprit::PlannedFault => "a planned fault",
            Culprit::Unknown => "not known",
        }
    }
}
