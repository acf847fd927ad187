//! How levels of a way down compare with those of the way up.

use crate::html::table::{Column, number_cell, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::hysteresis::{Hysteresis, LevelPair};

/// The sentence on all loads, and each of them.
pub fn body(found: &Hysteresis) -> Markup {
    let columns = [
        Column::Text("Down to"),
        Column::Number("Times as long"),
        Column::Number("Interval"),
        Column::Text("Compared with the way up"),
    ];
    html! {
        p { (text::capitalised(&found.told)) "." }
        (table(&columns, &found.pairs.iter().map(row).collect::<Vec<_>>()))
    }
}

fn row(pair: &LevelPair) -> Markup {
    html! {
        tr {
            td { (pair.load) }
            (number_cell(pair.times.map(|times| format!("{times:.2}"))))
            (number_cell(pair.interval.map(|[lo, hi]| format!("{lo:.2} to {hi:.2}"))))
            td.why { (pair.change.name()) @if !pair.why.is_empty() { ": " (pair.why) } }
        }
    }
}
