//! Whether a level was still warming up: its times fall from sample to sample (compilers at run time, caches), so that a
//! later hold of the same load would tell something else.

use plimsoll_model::record::LevelRecord;
use plimsoll_model::{Metric, Nanos};

/// Fewest samples in which a trend is looked for.
const FEWEST: usize = 6;
/// The last third must be lower than the first by this share of it.
const FALL: f64 = 0.2;
/// Two-sided 99 % bound of the normal distribution.
const Z: f64 = 2.576;

/// A median that falls within the hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warming {
    /// Median of the first third.
    pub from: Nanos,
    /// Median of the last third.
    pub to: Nanos,
}

impl Warming {
    /// For people.
    pub fn in_words(&self) -> String {
        format!(
            "the platform was still warming up: half of the messages took {} or less at first, {} at the end",
            self.from, self.to
        )
    }
}

/// The fall of the publish time from send within the hold, or where nothing is acknowledged of the subscribe time; `None`
/// where there is none beyond chance (Mann and Kendall's test at 1 %).
pub fn of(record: &LevelRecord) -> Option<Warming> {
    // Times fall with the load of a curve.
    if record.start.curve.is_some() {
        return None;
    }
    let medians = |metric: Metric| -> Vec<Nanos> {
        let own = record.samples.iter().flatten().filter_map(|sample| sample.histograms.get(&metric));
        own.filter_map(|times| times.quantile(0.5)).collect()
    };
    let published = medians(Metric::PublishTimeFromSend);
    let medians = if published.len() >= FEWEST { published } else { medians(Metric::SubscribeTimeFromSend) };
    let n = medians.len();
    if n < FEWEST {
        return None;
    }
    let mut concordance = 0i64;
    for (earlier, first) in medians.iter().enumerate() {
        concordance += medians[earlier + 1..].iter().map(|later| (later.0 - first.0).signum()).sum::<i64>();
    }
    let variance = n as f64 * (n as f64 - 1.0) * (2.0 * n as f64 + 5.0) / 18.0;
    let falls = (concordance as f64 + 1.0) / variance.sqrt() < -Z;
    let middle = |part: &[Nanos]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let (from, to) = (middle(&medians[..n / 3]), middle(&medians[n - n / 3..]));
    (falls && (to.0 as f64) < from.0 as f64 * (1.0 - FALL)).then_some(Warming { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Histogram;
    use plimsoll_model::record::{LevelStart, SampleRecord};

    fn level(medians: &[i64]) -> LevelRecord {
        let sample = |millis: &i64| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_millis(*millis), 100);
            Some(SampleRecord {
                histograms: [(Metric::PublishTimeFromSend, times)].into(),
                ..SampleRecord::default()
            })
        };
        LevelRecord {
            populations: Vec::new(),
            start: LevelStart {
                hold: Nanos::from_secs(10),
                samples: medians.len() as u16,
                ..LevelStart::default()
            },
            end: None,
            warm_up: SampleRecord::default(),
            samples: medians.iter().map(sample).collect(),
            threads: Vec::new(),
        }
    }

    #[test]
    fn only_a_fall_beyond_chance_is_a_warm_up() {
        assert!(of(&level(&[90, 70, 60, 45, 40, 33, 30, 25, 22, 20])).is_some());
        assert_eq!(of(&level(&[20, 25, 30, 33, 40, 45, 60, 70, 80, 90])), None, "it gets slower");
        assert_eq!(of(&level(&[30, 20, 40, 25, 35, 20, 40, 30, 25, 35])), None);
        assert_eq!(of(&level(&[100, 99, 98, 97, 96, 95, 94, 93, 92, 91])), None, "it is nothing");
        assert_eq!(of(&level(&[90, 50, 20])), None, "too few");
    }
}
