//! Runs of one schedule by the time of day: a chart of one level, a table of all.

use crate::chart::{Axis, Chart, Ink, Interval, Mark, Panel, Scale, Series, Shape, Symbol};
use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, table, time_cell, verdict_cell};
use crate::series::{Occurrence, by_time_of_day};
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
use plimsoll_model::Metric;

/// Chart and table.
pub fn body(runs: &[Occurrence]) -> Markup {
    let sorted = by_time_of_day(runs);
    let lowest = sorted.iter().flat_map(|(_, _, summary)| level::rising(summary).into_iter().take(1));
    let lowest =
        lowest.min_by(|a, b| a.load.amount().total_cmp(&b.load.amount())).map(|level| level.load.to_string());
    let columns = [
        Column::Text("Begun"),
        Column::Text("Level"),
        Column::Number("Publish p50"),
        Column::Number("p99"),
        Column::Number("Subscribe p50"),
        Column::Number("p99"),
        Column::Number("Network round trip p50"),
        Column::Number("Sent again"),
        Column::Number("Lost"),
        Column::Text("Verdict"),
    ];
    let rows = sorted.iter().flat_map(|(_, told, summary)| {
        summary.levels.iter().map(move |level| {
            html! {
                tr {
                    td { (told) }
                    (level_cell(level))
                    (time_cell(level.times[Metric::PublishTime].p50))
                    (time_cell(level.times[Metric::PublishTime].p99))
                    (time_cell(level.times[Metric::SubscribeTime].p50))
                    (time_cell(level.times[Metric::SubscribeTime].p99))
                    (time_cell(level.wire.network_rtt.p50))
                    (number_cell(Some((level.repeated + level.retransmitted).to_string())))
                    (number_cell(Some(level.lost.to_string())))
                    (verdict_cell(level.verdict))
                }
            }
        })
    });
    html! {
        @if let Some(label) = lowest {
            (chart(&sorted, &label).render())
        }
        (table(&columns, &rows.collect::<Vec<_>>()))
    }
}

fn chart(sorted: &[(f64, String, &Summary)], label: &str) -> Chart {
    let of_level =
        |summary: &&Summary| summary.levels.iter().find(|level| level.load.to_string() == label).cloned();
    let levels: Vec<(f64, LevelSummary)> =
        sorted.iter().filter_map(|(hour, _, summary)| Some((*hour, of_level(summary)?))).collect();
    let times = |metric: Metric| -> Vec<Interval> {
        let told = levels.iter().filter_map(|(hour, level)| {
            let TimeSummary { p25, p50, p75, .. } = level.times[metric];
            let [low, value, high] = [p25?, p50?, p75?].map(|seconds| seconds * 1e3);
            Some(Interval { at: *hour, value, ends: Some([low, high]) })
        });
        told.collect()
    };
    let shown = [
        ("publish time", Ink::Curve(0), Shape::Circle, times(Metric::PublishTime)),
        ("subscribe time", Ink::Curve(3), Shape::Square, times(Metric::SubscribeTime)),
    ];
    let points = || shown.iter().flat_map(|(.., points)| points);
    let values: Vec<f64> = points().flat_map(|point| point.ends.into_iter().flatten()).collect();
    let hours = (0..=8).map(|third| (f64::from(3 * third), format!("{}:00", 3 * third))).collect();
    let x = Axis::ticked("Time of day (h)", Scale::Linear { low: 0.0, high: 24.0 }, hours);
    let panel = Panel::new(x, Axis::log("Time (ms)", values.into_iter()));
    let series = shown.into_iter().map(|(name, ink, shape, points)| {
        let path = points.iter().map(|point| (point.at, Some(point.value))).collect();
        let series = Series::new(name, ink).symbol(Symbol::full(shape));
        series
            .with(Mark::Guide { points: path, dashed: false })
            .with(Mark::Intervals { points, of: "quartiles" })
    });
    let caption = format!(
        "Medians at {label} by the time of day at which the run began, in this host's time zone; bars reach from \
         the first to the third quartile."
    );
    Chart::new("chart-time-of-day", &caption).panel(panel.all(series))
}
