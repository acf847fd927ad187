//! One time of a level or a run: its mean and its quantiles with their intervals.

use plimsoll_model::{Histogram, Nanos};
use plimsoll_stats::{mean, quantile};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The quantiles of every time, by name.
pub const QUANTILES: [(&str, f64); 7] =
    [("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// The two-sided 95 % quantile of the normal distribution.
const Z_95: f64 = 1.959_964;

/// A quantile that has enough observations beyond it.
pub fn quantile_of(times: &Histogram, q: f64) -> Option<Nanos> {
    quantile::quantile(times, q)
}

/// One time, summarised.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TimeSummary {
    /// Observations.
    pub n: u64,
    /// Samples with at least one observation.
    pub samples: usize,
    /// Mean over all observations; null in overload, where it depends on the length of the hold.
    pub mean: Option<f64>,
    /// 95 % confidence interval of the mean by Student's t.
    pub ci95: Option<[f64; 2]>,
    /// Quantiles; null with too few observations.
    pub p25: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Third quartile.
    pub p75: Option<f64>,
    /// 90 % quantile.
    pub p90: Option<f64>,
    /// 95 % quantile.
    pub p95: Option<f64>,
    /// 99 % quantile.
    pub p99: Option<f64>,
    /// 99.9 % quantile.
    pub p999: Option<f64>,
    /// The largest observation.
    pub max: Option<f64>,
    /// 95 % confidence intervals of the quantiles by Woodruff's inversion.
    pub quantiles_ci95: QuantileIntervals,
    /// Consecutive samples put together so that neighbours are independent.
    pub batch: usize,
    /// Whether neighbours are correlated all the same: the intervals are then too narrow.
    pub correlated: bool,
}

/// A 95 % confidence interval of each quantile; null where that is null, or where there are fewer than two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QuantileIntervals {
    /// Of the first quartile.
    pub p25: Option<[f64; 2]>,
    /// Of the median.
    pub p50: Option<[f64; 2]>,
    /// Of the third quartile.
    pub p75: Option<[f64; 2]>,
    /// Of the 90 % quantile.
    pub p90: Option<[f64; 2]>,
    /// Of the 95 % quantile.
    pub p95: Option<[f64; 2]>,
    /// Of the 99 % quantile.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9 % quantile.
    pub p999: Option<[f64; 2]>,
}

impl QuantileIntervals {
    fn of([p25, p50, p75, p90, p95, p99, p999]: [Option<[f64; 2]>; 7]) -> QuantileIntervals {
        QuantileIntervals { p25, p50, p75, p90, p95, p99, p999 }
    }
}

/// A time that was never observed does not exist: null.
pub(crate) fn observed<S: Serializer>(time: &TimeSummary, serializer: S) -> Result<S::Ok, S::Error> {
    (time.n > 0).then_some(time).serialize(serializer)
}

impl TimeSummary {
    /// Summarises samples. A mean is told only where the level was steady.
    pub fn of(samples: &[&Histogram], steady: bool) -> TimeSummary {
        let mut merged = Histogram::new();
        samples.iter().for_each(|sample| merged.merge(sample));
        let Some(mean) = mean::mean(samples) else { return TimeSummary::default() };
        let seconds = |nanos: f64| nanos / 1e9;
        let told = QUANTILES.map(|(_, q)| quantile::quantile(&merged, q).map(Nanos::as_secs_f64));
        let fractions = QUANTILES.map(|(_, q)| q);
        let intervals = quantile::intervals(samples, &fractions);
        let interval = |position: usize| {
            let interval = intervals.get(position)?.as_ref()?;
            told.get(position).copied().flatten().map(|_| [seconds(interval.lo), seconds(interval.hi)])
        };
        let quantiles_ci95 = QuantileIntervals::of(std::array::from_fn(interval));
        let [p25, p50, p75, p90, p95, p99, p999] = told;
        TimeSummary {
            n: merged.count(),
            samples: samples.iter().filter(|sample| !sample.is_empty()).count(),
            mean: steady.then_some(seconds(mean.value)),
            ci95: mean.interval.filter(|_| steady).map(|i| [seconds(i.lo.max(0.0)), seconds(i.hi)]),
            p25,
            p50,
            p75,
            p90,
            p95,
            p99,
            p999,
            max: merged.max().map(Nanos::as_secs_f64),
            quantiles_ci95,
            batch: mean.batching.size,
            correlated: mean.batching.correlated,
        }
    }

    /// Summarises observations that belong to no sequence of samples, with the intervals of independent ones: of a
    /// quantile the order statistics around it, by the normal approximation of the binomial distribution (Hahn and
    /// Meeker, *Statistical Intervals*, 5.2).
    pub fn of_independent(all: &Histogram) -> TimeSummary {
        let mut summary = TimeSummary::of(&[all], true);
        let n = all.count() as f64;
        let at = |q: f64| all.quantile(q.clamp(0.0, 1.0)).map(Nanos::as_secs_f64);
        summary.quantiles_ci95 = QuantileIntervals::of(QUANTILES.map(|(_, q)| {
            let half = Z_95 * (q * (1.0 - q) / n).sqrt();
            summary.quantile(q).0.and(Some([at(q - half)?, at(q + half)?]))
        }));
        summary
    }

    /// A quantile of [`QUANTILES`] and its interval.
    pub fn quantile(&self, q: f64) -> (Option<f64>, Option<[f64; 2]>) {
        let of = &self.quantiles_ci95;
        let all = [
            (self.p25, of.p25),
            (self.p50, of.p50),
            (self.p75, of.p75),
            (self.p90, of.p90),
            (self.p95, of.p95),
            (self.p99, of.p99),
            (self.p999, of.p999),
        ];
        let found = QUANTILES.iter().zip(all).find(|((_, known), _)| (known - q).abs() < 1e-9);
        found.map_or((None, None), |(_, told)| told)
    }
}

/// A signed difference of two times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct DifferenceSummary {
    /// Observations.
    pub n: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// First quartile.
    pub p25: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Third quartile.
    pub p75: Option<f64>,
    /// Share of negative differences.
    pub negative: Option<f64>,
}

impl DifferenceSummary {
    /// From two histograms: the positive differences, and the magnitudes of the negative ones.
    pub fn of(positive: &Histogram, negative: &Histogram) -> DifferenceSummary {
        let (above, below) = (positive.count(), negative.count());
        let n = above + below;
        if n == 0 {
            return DifferenceSummary::default();
        }
        let total =
            positive.mean().unwrap_or(0.0) * above as f64 - negative.mean().unwrap_or(0.0) * below as f64;
        let quantile = |q: f64| {
            if n < quantile::fewest_observations(q) {
                return None;
            }
            let rank = q * n as f64 - below as f64;
            let value = if rank <= 0.0 {
                -(negative.quantile(-rank / below as f64)?.as_secs_f64())
            } else {
                positive.quantile(rank / above as f64)?.as_secs_f64()
            };
            Some(value)
        };
        DifferenceSummary {
            n,
            mean: Some(total / n as f64 / 1e9),
            p25: quantile(0.25),
            p50: quantile(0.5),
            p75: quantile(0.75),
            negative: Some(below as f64 / n as f64),
        }
    }
}
