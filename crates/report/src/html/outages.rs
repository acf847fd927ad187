//! Connections that were lost and made again, level by level.

use crate::html::table::{Column, level_cell, number_cell, table};
use crate::terminal;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;

/// Whether any level lost a connection.
pub fn happened(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| level.disconnected > 0)
}

/// One row for each level that lost connections.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("Lost"),
        Column::Number("Came back"),
        Column::Number("Median outage"),
        Column::Number("p90"),
        Column::Number("All back within"),
        Column::Number("Messages not sent"),
        Column::Text("What happened"),
    ];
    let shown = |time: Option<f64>| number_cell(time.map(|time| terminal::time(Some(time))));
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .filter(|level| level.disconnected > 0)
        .map(|level| {
            html! {
                tr {
                    (level_cell(level))
                    (number_cell(Some(terminal::count(level.disconnected as f64))))
                    (number_cell(Some(terminal::count(level.outage.n as f64))))
                    (shown(level.outage.p50))
                    (shown(level.outage.p90))
                    (shown(level.recovery))
                    (number_cell(Some(terminal::count(level.unsent as f64))))
                    td.why { (level.incident.clone().unwrap_or_default()) }
                }
            }
        })
        .collect();
    let (lost, back) = summary
        .levels
        .iter()
        .fold((0, 0), |(lost, back), level| (lost + level.disconnected, back + level.outage.n));
    html! {
        (table(&columns, &rows))
        @if back < lost { p.note { "Some clients came back only after their level, or not at all." } }
    }
}
