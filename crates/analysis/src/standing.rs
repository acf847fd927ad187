//! How a level stands with an objective by all that is known of it.

use crate::clear;
use crate::clocks;
use crate::curve;
use crate::level::LevelSummary;
use crate::objective::{self, Standing};
use plimsoll_model::objective::Objective;
use plimsoll_model::record::LevelRecord;

/// Judges one objective by all that is known: where a quantile does not exist, by the observations beyond its bound.
pub fn standing(objective: &Objective, level: &LevelSummary, record: &LevelRecord) -> Standing {
    let (level, record) = objective::about(objective, level, record);
    let doubt = clocks::doubt(objective, level);
    if doubt > 0.0 && level.curve.is_some() {
        // A curve is judged time by time, without intervals that could be widened.
        return Standing::Refused(clocks::refusal(objective, &objective.key(), doubt));
    }
    if let Some(standing) = curve::beside_spike(objective, level) {
        return standing;
    }
    // Along a curve, it holds at each time.
    if let Some(missed) = level.curve.as_ref().and_then(|curve| curve.missed(objective)) {
        return Standing::Missed(missed);
    }
    match objective::judge(objective, level) {
        Standing::Undecided(why) => match clear::is_clear_of_few(objective, level, record) {
            Some(reason) => Standing::Missed(reason),
            None => Standing::Undecided(why),
        },
        standing => standing,
    }
}
