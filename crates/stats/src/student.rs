//! The mean of one number a sample, with its confidence interval.

use crate::Interval;
use crate::batches::{Batching, batching, sums};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The 95 % interval of the mean of equally weighted values by Student's t, over batches of consecutive values that
/// are large enough to be independent. `None` with fewer than two values.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let weighted: Vec<(f64, f64)> = values.iter().map(|&value| (value, 1.0)).collect();
    weighted_mean(&weighted)?.1
}

/// The mean of values that stand for as much as their weights say, `(value, weight)`, and its 95 % interval as of
/// [`mean_interval`]. `None` where all weights together are zero.
pub fn weighted_mean(weighted: &[(f64, f64)]) -> Option<(f64, Option<Interval>)> {
    let weight: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    // Around the first value, so that the mean of equal values is exactly theirs.
    let first = weighted.first()?.0;
    let mean = first + weighted.iter().map(|(value, weight)| (value - first) * weight).sum::<f64>() / weight;
    let deviations: Vec<f64> = weighted.iter().map(|(value, weight)| weight * (value - mean)).collect();
    let interval =
        || half_width(&deviations, weight).1.map(|half| Interval { lo: mean - half, hi: mean + half });
    (weight > 0.0).then(|| (mean, interval()))
}

/// The 95 % interval of the difference of two means, as of [`difference_interval_at`].
pub fn difference_interval(first: &[f64], second: &[f64]) -> Option<Interval> {
    difference_interval_at(first, second, 0.95)
}

/// The interval of the difference of two means with that confidence, second minus first, of independent values with variances of
/// their own (Welch 1947, with the degrees of freedom of Welch and Satterthwaite). `None` where one side has fewer than two
/// values.
pub fn difference_interval_at(first: &[f64], second: &[f64], confidence: f64) -> Option<Interval> {
    let moments = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (n, mean, variance / n)
    };
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let ((n1, mean1, error1), (n2, mean2, error2)) = (moments(first), moments(second));
    let error = error1 + error2;
    let difference = mean2 - mean1;
    if error == 0.0 {
        return Some(Interval { lo: difference, hi: difference });
    }
    let degrees = error.powi(2) / (error1.powi(2) / (n1 - 1.0) + error2.powi(2) / (n2 - 1.0));
    let half = quantile_at(degrees, f64::midpoint(1.0, confidence))? * error.sqrt();
    Some(Interval { lo: difference - half, hi: difference + half })
}

/// How samples are put together, and half the width of the 95 % interval of a mean over them. `deviations[i]` is what
/// sample i contributes beyond its weight times the mean, `weight` is that of all samples together. Batches with rare large
/// contributions tell their own variance less well than normal ones: they have fewer degrees of freedom.
pub(crate) fn half_width(deviations: &[f64], weight: f64) -> (Batching, Option<f64>) {
    let batching = batching(deviations);
    let residuals = sums(deviations, batching.size);
    let batches = residuals.len() as f64;
    let half = quantile(degrees(&residuals)).map(|t| {
        let per_batch = weight / batches;
        let variance = residuals.iter().map(|sum| (sum / per_batch).powi(2)).sum::<f64>() / (batches - 1.0);
        t * (variance / batches).sqrt()
    });
    (batching, half)
}

/// Degrees of freedom of the variance of values around 0 by their kurtosis (O'Neill, Some Useful Moment Results in Sampling
/// Problems, 2014), at most those of normal ones.
fn degrees(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    let sum = |power| residuals.iter().map(|value| value.powi(power)).sum::<f64>();
    let kurtosis = n * sum(4) / sum(2).powi(2);
    if !kurtosis.is_finite() || n < 4.0 {
        return n - 1.0;
    }
    (2.0 * n / (kurtosis - (n - 3.0) / (n - 1.0)).max(1e-9)).clamp(1.0, n - 1.0)
}

/// The 97.5 % point of Student's t, `None` below one degree of freedom.
pub fn quantile(degrees: f64) -> Option<f64> {
    quantile_at(degrees, 0.975)
}

/// The point of Student's t below which it lies with that probability, `None` below one degree of freedom.
pub fn quantile_at(degrees: f64, probability: f64) -> Option<f64> {
    let law = (degrees >= 1.0).then(|| StudentsT::new(0.0, 1.0, degrees).ok()).flatten()?;
    Some(law.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean 5.5, deviation 3.0277, t(9) = 2.2622: half width 2.1659.
    #[test]
    fn ten_independent_values_give_the_textbook_interval() {
        let interval = mean_interval(&[3.0, 10.0, 9.0, 7.0, 5.0, 2.0, 6.0, 4.0, 1.0, 8.0]).unwrap();
        assert!((interval.lo - 3.3341).abs() < 1e-3 && (interval.hi - 7.6659).abs() < 1e-3, "{interval:?}");
    }

    /// A value that stands for three seconds counts as much as three that stand for one each.
    #[test]
    fn a_weighted_mean_is_that_over_time() {
        let (mean, interval) = weighted_mean(&[(1.0, 3.0), (5.0, 1.0)]).unwrap();
        assert_eq!(mean, 2.0);
        assert!(interval.is_some_and(|interval| interval.lo < 2.0 && interval.hi > 2.0), "{interval:?}");
        assert_eq!(weighted_mean(&[(7.0, 2.0)]), Some((7.0, None)));
        assert_eq!((weighted_mean(&[]), weighted_mean(&[(1.0, 0.0)])), (None, None));
    }

    /// One value of thirty makes all of the variance: it is known as from few.
    #[test]
    fn rare_large_values_tell_their_variance_less_well() {
        let mut values = vec![0.0; 30];
        values[7] = 30.0;
        let even: Vec<f64> = (0..30).map(|number| f64::from(number % 2)).collect();
        let around = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / 30.0;
            degrees(&values.iter().map(|value| value - mean).collect::<Vec<f64>>())
        };
        assert!((1.5..3.5).contains(&around(&values)), "{}", around(&values));
        assert_eq!(around(&even), 29.0);
        assert_eq!(degrees(&[0.0; 9]), 8.0);
    }

    /// Pairs of equal values hold the information of one each, so the interval must not shrink as if all counted.
    #[test]
    fn correlated_values_do_not_narrow_the_interval() {
        let single: Vec<f64> = (0..40).map(|i: i32| f64::from(i * i * 7 % 41)).collect();
        let repeated: Vec<f64> = single.iter().flat_map(|value| [*value; 4]).collect();
        let width = |values: &[f64]| mean_interval(values).map(|i| i.hi - i.lo).unwrap();
        assert!(width(&repeated) > 0.8 * width(&single), "{} {}", width(&repeated), width(&single));
    }

    /// Means 10 and 13, variances 1 and 4 of five values each: 5.88 degrees of freedom, t = 2.459, half width 2.459.
    #[test]
    fn a_difference_has_the_interval_of_welch() {
        let first: Vec<f64> =
            [-1.264_911, -0.632_456, 0.0, 0.632_456, 1.264_911].iter().map(|x| 10.0 + x).collect();
        let second: Vec<f64> =
            [-1.264_911, -0.632_456, 0.0, 0.632_456, 1.264_911].iter().map(|x| 13.0 + 2.0 * x).collect();
        let interval = difference_interval(&first, &second).unwrap();
        assert!((interval.lo - 0.541).abs() < 5e-3 && (interval.hi - 5.459).abs() < 5e-3, "{interval:?}");
        assert_eq!(difference_interval(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(difference_interval(&[1.0, 1.0], &[2.0, 2.0]), Some(Interval { lo: 1.0, hi: 1.0 }));
    }

    #[test]
    fn fewer_than_two_values_have_no_interval() {
        assert_eq!(mean_interval(&[]), None);
        assert_eq!(mean_interval(&[1.0]), None);
    }
}
