//! Runs of one schedule by the time of day: a chart of one level, a table of all.

use crate::html::figure::{self, BLUE, Figure, PURPLE};
use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, table, time_cell, verdict_cell};
use crate::series::{Occurrence, by_time_of_day};
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
use plimsoll_model::Metric;
use plotly::Scatter;
use plotly::common::{ErrorData, ErrorType, Marker, Mode};

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
            (chart(&sorted, &label).render(&format!(
                "Medians at {label} by the time of day at which the run began, in this host's time zone; bars reach from \
                 the first to the third quartile."
            )))
        }
        (table(&columns, &rows.collect::<Vec<_>>()))
    }
}

fn chart(sorted: &[(f64, String, &Summary)], label: &str) -> Figure {
    let hours = figure::axis("Time of day (h)").range(vec![0.0, 24.0]).dtick(3.0);
    let of_level =
        |summary: &&Summary| summary.levels.iter().find(|level| level.load.to_string() == label).cloned();
    let levels: Vec<(f64, LevelSummary)> =
        sorted.iter().filter_map(|(hour, _, summary)| Some((*hour, of_level(summary)?))).collect();
    let times = |pick: fn(&LevelSummary) -> &TimeSummary| -> Vec<(f64, [f64; 3])> {
        let told = levels.iter().filter_map(|(hour, level)| {
            let time = pick(level);
            Some((*hour, [time.p25?, time.p50?, time.p75?].map(|seconds| seconds * 1e3)))
        });
        told.collect()
    };
    let shown = [
        ("publish time", BLUE, times(|level| &level.times[Metric::PublishTime])),
        ("subscribe time", PURPLE, times(|level| &level.times[Metric::SubscribeTime])),
    ];
    let values: Vec<f64> =
        shown.iter().flat_map(|(.., points)| points.iter().flat_map(|(_, q)| *q)).collect();
    let layout =
        figure::layout().x_axis(hours).y_axis(figure::log_axis("Time (ms, log scale)", values.into_iter()));
    let mut figure = Figure::new("chart-time-of-day", 380, layout);
    for (name, colour, points) in shown {
        if points.is_empty() {
            continue;
        }
        let part = |pick: fn([f64; 3]) -> f64| points.iter().map(|(_, q)| pick(*q)).collect::<Vec<f64>>();
        let bars = ErrorData::new(ErrorType::Data)
            .array(part(|[_, p50, p75]| p75 - p50))
            .array_minus(part(|[p25, p50, _]| p50 - p25));
        let hours = points.iter().map(|(hour, _)| *hour).collect();
        figure.add(
            Scatter::new(hours, part(|[_, p50, _]| p50))
                .mode(Mode::LinesMarkers)
                .name(name)
                .marker(Marker::new().color(colour).size(8))
                .error_y(bars),
        );
    }
    figure
}
