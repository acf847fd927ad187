//! How the gaps between operations are distributed.

use serde::{Deserialize, Serialize};

/// Distribution of the gaps between operations; the mean gap follows from the level.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// Exponential gaps: a Poisson process.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gaps spread evenly around their mean.
    Uniform(UniformGaps),
    /// Normal gaps, truncated to positive values.
    Normal(NormalGaps),
    /// Gamma-distributed gaps.
    Gamma(GammaGaps),
    /// The times of messages in a file, played as fast as the level says (docs/load-shapes.md).
    Trace(TraceFile),
}

/// Gaps spread evenly around their mean.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct UniformGaps {
    /// Half width as a fraction of the mean, from 0 to 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub spread: f64,
}

/// Normal gaps, truncated to positive values.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NormalGaps {
    /// Standard deviation divided by mean, above 0 and up to 10, before truncation.
    #[cfg_attr(test, schemars(range(max = 10), extend("exclusiveMinimum" = 0)))]
    pub cv: f64,
}

/// Gamma-distributed gaps.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct GammaGaps {
    /// Shape, 0.01 at least: 1 is a Poisson process, larger is more regular, smaller burstier.
    #[cfg_attr(test, schemars(range(min = 0.01, max = 1_000_000)))]
    pub shape: f64,
}

/// The times of messages in a CSV file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceFile {
    /// A CSV file with a line for each message, in the order of its column `time`, in seconds. It may have a column `device`, the name or
    /// number of who sends, and a column `population`.
    pub file: String,
    /// Messages of this population alone, by the column `population`. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<String>,
}

/// Where arrivals are drawn: one process for the population, or one for each device with its share of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Per {
    Population,
    Device,
}
