//! Batches of consecutive samples, large enough to be independent (the method of batch means; Law, Simulation
//! Modeling and Analysis, 9.5.3).

/// Fewest batches that an interval is still computed from after enlarging.
const FEWEST: usize = 10;

/// How samples were put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Consecutive samples in a batch.
    pub size: usize,
    /// Whether neighbouring batches are still correlated: the interval is then too narrow.
    pub correlated: bool,
}

/// The smallest batch size, doubling from 1, at which the lag-1 correlation of the deviations is insignificant.
/// `deviations[i]` is what sample i contributes beyond its expectation.
pub fn batching(deviations: &[f64]) -> Batching {
    let mut size = 1;
    loop {
        let batches = sums(deviations, size);
        if !is_correlated(&batches) {
            return Batching { size, correlated: false };
        }
        if deviations.len() / (size * 2) < FEWEST {
            return Batching { size, correlated: true };
        }
        size *= 2;
    }
}

/// Sums of `size` consecutive values; the last batch takes the remainder.
pub fn sums(values: &[f64], size: usize) -> Vec<f64> {
    groups(values.len(), size).map(|range| values.get(range).unwrap_or_default().iter().sum()).collect()
}

/// The ranges of consecutive positions that make the batches of a given size; a remainder joins the last batch.
pub fn groups(length: usize, size: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = size.max(1);
    let count = (length / size).max(usize::from(length > 0));
    (0..count).map(move |batch| batch * size..if batch + 1 == count { length } else { (batch + 1) * size })
}

/// Lag-1 correlation beyond 1.96 / sqrt(n), its 95 % bound for independent values (Box and Jenkins).
fn is_correlated(values: &[f64]) -> bool {
    let count = values.len() as f64;
    if count < 3.0 {
        return false;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let lag_1: f64 = values.iter().zip(values.iter().skip(1)).map(|(a, b)| (a - mean) * (b - mean)).sum();
    variance > 0.0 && (lag_1 / variance).abs() > 1.96 / count.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::random;

    /// An autoregressive series; correlation `phi` between neighbours.
    fn series(phi: f64, length: usize) -> Vec<f64> {
        let mut random = random(11, &[]);
        let mut value = 0.0;
        let step = |_| {
            value = phi * value + random.fraction() - 0.5;
            value
        };
        (0..length).map(step).collect()
    }

    #[test]
    fn independent_samples_stay_single() {
        assert_eq!(batching(&series(0.0, 64)), Batching { size: 1, correlated: false });
    }

    #[test]
    fn correlated_samples_are_put_together_until_they_are_not() {
        let batching = batching(&series(0.7, 512));
        assert!(batching.size > 1 && !batching.correlated, "{batching:?}");
    }

    #[test]
    fn a_trend_that_no_batch_size_removes_is_flagged() {
        let trend: Vec<f64> = (0..30).map(f64::from).collect();
        assert!(batching(&trend).correlated);
    }

    #[test]
    fn the_last_batch_takes_the_remainder() {
        assert_eq!(sums(&[1.0, 1.0, 1.0, 1.0, 1.0], 2), [2.0, 3.0]);
        assert_eq!(sums(&[], 2), [] as [f64; 0]);
    }
}
