//! Rates as a scenario may ask for them.

use crate::context::Context;
use crate::quantity::Rate;

/// Highest rate, in operations or connections per second.
pub(super) const HIGHEST_RATE: f64 = 1e7;

/// Whether a rate is usable; reports it where not.
pub(super) fn check_rate(Rate(rate): Rate, path: &str, context: &mut Context<'_>) -> bool {
    let fine = rate > 0.0 && rate <= HIGHEST_RATE;
    if rate <= 0.0 {
        context.error(path, "a rate must be above zero");
    } else if !fine {
        context.error(path, "a rate can be 10 million per second at most");
    }
    fine
}
