//! An axis: what it shows, how values are laid along it, and its ticks.

use super::scale::{self, Scale};

/// About so many ticks of a linear axis.
const TICKS: usize = 8;
/// Values that differ by more than this are laid out logarithmically: the small ones would not show.
const SPANS_DECADES: f64 = 30.0;

/// An axis of a panel.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    pub(super) scale: Scale,
    pub(super) ticks: Vec<(f64, String)>,
    pub(super) reads: fn(f64) -> f64,
}

impl Axis {
    /// Any scale with ticks of its own. `name` says what is shown, with its unit in brackets.
    pub fn ticked(name: &str, scale: Scale, ticks: Vec<(f64, String)>) -> Axis {
        Axis { name: name.to_owned(), scale, ticks, reads: |value| value }
    }

    /// From zero to a round number beyond the values; also below zero where some of them are.
    pub fn linear(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low < high { (low, high) } else { (0.0, 1.0) };
        let step = scale::step(high - low, TICKS);
        let beyond =
            |end: f64| if end == 0.0 { 0.0 } else { (end * 1.02 / step).abs().ceil() * step * end.signum() };
        let (low, high) = (beyond(low), beyond(high));
        Axis::ticked(name, Scale::Linear { low, high }, scale::linear_ticks(low, high, step))
    }

    /// From one value to another, as of a time that is known.
    pub fn span(name: &str, low: f64, high: f64) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        let ticks = scale::linear_ticks(low, high, scale::step(high - low, TICKS));
        Axis::ticked(name, Scale::Linear { low, high }, ticks)
    }

    /// A logarithmic axis over those values that are above zero.
    pub fn log(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = above_zero(values);
        let (low, high) = if low <= high { (low / 1.25, high * 1.6) } else { (0.1, 10.0) };
        Axis::ticked(name, Scale::Log { low, high }, scale::log_ticks(low, high))
    }

    /// Logarithmic where the values span decades, linear from zero elsewhere. A value of zero asks for a linear axis; leave zeroes
    /// out to have them at the foot of a logarithmic one.
    pub fn fitting(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let values: Vec<f64> = values.collect();
        let (low, high) = above_zero(values.iter().copied());
        let spans = high > SPANS_DECADES * low && values.iter().all(|value| *value > 0.0);
        if spans { Axis::log(name, values.into_iter()) } else { Axis::linear(name, values.into_iter()) }
    }

    /// Shares of one, from 0 to 100 %.
    pub fn shares(name: &str) -> Axis {
        let tick = |fifth: u32| (f64::from(fifth) / 5.0, format!("{} %", 20 * fifth));
        Axis::ticked(name, Scale::Linear { low: 0.0, high: 1.0 }, (0..=5).map(tick).collect())
    }

    /// Names side by side, at 0, 1, 2 and so on.
    pub fn places(name: &str, names: impl IntoIterator<Item = String>) -> Axis {
        let ticks: Vec<(f64, String)> =
            names.into_iter().enumerate().map(|(place, name)| (place as f64, name)).collect();
        Axis::ticked(name, Scale::Places(ticks.len()), ticks)
    }

    /// What the data say in place of the position, as a percentile where the axis is drawn by rarity.
    pub fn reading(mut self, reads: fn(f64) -> f64) -> Axis {
        self.reads = reads;
        self
    }

    /// What is shown, as a column of data.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The title beside the axis. One that does not begin at zero says so.
    pub(super) fn title(&self) -> String {
        match self.scale {
            Scale::Log { .. } if !self.name.is_empty() && self.is_plain() => {
                format!("{}, log scale", self.name)
            }
            _ => self.name.clone(),
        }
    }

    /// Whether the ticks are the values themselves.
    fn is_plain(&self) -> bool {
        (self.reads)(1.0) == 1.0
    }

    /// Whether it has names side by side.
    pub(super) fn has_places(&self) -> bool {
        matches!(self.scale, Scale::Places(_))
    }

    /// Whether values of zero have no place on it.
    pub fn is_log(&self) -> bool {
        matches!(self.scale, Scale::Log { .. })
    }

    /// The name at a place; `None` where the axis has numbers.
    pub(super) fn place(&self, value: f64) -> Option<&str> {
        let tick = self.ticks.get(value.round().max(0.0) as usize).filter(|_| self.has_places())?;
        Some(&tick.1)
    }
}

/// The smallest and the largest of those values that are above zero; the smallest is larger where there are none.
fn above_zero(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| *value > 0.0 && value.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
}
