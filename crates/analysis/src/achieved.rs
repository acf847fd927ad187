//! Whether a platform kept up with what was due, judged by when it was due and not by what happened to be under way when
//! the hold began and ended.
//!
//! Three tests, the surest first. *What never came to its end* is missing, whatever the edges say. *What came soon enough*
//! was achieved: where nearly all that was due took no longer than the part of the hold that the objective leaves open, or was
//! over before the hold was, the backlog cannot have grown by more than that part. A stall that the platform made up for is no
//! backlog. Else it is decided by how *times grow*: where each message takes longer
//! than the one before by a share of the time between them, that share of what is due is left behind (Little). The slope of
//! the samples' mean times from due has an interval, which knows nothing of edges.

use plimsoll_model::record::{LevelRecord, SampleRecord};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_stats::trend;

/// What is known of how much of what was due was achieved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Achieved {
    /// Completed within the hold / due in it; `None` where nothing was due.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio of a hold without edges; `None` with fewer than four samples, or without times.
    pub ci95: Option<[f64; 2]>,
    /// Share of what was due that came to its end at last, after the hold included; `None` where nothing was due.
    pub at_last: Option<f64>,
    /// From due to the end of each operation, by sample, with the time from the sample's end to that of the hold; no entry where
    /// that is not known.
    times: Vec<(Nanos, Histogram)>,
    due: u64,
    hold: Nanos,
}

/// Where a ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Surely on the good side.
    Inside,
    /// Surely not.
    Outside,
    /// It cannot be said.
    Open,
}

impl Achieved {
    /// Of a level whose operations are acknowledged, or else done when they are sent.
    pub fn of(record: &LevelRecord, acknowledges: bool) -> Achieved {
        let samples: Vec<&SampleRecord> = record.samples.iter().flatten().collect();
        let sum = samples.iter().fold(Counts::default(), |mut sum, sample| {
            sum += sample.counts;
            sum
        });
        if sum.due == 0 {
            return Achieved::default();
        }
        let due = sum.due as f64;
        let ended = if acknowledges { sum.acknowledged } else { sum.sent };
        // What is over before it is acknowledged, as an operation that was refused, is no part of the backlog.
        let metric = if acknowledges { Metric::PublishTime } else { Metric::Lateness };
        let until_end = |sample: usize| record.start.hold - record.start.sample_begin(sample + 1);
        let times = record.samples.iter().enumerate().filter_map(|(position, sample)| {
            Some((until_end(position), sample.as_ref()?.histograms.get(&metric)?.clone()))
        });
        let seconds = record.start.sample_seconds(0);
        let mean = |sample: &SampleRecord| Some(sample.histograms.get(&metric)?.mean()? / 1e9);
        let means = record
            .samples
            .iter()
            .enumerate()
            .filter_map(|(position, sample)| Some((position as f64 * seconds, mean(sample.as_ref()?)?)));
        let slopes = trend::slope_interval(&means.collect::<Vec<_>>());
        let interval = slopes.map(|slope| [1.0 - slope.hi, 1.0 - slope.lo]);
        Achieved {
            ratio: Some(sum.completed as f64 / due),
            ci95: interval,
            at_last: Some(ended as f64 / due),
            times: times.collect(),
            due: sum.due,
            hold: record.start.hold,
        }
    }

    /// On which side of a lowest ratio it lies.
    pub fn side(&self, least: f64) -> Side {
        let (Some(at_last), Some(ratio)) = (self.at_last, self.ratio) else { return Side::Open };
        if at_last < least {
            return Side::Outside;
        }
        let allowed = Nanos((self.hold.0 as f64 * (1.0 - least)) as i64);
        let left = |(until_end, times): &(Nanos, Histogram)| times.count_above(allowed.max(*until_end));
        let counted: u64 = self.times.iter().map(|(_, times)| times.count()).sum();
        let left = self.times.iter().map(left).sum::<u64>() + self.due.saturating_sub(counted);
        if 1.0 - left as f64 / self.due.max(1) as f64 >= least && counted > 0 {
            return Side::Inside;
        }
        match self.ci95 {
            Some([lo, _]) if lo >= least => Side::Inside,
            Some([_, hi]) if hi < least => Side::Outside,
            Some(_) => Side::Open,
            None if ratio >= least => Side::Inside,
            None => Side::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::LevelStart;

    /// Ten samples of a second with a hundred due in each, of which so many were completed and took so many milliseconds.
    fn level(completed: [u64; 10], took: [i64; 10], acknowledged: u64) -> Achieved {
        let sample = |(completed, took): (&u64, &i64)| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_millis(*took), acknowledged);
            let counts = Counts { due: 100, completed: *completed, acknowledged, ..Counts::default() };
            Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() })
        };
        let record = LevelRecord {
            populations: Vec::new(),
            start: LevelStart { hold: Nanos::from_secs(10), samples: 10, ..LevelStart::default() },
            end: None,
            warm_up: SampleRecord::default(),
            samples: completed.iter().zip(&took).map(sample).collect(),
            threads: Vec::new(),
        };
        Achieved::of(&record, true)
    }

    #[test]
    fn the_luck_of_the_edges_is_no_miss() {
        // Thirteen more were under way at the end than at the beginning, and all of them came soon.
        let completed = [100, 99, 98, 100, 97, 100, 98, 100, 97, 98];
        let lucky = level(completed, [60; 10], 100);
        assert_eq!((lucky.ratio, lucky.side(0.99)), (Some(0.987), Side::Inside));
        // Longer than the part of the hold that may be missing, and not growing.
        let slow = level(completed, [510, 500, 505, 495, 502, 507, 493, 499, 504, 498], 100);
        assert_eq!(slow.side(0.99), Side::Inside);
    }

    #[test]
    fn a_backlog_that_grows_is_a_miss_though_all_came_at_last() {
        let slow = level([90; 10], [150, 250, 350, 450, 550, 650, 750, 850, 950, 1050], 100);
        assert_eq!(slow.side(0.99), Side::Outside);
        let noisy = level([100; 10], [900, 300, 1200, 500, 700, 1100, 400, 1000, 600, 1300], 100);
        assert_eq!(noisy.side(0.99), Side::Open);
    }

    #[test]
    fn a_stall_that_was_made_up_for_is_no_backlog() {
        // Three seconds of which everything waits, at most until the third is over.
        let took = [5, 5, 5, 2_900, 1_900, 900, 5, 5, 5, 5];
        assert_eq!(level([100; 10], took, 100).side(0.99), Side::Inside);
        // The same at the end of the hold is a backlog.
        let took = [5, 5, 5, 5, 5, 5, 5, 2_900, 1_900, 900];
        assert_eq!(level([100; 10], took, 100).side(0.99), Side::Open);
    }

    #[test]
    fn what_never_came_is_missing_whatever_the_samples_say() {
        assert_eq!(level([100; 10], [1; 10], 97).side(0.99), Side::Outside);
    }
}
