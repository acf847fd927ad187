//! Planned faults, level by level: recovery, and the ledger before, during and after each.

use crate::html::table::{Column, count_cell, number_cell, table};
use crate::html::{level, table::Tone};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::faults::{FaultSummary, Outcome, PhaseSummary};
use plimsoll_analysis::summary::Summary;

/// Whether any level had one.
pub fn planned(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| !level.faults.is_empty())
}

/// A table of all faults, and one of the ledger around them.
pub fn body(summary: &Summary) -> Markup {
    let all = || summary.levels.iter().flat_map(|level| level.faults.iter().map(move |fault| (level, fault)));
    let columns = [
        Column::Text("Level"),
        Column::Text("Fault"),
        Column::Number("From"),
        Column::Number("To"),
        Column::Text("Outcome"),
        Column::Number("From its end"),
        Column::Number("From its beginning"),
        Column::Number("Resolution"),
        Column::Text("How it was done"),
    ];
    let rows: Vec<Markup> = all()
        .map(|(level, fault)| {
            let at = |place: usize| number_cell(fault.actual.map(|span| text::time(Some(span[place]))));
            let recovery = &fault.recovery;
            let shown = |time: Option<f64>| number_cell(time.map(|time| text::time(Some(time))));
            let at_most = if recovery.at_most { "\u{2264} " } else { "" };
            let took = |time: Option<f64>| {
                number_cell(time.map(|time| format!("{at_most}{}", text::time(Some(time)))))
            };
            html! {
                tr {
                    td { (level::name(level)) }
                    td { (fault.what) }
                    (at(0))
                    (at(1))
                    td { (outcome(fault)) }
                    (took(recovery.from_end))
                    (took(recovery.from_start))
                    (shown(Some(recovery.resolution)))
                    td.why { (how(fault)) }
                }
            }
        })
        .collect();
    let ledger = [
        Column::Text("Level"),
        Column::Text("Fault"),
        Column::Text("Part"),
        Column::Number("Begins at"),
        Column::Number("Due"),
        Column::Number("Unsent"),
        Column::Number("Delivered"),
        Column::Number("Late"),
        Column::Number("Lost"),
        Column::Number("Duplicated"),
        Column::Number("Publish p99"),
        Column::Number("Subscribe p99"),
        Column::Text("Objectives"),
    ];
    let parts: Vec<Markup> = all()
        .flat_map(|(level, fault)| {
            let name = level::name(level);
            phases(fault).map(|(part, phase)| phase_row(&name, fault.kind, part, phase)).collect::<Vec<_>>()
        })
        .collect();
    html! {
        (table(&columns, &rows))
        p.note {
            "Times count from the beginning of the hold. A platform has recovered with the first of three samples in a row that meet "
            "the objectives."
        }
        h3 { "Before, during and after" }
        (table(&ledger, &parts))
        p.note { "Each message belongs to the part in which it was due." }
    }
}

/// The parts of a hold around a fault, as far as there are some.
fn phases(fault: &FaultSummary) -> impl Iterator<Item = (&'static str, &PhaseSummary)> {
    let all = [
        ("before", Some(&fault.before)),
        ("during", Some(&fault.during)),
        ("recovering", fault.recovering.as_ref()),
        ("after", fault.after.as_ref()),
    ];
    all.into_iter().filter_map(|(name, phase)| Some((name, phase?)))
}

fn phase_row(level: &str, kind: &str, part: &str, phase: &PhaseSummary) -> Markup {
    let count = |count: u64| count_cell(count, Tone::Plain);
    let bad = |count: u64| count_cell(count, Tone::Violation);
    let notable = |count: u64| count_cell(count, Tone::Notable);
    let shown = |time: Option<f64>| number_cell(time.map(|time| text::time(Some(time))));
    html! {
        tr {
            td { (level) }
            td { (kind) }
            td { (part) }
            (shown(Some(phase.span[0])))
            (count(phase.due))
            (notable(phase.unsent))
            (count(phase.delivered))
            (notable(phase.late))
            (bad(phase.lost))
            (notable(phase.duplicated))
            (shown(phase.publish_p99))
            (shown(phase.subscribe_p99))
            td.why {
                (phase.verdict.name())
                @if !phase.reasons.is_empty() { ": " (phase.reasons.join("; ")) }
            }
        }
    }
}

fn outcome(fault: &FaultSummary) -> &'static str {
    match fault.recovery.outcome {
        Outcome::Undisturbed => "not disturbed",
        Outcome::Recovered => "recovered",
        Outcome::Recovering => "still recovering",
        Outcome::NotRecovered => "not recovered",
        Outcome::Metastable => "metastable failure",
        Outcome::Unknown => "not known",
    }
}

fn how(fault: &FaultSummary) -> String {
    let parts = [fault.failed.as_ref().map(|why| format!("not done: {why}")), Some(fault.means.clone())];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let why = Some(&fault.recovery.why).filter(|_| fault.recovery.outcome != Outcome::Recovered);
    parts.into_iter().chain(why.cloned()).collect::<Vec<_>>().join("; ")
}
