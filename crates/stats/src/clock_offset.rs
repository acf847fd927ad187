//! How the clock of another process stands to ours: the median of some round trips, as in work E, and a line through all of them,
//! since clocks drift apart while a test goes on.

use crate::student::quantile;
use plimsoll_model::Nanos;
use plimsoll_model::record::ClockRecord;

/// Readings that are kept: the line is drawn through these.
const KEPT: usize = 512;
/// Of all round trips the shorter half counts, but so many at least.
const FEWEST: usize = 5;

/// One round trip: ours before and after, theirs in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the other one was asked.
    pub asked: Nanos,
    /// When its answer was there.
    pub answered: Nanos,
    /// What its clock showed.
    pub theirs: Nanos,
}

impl Reading {
    /// Our time in the middle, where its clock was read if both ways took equally long.
    fn middle(&self) -> Nanos {
        Nanos(self.asked.0.midpoint(self.answered.0))
    }

    /// Theirs minus ours.
    fn offset(&self) -> i64 {
        self.theirs.0.saturating_sub(self.middle().0)
    }

    /// The clock was read somewhere within this, either way.
    fn uncertainty(&self) -> Nanos {
        Nanos((self.answered - self.asked).0 / 2)
    }
}

/// How the clocks stand to each other, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Offset {
    readings: Vec<Reading>,
    line: Line,
}

/// Theirs minus ours at a time of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    at: Nanos,
    offset: f64,
    /// Their nanoseconds more in one of ours.
    drift: f64,
    /// It is right within so much.
    within: Nanos,
}

/// Clocks are faster or slower than each other by about so much; a line that is steeper is the readings' noise, unless they lie far
/// enough apart to say otherwise.
const STEADY: f64 = 1e-4;
/// Readings, and the time that they span, from which on a line through them is believed within its own interval.
const FITTED: usize = 12;
const SETTLED: Nanos = Nanos::from_secs(8);
/// What is added to what the readings say of their own error: a few of them may agree by chance, and clocks are not quite steady.
const UNSTEADY: Nanos = Nanos::from_millis(10);
/// So many standard errors are allowed for, and from one reading to the next so much time passes.
const ERRORS: f64 = 4.0;
const BETWEEN: f64 = 2e9;

impl Offset {
    /// Another round trip.
    pub fn add(&mut self, reading: Reading) {
        if self.readings.len() == KEPT {
            // The first and the last lie far apart, which is what tells the drift: those in between are thinned out.
            let mut number = 0;
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.readings.push(reading);
        let best = self.readings.iter().map(Reading::uncertainty).min().unwrap_or_default();
        let (line, offset_error, drift_error) = self.fit();
        let errors =
            ERRORS * (offset_error + if drift_error.is_finite() { drift_error * BETWEEN } else { 0.0 });
        self.line = Line { within: best + UNSTEADY + Nanos(errors as i64), ..line };
    }

    /// By how much a reading is beyond what those before allow, of fine clocks that drift apart by no more than clocks do. The clock has
    /// jumped then, as that of a virtual machine that stood still does, and what was read before says nothing of it any more.
    pub fn jump_to(&self, reading: &Reading) -> Option<Nanos> {
        let line = Line { at: reading.middle(), ..Line::default() };
        let (lowest, highest) = self.bounds(&line, STEADY);
        let (offset, width) = (reading.offset() as f64, reading.uncertainty().0 as f64 + 1.0);
        let jump = (lowest - (offset + width)).max(offset - width - highest);
        (jump > 0.0).then(|| Nanos(jump.ceil() as i64))
    }

    /// Round trips that are kept.
    pub fn count(&self) -> usize {
        self.readings.len()
    }

    /// How to turn their times into ours now.
    pub fn line(&self) -> Line {
        self.line
    }

    /// What is known.
    pub fn told(&self) -> ClockRecord {
        let mut first: Vec<&Reading> = self.readings.iter().take(5).collect();
        first.sort_by_key(|reading| reading.offset());
        let Some(middle) = first.get(first.len() / 2) else { return ClockRecord::default() };
        let (line, offset_error, drift_error) = self.fit();
        let fitted = (self.readings.len() / 2).max(FEWEST).min(self.readings.len());
        let t = quantile(fitted as f64 - 2.0).unwrap_or(1.0);
        let drift_within = if drift_error.is_finite() { (t * drift_error).min(STEADY) } else { STEADY };
        // What all readings have in common, such as a gateway that answers late, no spread among few of them shows.
        let certain = self.certain_of(&line, drift_within);
        let by_fit = t * offset_error;
        let offset_within = if self.is_fitted() { by_fit } else { by_fit.max(certain) };
        ClockRecord {
            median: Nanos(middle.offset()),
            median_within: middle.uncertainty(),
            offset: Nanos(line.offset as i64),
            offset_within: Nanos(offset_within.ceil() as i64),
            drift: line.drift * 1e6,
            drift_within: drift_error.is_finite().then_some(t * drift_error * 1e6),
            readings: self.readings.len(),
        }
    }

    /// How wrong the offset may be until so long after the last reading, however unequal the two ways of each round trip were, of clocks
    /// that drift apart by no more than clocks do. The line's own interval says nothing of what all readings have in common.
    pub fn certain(&self, later: Nanos) -> Nanos {
        if self.readings.is_empty() {
            return Nanos::MAX;
        }
        let (line, ..) = self.fit();
        let at_last = self.certain_of(&Line { drift: 0.0, ..line }, STEADY);
        Nanos((at_last + STEADY * later.0 as f64).ceil() as i64)
    }

    /// Whether a line through the readings says more than the round trips alone.
    fn is_fitted(&self) -> bool {
        let span = self.readings.last().zip(self.readings.first());
        let span = span.map_or(Nanos::ZERO, |(last, first)| last.middle() - first.middle());
        self.readings.len() >= FITTED && span >= SETTLED
    }

    /// How wrong a line can be at its own time, if the clocks drift apart by no more than that: each reading was made somewhere
    /// between its question and its answer, however its two ways differ.
    fn certain_of(&self, line: &Line, drift_within: f64) -> f64 {
        let (lowest, highest) = self.bounds(line, drift_within);
        (line.offset - lowest).abs().max((highest - line.offset).abs())
    }

    /// Between which values the offset is at the line's own time.
    fn bounds(&self, line: &Line, drift_within: f64) -> (f64, f64) {
        let bounds = self.readings.iter().map(|reading| {
            let away = (line.at - reading.middle()).0 as f64;
            let offset = reading.offset() as f64 + line.drift * away;
            let width = reading.uncertainty().0 as f64 + 1.0 + drift_within * away.abs();
            (offset - width, offset + width)
        });
        bounds.fold((f64::NEG_INFINITY, f64::INFINITY), |(low, high), (a, b)| (low.max(a), high.min(b)))
    }

    /// Least squares through the readings with the shortest round trips, a half of them, at the last reading; with the standard
    /// errors of both coefficients. The slope is drawn towards none as far as the readings are too uncertain, or too close to each other, to
    /// tell one that clocks have: five readings within a fraction of a second say nothing of the next second.
    fn fit(&self) -> (Line, f64, f64) {
        let Some(last) = self.readings.last() else { return (Line::default(), f64::INFINITY, f64::INFINITY) };
        let mut good: Vec<&Reading> = self.readings.iter().collect();
        good.sort_by_key(|reading| reading.uncertainty());
        good.truncate((good.len() / 2).max(FEWEST));
        let n = good.len() as f64;
        let at = last.middle();
        let points = || good.iter().map(|one| ((one.middle() - at).0 as f64, one.offset() as f64));
        let mean = |of: &dyn Fn((f64, f64)) -> f64| points().map(of).sum::<f64>() / n;
        let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
        let spread: f64 = points().map(|(time, _)| (time - x).powi(2)).sum();
        let within = good.iter().map(|one| one.uncertainty().0 as f64).fold(f64::INFINITY, f64::min);
        if good.len() < 3 || spread == 0.0 {
            return (Line { at, offset: y, ..Line::default() }, within, f64::INFINITY);
        }
        let noise = good.iter().map(|one| one.uncertainty().0 as f64).sum::<f64>() / n;
        let drawn = spread + (noise / STEADY).powi(2);
        let drift = points().map(|(time, offset)| (time - x) * (offset - y)).sum::<f64>() / drawn;
        let offset = y - drift * x;
        let residuals: f64 = points().map(|(time, found)| (found - offset - drift * time).powi(2)).sum();
        let variance = residuals / (n - 2.0);
        let errors = ((variance * (1.0 / n + x * x / drawn)).sqrt(), (variance / spread).sqrt().min(STEADY));
        (Line { at, offset, drift, ..Line::default() }, errors.0, errors.1)
    }
}

impl Line {
    /// How well the clocks are known to stand to each other.
    pub fn within(&self) -> Nanos {
        self.within
    }

    /// Their time as ours.
    pub fn ours(&self, theirs: Nanos) -> Nanos {
        // The offset changes by less than it matters between their time and the first guess of ours.
        let guess = theirs.0 as f64 - self.offset;
        Nanos((theirs.0 as f64 - self.offset - self.drift * (guess - self.at.0 as f64)).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is 3 s ahead and 40 ppm too fast; ways that take different times there and back.
    fn readings(count: i64) -> Offset {
        let mut offset = Offset::default();
        for number in 0..count {
            let middle = 1_000_000_000 * number;
            let (there, back) = (100_000 + (number * 7919) % 30_000, 100_000 + (number * 104_729) % 30_000);
            let theirs = 3_000_000_000 + middle + middle / 1_000_000 * 40;
            offset.add(Reading {
                asked: Nanos(middle - there),
                answered: Nanos(middle + back),
                theirs: Nanos(theirs),
            });
        }
        offset
    }

    #[test]
    fn offset_and_drift_are_found_within_what_is_said() {
        let told = readings(60).told();
        assert!((told.median.0 - 3_000_000_000).abs() <= told.median_within.0 + 4 * 40_000, "{told:?}");
        let truth = 3_000_000_000 + 59 * 40_000;
        assert!(
            (told.offset.0 - truth).abs() <= told.offset_within.0 && told.offset_within.0 < 20_000,
            "{told:?}"
        );
        assert!(
            (told.drift - 40.0).abs() <= told.drift_within.unwrap() && told.drift_within.unwrap() < 1.0,
            "{told:?}"
        );
    }

    #[test]
    fn their_times_become_ours() {
        let line = readings(60).line();
        for ours in [0_i64, 30_000_000_000, 70_000_000_000] {
            let theirs = Nanos(3_000_000_000 + ours + ours / 1_000_000 * 40);
            assert!((line.ours(theirs).0 - ours).abs() < 30_000, "{:?} for {ours}", line.ours(theirs));
        }
    }

    /// Five readings within a fifth of a second, of clocks that are alike, on a host that is busy: each way may take a millisecond more.
    #[test]
    fn readings_close_to_each_other_tell_no_drift() {
        let mut offset = Offset::default();
        for (number, (there, back)) in
            [(50, 900), (60, 50), (1_000, 40), (50, 60), (40, 1_200)].into_iter().enumerate()
        {
            let asked = number as i64 * 50_000_000;
            offset.add(Reading {
                asked: Nanos(asked),
                answered: Nanos(asked + (there + back) * 1_000),
                theirs: Nanos(asked + there * 1_000),
            });
        }
        let line = offset.line();
        for later in [200_000_000_i64, 1_200_000_000] {
            let wrong = (line.ours(Nanos(later)).0 - later).abs();
            assert!(wrong < 300_000 && wrong < line.within().0, "{wrong} ns at {later}: {:?}", offset.told());
        }
    }

    /// A gateway that is slow to answer: all of the first readings lean to one side by the same time, as was seen on a busy host.
    #[test]
    fn what_all_early_readings_have_in_common_lies_within_what_is_said() {
        for (there, back) in [(20_000, 276_000), (276_000, 20_000), (150_000, 150_000)] {
            let mut offset = Offset::default();
            for number in 0..8_i64 {
                // Five before the test, then one a second, of a clock that shows less than nothing.
                let middle = if number < 5 { 50_000_000 * number } else { 1_000_000_000 * (number - 4) };
                let noise = (number * 7919) % 3_000;
                offset.add(Reading {
                    asked: Nanos(middle - there - noise),
                    answered: Nanos(middle + back),
                    theirs: Nanos(middle - 7_000_000_000),
                });
                let told = offset.told();
                let wrong = (told.offset.0 + 7_000_000_000).abs();
                assert!(wrong <= told.offset_within.0, "{wrong} ns after {number}: {told:?}");
                assert!(told.offset_within.0 <= 300_000 + middle / 10_000, "{told:?}");
                assert!((told.median.0 + 7_000_000_000).abs() <= told.median_within.0, "{told:?}");
            }
        }
    }

    /// A network whose ways differ: no number of round trips shows it, and what is said of certainty contains it all the same.
    #[test]
    fn the_truth_lies_within_what_is_certain_however_unequal_the_ways_are() {
        for (there, back) in [(20_000_000, 100_000), (100_000, 20_000_000), (5_000_000, 5_000_000)] {
            let mut offset = Offset::default();
            for number in 0..40_i64 {
                let theirs = 1_000_000_000 * number;
                let noise = (number * 7919) % 30_000;
                let (asked, answered) = (Nanos(theirs - there - noise), Nanos(theirs + back));
                // Their clock is 3 s ahead, and 20 ppm faster.
                let theirs = Nanos(theirs + 3_000_000_000 + theirs / 1_000_000 * 20);
                offset.add(Reading { asked, answered, theirs });
                let (told, later) = (offset.told(), Nanos::from_secs(1));
                let truth = 3_000_000_000 + number * 20_000;
                let wrong =
                    [truth, truth + 20_000].map(|truth| (told.offset.0 - truth).abs()).into_iter().max();
                let certain = offset.certain(later);
                assert!(wrong.unwrap() <= certain.0, "{wrong:?} ns and {certain} after {number}: {told:?}");
                assert!(certain.0 < (there + back) / 2 + 1_000_000, "{certain} after {number}");
            }
        }
    }

    /// A virtual machine that stands still for a while, forwards or backwards by its clock.
    #[test]
    fn a_clock_that_jumps_is_known_within_what_is_certain_and_its_jump_is_said() {
        for jump in [-50_000_000_i64, 50_000_000, 3_000_000] {
            let (mut offset, mut jumped) = (Offset::default(), Nanos::ZERO);
            for number in 0..60_i64 {
                let ours = 1_000_000_000 * number;
                let (there, back) =
                    (100_000 + (number * 7919) % 900_000, 100_000 + (number * 104_729) % 900_000);
                let truth = 3_000_000_000 + number * 90_000 + if number < 30 { 0 } else { jump };
                let (asked, answered) = (Nanos(ours - there), Nanos(ours + back));
                let reading = Reading { asked, answered, theirs: Nanos(ours + truth) };
                if let Some(jump) = offset.jump_to(&reading) {
                    assert!(number >= 30, "90 ppm are no jump");
                    jumped += jump;
                    offset = Offset::default();
                }
                offset.add(reading);
                let wrong = (offset.told().offset.0 - truth).abs();
                let certain = offset.certain(Nanos::ZERO);
                assert!(wrong <= certain.0, "{wrong} ns and {certain} after {number}: {:?}", offset.told());
            }
            let missed = (jump.abs() - jumped.0).abs();
            assert!(missed < 2_200_000, "{jumped} of {jump}");
        }
    }

    #[test]
    fn one_reading_tells_the_offset_and_no_drift() {
        let told = readings(1).told();
        assert!(told.drift == 0.0 && told.drift_within.is_none() && told.readings == 1);
        assert!((told.offset.0 - 3_000_000_000).abs() <= told.median_within.0);
        assert_eq!(Offset::default().told(), ClockRecord::default());
    }

    #[test]
    fn long_tests_keep_a_bounded_number() {
        let offset = readings(5000);
        assert!(offset.readings.len() <= KEPT);
        assert!((offset.told().drift - 40.0).abs() < 0.1);
    }
}
