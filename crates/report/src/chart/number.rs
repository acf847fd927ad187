//! Numbers as they are written beside axes, in paths and in data.

use crate::text;
use serde_json::Value;

/// A number of an axis: as many decimals as its step has, thousands set apart.
pub fn with_decimals(value: f64, decimals: usize) -> String {
    if decimals == 0 { text::count(value + 0.0) } else { format!("{:.decimals$}", value + 0.0) }
}

/// A number of a logarithmic axis: as many decimals as it needs, thousands set apart.
pub fn decimal(value: f64) -> String {
    if value >= 1.0 {
        return text::count(value);
    }
    let decimals = (-value.log10() - 1e-9).ceil().max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// A coordinate with one decimal at most.
pub fn px(value: f64) -> String {
    ((value * 10.0).round() / 10.0 + 0.0).to_string()
}

/// A value with six significant digits, as data: histograms have three.
pub fn datum(value: f64) -> Value {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { (rounded as i64).into() } else { rounded.into() }
}
