//! A level along a curve: what was offered, achieved and missed at which time.

use super::tint;
use crate::curve::{rows, verdict};
use crate::text::{Colour, count, paint, rate, time};
use plimsoll_analysis::curve::CurvePart;
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::summary::Summary;

/// A table for each level along a curve; nothing where there is none.
pub fn render(summary: &Summary, colour: Colour) -> String {
    let curves = summary.levels.iter().filter_map(|level| level.curve.as_ref());
    let table = |curve| {
        let head = format!(
            "\n{:>11}{:>10}{:>10}{:>8}{:>10}{:>10}{:>10}  {}\n",
            "from", "offered", "achieved", "lost", "pub p50", "pub p99", "sub p99", "objectives"
        );
        rows(curve).iter().map(|part| row(part, colour)).fold(head, |table, row| table + &row + "\n")
    };
    curves.map(table).collect()
}

fn row(part: &CurvePart, colour: Colour) -> String {
    let per_second = |load: f64| format!("{}/s", rate((load * 100.0).round() / 100.0));
    let word = verdict(part);
    let word = match part.met {
        Some(true) => paint(word, tint(LevelVerdict::Met), colour),
        Some(false) => paint(word, tint(LevelVerdict::Missed), colour),
        None => word.to_owned(),
    };
    format!(
        "{:>11}{:>10}{:>10}{:>8}{:>10}{:>10}{:>10}  {word}",
        part.time,
        per_second(part.offered),
        part.achieved.map_or("-".to_owned(), per_second),
        count(part.lost as f64),
        time(part.publish_p50),
        time(part.publish_p99),
        time(part.subscribe_p99),
    )
}
