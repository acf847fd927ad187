//! Laws of scalability, fitted to throughput over concurrency.
//!
//! The universal scalability law (Gunther, Guerrilla Capacity Planning, 2007, chapter 4) says that N concurrent operations
//! have the throughput X(N) = λN / (1 + α(N−1) + βN(N−1)): α is the share of the work in which they wait for each other
//! (contention), β the cost of agreeing between each two (coherency). Amdahl's law (AFIPS 1967) is the same with β = 0.

use crate::Interval;
use crate::distribution::{Random, random};
use crate::regression::{self, Point};

/// Fewest concurrencies to fit to: one more than the law has parameters.
pub const FEWEST: usize = 4;
/// Resamples for an interval.
const RESAMPLES: usize = 1000;
/// Share of the resamples below an interval, and above it.
const TAIL: f64 = 0.025;

/// What was measured at one concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Operations in flight.
    pub concurrency: f64,
    /// Operations per second in each sample.
    pub throughput: Vec<f64>,
}

/// A parameter of a law, and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its most likely value, not below zero.
    pub value: f64,
    /// Its 95 % interval, by resampling the samples of each concurrency; its ends are not below zero.
    pub interval: Interval,
}

/// A law that was fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// λ, operations per second of one alone.
    pub alone: Parameter,
    /// α, contention.
    pub contention: Parameter,
    /// β, coherency; zero in Amdahl's law.
    pub coherency: Parameter,
    /// The largest distance of a measured throughput from the law, as a share of the law's.
    pub misfit: f64,
}

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The universal one.
    Universal,
    /// Without coherency.
    Amdahl,
}

impl Scaling {
    /// Fits a law; `None` with fewer than [`FEWEST`] different concurrencies, or where one has fewer than two samples or
    /// no throughput. The same measurements and seed give the same fit.
    pub fn fit(law: Law, measured: &[Measured], seed: u64) -> Option<Scaling> {
        let usable = |one: &Measured| one.throughput.len() >= 2 && one.concurrency > 0.0;
        let mut different: Vec<f64> = measured.iter().map(|one| one.concurrency).collect();
        different.sort_by(f64::total_cmp);
        different.dedup();
        if different.len() < FEWEST || !measured.iter().all(usable) {
            return None;
        }
        let mean = |one: &Measured| one.throughput.iter().sum::<f64>() / one.throughput.len() as f64;
        let means: Vec<f64> = measured.iter().map(mean).collect();
        let found = coefficients(law, measured, &means)?;
        let best = not_negative(law, measured, &means, found)?;
        let mut random = random(seed, &[]);
        let mut resampled: [Vec<f64>; 3] = Default::default();
        for _ in 0..RESAMPLES {
            let means: Vec<f64> =
                measured.iter().zip(&means).map(|(one, &mean)| resample(one, mean, &mut random)).collect();
            // A resample that determines nothing would only widen the interval.
            let Some(found) = coefficients(law, measured, &means) else { continue };
            for (values, value) in resampled.iter_mut().zip(parameters(found)) {
                values.push(value);
            }
        }
        let [alone, contention, coherency] = parameters(best);
        let [of_alone, of_contention, of_coherency] = resampled.map(middle);
        let misfit = measured.iter().zip(&means).map(|(one, mean)| {
            let law = throughput([alone, contention, coherency], one.concurrency);
            (mean - law).abs() / law
        });
        Some(Scaling {
            alone: Parameter { value: alone, interval: of_alone? },
            contention: Parameter { value: contention, interval: of_contention? },
            coherency: Parameter { value: coherency, interval: of_coherency? },
            misfit: misfit.fold(0.0, f64::max),
        })
    }

    /// The law's throughput at a concurrency.
    pub fn throughput(&self, concurrency: f64) -> f64 {
        throughput([self.alone.value, self.contention.value, self.coherency.value], concurrency)
    }

    /// The concurrency of the highest throughput; `None` where coherency may be zero, and throughput grows without end.
    pub fn peak(&self) -> Option<f64> {
        let left = (1.0 - self.contention.value).max(0.0);
        (self.coherency.interval.lo > 0.0).then(|| (left / self.coherency.value).sqrt())
    }

    /// What throughput comes near to at any concurrency by contention alone: λ/α; `None` where contention may be zero.
    pub fn ceiling(&self) -> Option<f64> {
        (self.contention.interval.lo > 0.0).then(|| self.alone.value / self.contention.value)
    }
}

/// λ, α and β from the coefficients of N/X = a + b(N−1) + cN(N−1).
fn parameters([a, b, c]: [f64; 3]) -> [f64; 3] {
    [1.0 / a, b / a, c / a]
}

fn throughput([alone, contention, coherency]: [f64; 3], n: f64) -> f64 {
    alone * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
}

const ONE: fn(f64) -> f64 = |_| 1.0;
const WAITING: fn(f64) -> f64 = |n| n - 1.0;
const AGREEING: fn(f64) -> f64 = |n| n * (n - 1.0);

/// Relative errors count alike, so a point weighs by the inverse square of its value.
fn points(measured: &[Measured], means: &[f64]) -> Option<Vec<Point>> {
    let point = |(one, &mean): (&Measured, &f64)| {
        let y = one.concurrency / mean;
        (mean > 0.0).then(|| Point { x: one.concurrency, y, weight: one.throughput.len() as f64 / (y * y) })
    };
    measured.iter().zip(means).map(point).collect()
}

/// The coefficients of least squares, whatever their signs.
fn coefficients(law: Law, measured: &[Measured], means: &[f64]) -> Option<[f64; 3]> {
    let points = points(measured, means)?;
    let found = match law {
        Law::Universal => regression::coefficients(&points, [ONE, WAITING, AGREEING])?,
        Law::Amdahl => {
            let [a, b] = regression::coefficients(&points, [ONE, WAITING])?;
            [a, b, 0.0]
        }
    };
    (found[0] > 0.0).then_some(found)
}

/// The coefficients of least squares among those that are not negative.
fn not_negative(law: Law, measured: &[Measured], means: &[f64], found: [f64; 3]) -> Option<[f64; 3]> {
    if found.iter().all(|&value| value >= 0.0) {
        return Some(found);
    }
    let points = points(measured, means)?;
    let two = |terms| regression::coefficients(&points, terms);
    let waiting = two([ONE, WAITING]).map(|[a, b]| [a, b, 0.0]);
    let agreeing = two([ONE, AGREEING]).map(|[a, c]| [a, 0.0, c]).filter(|_| law == Law::Universal);
    let alone = regression::coefficients(&points, [ONE]).map(|[a]| [a, 0.0, 0.0]);
    let squares = |&[a, b, c]: &[f64; 3]| {
        let off = |point: &Point| {
            let fitted = a + b * WAITING(point.x) + c * AGREEING(point.x);
            point.weight * (point.y - fitted).powi(2)
        };
        points.iter().map(off).sum::<f64>()
    };
    let allowed = [waiting, agreeing, alone].into_iter().flatten();
    let allowed = allowed.filter(|found| found[0] > 0.0 && found.iter().all(|&value| value >= 0.0));
    allowed.min_by(|one, other| squares(one).total_cmp(&squares(other)))
}

/// The mean of as many samples, drawn with replacement. Drawn samples vary less than the ones they stand for, by (k−1)/k.
fn resample(one: &Measured, mean: f64, random: &mut Random) -> f64 {
    let count = one.throughput.len();
    let drawn = (0..count).filter_map(|_| one.throughput.get(random.below(count as u64) as usize));
    let deviation = drawn.map(|value| value - mean).sum::<f64>() / count as f64;
    mean + deviation * (count as f64 / (count as f64 - 1.0)).sqrt()
}

/// Where the middle 95 % of values lie, not below zero.
fn middle(mut values: Vec<f64>) -> Option<Interval> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len().max(1) - 1) as f64 * share).round() as usize);
    Some(Interval { lo: at(TAIL)?.max(0.0), hi: at(1.0 - TAIL)?.max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    fn measured(truth: [f64; 3], noise: f64, seed: u64) -> Vec<Measured> {
        let mut random = random(seed, &[1]);
        let mut level = |&n: &f64| {
            let law = throughput(truth, n);
            Measured {
                concurrency: n,
                throughput: (0..30).map(|_| law * (1.0 + noise * random.normal())).collect(),
            }
        };
        LEVELS.iter().map(&mut level).collect()
    }

    #[test]
    fn a_law_without_noise_is_found_exactly() {
        let found = Scaling::fit(Law::Universal, &measured([900.0, 0.06, 0.001], 0.0, 1), 1).unwrap();
        let [alone, contention, coherency] =
            [found.alone, found.contention, found.coherency].map(|p| p.value);
        assert!((alone - 900.0).abs() < 1e-6 && (contention - 0.06).abs() < 1e-9, "{found:?}");
        assert!((coherency - 0.001).abs() < 1e-9 && found.misfit < 1e-9, "{found:?}");
        assert!((found.peak().unwrap() - 940.0_f64.sqrt()).abs() < 1e-6, "{found:?}");
    }

    /// Of 200 noisy measurements, not fewer intervals hold the truth than an exact binomial test at 1 % allows (182), and the
    /// median half-width of α is at most 20 % of it.
    #[test]
    fn intervals_cover() {
        let truth = [900.0, 0.06, 0.001];
        let mut inside = [0; 3];
        let mut widths = Vec::new();
        for trial in 0..200 {
            let found = Scaling::fit(Law::Universal, &measured(truth, 0.05, trial), trial).unwrap();
            let parameters = [found.alone, found.contention, found.coherency];
            for (inside, (parameter, truth)) in inside.iter_mut().zip(parameters.iter().zip(truth)) {
                let Interval { lo, hi } = parameter.interval;
                *inside += u32::from(lo <= truth && truth <= hi);
            }
            widths.push((found.contention.interval.hi - found.contention.interval.lo) / 2.0 / truth[1]);
        }
        widths.sort_by(f64::total_cmp);
        assert!(inside.iter().all(|inside| (182..200).contains(inside)), "{inside:?}");
        assert!(widths[100] <= 0.2, "{}", widths[100]);
    }

    #[test]
    fn no_peak_is_claimed_without_coherency_nor_a_ceiling_without_contention() {
        let mut peaks = 0;
        for trial in 0..100 {
            let found =
                Scaling::fit(Law::Universal, &measured([900.0, 0.06, 0.0], 0.05, trial), trial).unwrap();
            assert!(found.coherency.value >= 0.0 && found.contention.value >= 0.0, "{found:?}");
            peaks += u32::from(found.peak().is_some());
        }
        // One tail of a 95 % interval: 2.5 of 100 on average, and not more than an exact binomial test at 1 % allows.
        assert!(peaks <= 7, "{peaks}");
        let linear = Scaling::fit(Law::Amdahl, &measured([900.0, 0.0, 0.0], 0.02, 3), 3).unwrap();
        assert_eq!((linear.coherency.value, linear.ceiling().is_none()), (0.0, true), "{linear:?}");
    }

    #[test]
    fn amdahls_law_has_its_ceiling_and_misfits_a_curve_that_falls() {
        let found = Scaling::fit(Law::Amdahl, &measured([900.0, 0.1, 0.0], 0.02, 5), 5).unwrap();
        assert!((found.ceiling().unwrap() / 9000.0 - 1.0).abs() < 0.05 && found.misfit < 0.05, "{found:?}");
        let falling = Scaling::fit(Law::Amdahl, &measured([900.0, 0.1, 0.01], 0.0, 5), 5).unwrap();
        assert!(falling.misfit > 0.2, "{falling:?}");
    }

    #[test]
    fn too_little_is_not_fitted() {
        let all = measured([900.0, 0.1, 0.0], 0.0, 5);
        assert_eq!(Scaling::fit(Law::Universal, &all[..3], 1), None);
        let mut silent = all.clone();
        silent[2].throughput = vec![0.0; 30];
        assert_eq!(Scaling::fit(Law::Universal, &silent, 1), None);
        let mut few = all;
        few[2].throughput.truncate(1);
        assert_eq!(Scaling::fit(Law::Universal, &few, 1), None);
    }
}
