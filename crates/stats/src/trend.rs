//! Straight lines through measured points.

use crate::Interval;
use crate::student;

/// Above this neighbours are taken as correlated that much and no more, so that an interval stays finite.
const MOST_CORRELATED: f64 = 0.95;

/// The slope of the least-squares line through `(x, y)`, `None` with fewer than two different x.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let joint: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| joint / spread)
}

/// The 95 % interval of the slope of points in the order of x, by Student's t, wider where neighbouring residuals are
/// correlated: as for an autoregressive process of first order, whose correlation is estimated with Kendall's correction of
/// its bias (1954). `None` with fewer than four points.
pub fn slope_interval(points: &[(f64, f64)]) -> Option<Interval> {
    let n = points.len() as f64;
    let slope = slope(points).filter(|_| points.len() >= 4)?;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - mean_y - slope * (x - mean_x)).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    if squares == 0.0 {
        return Some(Interval { lo: slope, hi: slope });
    }
    let neighbours: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let seen = neighbours / squares;
    let correlation = (seen + (1.0 + 4.0 * seen) / n).clamp(0.0, MOST_CORRELATED);
    let wider = (1.0 + correlation) / (1.0 - correlation);
    let error = (squares / (n - 2.0) / spread * wider).sqrt();
    // As many observations as are independent have degrees of freedom.
    let half = student::quantile((n / wider - 2.0).max(1.0))? * error;
    Some(Interval { lo: slope - half, hi: slope + half })
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

    /// Of 400 lines through twenty points with noise, independent or autoregressive, 95 % have the truth in their intervals:
    /// not fewer than an exact binomial test at 1 % allows.
    #[test]
    fn intervals_of_slopes_cover() {
        for memory in [0.0f64, 0.5, 0.8] {
            let mut random = crate::distribution::random(7, &[memory.to_bits()]);
            let trial = |_| {
                let mut noise = random.normal() / (1.0 - memory * memory).sqrt();
                let points: Vec<(f64, f64)> = (0..20)
                    .map(|x| {
                        noise = memory * noise + random.normal();
                        (f64::from(x), 3.0 * f64::from(x) + noise)
                    })
                    .collect();
                let interval = slope_interval(&points).unwrap();
                interval.lo <= 3.0 && 3.0 <= interval.hi
            };
            let covered = (0..400).map(trial).filter(|covers| *covers).count();
            assert!(covered >= 369, "{covered} of 400 with a memory of {memory}");
        }
    }
}
