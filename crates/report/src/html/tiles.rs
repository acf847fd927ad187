//! The figures that a reader asks for first, as tiles.

use crate::html::level;
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::{Metric, Validity};

/// One figure.
struct Tile {
    name: &'static str,
    value: String,
    /// What it is of, or what else belongs to it.
    about: String,
    is_bad: bool,
}

/// The tiles; none where no level was run.
pub fn tiles(record: &RunRecord, summary: &Summary) -> Markup {
    if summary.levels.is_empty() {
        return html! {};
    }
    let tiles = [messages(summary), lost(summary), p99(summary), length(record, summary), generator(summary)];
    html! {
        dl.tiles {
            @for tile in tiles {
                div.tile.bad[tile.is_bad] {
                    dt { (tile.name) }
                    dd.figure { (tile.value) }
                    dd.about { (tile.about) }
                }
            }
        }
    }
}

fn levels(count: usize) -> String {
    if count == 1 { "1 level".into() } else { format!("{count} levels") }
}

fn messages(summary: &Summary) -> Tile {
    let total = |of: fn(&LevelSummary) -> u64| summary.levels.iter().map(of).sum::<u64>();
    let (sent, due) = (total(|level| level.sent), total(|level| level.due));
    let about = if sent < due {
        format!("sent of {} that were due", text::count(due as f64))
    } else {
        format!("sent in {}", levels(summary.levels.len()))
    };
    Tile { name: "Messages", value: text::count(sent as f64), about, is_bad: false }
}

fn lost(summary: &Summary) -> Tile {
    let total = |of: fn(&LevelSummary) -> u64| summary.levels.iter().map(of).sum::<u64>();
    let (lost, expected) = (total(|level| level.lost), total(|level| level.expected_deliveries));
    if expected == 0 {
        return Tile {
            name: "Lost",
            value: "\u{2013}".into(),
            about: "no deliveries were expected".into(),
            is_bad: false,
        };
    }
    let about = format!("of {} expected deliveries", text::count(expected as f64));
    Tile { name: "Lost", value: text::count(lost as f64), about, is_bad: lost > 0 }
}

/// The level that answers the run's question: that of the load line, else the lowest.
fn answer(summary: &Summary) -> Option<&LevelSummary> {
    let line = summary.load_line.as_ref().and_then(|line| level::of_load_line(summary, line));
    line.or_else(|| level::rising(summary).first().copied())
}

fn p99(summary: &Summary) -> Tile {
    let level = answer(summary);
    let times = [
        (
            summary.leading_time,
            if summary.leading_time == Metric::SubscribeTime { "subscribe time" } else { "publish time" },
        ),
        (Metric::SubscribeTime, "subscribe time"),
        (Metric::QueryTime, "query time"),
        (Metric::ConnectTime, "connect time"),
    ];
    let found = times.into_iter().find_map(|(metric, name)| Some((level?, level?.times[metric].p99?, name)));
    let (value, about) = match (found, level) {
        (Some((level, p99, name)), _) => (text::time(Some(p99)), format!("{name} at {}", level::name(level))),
        (None, level) => {
            let at = level.map(|level| format!(" at {}", level::name(level))).unwrap_or_default();
            ("\u{2013}".to_owned(), format!("fewer than 1,000 observations{at}"))
        }
    };
    Tile { name: "p99", value, about, is_bad: false }
}

fn length(record: &RunRecord, summary: &Summary) -> Tile {
    let end = |level: &LevelRecord| {
        let hold = (level.start.hold_start + level.start.hold).as_secs_f64();
        level.end.as_ref().map_or(hold, |end| end.at.as_secs_f64())
    };
    let whole = record.levels.iter().map(end).fold(0.0, f64::max);
    let held: f64 = summary.levels.iter().map(|level| level.hold).sum();
    let about = format!("of which {} measured", duration(held));
    Tile { name: "Length", value: duration(whole), about, is_bad: false }
}

fn generator(summary: &Summary) -> Tile {
    let all = summary.levels.len();
    let valid = summary.levels.iter().filter(|level| level.validity == Validity::Valid).count();
    let value =
        if valid == all { format!("all {}", levels(all)) } else { format!("{valid} of {}", levels(all)) };
    let value = if all == 1 && valid == 1 { levels(1) } else { value };
    let about = match answer(summary).map(|level| (level, &level.generator.lateness)) {
        Some((level, TimeSummary { p99: Some(p99), .. })) => {
            format!("late by {} (p99) at {}", text::time(Some(*p99)), level::name(level))
        }
        Some((level, TimeSummary { max: Some(max), .. })) => {
            format!("late by {} at most at {}", text::time(Some(*max)), level::name(level))
        }
        _ => "nothing was due".to_owned(),
    };
    Tile { name: "Generator kept up in", value, about, is_bad: valid < all }
}

/// A length of time in at most two units: `1 min 24 s`.
fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..100 if seconds < 9.95 => text::time(Some(seconds)),
        0..100 => format!("{whole} s"),
        100..7200 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;
    use plimsoll_analysis::summarize;

    #[test]
    fn lengths_have_two_units_at_most() {
        let told = [0.5, 12.4, 84.0, 144.0, 7260.0].map(duration);
        assert_eq!(told, ["500 ms", "12 s", "84 s", "2 min 24 s", "2 h 1 min"]);
    }

    #[test]
    fn the_first_figures_are_those_of_the_run() {
        let record = synthetic::record();
        let summary = summarize(&record);
        let page = tiles(&record, &summary).into_string();
        let sent: u64 = summary.levels.iter().map(|level| level.sent).sum();
        assert!(page.contains(&format!(">{}</dd>", text::count(sent as f64))), "{page}");
        for part in
            ["publish time at 4,000/s", "5 of 6 levels", "of which 59 s measured", "expected deliveries"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(
            page.matches("class=\"tile bad\"").count(),
            2,
            "lost messages, and a generator that was late"
        );
    }
}
