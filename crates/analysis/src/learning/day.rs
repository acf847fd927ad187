//! The hours of the day that a capture shows.

use plimsoll_model::Nanos;
use std::collections::BTreeMap;

const HOUR: i64 = 3_600_000_000_000;
/// Hours below which a capture shows no shape of the day.
const SHORTEST: i64 = 2;
/// Less of an hour says nothing of it.
const LEAST: i64 = HOUR / 4;

/// An hour of the day (UTC), or of the capture, and how it was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hour {
    /// From 0 to 23.
    pub of_day: u8,
    /// Seconds of it that the capture holds.
    pub seconds: f64,
}

/// The hours of which a span holds enough: from the first one on, or from midnight if there is all of a day. None if it is shorter than
/// two hours.
pub(super) fn hours((first, last): (Nanos, Nanos)) -> Vec<Hour> {
    if last.0.saturating_sub(first.0) < SHORTEST * HOUR {
        return Vec::new();
    }
    let mut seconds: BTreeMap<u8, f64> = BTreeMap::new();
    let mut order: Vec<u8> = Vec::new();
    let (from, to) = (first.0.div_euclid(HOUR), last.0.div_euclid(HOUR));
    // Two weeks of hours say what a day is like.
    for hour in from..=to.min(from.saturating_add(14 * 24)) {
        // A hostile clock may stand at the end of time.
        let end = last.0.min((hour + 1).saturating_mul(HOUR));
        let here = end.saturating_sub(first.0.max(hour.saturating_mul(HOUR))).max(0);
        let of_day = hour.rem_euclid(24) as u8;
        if !seconds.contains_key(&of_day) {
            order.push(of_day);
        }
        *seconds.entry(of_day).or_default() += here as f64 / 1e9;
    }
    if order.len() == 24 {
        order.sort_unstable();
    }
    order
        .into_iter()
        .map(|of_day| Hour { of_day, seconds: seconds[&of_day] })
        .filter(|hour| hour.seconds >= LEAST as f64 / 1e9)
        .collect()
}

/// Messages in each of those hours.
pub(super) fn counts(hours: &[Hour], counted: impl Iterator<Item = (i64, u64)>) -> Vec<u64> {
    let mut by_hour = [0; 24];
    for (hour, count) in counted {
        by_hour[hour.rem_euclid(24) as usize] += count;
    }
    hours.iter().map(|hour| by_hour[usize::from(hour.of_day)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_put_in_the_order_of_its_hours() {
        let at = |hours: f64| Nanos((hours * HOUR as f64) as i64);
        assert!(hours((at(5.0), at(6.9))).is_empty());
        let part: Vec<u8> = hours((at(22.5), at(26.1))).iter().map(|hour| hour.of_day).collect();
        assert_eq!(part, [22, 23, 0, 1], "six minutes of the third hour are too little");
        let days = hours((at(10.0), at(58.0)));
        assert_eq!(days.iter().map(|hour| hour.of_day).collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());
        assert!((days[3].seconds - 7_200.0).abs() < 1e-6, "{:?}", days[3]);
    }

    #[test]
    fn counts_of_all_days_are_those_of_the_hours() {
        let hours: Vec<Hour> = (0..4).map(|of_day| Hour { of_day, seconds: 3_600.0 }).collect();
        assert_eq!(counts(&hours, [(24, 3), (1, 2), (49, 5)].into_iter()), [3, 7, 0, 0]);
    }
}
