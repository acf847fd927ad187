//! How levels of the way down compare with those of the way up.

use super::Detail;
use crate::text::wrapped;
use plimsoll_analysis::hysteresis::LevelPair;
use plimsoll_analysis::summary::Summary;

/// The sentence on all loads, or in full, where it stands among the notes, each of them; nothing of a run without a way down.
pub fn render(summary: &Summary, detail: Detail) -> String {
    let Some(found) = &summary.hysteresis else { return String::new() };
    if detail != Detail::Full {
        return format!("\n{}\n", wrapped(&found.told, "  ").join("\n"));
    }
    let head = format!("\n{:>11}{:>10}{:>20}  {}\n", "down to", "times", "interval", "compared with up");
    found.pairs.iter().map(row).fold(head, |table, row| table + &row)
}

fn row(pair: &LevelPair) -> String {
    let times = pair.times.map_or("-".to_owned(), |times| format!("{times:.2}"));
    let interval = pair.interval.map_or("-".to_owned(), |[lo, hi]| format!("{lo:.2} to {hi:.2}"));
    let why = if pair.why.is_empty() { String::new() } else { format!(": {}", pair.why) };
    format!("{:>11}{times:>10}{interval:>20}  {}{why}\n", pair.load, pair.change.name())
}
