//! Time on the run's clock.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

/// Nanoseconds: either a point on the run's monotonic clock (zero is the run's epoch) or a signed span
/// between two such points. Signed, because a delivery may precede the acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

impl Nanos {
    /// The epoch, or no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any time of a run (292 years).
    pub const MAX: Nanos = Nanos(i64::MAX);

    /// Whole microseconds.
    pub const fn from_micros(micros: i64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: i64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: i64) -> Nanos {
        Nanos(seconds.saturating_mul(1_000_000_000))
    }

    /// Seconds, rounded to the nearest nanosecond and saturating at the ends of the clock.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as i64)
    }

    /// Seconds as a floating-point number.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span as a `Duration`, zero where it is negative.
    pub fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0.max(0) as u64)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Mul<i64> for Nanos {
    type Output = Nanos;
    fn mul(self, factor: i64) -> Nanos {
        Nanos(self.0.saturating_mul(factor))
    }
}

impl Div<i64> for Nanos {
    type Output = Nanos;
    fn div(self, divisor: i64) -> Nanos {
        Nanos(self.0 / divisor)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Add::add)
    }
}

/// Three significant digits with the unit that suits the size: `312 ns`, `4.05 µs`, `12.3 ms`, `1.50 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (value, unit) = match magnitude {
            0..1_000 => return write!(f, "{sign}{magnitude} ns"),
            1_000..1_000_000 => (magnitude as f64 / 1e3, "µs"),
            1_000_000..1_000_000_000 => (magnitude as f64 / 1e6, "ms"),
            _ => (magnitude as f64 / 1e9, "s"),
        };
        let decimals = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{sign}{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_three_significant_digits_in_a_fitting_unit() {
        let shown: Vec<String> = [312, 4_050, 12_345_678, 1_500_000_000, -2_000_000, 99_960_000_000]
            .map(|nanos| Nanos(nanos).to_string())
            .into();
        assert_eq!(shown, ["312 ns", "4.05 µs", "12.3 ms", "1.50 s", "-2.00 ms", "100 s"]);
    }

    #[test]
    fn saturates_instead_of_wrapping() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(1e300), Nanos::MAX);
    }
}
