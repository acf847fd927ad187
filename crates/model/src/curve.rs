//! A load that changes within a level: rates at times, and straight lines between them.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a day, of an hour and of a minute.
const DAY: i64 = 24 * HOUR;
const HOUR: i64 = 60 * MINUTE;
const MINUTE: i64 = 60_000_000_000;

/// The offered load over a hold, in operations per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCurve {
    /// Times from the beginning of the hold with the rate at each: the first at zero, the last at the end of the hold. Two at one time
    /// are a step.
    points: Vec<(Nanos, f64)>,
    /// What the curve's own clock shows at the beginning of the hold.
    origin: Nanos,
    /// How much of its own time is played in the hold.
    length: Nanos,
    /// From when to when a spike is there, from the beginning of the hold; `None` of a curve that is not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spike: Option<(Nanos, Nanos)>,
}

impl LoadCurve {
    /// The curve through points of its own clock, in the order of time, played in a hold of that length. `None` where its points are at
    /// no two times, or nothing is ever offered.
    pub fn new(points: &[(Nanos, f64)], hold: Nanos) -> Option<LoadCurve> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let length = last - first;
        if length <= Nanos::ZERO || hold <= Nanos::ZERO {
            return None;
        }
        let scale = hold.0 as f64 / length.0 as f64;
        let played = |time: Nanos| match time {
            _ if time == last => hold,
            time => Nanos(((time - first).0 as f64 * scale).round() as i64),
        };
        let points = points.iter().map(|&(time, rate)| (played(time), rate)).collect();
        let curve = LoadCurve { points, origin: first, length, spike: None };
        (curve.mean() > 0.0).then_some(curve)
    }

    /// A rate that rises at once, stays for a while, and falls back at once.
    pub fn with_spike((from, to): (f64, f64), (at, lasts): (Nanos, Nanos), hold: Nanos) -> Option<LoadCurve> {
        let end = at + lasts;
        let points = [(Nanos::ZERO, from), (at, from), (at, to), (end, to), (end, from), (hold, from)];
        let curve = LoadCurve::new(&points, hold)?;
        Some(LoadCurve { spike: Some((at, end)), ..curve })
    }

    /// The same with so many times the rate.
    pub fn scaled(&self, times: f64) -> LoadCurve {
        let points = self.points.iter().map(|&(time, rate)| (time, rate * times)).collect();
        LoadCurve { points, ..self.clone() }
    }

    /// Its straight pieces of some length: when each begins and ends, and the rates there.
    pub fn pieces(&self) -> impl Iterator<Item = ((Nanos, f64), (Nanos, f64))> + '_ {
        let pairs = self.points.iter().zip(self.points.iter().skip(1));
        pairs.map(|(one, other)| (*one, *other)).filter(|(one, other)| one.0 < other.0)
    }

    /// The times from the beginning of the hold with the rate at each.
    pub fn points(&self) -> &[(Nanos, f64)] {
        &self.points
    }

    /// From when to when a spike is there, from the beginning of the hold.
    pub fn spike(&self) -> Option<(Nanos, Nanos)> {
        self.spike
    }

    /// The rate at the beginning of the hold.
    pub fn first(&self) -> f64 {
        self.points.first().map_or(0.0, |(_, rate)| *rate)
    }

    /// The lowest rate.
    pub fn lowest(&self) -> f64 {
        self.points.iter().map(|(_, rate)| *rate).reduce(f64::min).unwrap_or(0.0)
    }

    /// The highest rate.
    pub fn highest(&self) -> f64 {
        self.points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// The mean rate of the hold.
    pub fn mean(&self) -> f64 {
        let hold = self.points.last().map_or(Nanos::ZERO, |(time, _)| *time);
        self.mean_between(Nanos::ZERO, hold)
    }

    /// The mean rate between two times of the hold; zero where the second is not later.
    pub fn mean_between(&self, from: Nanos, to: Nanos) -> f64 {
        let operations: f64 = self.pieces().map(|(one, other)| operations(one, other, (from, to))).sum();
        let seconds = (to - from).as_secs_f64();
        if seconds > 0.0 { operations / seconds } else { 0.0 }
    }

    /// How much of its own time the curve has.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// What the curve's own clock shows at a time of the hold, for people: `08:10`, of a curve of several days `day 2 08:10`, and of one
    /// that is shorter than an hour `95.0 s`.
    pub fn clock(&self, time: Nanos) -> String {
        let hold = self.points.last().map_or(1, |(end, _)| end.0.max(1));
        let passed = (time.0 as f64 / hold as f64 * self.length.0 as f64).round() as i64;
        let shown = self.origin.0.saturating_add(passed);
        if self.length.0 < HOUR {
            return format!("{:.1} s", Nanos(shown).as_secs_f64());
        }
        let first_day = self.origin.0 / DAY;
        // The end of the last day is 24:00 of it.
        let is_last = passed == self.length.0 && shown % DAY == 0;
        let day = shown / DAY - first_day - i64::from(is_last);
        let of_day = shown - (day + first_day) * DAY;
        let clock = format!("{:02}:{:02}", of_day / HOUR, of_day % HOUR / MINUTE);
        let days = (self.origin.0 % DAY + self.length.0 + DAY - 1) / DAY;
        if days > 1 { format!("day {} {clock}", day + 1) } else { clock }
    }
}

/// Operations of a straight piece within a time.
fn operations((begin, first): (Nanos, f64), (end, last): (Nanos, f64), (from, to): (Nanos, Nanos)) -> f64 {
    let (from, to) = (from.max(begin), to.min(end));
    if from >= to {
        return 0.0;
    }
    let rate = |time: Nanos| {
        let passed = (time - begin).0 as f64 / (end - begin).0 as f64;
        first + (last - first) * passed
    };
    f64::midpoint(rate(from), rate(to)) * (to - from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(hours: i64) -> Nanos {
        Nanos(hours * HOUR)
    }

    /// From 100/s at midnight to 500/s at eight, and back.
    fn day(hold: Nanos) -> LoadCurve {
        LoadCurve::new(&[(hours(0), 100.0), (hours(8), 500.0), (hours(24), 100.0)], hold).unwrap()
    }

    #[test]
    fn means_are_areas_under_straight_lines() {
        let curve = day(hours(24));
        assert_eq!(
            (curve.first(), curve.lowest(), curve.highest(), curve.mean()),
            (100.0, 100.0, 500.0, 300.0)
        );
        assert_eq!(curve.mean_between(hours(0), hours(4)), 200.0);
        assert_eq!(curve.mean_between(hours(4), hours(16)), (400.0 * 4.0 + 400.0 * 8.0) / 12.0);
        assert_eq!(curve.mean_between(hours(4), hours(4)), 0.0);
        assert_eq!(curve.scaled(0.5).mean(), 150.0);
    }

    #[test]
    fn a_day_is_played_in_any_hold_and_keeps_its_clock() {
        let curve = day(Nanos::from_secs(1440));
        assert_eq!(curve.mean(), 300.0);
        let minutes = |minute: i64| curve.clock(Nanos::from_secs(minute));
        assert_eq!([0, 490, 1440].map(minutes), ["00:00", "08:10", "24:00"]);
        let late = LoadCurve::new(&[(hours(22), 1.0), (hours(26), 1.0)], hours(4)).unwrap();
        assert_eq!(
            [0, 3, 4].map(|hour| late.clock(hours(hour))),
            ["day 1 22:00", "day 2 01:00", "day 2 02:00"]
        );
        let short = LoadCurve::new(&[(Nanos::ZERO, 1.0), (Nanos::from_secs(60), 2.0)], Nanos::from_secs(60));
        assert_eq!(short.unwrap().clock(Nanos::from_millis(9_500)), "9.5 s");
    }

    #[test]
    fn a_spike_is_two_steps() {
        let second = Nanos::from_secs;
        let curve = LoadCurve::with_spike((200.0, 2000.0), (second(30), second(10)), second(100)).unwrap();
        assert_eq!(curve.mean(), (90.0 * 200.0 + 10.0 * 2000.0) / 100.0);
        assert_eq!(curve.pieces().count(), 3);
        assert_eq!(curve.mean_between(second(29), second(31)), 1100.0);
        assert_eq!(curve.spike(), Some((second(30), second(40))));
    }

    #[test]
    fn what_offers_nothing_is_no_curve() {
        assert_eq!(LoadCurve::new(&[], hours(1)), None);
        assert_eq!(LoadCurve::new(&[(hours(1), 5.0)], hours(1)), None);
        assert_eq!(LoadCurve::new(&[(hours(1), 5.0), (hours(1), 7.0)], hours(1)), None);
        assert_eq!(LoadCurve::new(&[(hours(0), 0.0), (hours(1), 0.0)], hours(1)), None);
    }
}
