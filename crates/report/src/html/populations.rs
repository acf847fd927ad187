//! Each population by itself, level by level.

use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, table, time_cell, verdict_cell};
use crate::text::{count, floor_percent};
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict, PopulationLevel};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Metric;

/// Whether there are several.
pub fn are_several(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| !level.populations.is_empty())
}

/// The table, and why levels of a population were not met.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Text("Population"),
        Column::Number("Devices"),
        Column::Number("Offered"),
        Column::Number("Achieved"),
        Column::Number("Delivered"),
        Column::Number("Publish p50"),
        Column::Number("Publish p99"),
        Column::Number("Subscribe p50"),
        Column::Number("Subscribe p99"),
        Column::Text("Verdict"),
    ];
    let levels = level::rising(summary);
    let rows: Vec<Markup> =
        levels.iter().flat_map(|level| level.populations.iter().map(|own| row(level, own))).collect();
    let missed = levels.iter().flat_map(|level| level.populations.iter().map(move |own| (*level, own)));
    let missed = missed.filter(|(_, own)| own.figures.verdict == LevelVerdict::Missed);
    html! {
        p {
            "Each population by itself, as if it had been alone. The load line is judged by the objectives of each \
             population and by those of all together."
        }
        (table(&columns, &rows))
        @for (level, own) in missed {
            p.note { "At " (level::name(level)) ", " (own.name) ": " (own.figures.reasons.join("; ")) "." }
        }
    }
}

fn row(level: &LevelSummary, own: &PopulationLevel) -> Markup {
    let figures = &own.figures;
    let per_second = |value: Option<f64>| value.map(level::per_second);
    let offered = match figures.load.in_flight() {
        Some(in_flight) => Some(format!("{} in flight", count(f64::from(in_flight)))),
        None => per_second(figures.load.offered()),
    };
    let delivered = figures.delivered_ratio().filter(|_| figures.expected_deliveries > 0);
    html! {
        tr {
            (level_cell(level))
            td {
                (own.name)
                span.interval { (own.protocol) @if let Some(at) = &own.at { " at " (at) } }
            }
            (number_cell(Some(count(f64::from(own.devices)))))
            (number_cell(offered))
            (number_cell(per_second(figures.achieved)))
            (number_cell(delivered.map(|share| format!("{} %", floor_percent(share)))))
            (time_cell(figures.times[Metric::PublishTime].p50))
            (time_cell(figures.times[Metric::PublishTime].p99))
            (time_cell(figures.times[Metric::SubscribeTime].p50))
            (time_cell(figures.times[Metric::SubscribeTime].p99))
            (verdict_cell(figures.verdict))
        }
    }
}
