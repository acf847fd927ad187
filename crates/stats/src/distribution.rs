//! The distributions of inter-arrival times and message sizes, with their parameters, and the random numbers that
//! they are drawn with.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// A stream of random numbers that depends on nothing but its seed and its name.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

/// The stream of that name: equal seeds and names give equal streams, others independent ones.
pub fn random(seed: u64, name: &[u64]) -> Random {
    let mut mixed = SplitMix64::seed_from_u64(seed).next_u64();
    for part in name {
        mixed = SplitMix64::seed_from_u64(mixed ^ part.rotate_left(32)).next_u64();
    }
    Random(Xoshiro256PlusPlus::seed_from_u64(mixed))
}

impl Random {
    /// A number in `[0, 1)`.
    pub fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// A number from the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Sixty-four random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, zero where `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.random_range(0..bound) }
    }
}

/// How the gaps between arrivals vary around their mean. Every variant has mean 1 and is scaled by the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InterArrival {
    /// No variation.
    Constant,
    /// Exponential: a Poisson process.
    Exponential,
    /// Uniform on `[1 - spread, 1 + spread]`, `0 <= spread <= 1`.
    Uniform {
        /// Half width, as a fraction of the mean.
        spread: f64,
    },
    /// Normal, truncated to positive values and rescaled so that the mean stays 1.
    Normal {
        /// Standard deviation divided by mean, before truncation; positive.
        cv: f64,
    },
    /// Gamma with that shape: 1 is exponential, larger is more regular, smaller burstier.
    Gamma {
        /// The shape parameter, positive.
        shape: f64,
    },
}

impl InterArrival {
    /// Draws one gap, as a multiple of the mean gap. Never negative.
    pub fn sample(&self, random: &mut Random) -> f64 {
        match *self {
            InterArrival::Constant => 1.0,
            InterArrival::Exponential => Exp1.sample(&mut random.0),
            InterArrival::Uniform { spread } => 1.0 + spread * (2.0 * random.fraction() - 1.0),
            InterArrival::Normal { cv } => loop {
                let deviate: f64 = StandardNormal.sample(&mut random.0);
                let gap = 1.0 + cv * deviate;
                if gap > 0.0 {
                    break gap / truncated_normal_mean(cv);
                }
            },
            InterArrival::Gamma { shape } => match Gamma::new(shape, 1.0 / shape) {
                Ok(gamma) => gamma.sample(&mut random.0),
                // A shape that the scenario's checks refuse.
                Err(_) => 1.0,
            },
        }
    }
}

impl InterArrival {
    /// Draws the time from an arbitrary moment to the next arrival of a process that has been going on for long, as a
    /// multiple of the mean gap: a fraction of a gap drawn with a probability proportional to its length (Cox, Renewal
    /// Theory, 5.4). Beginning with it, a process has its nominal rate from the first moment on.
    pub fn sample_first(&self, random: &mut Random) -> f64 {
        match *self {
            // An exponential gap has no memory of its beginning.
            InterArrival::Exponential => self.sample(random),
            InterArrival::Constant => random.fraction(),
            InterArrival::Gamma { shape } => {
                let longer = Gamma::new(shape + 1.0, 1.0 / shape).map(|gamma| gamma.sample(&mut random.0));
                longer.unwrap_or(1.0) * random.fraction()
            }
            InterArrival::Uniform { spread } => self.by_length(1.0 + spread, random) * random.fraction(),
            // Ten standard deviations beyond the mean there is nothing left to be drawn.
            InterArrival::Normal { cv } => self.by_length(1.0 + 10.0 * cv, random) * random.fraction(),
        }
    }

    /// A gap drawn with a probability proportional to its length, which never exceeds `longest`.
    fn by_length(&self, longest: f64, random: &mut Random) -> f64 {
        loop {
            let gap = self.sample(random);
            if random.fraction() * longest < gap {
                return gap;
            }
        }
    }
}

/// Mean of a normal distribution with mean 1 and standard deviation `cv`, truncated to positive values:
/// `1 + cv * phi(1/cv) / Phi(1/cv)` (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1, 13.10).
pub(crate) fn truncated_normal_mean(cv: f64) -> f64 {
    if cv <= 0.0 {
        return 1.0;
    }
    let normal = Normal::standard();
    1.0 + cv * normal.pdf(1.0 / cv) / normal.cdf(1.0 / cv)
}

/// How content sizes vary, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeDistribution {
    /// Always the same.
    Fixed(u32),
    /// Uniform over whole bytes, both ends included.
    Uniform {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Normal, rounded and clamped to the bounds.
    Normal {
        /// Mean before clamping.
        mean: f64,
        /// Standard deviation before clamping.
        deviation: f64,
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// One of a list, each with a positive weight.
    Choice(Vec<(u32, f64)>),
}

impl SizeDistribution {
    /// Draws one size.
    pub fn sample(&self, random: &mut Random) -> u32 {
        match self {
            SizeDistribution::Fixed(size) => *size,
            SizeDistribution::Uniform { min, max } => {
                min + random.below(u64::from(max.saturating_sub(*min)) + 1) as u32
            }
            SizeDistribution::Normal { mean, deviation, min, max } => {
                let deviate: f64 = StandardNormal.sample(&mut random.0);
                ((mean + deviation * deviate).round().max(0.0) as u32).clamp(*min, (*max).max(*min))
            }
            SizeDistribution::Choice(list) => {
                let total: f64 = list.iter().map(|(_, weight)| weight).sum();
                let mut left = random.fraction() * total;
                for (size, weight) in list {
                    left -= weight;
                    if left < 0.0 {
                        return *size;
                    }
                }
                list.last().map_or(0, |(size, _)| *size)
            }
        }
    }

    /// The largest size that can be drawn.
    pub fn largest(&self) -> u32 {
        match self {
            SizeDistribution::Fixed(size) => *size,
            SizeDistribution::Uniform { max, .. } | SizeDistribution::Normal { max, .. } => *max,
            SizeDistribution::Choice(list) => list.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Mean, variance and lag-1 correlation of the gaps.
    fn moments(gaps: InterArrival) -> (f64, f64, f64) {
        let mut random = random(7, &[1]);
        let drawn: Vec<f64> = (0..DRAWS).map(|_| gaps.sample(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
        let variance = drawn.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        let lag_1 = drawn.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>()
            / (DRAWS as f64 * variance.max(f64::MIN_POSITIVE));
        (mean, variance, lag_1)
    }

    /// Four standard errors of the mean are allowed, and for variances what the fourth moments of these
    /// distributions imply at this length, rounded up to 3 %.
    #[test]
    fn gaps_have_the_mean_and_variance_of_their_distribution_and_no_memory() {
        let truncated = |cv: f64| {
            let mean = truncated_normal_mean(cv);
            // Second moment of the truncated normal about the origin: mean * 1 + cv^2.
            (mean + cv * cv - mean * mean) / (mean * mean)
        };
        for (gaps, expected) in [
            (InterArrival::Exponential, 1.0),
            (InterArrival::Uniform { spread: 0.5 }, 0.25 / 3.0),
            (InterArrival::Uniform { spread: 1.0 }, 1.0 / 3.0),
            (InterArrival::Normal { cv: 0.2 }, truncated(0.2)),
            (InterArrival::Normal { cv: 1.0 }, truncated(1.0)),
            (InterArrival::Gamma { shape: 4.0 }, 0.25),
            (InterArrival::Gamma { shape: 0.5 }, 2.0),
        ] {
            let (mean, variance, lag_1) = moments(gaps);
            let error = 4.0 * (expected / DRAWS as f64).sqrt();
            assert!((mean - 1.0).abs() < error, "{gaps:?}: mean {mean}");
            assert!(
                (variance / expected - 1.0).abs() < 0.03,
                "{gaps:?}: variance {variance}, not {expected}"
            );
            assert!(lag_1.abs() < 4.0 / (DRAWS as f64).sqrt(), "{gaps:?}: lag-1 {lag_1}");
        }
        assert_eq!(moments(InterArrival::Constant), (1.0, 0.0, 0.0));
    }

    /// Kolmogorov-Smirnov distance to the exponential law: its 0.1 % point at this length is 1.95 / sqrt(n).
    #[test]
    fn exponential_gaps_follow_the_exponential_law() {
        let mut random = random(3, &[9]);
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| InterArrival::Exponential.sample(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        let distance = (0..DRAWS)
            .map(|rank| ((rank as f64 + 0.5) / DRAWS as f64 - (1.0 - (-drawn[rank]).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / (DRAWS as f64).sqrt(), "distance {distance}");
    }

    #[test]
    fn equal_names_give_equal_streams_and_others_do_not() {
        assert_eq!(random(1, &[2, 3]).bits(), random(1, &[2, 3]).bits());
        assert_ne!(random(1, &[2, 3]).bits(), random(1, &[3, 2]).bits());
        assert_ne!(random(1, &[2]).bits(), random(2, &[2]).bits());
    }

    #[test]
    fn sizes_stay_within_their_bounds_and_reach_them() {
        let mut random = random(5, &[]);
        let mut draw = |sizes: SizeDistribution| -> Vec<u32> {
            (0..10_000).map(|_| sizes.sample(&mut random)).collect()
        };
        let uniform = draw(SizeDistribution::Uniform { min: 10, max: 12 });
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&10), Some(&12)));
        let normal = draw(SizeDistribution::Normal { mean: 100.0, deviation: 50.0, min: 60, max: 140 });
        assert_eq!((normal.iter().min(), normal.iter().max()), (Some(&60), Some(&140)));
        let choice = draw(SizeDistribution::Choice(vec![(10, 3.0), (1000, 1.0)]));
        let small = choice.iter().filter(|&&size| size == 10).count();
        assert!((7_300..7_700).contains(&small), "{small} of 10,000 where 7,500 are expected");
    }
}
