//! Boxplots after Tukey: quartiles, whiskers at 1.5 times their distance, outliers beyond.

use plimsoll_model::{Histogram, Nanos};

/// The five numbers of a boxplot, and how many observations lie beyond the whiskers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boxplot {
    /// Smallest observation within 1.5 interquartile ranges below the first quartile.
    pub lower_whisker: Nanos,
    /// First quartile.
    pub p25: Nanos,
    /// Median.
    pub p50: Nanos,
    /// Third quartile.
    pub p75: Nanos,
    /// Largest observation within 1.5 interquartile ranges above the third quartile.
    pub upper_whisker: Nanos,
    /// Observations below the lower or above the upper whisker.
    pub outliers: u64,
    /// The largest observation.
    pub max: Nanos,
}

/// The boxplot of a histogram, `None` where it is empty.
pub fn boxplot(histogram: &Histogram) -> Option<Boxplot> {
    let [p25, p50, p75] = [0.25, 0.5, 0.75].map(|q| histogram.quantile(q));
    let (p25, p50, p75, max) = (p25?, p50?, p75?, histogram.max()?);
    let reach = ((p75 - p25).0 as f64 * 1.5) as i64;
    let (low, high) = ((p25.0 - reach).max(0) as u64, (p75.0 + reach) as u64);
    let inside = histogram.buckets().filter(|(value, _)| (low..=high).contains(value));
    let (mut lower_whisker, mut upper_whisker, mut count) = (p25, p75, 0);
    for (value, observations) in inside {
        lower_whisker = lower_whisker.min(Nanos(value as i64));
        upper_whisker = upper_whisker.max(Nanos(value as i64));
        count += observations;
    }
    let outliers = histogram.count().saturating_sub(count);
    Some(Boxplot { lower_whisker, p25, p50, p75, upper_whisker, outliers, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiskers_end_at_the_last_observation_within_reach() {
        let mut histogram = Histogram::new();
        for value in [100, 110, 120, 130, 140, 150, 160, 1000] {
            histogram.record(Nanos(value));
        }
        let boxplot = boxplot(&histogram).unwrap();
        assert_eq!((boxplot.p25, boxplot.p50, boxplot.p75), (Nanos(110), Nanos(130), Nanos(150)));
        assert_eq!((boxplot.lower_whisker, boxplot.upper_whisker), (Nanos(100), Nanos(160)));
        assert_eq!((boxplot.outliers, boxplot.max), (1, Nanos(1000)));
    }

    #[test]
    fn nothing_observed_is_no_boxplot() {
        assert_eq!(boxplot(&Histogram::new()), None);
    }
}
