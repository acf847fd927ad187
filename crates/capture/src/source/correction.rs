//! The clock of another host, put right: captures of several hosts become one only on one clock.

use plimsoll_model::Nanos;

/// By how much a clock was ahead of the one that counts, as it was measured again and again. Between two measurements it is taken to
/// have changed evenly, and before the first and after the last one not at all. Where the clock was set between two measurements, times
/// around that moment are wrong by as much as it was set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Correction {
    /// What the clock showed, and by how much it was ahead then; in order.
    points: Vec<(Nanos, Nanos)>,
}

impl Correction {
    /// From what the clock showed at each measurement, and by how much it was ahead then.
    pub fn new(mut points: Vec<(Nanos, Nanos)>) -> Correction {
        points.sort_unstable();
        Correction { points }
    }

    /// The right time of what happened when the clock showed that.
    pub fn right(&self, shown: Nanos) -> Nanos {
        let after = self.points.partition_point(|(at, _)| *at <= shown);
        let before = after.checked_sub(1).and_then(|place| self.points.get(place));
        let ahead = match (before, self.points.get(after)) {
            (Some((from, first)), Some((to, last))) => {
                let part = (shown - *from).0 as f64 / (*to - *from).0 as f64;
                *first + Nanos(((*last - *first).0 as f64 * part).round() as i64)
            }
            (Some((_, ahead)), None) | (None, Some((_, ahead))) => *ahead,
            (None, None) => Nanos::ZERO,
        };
        shown - ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_drifts_is_followed_and_one_that_was_never_measured_is_right() {
        let drifting = Correction::new(vec![(Nanos(3_000), Nanos(300)), (Nanos(1_000), Nanos(100))]);
        let right = |shown| drifting.right(Nanos(shown)).0;
        assert_eq!([0, 1_000, 2_000, 3_000, 4_000].map(right), [-100, 900, 1_800, 2_700, 3_700]);
        assert_eq!(Correction::default().right(Nanos(7)), Nanos(7));
    }

    #[test]
    fn of_two_measurements_at_once_the_larger_one_counts() {
        let twice = Correction::new(vec![(Nanos(5), Nanos(9)), (Nanos(5), Nanos(2))]);
        assert_eq!(twice.right(Nanos(5)), Nanos(-4));
    }
}
