//! The interval of a proportion.

use crate::Interval;

/// The normal quantile of a two-sided level of 95 %.
const Z: f64 = 1.959_964;

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

#[cfg(test)]
mod tests {
    use super::*;

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
