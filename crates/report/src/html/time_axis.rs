//! The run's time on an axis, with the levels' holds shaded.

use crate::html::{figure, level};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Nanos;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plotly::Layout;
use plotly::common::{Anchor, Font};
use plotly::layout::{Annotation, Axis, Shape, ShapeLayer, ShapeLine, ShapeType};

/// More level names than this would overlap.
const MOST_NAMES: usize = 12;

/// From the run's epoch to the last hold or the last reading of a component.
pub fn axis(record: &RunRecord) -> Axis {
    let holds = record.levels.iter().map(|level| hold(level).1);
    let readings = record.components.iter().map(|usage| usage.at.as_secs_f64());
    let end = holds.chain(readings).fold(1.0, f64::max);
    figure::axis("Time since the run began (s)").range(vec![0.0, end * 1.02])
}

/// Each level with its record.
pub fn levels<'a>(
    record: &'a RunRecord,
    summary: &'a Summary,
) -> impl Iterator<Item = (&'a LevelRecord, &'a LevelSummary)> {
    record.levels.iter().zip(&summary.levels)
}

/// Shades every hold in the colour of its verdict and names it at the top.
pub fn shade_levels(layout: Layout, record: &RunRecord, summary: &Summary) -> Layout {
    let shapes = levels(record, summary).map(|(record, level)| shade(record, level)).collect();
    let named = record.levels.len() <= MOST_NAMES;
    let names =
        levels(record, summary).filter(|_| named).map(|(record, level)| label(record, level)).collect();
    layout.shapes(shapes).annotations(names)
}

/// Begin and end of a level's hold, in seconds of the run's clock.
fn hold(level: &LevelRecord) -> (f64, f64) {
    let begin: Nanos = level.start.hold_start;
    (begin.as_secs_f64(), (begin + level.start.hold).as_secs_f64())
}

fn shade(record: &LevelRecord, level: &LevelSummary) -> Shape {
    let (begin, end) = hold(record);
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x0(begin)
        .x1(end)
        .y_ref("paper")
        .y0(0.0)
        .y1(1.0)
        .fill_color(level::colour(level.verdict))
        .opacity(0.1)
        .line(ShapeLine::new().width(0.0))
}

fn label(record: &LevelRecord, level: &LevelSummary) -> Annotation {
    let (begin, end) = hold(record);
    Annotation::new()
        .text(level::name(level))
        .x((begin + end) / 2.0)
        .x_anchor(Anchor::Center)
        .y_ref("paper")
        .y(1.0)
        .y_anchor(Anchor::Bottom)
        .show_arrow(false)
        .font(Font::new().size(11))
}
