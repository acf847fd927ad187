//! Which law gaps follow, and which distribution sizes: each candidate is fitted, tested, and compared with the others.
//!
//! The test is Anderson and Darling's. Its p-value comes from a parametric bootstrap, since the parameters are estimated from the
//! same gaps (Stute, Gonzáles Manteiga and Presedo Quindimil, Metrika 40, 1993).

use crate::distribution::{InterArrival, Random, SizeDistribution, random, truncated_normal_mean};
use statrs::distribution::{Continuous, ContinuousCDF, Gamma, Normal};
use statrs::function::gamma::digamma;

/// A law is refused below that p-value.
pub const REFUSED: f64 = 0.01;
/// Values that a test looks at. Beyond them, any real process differs from any law by something that nobody minds.
pub const TESTED: usize = 1_000;
/// Fewer values tell no law from another.
pub const FEWEST: usize = 20;
/// Drawn samples of a bootstrap, and how many of them that differ as much end it early.
const DRAWN: u32 = 199;
const ENOUGH: u32 = 20;
/// No sample of a law differs so much from it.
const HOPELESS: f64 = 10.0;
/// Gaps are constant if so large a share of them is so near their median.
const NEARLY_ALL: f64 = 0.95;
const NEAR: f64 = 0.1;
/// Gaps between the beats of a clock that each come a little late: one that is too long is followed by one that is too short.
/// Independent lateness makes this correlation -0.5 (Cox and Lewis, The Statistical Analysis of Series of Events, 1966).
const ALTERNATING: f64 = -0.3;
const MOST_JITTER: f64 = 0.25;

/// A law as fitted to gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The law and its parameter.
    pub law: InterArrival,
    /// Anderson and Darling's A²; 0 for constant gaps.
    pub statistic: f64,
    /// The probability of such a statistic, if the law is true. At least 0.005; 1 for constant gaps.
    pub p: f64,
    /// The logarithm of the likelihood, a gap on average; infinite for constant gaps.
    pub likelihood: f64,
}

/// What gaps say of their law.
#[derive(Clone, Debug, PartialEq)]
pub struct Laws {
    /// The law to use.
    pub best: Fit,
    /// Whether the test does not refuse it.
    pub fits: bool,
    /// The others that were tried, the likeliest first.
    pub others: Vec<Fit>,
    /// Gaps.
    pub gaps: usize,
    /// The standard deviation of the gaps, divided by their mean.
    pub cv: f64,
    /// Whether the gaps are those of a clock that comes a little late each time.
    pub jitter: bool,
}

/// Finds the law of gaps, which stand in their order and are at least [`FEWEST`]: constant where they nearly are; else Poisson where the test
/// does not refuse it, since it has no parameter; else the likeliest of those that it does not refuse; else the one from which the
/// gaps differ least.
/// Equal gaps and seeds give equal answers.
pub fn laws(gaps: &[f64], seed: u64) -> Option<Laws> {
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    if gaps.len() < FEWEST || !(mean.is_finite() && mean > 0.0) {
        return None;
    }
    let scaled: Vec<f64> = gaps.iter().map(|gap| (gap / mean).max(1e-9)).collect();
    let (cv, alternation) = variation(&scaled);
    let jitter = cv <= MOST_JITTER && alternation <= ALTERNATING;
    let constant = Fit { law: InterArrival::Constant, statistic: 0.0, p: 1.0, likelihood: f64::INFINITY };
    if jitter || are_constant(&scaled) {
        let (gaps, others) = (gaps.len(), Vec::new());
        return Some(Laws { best: constant, fits: true, others, gaps, cv, jitter });
    }
    let tested = spread_out(&scaled, TESTED);
    let mut fits: Vec<Fit> = candidates(&scaled, cv)
        .into_iter()
        .enumerate()
        .map(|(number, law)| {
            let mut random = random(seed, &[number as u64]);
            let (statistic, p) = tried(law, &tested, &mut random);
            Fit { law, statistic, p, likelihood: likelihood(law, &scaled) }
        })
        .collect();
    fits.sort_by(|one, other| other.likelihood.total_cmp(&one.likelihood));
    let poisson = fits.iter().position(|fit| fit.law == InterArrival::Exponential && fit.p >= REFUSED);
    let first = poisson.or_else(|| fits.iter().position(|fit| fit.p >= REFUSED));
    let nearest = || {
        let all = fits.iter().enumerate();
        all.min_by(|(_, one), (_, other)| one.statistic.total_cmp(&other.statistic))
            .map_or(0, |(place, _)| place)
    };
    let best = fits.remove(first.unwrap_or_else(nearest));
    Some(Laws { best, fits: first.is_some(), others: fits, gaps: gaps.len(), cv, jitter })
}

/// Coefficient of variation, and correlation of each gap with the next one.
fn variation(scaled: &[f64]) -> (f64, f64) {
    let count = scaled.len() as f64;
    let variance = scaled.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / (count - 1.0);
    let next = scaled.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum::<f64>();
    (variance.sqrt(), next / (count * variance).max(f64::MIN_POSITIVE))
}

fn are_constant(scaled: &[f64]) -> bool {
    let mut sorted = scaled.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let near = sorted.iter().filter(|gap| (**gap - median).abs() <= NEAR * median).count();
    near as f64 >= NEARLY_ALL * sorted.len() as f64
}

/// So many of the values, from all over them.
fn spread_out(values: &[f64], most: usize) -> Vec<f64> {
    let count = values.len().min(most);
    (0..count).map(|place| values[place * values.len() / count]).collect()
}

/// The laws with a mean of 1, their parameters fitted to gaps that have it.
fn candidates(scaled: &[f64], cv: f64) -> Vec<InterArrival> {
    let mut laws = vec![InterArrival::Exponential];
    laws.extend([fit_uniform(scaled), fit_normal(cv)].into_iter().flatten());
    laws.extend(fit_gamma(scaled));
    laws
}

/// Half the range, which `n` gaps make smaller by two in `n + 1`.
fn fit_uniform(gaps: &[f64]) -> Option<InterArrival> {
    let (least, most) = range(gaps);
    let count = gaps.len() as f64;
    let spread = (most - least) / (most + least) * (count + 1.0) / (count - 1.0);
    // An outlier is no reason to refuse the scale: the test refuses the law.
    (spread > 0.0).then_some(InterArrival::Uniform { spread: spread.min(1.0) })
}

fn range(gaps: &[f64]) -> (f64, f64) {
    gaps.iter().fold((f64::INFINITY, 0.0), |(least, most), &gap| (gap.min(least), gap.max(most)))
}

/// What stands for 1 in a law: the mean, or for a uniform law the middle, of which the range says more.
fn unit(law: InterArrival, gaps: &[f64]) -> f64 {
    match law {
        InterArrival::Uniform { .. } => {
            let (least, most) = range(gaps);
            f64::midpoint(least, most)
        }
        _ => gaps.iter().sum::<f64>() / gaps.len() as f64,
    }
}

/// By the coefficient of variation, which grows with the parameter up to that of half a normal distribution.
fn fit_normal(cv: f64) -> Option<InterArrival> {
    let truncated = |parameter: f64| {
        let mean = truncated_normal_mean(parameter);
        ((mean + parameter * parameter - mean * mean).max(0.0)).sqrt() / mean
    };
    let (mut low, mut high) = (1e-6, 10.0);
    if !(cv > truncated(low) && cv < truncated(high)) {
        return None;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if truncated(middle) < cv { low = middle } else { high = middle }
    }
    Some(InterArrival::Normal { cv: high })
}

/// By maximum likelihood (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1, 17.7): Newton's steps from
/// Minka's approximation.
fn fit_gamma(scaled: &[f64]) -> Option<InterArrival> {
    let logs = scaled.iter().map(|gap| gap.ln()).sum::<f64>() / scaled.len() as f64;
    let excess = -logs;
    if !(excess.is_finite() && excess > 1e-9) {
        return None;
    }
    let mut shape = (3.0 - excess + ((excess - 3.0).powi(2) + 24.0 * excess).sqrt()) / (12.0 * excess);
    for _ in 0..20 {
        let slope = (digamma(shape + 1e-4) - digamma(shape - 1e-4)) / 2e-4;
        let step = (shape.ln() - digamma(shape) - excess) / (1.0 / shape - slope);
        shape = (shape - step).clamp(0.01, 1e6);
        if step.abs() < 1e-6 * shape {
            break;
        }
    }
    (0.01..1e6).contains(&shape).then_some(InterArrival::Gamma { shape })
}

/// Statistic and p-value of a law. Each drawn sample is fitted, too.
fn tried(law: InterArrival, tested: &[f64], random: &mut Random) -> (f64, f64) {
    let Some(statistic) = again(law, tested).and_then(|law| difference(law, tested)) else {
        return (f64::INFINITY, 1.0 / f64::from(DRAWN + 1));
    };
    if statistic > HOPELESS {
        return (statistic, 1.0 / f64::from(DRAWN + 1));
    }
    let (mut as_much, mut drawn) = (0, 0);
    while drawn < DRAWN && as_much < ENOUGH {
        drawn += 1;
        let sample: Vec<f64> = (0..tested.len()).map(|_| law.sample(random)).collect();
        let other = again(law, &sample).and_then(|law| difference(law, &sample));
        as_much += u32::from(other.is_none_or(|other| other >= statistic));
    }
    (statistic, f64::from(as_much + 1) / f64::from(drawn + 1))
}

/// The same kind of law, fitted to other gaps.
fn again(law: InterArrival, gaps: &[f64]) -> Option<InterArrival> {
    let scaled = rescaled(gaps, unit(InterArrival::Exponential, gaps));
    match law {
        InterArrival::Constant | InterArrival::Exponential => Some(law),
        InterArrival::Uniform { .. } => fit_uniform(&scaled),
        InterArrival::Normal { .. } => fit_normal(variation(&scaled).0),
        InterArrival::Gamma { .. } => fit_gamma(&scaled),
    }
}

fn rescaled(gaps: &[f64], unit: f64) -> Vec<f64> {
    gaps.iter().map(|gap| (gap / unit).max(1e-9)).collect()
}

/// The logarithm of the likelihood of gaps, a gap on average.
fn likelihood(law: InterArrival, gaps: &[f64]) -> f64 {
    let unit = unit(law, gaps);
    let Some(distribution) = Distributed::of(law) else { return f64::NEG_INFINITY };
    let sum: f64 = gaps.iter().map(|&gap| distribution.density(gap / unit).max(1e-300).ln()).sum();
    sum / gaps.len() as f64 - unit.ln()
}

/// Anderson and Darling's statistic of gaps against a law.
fn difference(law: InterArrival, gaps: &[f64]) -> Option<f64> {
    let mut sorted = rescaled(gaps, unit(law, gaps));
    sorted.sort_by(f64::total_cmp);
    let distribution = Distributed::of(law)?;
    let below: Vec<f64> = sorted.iter().map(|&gap| distribution.cdf(gap).clamp(1e-12, 1.0 - 1e-12)).collect();
    anderson_darling(&below)
}

/// Of the shares of a law below each value, in ascending order.
fn anderson_darling(below: &[f64]) -> Option<f64> {
    let count = below.len() as f64;
    let sum: f64 = (0..below.len())
        .map(|rank| {
            let weight = 2.0 * rank as f64 + 1.0;
            weight * (below[rank].ln() + (1.0 - below[below.len() - 1 - rank]).ln())
        })
        .sum();
    let statistic = -count - sum / count;
    statistic.is_finite().then_some(statistic)
}

/// A law that can be asked for shares and densities.
enum Distributed {
    Exponential,
    Uniform(f64),
    Normal { normal: Normal, mean: f64, cut: f64 },
    Gamma(Gamma),
}

impl Distributed {
    fn of(law: InterArrival) -> Option<Distributed> {
        Some(match law {
            InterArrival::Constant => return None,
            InterArrival::Exponential => Distributed::Exponential,
            InterArrival::Uniform { spread } => Distributed::Uniform(spread),
            InterArrival::Normal { cv } => {
                let normal = Normal::new(1.0, cv).ok()?;
                Distributed::Normal { cut: normal.cdf(0.0), normal, mean: truncated_normal_mean(cv) }
            }
            InterArrival::Gamma { shape } => Distributed::Gamma(Gamma::new(shape, shape).ok()?),
        })
    }

    fn cdf(&self, gap: f64) -> f64 {
        match self {
            Distributed::Exponential => 1.0 - (-gap).exp(),
            Distributed::Uniform(spread) => (gap - 1.0 + spread) / (2.0 * spread),
            Distributed::Normal { normal, mean, cut } => (normal.cdf(gap * mean) - cut) / (1.0 - cut),
            Distributed::Gamma(gamma) => gamma.cdf(gap),
        }
    }

    fn density(&self, gap: f64) -> f64 {
        match self {
            Distributed::Exponential => (-gap).exp(),
            Distributed::Uniform(spread) if (gap - 1.0).abs() <= *spread => 0.5 / spread,
            Distributed::Uniform(_) => 0.0,
            Distributed::Normal { normal, mean, cut } => normal.pdf(gap * mean) * mean / (1.0 - cut),
            Distributed::Gamma(gamma) => gamma.pdf(gap),
        }
    }
}

/// Which distribution sizes follow.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeFit {
    /// The distribution, which can be drawn from.
    pub distribution: SizeDistribution,
    /// Of the test of the distribution; `None` where nothing had to be tested: one size, or a list.
    pub p: Option<f64>,
    /// Sizes.
    pub sizes: usize,
}

/// Different sizes that are listed one by one.
const LISTED: usize = 12;
/// Classes of equal probability that stand for sizes of no known distribution.
const CLASSES: usize = 16;

/// Finds the distribution of sizes: one; a list of a few, with their shares; uniform or normal, where the test does not refuse it;
/// else [`CLASSES`] classes of equal probability, each by its mean. `None` without sizes.
pub fn sizes(sizes: &[u32], seed: u64) -> Option<SizeFit> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let count = sorted.len();
    let fit = |distribution, p| Some(SizeFit { distribution, p, sizes: count });
    if min == max {
        return fit(SizeDistribution::Fixed(min), None);
    }
    let listed: Vec<(u32, f64)> = sorted
        .chunk_by(|one, other| one == other)
        .map(|equal| (equal[0], equal.len() as f64 / count as f64))
        .take(LISTED + 1)
        .collect();
    // More values than a few of them show how often each comes.
    if listed.len() <= LISTED && count >= 3 * listed.len() {
        return fit(SizeDistribution::Choice(listed), None);
    }
    if count >= FEWEST {
        let mean = sorted.iter().map(|&size| f64::from(size)).sum::<f64>() / count as f64;
        let squares = sorted.iter().map(|&size| (f64::from(size) - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (count as f64 - 1.0)).sqrt();
        let tested: Vec<u32> =
            spread_out(&sorted.iter().map(|&size| f64::from(size)).collect::<Vec<_>>(), TESTED)
                .into_iter()
                .map(|size| size as u32)
                .collect();
        let mut tries: Vec<(SizeDistribution, f64)> =
            [SizeDistribution::Uniform { min, max }, SizeDistribution::Normal { mean, deviation, min, max }]
                .into_iter()
                .enumerate()
                .map(|(number, distribution)| {
                    let p = size_p(&distribution, &tested, &mut random(seed, &[number as u64, 1]));
                    (distribution, p)
                })
                .filter(|(_, p)| *p >= REFUSED)
                .collect();
        tries.sort_by(|one, other| other.1.total_cmp(&one.1));
        if let Some((distribution, p)) = tries.into_iter().next() {
            return fit(distribution, Some(p));
        }
    }
    let classes = CLASSES.min(count);
    let list = (0..classes).map(|class| {
        let part = &sorted[class * count / classes..(class + 1) * count / classes];
        let mean = part.iter().map(|&size| f64::from(size)).sum::<f64>() / part.len() as f64;
        (mean.round() as u32, part.len() as f64 / count as f64)
    });
    fit(SizeDistribution::Choice(merged(list)), None)
}

/// Classes of equal size are one.
fn merged(list: impl Iterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut merged: Vec<(u32, f64)> = Vec::new();
    for (size, weight) in list {
        match merged.last_mut().filter(|last| last.0 == size) {
            Some(last) => last.1 += weight,
            None => merged.push((size, weight)),
        }
    }
    merged
}

/// The p-value of a distribution of sizes, by the distance of Kolmogorov and Smirnov, which allows equal values; the
/// bootstrap draws as many sizes, rounded alike.
fn size_p(distribution: &SizeDistribution, tested: &[u32], random: &mut Random) -> f64 {
    let distance = distance(distribution, tested);
    let (mut as_much, mut drawn) = (0, 0);
    while drawn < DRAWN && as_much < ENOUGH {
        drawn += 1;
        let mut sample: Vec<u32> = (0..tested.len()).map(|_| distribution.sample(random)).collect();
        sample.sort_unstable();
        as_much += u32::from(self::distance(&refitted(distribution, &sample), &sample) >= distance);
    }
    f64::from(as_much + 1) / f64::from(drawn + 1)
}

/// The same kind of distribution, fitted to other sizes in ascending order.
fn refitted(distribution: &SizeDistribution, sorted: &[u32]) -> SizeDistribution {
    let (min, max) = (sorted.first().copied().unwrap_or(0), sorted.last().copied().unwrap_or(0));
    match distribution {
        SizeDistribution::Normal { .. } => {
            let count = sorted.len() as f64;
            let mean = sorted.iter().map(|&size| f64::from(size)).sum::<f64>() / count;
            let squares = sorted.iter().map(|&size| (f64::from(size) - mean).powi(2)).sum::<f64>();
            SizeDistribution::Normal { mean, deviation: (squares / (count - 1.0)).sqrt(), min, max }
        }
        _ => SizeDistribution::Uniform { min, max },
    }
}

/// The largest difference between the share of sizes up to each one and that of a distribution.
fn distance(distribution: &SizeDistribution, sorted: &[u32]) -> f64 {
    let share = |size: u32| match distribution {
        SizeDistribution::Uniform { min, max } => f64::from(size - min + 1) / (f64::from(max - min) + 1.0),
        SizeDistribution::Normal { max, .. } if size >= *max => 1.0,
        SizeDistribution::Normal { mean, deviation, .. } => {
            Normal::new(*mean, *deviation).map_or(0.0, |normal| normal.cdf(f64::from(size) + 0.5))
        }
        SizeDistribution::Fixed(_) | SizeDistribution::Choice(_) => 1.0,
    };
    let count = sorted.len() as f64;
    let mut most = 0.0_f64;
    let mut before = 0;
    for equal in sorted.chunk_by(|one, other| one == other) {
        let upto = before + equal.len();
        most = most.max((upto as f64 / count - share(equal[0])).abs());
        before = upto;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(law: InterArrival, count: usize, seed: u64) -> Vec<f64> {
        let mut random = random(seed, &[7]);
        (0..count).map(|_| 0.25 * law.sample(&mut random)).collect()
    }

    fn kind(law: InterArrival) -> &'static str {
        match law {
            InterArrival::Constant => "constant",
            InterArrival::Exponential => "poisson",
            InterArrival::Uniform { .. } => "uniform",
            InterArrival::Normal { .. } => "normal",
            InterArrival::Gamma { .. } => "gamma",
        }
    }

    /// Of twenty samples of a law, at most two may be taken for another: a law is refused by chance in one of a hundred.
    #[test]
    fn a_law_is_recognised_and_its_parameter_recovered() {
        for law in [
            InterArrival::Constant,
            InterArrival::Exponential,
            InterArrival::Uniform { spread: 0.5 },
            InterArrival::Normal { cv: 0.25 },
            InterArrival::Gamma { shape: 0.5 },
            InterArrival::Gamma { shape: 3.0 },
        ] {
            let mut right = 0;
            for seed in 0..20 {
                let found = laws(&drawn(law, 1_500, seed), seed).unwrap();
                right += usize::from(kind(found.best.law) == kind(law) && found.fits);
                match (law, found.best.law) {
                    (InterArrival::Uniform { .. }, InterArrival::Uniform { spread }) => {
                        assert!((spread - 0.5).abs() < 0.02, "{spread}");
                    }
                    (InterArrival::Normal { .. }, InterArrival::Normal { cv }) => {
                        assert!((cv - 0.25).abs() < 0.02, "{cv}");
                    }
                    (InterArrival::Gamma { shape }, InterArrival::Gamma { shape: found }) => {
                        assert!((found / shape - 1.0).abs() < 0.2, "{found}, not {shape}");
                    }
                    _ => {}
                }
            }
            assert!(right >= 18, "{law:?}: {right} of 20");
        }
    }

    #[test]
    fn a_clock_that_comes_late_is_constant() {
        let mut random = random(3, &[]);
        let beats: Vec<f64> = (0..500).map(|beat| f64::from(beat) + 0.2 * random.fraction()).collect();
        let gaps: Vec<f64> = beats.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let found = laws(&gaps, 1).unwrap();
        assert_eq!((found.best.law, found.jitter), (InterArrival::Constant, true));
    }

    #[test]
    fn what_follows_none_is_reported_as_that() {
        // Two clocks in turn.
        let gaps: Vec<f64> = (0..600).map(|gap| if gap % 3 == 0 { 10.0 } else { 1.0 }).collect();
        let found = laws(&gaps, 1).unwrap();
        assert!(!found.fits, "{found:?}");
        assert_eq!((kind(found.best.law), found.others.len()), ("gamma", 2), "{found:?}");
    }

    #[test]
    fn few_or_senseless_gaps_tell_nothing() {
        assert_eq!(laws(&[1.0; 19], 1), None);
        assert_eq!(laws(&[0.0; 50], 1), None);
        assert_eq!(laws(&[f64::NAN; 50], 1), None);
        assert_eq!(sizes(&[], 1), None);
    }

    #[test]
    fn sizes_are_recognised() {
        let found = |distribution: SizeDistribution, seed| {
            let mut random = random(seed, &[3]);
            let drawn: Vec<u32> = (0..1_200).map(|_| distribution.sample(&mut random)).collect();
            sizes(&drawn, seed).unwrap().distribution
        };
        assert_eq!(found(SizeDistribution::Fixed(64), 1), SizeDistribution::Fixed(64));
        for seed in 0..10 {
            let normal = SizeDistribution::Normal { mean: 200.0, deviation: 20.0, min: 100, max: 400 };
            let SizeDistribution::Normal { mean, deviation, .. } = found(normal, seed) else {
                panic!("seed {seed}: not normal")
            };
            assert!((mean - 200.0).abs() < 4.0 && (deviation - 20.0).abs() < 2.0, "{mean} {deviation}");
            let uniform = found(SizeDistribution::Uniform { min: 100, max: 300 }, seed);
            let SizeDistribution::Uniform { min, max } = uniform else { panic!("seed {seed}: {uniform:?}") };
            assert!((100..103).contains(&min) && (298..=300).contains(&max), "{min} {max}");
            let list = SizeDistribution::Choice(vec![(20, 3.0), (500, 1.0)]);
            let SizeDistribution::Choice(list) = found(list, seed) else { panic!("no list") };
            assert_eq!((list[0].0, list[1].0), (20, 500));
            assert!((list[0].1 - 0.75).abs() < 0.05, "{list:?}");
        }
    }

    #[test]
    fn sizes_of_no_known_distribution_are_classes_with_the_same_mean() {
        let mut random = random(1, &[9]);
        let drawn: Vec<u32> =
            (0..2_000).map(|_| (100.0 * InterArrival::Exponential.sample(&mut random)) as u32).collect();
        let mean = drawn.iter().map(|&size| f64::from(size)).sum::<f64>() / 2_000.0;
        let SizeDistribution::Choice(list) = sizes(&drawn, 1).unwrap().distribution else {
            panic!("no list")
        };
        let found: f64 = list.iter().map(|(size, weight)| f64::from(*size) * weight).sum();
        assert!((found - mean).abs() < 0.5, "{found}, not {mean}");
        assert_eq!(list.len(), CLASSES);
    }
}
