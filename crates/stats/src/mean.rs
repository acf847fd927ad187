//! The mean of a measured time with its confidence interval.

use crate::Interval;
use crate::batches::Batching;
use crate::student::half_width;
use plimsoll_model::Histogram;

/// A mean over samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Mean over all observations, in nanoseconds.
    pub value: f64,
    /// Student's t over batches; `None` with fewer than two batches that saw anything.
    pub interval: Option<Interval>,
    /// How the samples were put together.
    pub batching: Batching,
}

/// The mean of all observations; its interval treats sums and counts of the batches as a ratio estimate (Cochran,
/// Sampling Techniques, 6.4), which is the plain Student interval where all batches have equal counts.
/// `None` where nothing was observed.
pub fn mean(samples: &[&Histogram]) -> Option<Mean> {
    let counts: Vec<f64> = samples.iter().map(|sample| sample.count() as f64).collect();
    let totals: Vec<f64> = samples.iter().zip(&counts).map(|(s, n)| s.mean().unwrap_or(0.0) * n).collect();
    let observations: f64 = counts.iter().sum();
    if observations == 0.0 {
        return None;
    }
    let value = totals.iter().sum::<f64>() / observations;
    let deviations: Vec<f64> = totals.iter().zip(&counts).map(|(total, n)| total - value * n).collect();
    let (batching, half) = half_width(&deviations, observations);
    let interval = half.map(|half| Interval { lo: value - half, hi: value + half });
    Some(Mean { value, interval, batching })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    fn sample(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram
    }

    /// Ten batches of one observation each: mean 5.5, deviation 3.0277, t(9) = 2.2622.
    #[test]
    fn equal_counts_give_the_plain_student_interval() {
        let shuffled = [3, 10, 9, 7, 5, 2, 6, 4, 1, 8];
        let samples: Vec<Histogram> = shuffled.iter().map(|&value| sample(&[value])).collect();
        let mean = mean(&samples.iter().collect::<Vec<_>>()).unwrap();
        let interval = mean.interval.unwrap();
        assert_eq!(mean.batching.size, 1);
        assert!((mean.value - 5.5).abs() < 1e-9);
        assert!((interval.hi - 5.5 - 2.2622 * 3.0277 / 10f64.sqrt()).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn an_empty_sample_weighs_nothing() {
        let (full, empty) = (sample(&[10, 20]), sample(&[]));
        assert!((mean(&[&full, &empty]).unwrap().value - 15.0).abs() < 1e-9);
        assert_eq!(mean(&[&empty]), None);
    }

    #[test]
    fn one_sample_has_no_interval() {
        assert_eq!(mean(&[&sample(&[1, 2, 3])]).unwrap().interval, None);
    }
}
