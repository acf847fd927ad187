//! WallClock-clock time of what happened in a run, for tools that know no other.

use jiff::Timestamp;
use plimsoll_model::Nanos;
use plimsoll_model::record::Provenance;

/// Turns the run's clock into time since 1970. The wall clock is read once, at time zero: corrections of it within the run
/// do not show.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    zero: i64,
}

impl WallClock {
    /// Of a run. One that was stored by an earlier version is known to the time between its begin and its time zero.
    pub fn of(provenance: &Provenance) -> WallClock {
        let begin = || provenance.started.parse::<Timestamp>().ok();
        let begin = || begin().and_then(|begin| i64::try_from(begin.as_nanosecond()).ok());
        WallClock { zero: provenance.wall_epoch.or_else(begin).unwrap_or(0) }
    }

    /// Seconds since 1970.
    pub fn seconds(self, at: Nanos) -> f64 {
        (Nanos(self.zero) + at).as_secs_f64()
    }

    /// As RFC 3339 in UTC.
    pub fn written(self, at: Nanos) -> String {
        let at = Timestamp::from_nanosecond(i128::from((Nanos(self.zero) + at).0));
        at.map(|at| format!("{at:.3}")).unwrap_or_default()
    }

    /// Milliseconds since 1970.
    pub fn millis(self, at: Nanos) -> i64 {
        (Nanos(self.zero) + at).0.div_euclid(1_000_000)
    }
}
