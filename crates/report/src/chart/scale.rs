//! Where a value stands along an axis, and round values to label it with.

use super::number;

/// Most ticks of an axis, whatever its range.
const MOST_TICKS: i64 = 40;

/// How values are laid along an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Equal steps are equally long.
    Linear {
        /// The value at the beginning.
        low: f64,
        /// The value at the end.
        high: f64,
    },
    /// Equal ratios are equally long.
    Log {
        /// The value at the beginning, above zero.
        low: f64,
        /// The value at the end.
        high: f64,
    },
    /// So many categories side by side, at 0, 1, 2 and so on.
    Places(usize),
}

impl Scale {
    /// Part of the way along the axis, from 0 to 1. What lies outside stands at its end.
    pub fn position(&self, value: f64) -> f64 {
        let (low, high, value) = match *self {
            Scale::Linear { low, high } => (low, high, value),
            Scale::Log { low, high } => (low.log10(), high.log10(), value.max(f64::MIN_POSITIVE).log10()),
            Scale::Places(count) => (-0.5, count as f64 - 0.5, value),
        };
        match (value - low) / (high - low) {
            part if part.is_finite() => part.clamp(0.0, 1.0),
            _ => 0.0,
        }
    }
}

/// The round step that divides a range into about so many parts: 1, 2 or 5 times a power of ten.
pub fn step(range: f64, parts: usize) -> f64 {
    let rough = range / parts.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// Multiples of a step within a range, with their labels.
pub fn linear_ticks(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let decimals = (-step.log10() - 1e-9).ceil().max(0.0) as usize;
    let first = (low / step - 1e-6).ceil() as i64;
    let last = ((high / step + 1e-6).floor() as i64).min(first.saturating_add(MOST_TICKS));
    let tick = |multiple: i64| {
        let value = multiple as f64 * step;
        (value, number::with_decimals(value, decimals))
    };
    (first..=last).map(tick).collect()
}

/// Powers of ten within a range, with 2 and 5 times them where few decades are spanned.
pub fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let decades = (high / low).log10();
    let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let apart = (decades / 9.0).ceil().max(1.0) as usize;
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    powers
        .step_by(apart)
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .filter(|tick| (low * 0.999..=high * 1.001).contains(tick))
        .map(|tick| (tick, number::decimal(tick)))
        .collect()
}
