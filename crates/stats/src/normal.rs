//! The standard normal distribution.

/// Probability that a standard normal variable is at most `z`. Absolute error below 1.5e-7 (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.2.17 by way of 7.1.26).
pub fn cumulative(z: f64) -> f64 {
    0.5 * (1.0 + error_function(z / std::f64::consts::SQRT_2))
}

/// The error function by Abramowitz and Stegun 7.1.26.
fn error_function(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let polynomial =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (1.0 - polynomial * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tables() {
        for (z, probability) in [(0.0, 0.5), (1.0, 0.841_344_7), (1.959_964, 0.975), (-1.0, 0.158_655_3)] {
            assert!((cumulative(z) - probability).abs() < 1e-6, "{z}");
        }
    }
}
