//! Whose limit was it: the load generator's own health, level by level.

use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, percent, share_cell, table, time_cell};
use crate::terminal::clocks_in_words;
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::validity;
use plimsoll_model::Validity;
use plimsoll_model::record::RunRecord;

/// The table with its bound.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let bound = validity::bound(
        &record.terms,
        record.levels.first().map_or(0.0, |level| level.start.hold.as_secs_f64()),
    );
    let columns = [
        Column::Text("Level"),
        Column::Text("Validity"),
        Column::Number("Lateness p50"),
        Column::Number("p99"),
        Column::Number("max"),
        Column::Number("Receiver lag p99"),
        Column::Number("CPU by load thread"),
        Column::Number("Run delay"),
        Column::Number("Steal"),
    ];
    let rows: Vec<Markup> = summary.levels.iter().map(|level| row(level, bound)).collect();
    html! {
        p {
            "A level counts only where the platform was the limit: lateness (ready minus due) and receiver lag (read \
             minus received) stay within " strong { (text::time(Some(bound))) } " at p99, and the host leaves \
             the load threads their processors."
        }
        (table(&columns, &rows))
        @for level in summary.levels.iter().filter(|level| level.verdict == LevelVerdict::Invalid) {
            p.note { "At " (level::name(level)) ": " (level.reasons.join("; ")) "." }
        }
        @for level in summary.levels.iter().filter(|level| !level.clocks.is_empty()) {
            p.note { "Clocks of workers at " (level::name(level)) ": " (clocks_in_words(level)) "." }
        }
        @if let Some(cost) = summary.generator.cpu_per_million {
            p.note { "The generator used " (format!("{cost:.1}")) " s of processor time per million messages." }
        }
    }
}

fn row(level: &LevelSummary, bound: f64) -> Markup {
    let generator = &level.generator;
    let cpu: Vec<String> =
        generator.cpu.iter().map(|share| share.map_or("\u{2013}".to_owned(), percent)).collect();
    html! {
        tr {
            (level_cell(level))
            td { (validity_chip(level.validity)) }
            (time_cell(generator.lateness.p50))
            (bounded_cell(generator.lateness.p99, bound))
            (time_cell(generator.lateness.max))
            (bounded_cell(generator.receiver_lag.p99, bound))
            (number_cell((!cpu.is_empty()).then(|| cpu.join("  "))))
            (share_cell(generator.run_delay))
            (share_cell(generator.steal))
        }
    }
}

/// A time that has a bound, marked where it is beyond.
fn bounded_cell(seconds: Option<f64>, bound: f64) -> Markup {
    match seconds.filter(|seconds| *seconds > bound) {
        Some(seconds) => html! { td.num.violation { (text::time(Some(seconds))) } },
        None => time_cell(seconds),
    }
}

fn validity_chip(validity: Validity) -> Markup {
    let (class, sign) = match validity {
        Validity::Valid => ("met", "\u{2713}"),
        Validity::GeneratorBound
        | Validity::ReceiverBound
        | Validity::HostBound
        | Validity::ClockBound
        | Validity::Interrupted => ("invalid", "\u{2298}"),
    };
    html! {
        span class={ "chip " (class) } { span aria-hidden="true" { (sign) } " " (validity.in_words()) }
    }
}
