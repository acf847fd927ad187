//! What components of a platform may use at most.

use crate::quantity::{AsText, Duration, Memory};
use serde::{Deserialize, Serialize};

/// What a component may use at most: processors, or processors and memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Quota {
    /// Processors: `0.5` is half of one.
    Processors(f64),
    /// One of them or both.
    Limits(Limits),
}

/// Limits of a component.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Processors: `0.5` is half of one. Default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<f64>,
    /// Memory, the pages of files that it reads and writes included, such as `256 MiB`. If the component needs more, the kernel
    /// kills it. Default any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<AsText<Memory>>,
    /// The time in which processors are shared out, from `1ms` to `1s`. A component that has used its share waits until the next
    /// period begins. A short one makes short waits. Default `100ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
}
