//! Levels that connect devices: how many, how fast, and what a connection costs the platform.

use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Metric;

/// One row a level.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("Connected"),
        Column::Number("Begun per second"),
        Column::Number("Failed"),
        Column::Number("Connect time p50"),
        Column::Number("Connect time p99"),
        Column::Number("Platform memory"),
    ];
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .map(|level| {
            let p50 = level.times[Metric::ConnectTime].p50.map(|time| text::time(Some(time)));
            let p99 = level.times[Metric::ConnectTime].p99.map(|time| text::time(Some(time)));
            html! {
                tr {
                    (level_cell(level))
                    (number_cell(level.connected.map(|connected| text::count(f64::from(connected)))))
                    (number_cell(level.load.connect_rate().map(level::rate)))
                    (number_cell(Some(text::count(level.connect_failed as f64))))
                    (number_cell(p50))
                    (number_cell(p99))
                    (number_cell(level.platform_memory.map(|memory| text::bytes(memory as f64))))
                }
            }
        })
        .collect();
    html! {
        (table(&columns, &rows))
        @if let Some(memory) = summary.memory_per_connection.filter(|memory| *memory > 0.0) {
            p { "Each further connection takes " strong { (text::bytes(memory)) } " of the platform's memory." }
        }
    }
}
