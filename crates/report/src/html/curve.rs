//! A level along a curve: what was offered, achieved and missed at which time.

use crate::curve::{rows, verdict};
use crate::html::level;
use crate::html::table::{Column, Tone, count_cell, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::curve::CurvePart;
use plimsoll_analysis::summary::Summary;

/// Whether any level follows one.
pub fn followed(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| level.curve.is_some())
}

/// A table of each such level.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("From"),
        Column::Number("Offered"),
        Column::Number("Achieved"),
        Column::Number("Due"),
        Column::Number("Delivered"),
        Column::Number("Lost"),
        Column::Number("Unsent"),
        Column::Number("Publish p50"),
        Column::Number("Publish p99"),
        Column::Number("Subscribe p99"),
        Column::Text("Objectives"),
    ];
    let curves = summary.levels.iter().filter_map(|level| level.curve.as_ref());
    html! {
        @for curve in curves {
            (table(&columns, &rows(curve).iter().map(row).collect::<Vec<_>>()))
        }
        p.note {
            "Messages belong to the time in which they were due. Where samples are put together, loads are their mean, and quantiles "
            "the highest of them."
        }
    }
}

fn row(part: &CurvePart) -> Markup {
    let shown = |time: Option<f64>| number_cell(time.map(|time| text::time(Some(time))));
    html! {
        tr {
            td { (part.time) }
            (number_cell(Some(level::per_second(part.offered))))
            (number_cell(part.achieved.map(level::per_second)))
            (count_cell(part.due, Tone::Plain))
            (count_cell(part.delivered, Tone::Plain))
            (count_cell(part.lost, Tone::Violation))
            (count_cell(part.unsent, Tone::Notable))
            (shown(part.publish_p50))
            (shown(part.publish_p99))
            (shown(part.subscribe_p99))
            td { (verdict(part)) }
        }
    }
}
