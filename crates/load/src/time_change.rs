//! Due times under a rate that changes. Arrivals are drawn in a time of their own, in which their rate is the mean of the hold, and
//! each is moved to where the curve has offered as much by then (Lewis and Shedler, Naval Research Logistics 26, 1979; Çinlar,
//! Introduction to Stochastic Processes, 4.7). Of a Poisson process that gives exactly the Poisson process with the curve's rate, and
//! of any other law the same law in the time in which the load passes evenly.

use plimsoll_model::{LoadCurve, Nanos};

/// From the time in which arrivals are drawn to the time from the beginning of the warm-up.
pub(crate) struct TimeChange {
    pieces: Vec<Piece>,
    /// The piece of the last arrival: they come in order.
    at: usize,
    /// When the hold ends.
    end: Nanos,
}

/// A straight piece of the curve. Times are nanoseconds, and rates are parts of the mean.
struct Piece {
    begin: f64,
    length: f64,
    first: f64,
    last: f64,
    /// How much time of the arrivals has passed before it, and passes in it.
    before: f64,
    within: f64,
}

impl TimeChange {
    /// Along a curve, after a warm-up at its first rate.
    pub fn of(curve: &LoadCurve, warm_up: Nanos) -> TimeChange {
        let mean = curve.mean();
        let first = curve.first();
        let before = ((Nanos::ZERO, first), (warm_up, first));
        let hold =
            curve.pieces().map(|(one, other)| ((warm_up + one.0, one.1), (warm_up + other.0, other.1)));
        let mut passed = 0.0;
        let mut end = Nanos::ZERO;
        let pieces = std::iter::once(before).chain(hold).map(|(from, to)| {
            let (begin, length) = (from.0.0 as f64, (to.0 - from.0).0 as f64);
            let (first, last) = (from.1 / mean, to.1 / mean);
            let within = length * f64::midpoint(first, last);
            let piece = Piece { begin, length, first, last, before: passed, within };
            passed += within;
            end = to.0;
            piece
        });
        let pieces = pieces.collect();
        TimeChange { pieces, at: 0, end }
    }

    /// When the last arrival is drawn at most.
    pub fn drawn_until(&self) -> Nanos {
        self.pieces.last().map_or(Nanos::ZERO, |last| Nanos((last.before + last.within) as i64))
    }

    /// When an arrival is due that was drawn at that time, which is no earlier than those before.
    pub fn due(&mut self, drawn: Nanos) -> Nanos {
        let drawn = drawn.0 as f64;
        let is_behind = |piece: &Piece| drawn >= piece.before + piece.within;
        while self.at + 1 < self.pieces.len() && self.pieces.get(self.at).is_some_and(is_behind) {
            self.at += 1;
        }
        let due =
            self.pieces.get(self.at).map_or(0.0, |piece| piece.begin + piece.passed(drawn - piece.before));
        Nanos(due as i64).min(self.end - Nanos(1))
    }
}

impl Piece {
    /// After which time so much time of the arrivals has passed in it.
    fn passed(&self, within: f64) -> f64 {
        let slope = (self.last - self.first) / self.length.max(1.0);
        // The root of a quadratic equation in the form that loses no digits where the slope is small.
        let divisor = self.first + (self.first * self.first + 2.0 * slope * within).max(0.0).sqrt();
        if divisor > 0.0 { (2.0 * within / divisor).min(self.length) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: fn(i64) -> Nanos = Nanos::from_secs;

    /// 100/s for ten seconds, silence for ten, then up to 400/s within twenty.
    fn curve() -> LoadCurve {
        let points = [(0, 100.0), (10, 100.0), (10, 0.0), (20, 0.0), (40, 400.0)];
        LoadCurve::new(&points.map(|(at, rate)| (SECOND(at), rate)), SECOND(40)).unwrap()
    }

    #[test]
    fn each_part_of_the_load_has_its_time() {
        // 5,000 operations in 40 s, of which 1,000 come in the first ten.
        let mut change = TimeChange::of(&curve(), SECOND(2));
        assert_eq!(curve().mean(), 125.0);
        let drawn = |operations: f64| Nanos::from_secs_f64(operations / 125.0);
        let mut due = |operations: f64| change.due(drawn(operations)).as_secs_f64();
        for (operations, at) in
            [(0.0, 0.0), (200.0, 2.0), (700.0, 7.0), (1_199.0, 11.99), (1_200.0, 22.0), (2_200.0, 32.0)]
        {
            assert!((due(operations) - at).abs() < 1e-6, "{operations}: {}", due(operations));
        }
        assert!((due(5_199.9) - 42.0).abs() < 1e-3);
        assert!((change.drawn_until().as_secs_f64() - 5_200.0 / 125.0).abs() < 1e-6);
    }

    #[test]
    fn a_level_load_stays_where_it_is() {
        let flat = LoadCurve::new(&[(SECOND(0), 70.0), (SECOND(9), 70.0)], SECOND(9)).unwrap();
        let mut change = TimeChange::of(&flat, SECOND(1));
        for millis in [0, 1, 999, 1_000, 5_432, 9_998] {
            let drawn = Nanos::from_millis(millis);
            assert!((change.due(drawn) - drawn).0.abs() <= 1, "{millis}");
        }
    }
}
