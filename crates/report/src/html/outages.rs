//! Connections that were lost and made again, level by level.

use crate::html::table::{Column, level_cell, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Metric;

/// Whether any level lost a connection.
pub fn happened(summary: &Summary) -> bool {
    summary.levels.iter().any(LevelSummary::has_outages)
}

/// One row for each level that lost connections.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("Clients lost"),
        Column::Number("Came back"),
        Column::Number("Away since earlier"),
        Column::Number("Median outage"),
        Column::Number("p90"),
        Column::Number("All back within"),
        Column::Number("Messages not sent"),
        Column::Text("What happened"),
    ];
    let shown = |time: Option<f64>| number_cell(time.map(|time| text::time(Some(time))));
    let clients = |number: Option<u32>| number_cell(number.map(|number| text::count(number.into())));
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .filter(|level| level.has_outages())
        .map(|level| {
            html! {
                tr {
                    (level_cell(level))
                    (clients(level.clients_lost))
                    (clients(level.clients_back))
                    (clients(level.clients_away_before))
                    (shown(level.times[Metric::Outage].p50))
                    (shown(level.times[Metric::Outage].p90))
                    (shown(level.recovery))
                    (number_cell(Some(text::count(level.unsent as f64))))
                    td.why { (level.incident.clone().unwrap_or_default()) }
                }
            }
        })
        .collect();
    let stayed_away = |level: &LevelSummary| {
        level.clients_back < level.clients_lost || level.clients_away_before.is_some_and(|away| away > 0)
    };
    html! {
        (table(&columns, &rows))
        @if summary.levels.iter().any(stayed_away) { p.note { "Some clients came back only after their level, or not at all." } }
    }
}
