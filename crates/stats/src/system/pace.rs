//! Whether workers work or stand still, and until when that is so.

use crate::queue::Stall;
use plimsoll_model::Nanos;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// They work until then at least.
    Works(Nanos),
    /// They stand still until then at least.
    Stands(Nanos),
}

impl Pace {
    /// Of a stall's schedule at `now`.
    pub fn of_stall(stall: Stall, now: Nanos) -> Pace {
        let every = stall.every.0.max(1);
        let begin = Nanos(now.0.div_euclid(every)) * every;
        let end = begin + stall.length;
        if begin > Nanos::ZERO && now < end { Pace::Stands(end) } else { Pace::Works(begin + stall.every) }
    }

    /// What holds where two schedules apply: they work while both let them.
    pub fn and(self, other: Pace) -> Pace {
        match (self, other) {
            (Pace::Works(one), Pace::Works(two)) => Pace::Works(one.min(two)),
            (stands @ Pace::Stands(_), _) | (_, stands) => stands,
        }
    }
}
