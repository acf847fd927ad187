//! How far runs of a configuration lay from what was predicted of it, as the run store keeps it.

use serde::{Deserialize, Serialize};

/// A prediction that was set beside runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanResidual {
    /// The platform's profile.
    pub platform: String,
    /// The configuration, for people.
    pub configuration: String,
    /// The runs that the prediction started from, by their ids.
    pub basis: Vec<String>,
    /// The runs of the configuration, by their ids.
    pub checks: Vec<String>,
    /// The logarithm of what was measured / what was predicted, each in the middle of its ends.
    pub residual: f64,
    /// The logarithm of the factor by which what was measured lay outside what was predicted; zero within.
    pub outside: f64,
}
