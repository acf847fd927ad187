//! How rates change in the time of a capture: from hour to hour of the day, or, where it is too short for that, from part to part.

use super::day::{self, Hour};
use super::gathering::Gathering;
use super::learned::LearnedPoint;
use super::shape::Shaped;
use std::collections::BTreeSet;

/// Equal parts of a capture that shows no hours.
const PARTS: u32 = 8;
/// Messages of a population below which parts say nothing of it.
const FEWEST: u64 = 200;
/// Messages of an hour or a part that are enough to judge a law by it alone.
const BUSY: u64 = 100;
/// Rates that differ less are the same, whatever a test says: of hours, and of parts, by which more is tried.
const DIFFERENT: [f64; 2] = [1.2, 1.5];
/// Points of the normal distribution beyond which the tests refuse: 1 % for hours, and 0.1 % for parts.
const POINTS: [f64; 2] = [2.326, 3.090];
/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// The windows of time by which rates are compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Course {
    /// Hours of the day, or of the capture.
    Hours(Vec<Hour>),
    /// Parts of the capture, each of so many seconds.
    Parts(f64),
    /// The capture shows none.
    Unknown,
}

impl Course {
    /// What a capture shows.
    pub fn of(gathered: &Gathering) -> Course {
        let Some((first, last)) = gathered.span else { return Course::Unknown };
        let hours = day::hours((first, last));
        if !hours.is_empty() {
            return Course::Hours(hours);
        }
        let seconds = (last - first).0 as f64 / 1e9;
        // Of messages whose times were not kept, no part is known.
        match seconds > 0.0 && gathered.unkept == 0 {
            true => Course::Parts(seconds / f64::from(PARTS)),
            false => Course::Unknown,
        }
    }

    /// The hours of the day, where it has some.
    pub fn hours(&self) -> &[Hour] {
        if let Course::Hours(hours) = self { hours } else { &[] }
    }

    /// Seconds of each window that the capture holds.
    pub fn seconds(&self) -> Vec<f64> {
        match self {
            Course::Hours(hours) => hours.iter().map(|hour| hour.seconds).collect(),
            Course::Parts(seconds) => vec![*seconds; PARTS as usize],
            Course::Unknown => Vec::new(),
        }
    }

    /// Messages of a population in each window; `times` are those of its messages, in seconds from the beginning of the capture.
    pub fn counts(&self, gathered: &Gathering, members: &[Shaped], times: &[f64]) -> Vec<u64> {
        match self {
            Course::Hours(hours) => {
                let own: BTreeSet<u32> = members.iter().map(|member| member.source as u32).collect();
                let counted = gathered.hours.iter().filter(|((source, _), _)| own.contains(source));
                day::counts(hours, counted.map(|((_, hour), &count)| (*hour, count)))
            }
            Course::Parts(seconds) => {
                let mut counts = vec![0; PARTS as usize];
                for at in times {
                    // The last message stands at the end.
                    let part = ((at / seconds) as usize).min(counts.len() - 1);
                    counts[part] += 1;
                }
                counts
            }
            Course::Unknown => Vec::new(),
        }
    }

    /// Whether a population's rates differ by more than chance: the counts against an equal rate, by chi-squared, where their variance
    /// is so many times that of a Poisson process (Fisher's index of dispersion).
    pub fn differ(&self, counts: &[u64], dispersion: f64) -> bool {
        let seconds = self.seconds();
        let (whole, messages): (f64, u64) = (seconds.iter().sum(), counts.iter().sum());
        if seconds.len() < 2 || messages == 0 || self.is_coarse() && messages < FEWEST {
            return false;
        }
        let expected = |seconds: f64| messages as f64 / whole * seconds;
        let chi: f64 = seconds
            .iter()
            .zip(counts)
            .map(|(&seconds, &count)| (count as f64 - expected(seconds)).powi(2) / expected(seconds))
            .sum();
        let rates = seconds.iter().zip(counts).map(|(seconds, &count)| count as f64 / seconds);
        let (least, most) =
            rates.fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
        let [different, _] = self.strictness();
        chi > self.refused(seconds.len() - 1) * dispersion.max(0.05) && most > different * least
    }

    /// Whether populations have the same part of all messages in each window, as far as chance allows; `dispersion` is the largest of
    /// theirs.
    pub fn has_one_mix(&self, counts: &[Vec<u64>], dispersion: f64) -> bool {
        let windows = self.seconds().len();
        let of_window: Vec<u64> =
            (0..windows).map(|window| counts.iter().map(|own| own[window]).sum()).collect();
        let all: u64 = of_window.iter().sum();
        let mut chi = 0.0;
        for own in counts {
            let messages: u64 = own.iter().sum();
            for (&count, &of_window) in own.iter().zip(&of_window) {
                let expected = messages as f64 * of_window as f64 / all.max(1) as f64;
                if expected > 0.0 {
                    chi += (count as f64 - expected).powi(2) / expected;
                }
            }
        }
        let freedom = counts.len().saturating_sub(1) * windows.saturating_sub(1);
        freedom == 0 || chi <= self.refused(freedom) * dispersion.max(0.05)
    }

    /// Messages of the busiest window: over several, a law is blurred by the change of the rate. Times are in seconds.
    pub fn busiest<'a>(&self, messages: &'a [(f64, u32)], counts: &[u64]) -> &'a [(f64, u32)] {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return messages };
        let most = counts.iter().copied().max().unwrap_or(0);
        let window = match self {
            Course::Hours(_) => HOUR,
            Course::Parts(seconds) => *seconds,
            Course::Unknown => return messages,
        };
        if most < BUSY || last.0 - first.0 < 2.0 * window {
            return messages;
        }
        let mut best = 0..0;
        let mut begin = 0;
        for end in 0..messages.len() {
            while messages[end].0 - messages[begin].0 > window {
                begin += 1;
            }
            if end + 1 - begin > best.len() {
                best = begin..end + 1;
            }
        }
        &messages[best]
    }

    /// The rate of all populations together, from the middle of each window to that of the next. A day begins again where it ends.
    pub fn points(&self, counts: &[Vec<u64>]) -> Vec<LearnedPoint> {
        let rate = |(window, seconds): (usize, f64)| {
            counts.iter().map(|own| own[window]).sum::<u64>() as f64 / seconds
        };
        let rates: Vec<f64> = self.seconds().into_iter().enumerate().map(rate).collect();
        let (Some(&first), Some(&last)) = (rates.first(), rates.last()) else { return Vec::new() };
        let (begins, window) = match self {
            Course::Hours(hours) => (begins(hours), HOUR),
            Course::Parts(seconds) => ((0..PARTS).map(|part| seconds * f64::from(part)).collect(), *seconds),
            Course::Unknown => return Vec::new(),
        };
        let is_day = matches!(self, Course::Hours(hours) if hours.len() == 24);
        let [first, last] = if is_day { [f64::midpoint(first, last); 2] } else { [first, last] };
        let (begin, end) =
            (begins.first().copied().unwrap_or(0.0), begins.last().map_or(0.0, |begin| begin + window));
        let middle = |(begin, &rate): (f64, &f64)| LearnedPoint { at: begin + window / 2.0, rate };
        let middles = begins.into_iter().zip(&rates).map(middle);
        std::iter::once(LearnedPoint { at: begin, rate: first })
            .chain(middles)
            .chain([LearnedPoint { at: end, rate: last }])
            .collect()
    }

    /// Whether windows are parts of a short capture.
    fn is_coarse(&self) -> bool {
        !matches!(self, Course::Hours(_))
    }

    /// How many times rates must differ, and the point of the normal distribution beyond which a test refuses.
    fn strictness(&self) -> [f64; 2] {
        let place = usize::from(self.is_coarse());
        [DIFFERENT[place], POINTS[place]]
    }

    /// The chi-squared of so many degrees of freedom beyond which a test refuses (Wilson and Hilferty).
    fn refused(&self, freedom: usize) -> f64 {
        let [_, point] = self.strictness();
        let freedom = freedom as f64;
        let third = 2.0 / (9.0 * freedom);
        freedom * (1.0 - third + point * third.sqrt()).powi(3)
    }
}

/// When hours begin, in seconds since midnight of the first. They are in order, and some may be left out.
fn begins(hours: &[Hour]) -> Vec<f64> {
    let mut begins: Vec<u32> = Vec::new();
    for hour in hours {
        let of_day = u32::from(hour.of_day);
        let before = begins.last().copied();
        begins.push(before.map_or(of_day, |before| {
            let later = (of_day + 24 - before % 24) % 24;
            before + later.max(1)
        }));
    }
    begins.into_iter().map(|hour| HOUR * f64::from(hour)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(count: u8) -> Course {
        Course::Hours((0..count).map(|of_day| Hour { of_day, seconds: 3_600.0 }).collect())
    }

    #[test]
    fn equal_rates_do_not_differ_and_others_do() {
        let hours = hours(4);
        assert!(!hours.differ(&[1_000, 1_020, 980, 1_010], 1.0));
        assert!(hours.differ(&[1_000, 1_500, 980, 1_010], 1.0));
        assert!(!hours.differ(&[1_000, 1_500, 980, 1_010], 100.0), "bursts explain it");
        assert!(!hours.differ(&[0, 0, 0, 0], 1.0));
        let parts = Course::Parts(10.0);
        assert!(parts.differ(&[100, 100, 100, 100, 100, 100, 100, 200], 1.0));
        assert!(!parts.differ(&[10, 10, 10, 10, 10, 10, 10, 30], 1.0), "too few");
        assert!(!Course::Unknown.differ(&[], 1.0));
    }

    #[test]
    fn a_mix_is_one_or_several() {
        let hours = hours(3);
        assert!(hours.has_one_mix(&[vec![100, 200, 300], vec![205, 390, 610]], 1.0));
        assert!(!hours.has_one_mix(&[vec![100, 200, 300], vec![300, 200, 100]], 1.0));
        assert!(hours.has_one_mix(&[vec![100, 200, 300], vec![300, 200, 100]], 200.0), "bursts explain it");
        assert!(hours.has_one_mix(&[vec![1, 500, 2]], 1.0), "one population is all of it");
        assert!(hours.has_one_mix(&[vec![0; 3], vec![0; 3]], 1.0));
    }

    /// As many messages lie under the line as were counted.
    #[test]
    fn a_curve_has_the_messages_of_its_windows() {
        for (course, windows) in [(hours(24), 24), (hours(5), 5), (Course::Parts(12.5), 8)] {
            let counts: Vec<u64> = (0..windows).map(|window| 100 + 37 * (window % 4)).collect();
            let points = course.points(&[counts.clone(), counts.clone()]);
            let under: f64 = points
                .windows(2)
                .map(|pair| f64::midpoint(pair[0].rate, pair[1].rate) * (pair[1].at - pair[0].at))
                .sum();
            assert!((under - 2.0 * counts.iter().sum::<u64>() as f64).abs() < 1e-6, "{under}: {points:?}");
        }
        assert!(Course::Unknown.points(&[]).is_empty());
        // Over midnight, and with an hour left out.
        let hours = [22, 23, 1].map(|of_day| Hour { of_day, seconds: 3_600.0 });
        assert_eq!(begins(&hours), [22.0, 23.0, 25.0].map(|hour| hour * HOUR));
    }
}
