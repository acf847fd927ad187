//! Completed operations per second over the run, sample by sample.

use crate::html::figure::{self, Figure, MOST_POINTS, NEUTRAL};
use crate::html::{level, time_axis};
use maud::Markup;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plotly::Scatter;
use plotly::common::{DashType, HoverInfo, Line, Marker, Mode};
use plotly::layout::RangeMode;

/// The chart.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let layout = figure::layout()
        .x_axis(time_axis::axis(record))
        .y_axis(figure::axis("Completed (msg/s)").range_mode(RangeMode::ToZero))
        .legend(figure::legend().y(1.1));
    let layout = time_axis::shade_levels(layout, record, summary);
    let mut figure = Figure::new("chart-timeline", 400, layout);
    figure.add(offered(record));
    let mut in_legend = Vec::new();
    for (record, level) in time_axis::levels(record, summary) {
        let first = !in_legend.contains(&level.verdict);
        in_legend.push(level.verdict);
        figure.add(completed(record, level, first));
    }
    figure.render(
        "Completed operations per second of each sample beside what was offered: a level that sags or swings did not \
         hold its load. A sample that could not be taken is a gap, and between holds nothing is measured.",
    )
}

fn offered(record: &RunRecord) -> Box<Scatter<f64, Option<f64>>> {
    let mut points: Vec<(f64, Option<f64>)> = Vec::new();
    for level in record.levels.iter().filter(|level| level.start.load.offered().is_some()) {
        let begin = level.start.hold_start;
        let end = begin + level.start.hold;
        points.push((begin.as_secs_f64(), level.start.load.offered()));
        points.push((end.as_secs_f64(), level.start.load.offered()));
        points.push((end.as_secs_f64(), None));
    }
    let in_legend = !points.is_empty();
    let (x, y) = points.into_iter().unzip();
    Scatter::new(x, y)
        .mode(Mode::Lines)
        .name("offered")
        .show_legend(in_legend)
        .hover_info(HoverInfo::Skip)
        .line(Line::new().color(NEUTRAL).width(1.5).dash(DashType::Dash))
}

fn completed(record: &LevelRecord, level: &LevelSummary, in_legend: bool) -> Box<Scatter<f64, Option<f64>>> {
    let colour = level::colour(level.verdict);
    let (x, y): (Vec<f64>, Vec<Option<f64>>) = points(record, &level.achieved_samples).into_iter().unzip();
    let marker = Marker::new().color(colour).size(6).symbol(level::symbol(level.verdict));
    Scatter::new(x, y)
        .mode(Mode::LinesMarkers)
        .name(level.verdict.name())
        .legend_group(level.verdict.name())
        .show_legend(in_legend)
        .connect_gaps(false)
        .hover_template("%{y:,.0f}/s at %{x:.1f} s")
        .marker(marker)
        .line(Line::new().color(colour).width(2.0))
}

/// The middle of each sample and its rate. Samples are put together where there are too many; a gap among them makes
/// the whole a gap.
fn points(record: &LevelRecord, rates: &[Option<f64>]) -> Vec<(f64, Option<f64>)> {
    let together = rates.len().div_ceil(MOST_POINTS).max(1);
    let mut begin = record.start.hold_start.as_secs_f64();
    let point = |(position, chunk): (usize, &[Option<f64>])| {
        let samples = (position * together..).zip(chunk);
        let lengths = samples.clone().map(|(sample, _)| record.start.sample_seconds(sample));
        let length: f64 = lengths.sum();
        let done = samples.map(|(sample, rate)| Some((*rate)? * record.start.sample_seconds(sample)));
        let done: Option<f64> = done.sum();
        let middle = begin + length / 2.0;
        begin += length;
        (middle, done.map(|done| done / length))
    };
    rates.chunks(together).enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;

    #[test]
    fn a_sample_that_was_not_taken_stays_a_gap() {
        let mut level = synthetic::record().levels.remove(0);
        level.start.samples = 3;
        level.start.hold_start = plimsoll_model::Nanos::from_secs(10);
        level.start.hold = plimsoll_model::Nanos::from_secs(6);
        let points = points(&level, &[Some(5.0), None, Some(7.0)]);
        assert_eq!(points, [(11.0, Some(5.0)), (13.0, None), (15.0, Some(7.0))]);
    }

    #[test]
    fn many_samples_are_put_together() {
        let mut level = synthetic::record().levels.remove(0);
        level.start.samples = 1000;
        let points = points(&level, &[Some(4.0); 1000]);
        assert_eq!(points.len(), MOST_POINTS);
        assert!(points.iter().all(|(_, rate)| *rate == Some(4.0)));
    }
}
