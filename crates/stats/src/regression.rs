//! Least squares through points of unequal weight.

use crate::Interval;
use crate::student::quantile;

/// A point that is known the better the more it weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What was set.
    pub x: f64,
    /// What was seen.
    pub y: f64,
    /// In inverse proportion to the variance of `y`.
    pub weight: f64,
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Growth of y with x.
    pub slope: f64,
    /// Its 95 % interval by Student's t; `None` with fewer than three points.
    pub slope_interval: Option<Interval>,
    /// The value at x = 0.
    pub intercept: f64,
}

/// The line of least weighted squares; `None` with fewer than two different x.
pub fn line(points: &[Point]) -> Option<Line> {
    let [slope, intercept] = coefficients(points, [|x| x, |_| 1.0])?;
    let slope_interval = interval_of_first(points, [|x| x, |_| 1.0], [slope, intercept]);
    Some(Line { slope, slope_interval, intercept })
}

/// The 95 % interval of the coefficient of x² where y is a parabola of x: it tells a slope that grows or falls from a constant
/// one. `None` with fewer than four points, or fewer than three different x.
pub fn curvature(points: &[Point]) -> Option<Interval> {
    // Powers of large numbers lose digits.
    let largest = points.iter().map(|point| point.x.abs()).fold(0.0, f64::max);
    let scaled: Vec<Point> = points.iter().map(|point| Point { x: point.x / largest, ..*point }).collect();
    let terms: [fn(f64) -> f64; 3] = [|x| x * x, |x| x, |_| 1.0];
    let found = coefficients(&scaled, terms)?;
    let Interval { lo, hi } = interval_of_first(&scaled, terms, found)?;
    Some(Interval { lo: lo / largest.powi(2), hi: hi / largest.powi(2) })
}

/// The sums of products of terms, and of terms and y.
fn sums<const N: usize>(points: &[Point], terms: [fn(f64) -> f64; N]) -> ([[f64; N]; N], [f64; N]) {
    let mut products = [[0.0; N]; N];
    let mut with_y = [0.0; N];
    for point in points {
        let values = terms.map(|term| term(point.x));
        for (row, own) in values.into_iter().enumerate() {
            with_y[row] += point.weight * own * point.y;
            for (column, other) in values.into_iter().enumerate() {
                products[row][column] += point.weight * own * other;
            }
        }
    }
    (products, with_y)
}

/// The coefficients of terms of x whose sum fits the points best; `None` where the points do not determine them.
pub fn coefficients<const N: usize>(points: &[Point], terms: [fn(f64) -> f64; N]) -> Option<[f64; N]> {
    let (products, with_y) = sums(points, terms);
    gauss(products, with_y)
}

/// Solves equations by elimination, each pivot being the largest that is left.
fn gauss<const N: usize>(mut rows: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    let scale = rows.iter().flatten().fold(0.0, |most: f64, value| most.max(value.abs()));
    for step in 0..N {
        let pivot =
            (step..N).max_by(|&one, &other| rows[one][step].abs().total_cmp(&rows[other][step].abs()))?;
        rows.swap(step, pivot);
        right.swap(step, pivot);
        if rows[step][step].abs() <= scale * 1e-13 || rows[step][step].is_nan() {
            return None;
        }
        let pivot = rows[step];
        for below in step + 1..N {
            let factor = rows[below][step] / pivot[step];
            for (value, own) in rows[below].iter_mut().zip(pivot) {
                *value -= factor * own;
            }
            right[below] -= factor * right[step];
        }
    }
    let mut found = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|column| rows[row][column] * found[column]).sum();
        found[row] = (right[row] - known) / rows[row][row];
    }
    Some(found)
}

/// The 95 % interval of the first coefficient.
fn interval_of_first<const N: usize>(
    points: &[Point],
    terms: [fn(f64) -> f64; N],
    found: [f64; N],
) -> Option<Interval> {
    let degrees = points.len().checked_sub(N).filter(|&degrees| degrees > 0)? as f64;
    let residual = |point: &Point| {
        let fitted: f64 = terms.iter().zip(found).map(|(term, factor)| factor * term(point.x)).sum();
        point.weight * (point.y - fitted).powi(2)
    };
    let variance = points.iter().map(residual).sum::<f64>() / degrees;
    // The first column of the inverse is what the first unit vector is solved by.
    let mut unit = [0.0; N];
    unit[0] = 1.0;
    let inverse = gauss(sums(points, terms).0, unit)?;
    let half = quantile(degrees)? * (variance * inverse[0]).sqrt();
    half.is_finite().then(|| Interval { lo: found[0] - half, hi: found[0] + half })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    fn points(values: &[(f64, f64)]) -> Vec<Point> {
        values.iter().map(|&(x, y)| Point { x, y, weight: 1.0 }).collect()
    }

    /// Residuals of 0.2, -0.4 and 0.2 around 1.1 x + 0.8 have the variance 0.24 with one degree of freedom; t is 12.706.
    #[test]
    fn a_line_and_its_interval_are_those_of_the_textbook() {
        let found = line(&points(&[(0.0, 1.0), (1.0, 1.5), (2.0, 3.2)])).unwrap();
        assert!((found.slope - 1.1).abs() < 1e-12 && (found.intercept - 0.8).abs() < 1e-12, "{found:?}");
        let half = found.slope_interval.unwrap().hi - found.slope;
        assert!((half - 12.706 * (0.24_f64 / 2.0).sqrt()).abs() < 1e-3, "{found:?}");
        assert_eq!(line(&points(&[(1.0, 1.0), (1.0, 2.0)])), None);
        assert_eq!(line(&points(&[(1.0, 1.0), (2.0, 2.0)])).unwrap().slope_interval, None);
    }

    #[test]
    fn a_heavy_point_draws_the_line() {
        let mut all = points(&[(0.0, 0.0), (1.0, 0.0), (2.0, 10.0)]);
        all[0].weight = 1e9;
        all[2].weight = 1e9;
        assert!((line(&all).unwrap().slope - 5.0).abs() < 1e-3);
    }

    /// Of 400 lines with noise, 95 % have their slope and their lack of curvature in the intervals: not fewer than an exact binomial test at
    /// 1 % allows (368).
    #[test]
    fn intervals_cover() {
        let mut random = random(11, &[]);
        let mut inside = [0, 0];
        for _ in 0..400 {
            let mut noisy = |step| {
                let x = f64::from(step) * 500.0;
                let noise = random.normal() * 1e-3 * (1.0 + x).sqrt();
                Point { x, y: 0.1 + 2e-4 * x + noise, weight: 1.0 / (1.0 + x) }
            };
            let all: Vec<Point> = (1..=8).map(&mut noisy).collect();
            let slope = line(&all).unwrap().slope_interval.unwrap();
            inside[0] += u32::from(slope.lo <= 2e-4 && 2e-4 <= slope.hi);
            let bend = curvature(&all).unwrap();
            inside[1] += u32::from(bend.lo <= 0.0 && 0.0 <= bend.hi);
        }
        assert!(inside.iter().all(|&inside| (368..400).contains(&inside)), "{inside:?}");
    }

    #[test]
    fn a_slope_that_grows_is_told_from_a_constant_one() {
        let bent: Vec<(f64, f64)> =
            (1..8).map(|step| f64::from(step) * 1e3).map(|x| (x, 1e-4 * x + 1e-8 * x * x)).collect();
        let found = curvature(&points(&bent)).unwrap();
        assert!((found.lo - 1e-8).abs() < 1e-12 && (found.hi - 1e-8).abs() < 1e-12, "{found:?}");
        assert_eq!(curvature(&points(&bent[..3])), None);
    }
}
