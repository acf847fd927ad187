//! The law of scalability: what it says in words, its parameters, and its curve over the load line.

use crate::chart::{Ink, Mark, Series};
use crate::html::table::{Column, interval_cell, number_cell, percent, table};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::scalability::{Estimate, LawName, Scalability};

/// Points of the curve.
const POINTS: i32 = 60;

/// Words and parameters.
pub fn body(law: &Scalability) -> Markup {
    html! {
        p { (in_words(law)) }
        (parameters(law))
    }
}

fn in_words(law: &Scalability) -> String {
    let [least, most] = law.concurrency.map(text::rate);
    let range = format!("between {least} and {most} operations in flight");
    let per_second = |rate: f64| format!("{}/s", text::rate(rate));
    match (law.law, law.peak, law.ceiling) {
        (None, ..) => format!(
            "No law of scalability describes the levels {range}: one is {} away from the closest law. Plimsoll claims \
             no peak and no ceiling.",
            percent(law.misfit)
        ),
        (Some(LawName::Universal), Some(peak), _) => {
            let most = law.throughput(peak).map(per_second).unwrap_or_default();
            format!(
                "Throughput has its peak near {} operations in flight, at {most}. More operations in flight then cost \
                 throughput (universal scalability law).",
                text::rate(peak.round())
            )
        }
        (Some(LawName::Universal), None, _) => {
            format!("No peak lies {range}, but coherency costs throughput (universal scalability law).")
        }
        (Some(LawName::Amdahl), _, Some(ceiling)) => format!(
            "No peak lies {range}. By contention alone, throughput stays below {} at any concurrency (Amdahl's law).",
            per_second(ceiling)
        ),
        (Some(LawName::Amdahl), _, None) => {
            format!("Throughput grows in proportion {range}: the levels show neither contention nor a peak.")
        }
    }
}

fn parameters(law: &Scalability) -> Markup {
    let columns =
        [Column::Text("Parameter"), Column::Number("Value, 95\u{a0}% interval"), Column::Text("Meaning")];
    let row = |name: &str, of: Estimate, show: fn(f64) -> String, meaning: &str| {
        html! {
            tr {
                th scope="row" { (name) }
                (interval_cell(Some(of.value), Some(of.ci95), show))
                td { (meaning) }
            }
        }
    };
    let small = |value: f64| {
        // Three significant digits, five decimals at most.
        let decimals =
            if value.abs() < 1e-5 { 0.0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 5.0) };
        format!("{value:.*}", decimals as usize)
    };
    let mut rows = vec![
        row("Alone (λ)", law.alone, crate::html::level::per_second, "throughput of one operation in flight"),
        row(
            "Contention (α)",
            law.contention,
            small,
            "share of the work in which operations wait for each other",
        ),
    ];
    if law.law != Some(LawName::Amdahl) {
        let meaning = "cost of agreeing between each two operations";
        rows.push(row("Coherency (β)", law.coherency, small, meaning));
    }
    rows.push(html! {
        tr {
            th scope="row" { "Largest distance" }
            (number_cell(Some(percent(law.misfit))))
            td { "of a level from the law" }
        }
    });
    table(&columns, &rows)
}

/// The law's curve between two amounts of operations in flight; `None` where no law describes the levels.
pub fn curve(law: &Scalability, from: f64, to: f64) -> Option<Series> {
    let name = match law.law? {
        LawName::Amdahl => "Amdahl's law",
        LawName::Universal => "universal scalability law",
    };
    let points = between(from, to).map(|amount| (amount, law.throughput(amount))).collect();
    Some(Series::new(name, Ink::Curve(1)).with(Mark::Guide { points, dashed: true }))
}

/// Amounts for the points of a curve: even steps on a logarithmic axis, where amounts usually double.
pub fn between(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let growth = (to / from).max(1.0).ln() / f64::from(POINTS);
    (0..=POINTS).map(move |step| from * (growth * f64::from(step)).exp())
}
