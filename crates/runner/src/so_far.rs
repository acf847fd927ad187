//! What a level shows while it goes on, for those who watch it; the verdict rests on what is stored.

use plimsoll_analysis::validity;
use plimsoll_model::record::{SamplePart, Terms};
use plimsoll_model::{Histogram, Metric, Nanos};
use plimsoll_stats::quantile;
use std::collections::VecDeque;

/// The rate is that of so much time before now.
const RECENT: Nanos = Nanos::from_secs(2);

/// What comes within so much time is of one sample, whose parts come from each thread singly.
const TOGETHER: Nanos = Nanos::from_millis(500);

/// Figures of the level that goes on: of its warm-up, and from the beginning of its hold on of that alone.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// Messages per second that came to their end, over the last seconds; `None` at the beginning.
    pub rate: Option<f64>,
    /// Mean of the time that tells of the platform; `None` without observations.
    pub mean: Option<Nanos>,
    /// Its median and 99 % quantile; `None` with too few observations.
    pub p50: Option<Nanos>,
    /// See `p50`.
    pub p99: Option<Nanos>,
    /// Messages refused, connections lost and connections that could not be made.
    pub errors: u64,
    /// Whether we sent in time so far; `None` before anything is known.
    pub sends_in_time: Option<bool>,
    /// Whether our subscribers read in time so far; likewise.
    pub reads_in_time: Option<bool>,
}

/// Gathers them.
pub(crate) struct Gathering {
    metric: Metric,
    /// The bound of our own lateness and lag, and the quantile that it is asked of.
    bound: Nanos,
    q: f64,
    times: Histogram,
    lateness: Histogram,
    lag: Histogram,
    errors: u64,
    completed: u64,
    in_hold: bool,
    /// How many had come to their end, at the beginning and when something of the level had come.
    completions: VecDeque<(Nanos, u64)>,
    /// Whether something has come since.
    has_news: bool,
}

impl Gathering {
    /// Of a level whose hold has that length.
    pub fn new(terms: &Terms, hold: Nanos) -> Gathering {
        Gathering {
            metric: terms.leading_time(),
            bound: Nanos::from_secs_f64(validity::bound(terms, hold.as_secs_f64()).min(1e6)),
            q: validity::quantile(terms),
            times: Histogram::new(),
            lateness: Histogram::new(),
            lag: Histogram::new(),
            errors: 0,
            completed: 0,
            in_hold: false,
            completions: VecDeque::new(),
            has_news: true,
        }
    }

    /// Takes in a part of the level.
    pub fn add(&mut self, part: &SamplePart) {
        if part.sample.is_some() && !self.in_hold {
            self.in_hold = true;
            self.errors = 0;
            [&mut self.times, &mut self.lateness, &mut self.lag]
                .into_iter()
                .for_each(|histogram| *histogram = Histogram::new());
        }
        self.has_news = true;
        self.completed += part.counts.completed;
        if self.in_hold && part.sample.is_none() {
            return;
        }
        let counts = &part.counts;
        self.errors += counts.refused + counts.disconnected + counts.connect_failed;
        for (metric, seen) in &part.histograms {
            match metric {
                Metric::Lateness => self.lateness.merge(seen),
                Metric::ReceiverLag => self.lag.merge(seen),
                metric if *metric == self.metric => self.times.merge(seen),
                _ => {}
            }
        }
    }

    /// What is to be shown at that time of the run's clock.
    pub fn told(&mut self, now: Nanos) -> SoFar {
        // What has come is of the time until now; of the time after that, nothing is known yet.
        if std::mem::take(&mut self.has_news) {
            let so_far = self.completions.len();
            match self.completions.back_mut() {
                Some((at, completed)) if so_far > 1 && now < *at + TOGETHER => *completed = self.completed,
                _ => self.completions.push_back((now, self.completed)),
            }
        }
        let last = self.completions.back().map_or(now, |(at, _)| *at);
        while self.completions.len() > 2
            && self.completions.get(1).is_some_and(|(at, _)| *at <= last - RECENT)
        {
            self.completions.pop_front();
        }
        let rate = self
            .completions
            .front()
            .filter(|(at, _)| *at < last)
            .map(|(at, completed)| (self.completed - completed) as f64 / (last - *at).as_secs_f64());
        let in_time = |times: &Histogram| times.quantile(self.q).map(|tail| tail <= self.bound);
        SoFar {
            rate,
            mean: self.times.mean().map(|mean| Nanos(mean as i64)),
            p50: quantile::quantile(&self.times, 0.5),
            p99: quantile::quantile(&self.times, 0.99),
            errors: self.errors,
            sends_in_time: in_time(&self.lateness),
            reads_in_time: in_time(&self.lag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Counts;

    fn part(sample: Option<u16>, completed: u64, metric: Metric, millis: i64) -> SamplePart {
        let mut seen = Histogram::new();
        seen.record_n(Nanos::from_millis(millis), 2000);
        let counts = Counts { completed, refused: 1, ..Counts::default() };
        SamplePart { population: 0, level: 0, sample, counts, histograms: vec![(metric, seen)] }
    }

    /// A warm-up comes as one part at its end.
    #[test]
    fn what_comes_together_is_no_peak_and_what_has_not_come_is_no_zero() {
        let mut gathering = Gathering::new(&Terms::default(), Nanos::from_secs(10));
        for tenth in 0..20 {
            assert_eq!(gathering.told(Nanos::from_millis(100 * tenth)).rate, None);
        }
        let mut after = |time: Nanos, completed: Option<u64>| {
            completed.iter().for_each(|count| gathering.add(&part(None, *count, Metric::PublishTime, 1)));
            gathering.told(time).rate
        };
        let mut at = |second: i64, completed: Option<u64>| after(Nanos::from_secs(second), completed);
        assert_eq!(at(2, Some(8_000)), Some(4_000.0));
        assert_eq!((at(3, Some(4_000)), at(4, Some(4_000))), (Some(4_000.0), Some(4_000.0)));
        assert_eq!((at(5, Some(0)), at(6, Some(0)), at(7, None)), (Some(2_000.0), Some(0.0), Some(0.0)));
        // Two threads, whose parts of a sample come 0.1 s apart.
        for second in 8..12 {
            after(Nanos::from_secs(second), Some(2_000));
            let both = after(Nanos::from_millis(second * 1000 + 100), Some(2_000));
            assert!(second < 10 || both == Some(4_000.0), "{second}: {both:?}");
        }
    }

    #[test]
    fn the_hold_begins_anew_and_the_rate_is_that_of_the_last_seconds() {
        let mut gathering = Gathering::new(&Terms::default(), Nanos::from_secs(10));
        assert!(gathering.told(Nanos::ZERO).rate.is_none());
        gathering.add(&part(None, 100, Metric::PublishTime, 50));
        let warming = gathering.told(Nanos::from_secs(1));
        assert_eq!((warming.rate, warming.errors, warming.sends_in_time), (Some(100.0), 1, None));
        assert!(warming.p99.is_some_and(|p99| p99 > Nanos::from_millis(49)));
        assert!(warming.mean.is_some_and(|mean| (mean - Nanos::from_millis(50)).0.abs() < 1_000_000));
        gathering.add(&part(Some(0), 300, Metric::PublishTime, 5));
        gathering.add(&part(Some(0), 0, Metric::Lateness, 3000));
        let holding = gathering.told(Nanos::from_secs(2));
        assert_eq!((holding.rate, holding.errors, holding.sends_in_time), (Some(200.0), 2, Some(false)));
        assert!(holding.p99.is_some_and(|p99| p99 < Nanos::from_millis(6)));
        gathering.add(&part(Some(1), 10, Metric::Lateness, 0));
        let later = gathering.told(Nanos::from_secs(4));
        assert_eq!(later.rate, Some(5.0));
    }
}
