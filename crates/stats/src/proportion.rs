//! The interval of a proportion.

use crate::Interval;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

/// The normal quantile of a two-sided level of 95 %.
const Z: f64 = 1.959_964;
/// From this variance on, a binomial law is as good as normal, and its own function loses digits.
const MANY: f64 = 1000.0;

/// The 95 % interval of a proportion of which so many of so many were seen: Wilson's score interval (JASA 22, 1927), which holds for few
/// and for proportions near 0 and 1. Without any, nothing is excluded.
pub fn wilson(seen: u64, of: u64) -> Interval {
    if of == 0 {
        return Interval { lo: 0.0, hi: 1.0 };
    }
    let (n, share) = (of as f64, seen as f64 / of as f64);
    let (scale, spread) = (1.0 + Z * Z / n, share * (1.0 - share) / n + Z * Z / (4.0 * n * n));
    let (middle, half) = ((share + Z * Z / (2.0 * n)) / scale, Z * spread.sqrt() / scale);
    Interval { lo: (middle - half).max(0.0), hi: (middle + half).min(1.0) }
}

/// The chance that so many or more of so many have what each has with that chance, independently of the others (binomial law).
pub fn chance_of_at_least(seen: u64, of: u64, share: f64) -> f64 {
    let Some(below) = seen.checked_sub(1) else { return 1.0 };
    let share = share.clamp(0.0, 1.0);
    let expected = of as f64 * share;
    let variance = expected * (1.0 - share);
    if variance > MANY {
        // With the correction for whole numbers.
        return Normal::standard().sf((below as f64 + 0.5 - expected) / variance.sqrt());
    }
    Binomial::new(share, of).map_or(1.0, |law| law.sf(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of ten throws of a coin, eight or more heads: 56 of 1,024; of a die, two or more sixes in four throws: 171 of 1,296.
    #[test]
    fn chances_are_those_of_coins_and_dice() {
        let near = |seen, of, share, chance: f64| {
            let found = chance_of_at_least(seen, of, share);
            assert!((found - chance).abs() < 1e-9, "{found}");
        };
        near(8, 10, 0.5, 56.0 / 1024.0);
        near(2, 4, 1.0 / 6.0, 171.0 / 1296.0);
        near(0, 4, 0.5, 1.0);
        near(1, 1000, 0.0, 0.0);
        near(5, 4, 0.5, 0.0);
        // Half of the chance of exactly half of the throws, by Stirling's formula.
        assert!((chance_of_at_least(50_000, 100_000, 0.5) - 0.501_261_56).abs() < 1e-6);
        // Ten times as many as expected, of many.
        assert!(chance_of_at_least(1_000, 10_000, 0.01) < 1e-300);
    }

    /// Newcombe, Statistics in Medicine 17 (1998), table I.
    #[test]
    fn intervals_are_those_of_the_literature() {
        let near = |seen, of, lo: f64, hi: f64| {
            let interval = wilson(seen, of);
            assert!((interval.lo - lo).abs() < 1e-4 && (interval.hi - hi).abs() < 1e-4, "{interval:?}");
        };
        near(81, 263, 0.2553, 0.3662);
        near(15, 148, 0.0624, 0.1605);
        near(0, 20, 0.0, 0.1611);
        near(1, 29, 0.0061, 0.1718);
        assert_eq!(wilson(0, 0), Interval { lo: 0.0, hi: 1.0 });
    }
}
