//! How a level is named, ordered and coloured throughout the report.

use crate::chart::{Ink, Shape, Symbol};
use crate::terminal;
use crate::text;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Load;

/// Every verdict, in the order of legends.
pub const VERDICTS: [LevelVerdict; 5] = [
    LevelVerdict::Met,
    LevelVerdict::Missed,
    LevelVerdict::Undecided,
    LevelVerdict::Invalid,
    LevelVerdict::Unfinished,
];

/// The levels by rising load.
pub fn rising(summary: &Summary) -> Vec<&LevelSummary> {
    let mut levels: Vec<&LevelSummary> = summary.levels.iter().collect();
    levels.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
    levels
}

/// The level of the load line.
pub fn of_load_line<'a>(summary: &'a Summary, line: &LoadLine) -> Option<&'a LevelSummary> {
    summary.levels.iter().find(|level| level.index == line.level)
}

/// `5,000/s`, `50 in flight`, `2,000 devices` or `500 connections/s`.
pub fn name(level: &LevelSummary) -> String {
    match level.load {
        Load::Rate(offered) => per_second(offered),
        Load::ConnectRate { rate: connects, .. } => format!("{} connections/s", rate(connects)),
        load => load.to_string(),
    }
}

/// A rate with thousands set apart, and with decimals only where it is small.
pub fn rate(rate: f64) -> String {
    match rate.abs() {
        _ if rate.fract() == 0.0 => text::count(rate),
        size if size < 1.0 => format!("{rate:.2}"),
        size if size < 100.0 => format!("{rate:.1}"),
        _ => text::count(rate),
    }
}

/// A rate with its unit, as the page writes it everywhere: `1,000/s`.
pub fn per_second(rate: f64) -> String {
    format!("{}/s", self::rate(rate))
}

/// What the levels vary, as the title of an axis.
pub fn load_title(summary: &Summary) -> &'static str {
    match (connects(summary), is_closed(summary)) {
        (true, _) => "Devices",
        (false, true) => "Operations in flight",
        (false, false) => "Offered load (/s)",
    }
}

/// Whether the run kept a number of operations in flight instead of offering a rate.
pub fn is_closed(summary: &Summary) -> bool {
    summary.levels.iter().all(|level| level.load.in_flight().is_some())
}

/// Whether levels connect devices.
pub fn connects(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| level.load.devices().is_some())
}

/// The load line with its unit.
pub fn load_line(line: &LoadLine) -> String {
    match line.rate.filter(|_| line.devices.is_none() && line.connect_rate.is_none()) {
        Some(offered) => per_second(offered),
        None => terminal::load_line(line),
    }
}

/// Why the level is not met; empty where it is.
pub fn why(level: &LevelSummary) -> String {
    let reasons = level.reasons.join("; ");
    match level.verdict {
        LevelVerdict::Met => String::new(),
        LevelVerdict::Invalid => format!("{}: {reasons}", level.validity.in_words()),
        _ => reasons,
    }
}

/// The colour of a verdict.
pub fn ink(verdict: LevelVerdict) -> Ink {
    Ink::Class(verdict.name())
}

/// The mark of a verdict, so that colour is never the only sign.
pub fn symbol(verdict: LevelVerdict) -> Symbol {
    match verdict {
        LevelVerdict::Met => Symbol::full(Shape::Circle),
        LevelVerdict::Missed => Symbol::full(Shape::Cross),
        LevelVerdict::Undecided => Symbol::full(Shape::Diamond),
        LevelVerdict::Invalid => Symbol::open(Shape::Square),
        LevelVerdict::Unfinished => Symbol::full(Shape::Triangle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_one_way() {
        let told = [4000.0, 64.0, 12.34, 0.254, 0.0].map(per_second);
        assert_eq!(told, ["4,000/s", "64/s", "12.3/s", "0.25/s", "0/s"]);
    }
}
