//! Values side by side over categories, each with its interval.

use crate::chart::{Axis, Bar, Ink, Interval, Mark, Panel, Series, Symbol};

/// What is compared under one name: a curve of a sweep, a candidate of a comparison.
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its values; places count the categories.
    pub values: Vec<Interval>,
}

/// A panel of bars from zero, or of points where the axis has no zero.
pub fn panel(categories: Axis, y: Axis, sides: Vec<Side>) -> Panel {
    let is_log = y.is_log();
    let is_alone = sides.len() == 1;
    let series = sides.into_iter().enumerate().map(|(number, side)| {
        let series = Series::new(&side.name, Ink::Curve(number)).symbol(Symbol::of_curve(number));
        let series = if is_alone { series.unlisted() } else { series };
        if is_log {
            return series.with(Mark::Intervals { points: side.values, of: "95 % interval" });
        }
        let bar = |value: Interval| Bar { at: value.at, from: 0.0, to: value.value, ends: value.ends };
        series.with(Mark::Bars(side.values.into_iter().map(bar).collect()))
    });
    Panel::new(categories, y).side_by_side().all(series)
}

/// Values and the ends of their intervals, for an axis that shows them all. Zeroes do not count: a logarithmic axis has none.
pub fn extent(sides: &[Side]) -> impl Iterator<Item = f64> + '_ {
    let all = sides.iter().flat_map(|side| &side.values);
    let ends = all.flat_map(|value| [value.value].into_iter().chain(value.ends.into_iter().flatten()));
    ends.filter(|value| *value > 0.0)
}
