//! What a capacity search is asked to do.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A search for the load line, in place of levels that are listed beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTerms {
    /// The first level, in operations per second.
    pub from: f64,
    /// No level is above this, in operations per second.
    pub to: f64,
    /// How far the lowest missed level may lie above the load line, as a fraction of it.
    pub tolerance: f64,
    /// No level is begun that could end later than this after the first one began.
    pub time: Nanos,
    /// Load before each hold that is not counted.
    pub warm_up: Nanos,
    /// Measured time of a level; one that decided nothing is repeated with a longer one.
    pub hold: Nanos,
    /// Longest wait for stragglers after a hold.
    pub drain: Nanos,
}

impl SearchTerms {
    /// The longest that a level with such a hold takes.
    pub fn longest(&self, hold: Nanos) -> Nanos {
        self.warm_up + hold + self.drain
    }
}
