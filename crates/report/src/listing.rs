//! The runs of a store in a list.

use crate::plain;
use crate::terminal::load_line;
use plimsoll_analysis::summary::Summary;
use serde_json::json;

/// A stored run, and what it came to.
pub struct Listed {
    /// Its id.
    pub run: String,
    /// The scenario's name.
    pub name: String,
    /// WallClock-clock begin, RFC 3339.
    pub started: String,
    /// Levels begun.
    pub levels: u32,
    /// The schedule that it belongs to: the id of its first run.
    pub series: Option<String>,
    /// `None` where the run cannot be read.
    pub summary: Option<Summary>,
}

/// For people, a line each.
pub fn table(listed: &[Listed]) -> String {
    let row = |run: &str, started: &str, levels: &str, verdict: &str, line: &str, name: &str| {
        format!("{run:<9} {started:<20} {levels:>6}  {verdict:<11} {line:<18} {name}\n")
    };
    let mut table = row("run", "started", "levels", "verdict", "load line", "name");
    for Listed { run, name, started, levels, summary, .. } in listed {
        let verdict = summary.as_ref().map_or("unreadable", |summary| summary.verdict.name());
        let line = summary.as_ref().and_then(|summary| summary.load_line.as_ref());
        let line = line.map_or("-".to_owned(), |line| {
            let above = if line.at_least { ">= " } else { "" };
            format!("{above}{}", load_line(line))
        });
        table += &row(run, started, &levels.to_string(), verdict, &line, &plain::line(name));
    }
    table
}

/// The same as a JSON array.
pub fn json(listed: &[Listed]) -> String {
    let runs = listed.iter().map(|Listed { run, name, started, levels, series, summary }| {
        json!({
            "run": run,
            "name": name,
            "started": started,
            "levels": levels,
            "verdict": summary.as_ref().map(|summary| summary.verdict.name()),
            "reason": summary.as_ref().map(|summary| &summary.reason),
            "load_line": summary.as_ref().and_then(|summary| summary.load_line.as_ref()),
            "series": series,
        })
    });
    format!("{:#}\n", runs.collect::<serde_json::Value>())
}
