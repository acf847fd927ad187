//! Straight lines through measured points.

use crate::Interval;
use crate::student;

/// Points from which on the correlation of neighbours can be told from chance well enough.
const ENOUGH: usize = 16;
/// Correlation of neighbours above which they are taken as correlated.
const CORRELATED: f64 = 0.1;

/// The slope of the least-squares line through `(x, y)`, `None` with fewer than two different x.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let joint: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| joint / spread)
}

/// The 95 % interval of the slope of points in the order of x, which are evenly spaced.
///
/// By least squares and Student's t where there are enough points and neighbouring residuals are not positively correlated.
/// Else by the mean of the differences between neighbours: exact for a random walk, and too wide rather than too narrow for
/// what returns to its line. `None` with fewer than four points.
pub fn slope_interval(points: &[(f64, f64)]) -> Option<Interval> {
    slope_interval_at(points, 0.975)
}

/// The same with each end beyond the slope with that probability at most 1 - `probability`.
pub fn slope_interval_at(points: &[(f64, f64)], probability: f64) -> Option<Interval> {
    let n = points.len();
    let slope = slope(points).filter(|_| n >= 4)?;
    let (mean_x, mean_y) = (mean(points.iter().map(|(x, _)| *x), n), mean(points.iter().map(|(_, y)| *y), n));
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - mean_y - slope * (x - mean_x)).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let neighbours: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if n >= ENOUGH && neighbours <= squares * CORRELATED {
        let degrees = n as f64 - 2.0;
        let half = student::quantile_at(degrees, probability)? * (squares / degrees / spread).sqrt();
        return Some(Interval { lo: slope - half, hi: slope + half });
    }
    let step = (points.last()?.0 - points.first()?.0) / (n as f64 - 1.0);
    let rises: Vec<f64> = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) / step).collect();
    let rise = mean(rises.iter().copied(), rises.len());
    let degrees = rises.len() as f64 - 1.0;
    let variance = rises.iter().map(|value| (value - rise).powi(2)).sum::<f64>() / degrees;
    let half = student::quantile_at(degrees, probability)? * (variance / rises.len() as f64).sqrt();
    Some(Interval { lo: rise - half, hi: rise + half })
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_slope_of_a_line() {
        assert_eq!(slope(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(2.0));
        assert_eq!(slope(&[(1.0, 1.0)]), None);
        assert_eq!(slope(&[]), None);
    }

    /// Of 400 lines through points with noise, independent or autoregressive, 95 % have the truth in their intervals:
    /// not fewer than an exact binomial test at 1 % allows.
    #[test]
    fn intervals_of_slopes_cover() {
        for (count, memory) in
            [(10, 0.0f64), (10, 0.8), (20, 0.0), (20, 0.5), (20, 0.8), (20, 0.95), (30, 0.95)]
        {
            let mut random = crate::distribution::random(7, &[memory.to_bits()]);
            let trial = |_| {
                let mut noise = random.normal() / (1.0 - memory * memory).sqrt();
                let points: Vec<(f64, f64)> = (0..count)
                    .map(|x| {
                        noise = memory * noise + random.normal();
                        (f64::from(x), 3.0 * f64::from(x) + noise)
                    })
                    .collect();
                let interval = slope_interval(&points).unwrap();
                interval.lo <= 3.0 && 3.0 <= interval.hi
            };
            let covered = (0..400).map(trial).filter(|covers| *covers).count();
            assert!(covered >= 369, "{covered} of 400, {count} points with a memory of {memory}");
        }
    }
}
