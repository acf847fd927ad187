//! The load line of a scenario over its runs, as a page of its own.

use crate::chart::{self, Axis, Chart, Ink, Interval, Mark, Panel, Series, Shape, Symbol, Upright};
use crate::html::head;
use crate::plain;
use jiff::Timestamp;
use maud::{DOCTYPE, html};
use plimsoll_analysis::history::changes;
use plimsoll_analysis::load_line::LoadLine;

/// A run of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// When it began, RFC 3339.
    pub started: String,
    /// Its load line.
    pub line: LoadLine,
}

/// The page: a chart of the runs, which are in the order of time and have load lines of one unit.
pub fn page(name: &str, runs: &[Past]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("History of {name} \u{b7} Plimsoll")))
            body { main { (chart(runs).render()) } (chart::script()) }
        }
    };
    plain::page(page.into_string())
}

fn chart(runs: &[Past]) -> Chart {
    let second = |run: &Past| run.started.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let begin = runs.iter().filter_map(second).min().unwrap_or_default();
    let day = |run: &Past| Some((second(run)? - begin) as f64 / 86_400.0);
    let points: Vec<(f64, &LoadLine)> = runs.iter().filter_map(|run| Some((day(run)?, &run.line))).collect();
    let amounts = |(_, line): &(f64, &LoadLine)| {
        [line.amount(), line.most()].into_iter().flatten().collect::<Vec<f64>>()
    };
    let unit = points.first().map_or("", |(_, line)| line.unit());
    let end = points.iter().map(|(day, _)| *day).fold(0.0, f64::max);
    let x = Axis::span("Days since the first run", 0.0, end * 1.02);
    let y = Axis::linear(&format!("Load line ({unit})"), points.iter().flat_map(amounts));
    let of = |at_least: bool| -> Vec<Interval> {
        let own = points.iter().filter(|(_, line)| line.at_least == at_least);
        let interval = |(day, line): &(f64, &LoadLine)| {
            let value = line.amount()?;
            Some(Interval { at: *day, value, ends: line.most().map(|most| [value, most]) })
        };
        own.filter_map(interval).collect()
    };
    let bracket = "from the load line to the level that missed";
    let known = Series::new("load line", Ink::Curve(0)).symbol(Symbol::full(Shape::Circle));
    let open = Series::new("at least", Ink::Curve(0)).symbol(Symbol::open(Shape::Circle));
    let lines: Vec<&LoadLine> = points.iter().map(|(_, line)| *line).collect();
    let panel = Panel::new(x, y)
        .series(known.with(Mark::Intervals { points: of(false), of: bracket }))
        .series(open.with(Mark::Intervals { points: of(true), of: bracket }));
    let panel =
        changes(&lines).into_iter().filter_map(|place| points.get(place)).fold(panel, |panel, (day, _)| {
            panel.upright(Upright {
                at: *day,
                label: "changed".into(),
                value: format!("day {day:.1}"),
                ink: Ink::Curve(1),
            })
        });
    let caption = "The load line of each run, and up to which load it may lie. An upright line is where it changed: one history of an \
                   unchanged platform in a hundred has one.";
    Chart::new("chart-history", caption).panel(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(day: u32, rate: f64, below: Option<f64>) -> Past {
        let line = LoadLine {
            rate: Some(rate),
            devices: None,
            connect_rate: None,
            level: 0,
            at_least: below.is_none(),
            below,
            at_most: None,
            limited_by: None,
            next_level: None,
        };
        Past { started: format!("2026-11-{day:02}T10:00:00Z"), line }
    }

    #[test]
    fn a_history_shows_each_run_and_its_changes() {
        let mut runs: Vec<Past> = (1..=8).map(|day| past(day, 1000.0, Some(2000.0))).collect();
        let quiet = page("a <b>", &runs);
        assert!(
            quiet.contains("<svg") && quiet.contains("a &lt;b&gt;") && !quiet.contains(">changed<"),
            "{quiet}"
        );
        runs.extend((9..=16).map(|day| past(day, 500.0, None)));
        let changed = page("a", &runs);
        assert!(changed.contains(">changed<") && changed.contains(">day 8.0<"), "{changed}");
        assert!(changed.contains("at least") && !quiet.contains("at least"), "{changed}");
        assert_eq!(page("a", &[]).matches("<svg").count(), 0);
    }
}
