//! Offered against achieved load, and the levels in one table.

use crate::chart::{Axis, Chart, Ink, Interval, Limit, Mark, Panel, Series, Upright};
use crate::html::level;
use crate::html::scalability;
use crate::html::table::{Column, interval_cell, level_cell, number_cell, table, verdict_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::summary::Summary;

/// A bound that lies this many times above what was achieved would only flatten the curve.
const FAR: f64 = 2.0;
/// So many times the highest achieved load are shown of bounds that rise with the operations in flight.
const ABOVE: f64 = 1.2;

/// Chart and table.
pub fn body(summary: &Summary) -> Markup {
    if summary.levels.iter().all(|level| level.achieved.is_none()) {
        return html! {
            p.empty { "Nothing was published: the devices were idle." }
            (levels(summary))
        };
    }
    html! {
        (chart(summary).render())
        (levels(summary))
    }
}

fn caption(summary: &Summary) -> &'static str {
    if level::connects(summary) {
        "Achieved load over devices connected. The band is the 95\u{a0}% interval of the samples' mean."
    } else if level::is_closed(summary) {
        "Achieved load over operations kept in flight. Where the curve flattens, more operations in flight only wait longer. The \
         band is the 95\u{a0}% interval of the samples' mean."
    } else {
        "Achieved over offered load. A platform that keeps up stays on the dashed diagonal. The band is the 95\u{a0}% \
         interval of the samples' mean."
    }
}

fn chart(summary: &Summary) -> Chart {
    let levels: Vec<&LevelSummary> = level::rising(summary)
        .into_iter()
        .filter(|level| level.achieved.is_some() && !level.falling)
        .collect();
    let amounts = || levels.iter().map(|level| level.load.amount());
    let achieved = levels.iter().flat_map(|level| level.achieved.into_iter().chain(level.load.offered()));
    let is_offered = !level::connects(summary) && !level::is_closed(summary);
    let bands = levels.iter().filter_map(|level| Some(level.achieved_interval()?[1]));
    let x = Axis::fitting(level::load_title(summary), amounts());
    let most = levels.iter().filter_map(|level| level.achieved).fold(0.0, f64::max);
    let bound = processor_bound(summary).filter(|&(rate, _)| rate <= FAR * most);
    let highest = bound.iter().map(|&(rate, _)| rate);
    let top = summary.closed_bounds.as_ref().map(|_| ABOVE * most);
    let y = Axis::fitting("Achieved load (/s)", achieved.chain(bands).chain(highest).chain(top));
    let ends = || [amounts().fold(f64::INFINITY, f64::min), amounts().fold(0.0, f64::max)];
    let ideal = ends().map(|end| if x.is_log() || end == ends()[1] { end } else { 0.0 });
    let diagonal = ideal.map(|end| (end, Some(end))).into_iter().filter(|_| is_offered).collect();
    let ideal = Series::new("ideal", Ink::Neutral).with(Mark::Guide { points: diagonal, dashed: true });
    let decisive = decisive(&levels);
    let band = decisive.iter().filter_map(|level| Some((level.load.amount(), level.achieved_interval()?)));
    let band = band.collect();
    let band = Series::new("95 % interval", Ink::Curve(0)).with(Mark::Band(band));
    let path = decisive.iter().map(|level| (level.load.amount(), level.achieved)).collect();
    let path =
        Series::new("achieved", Ink::Curve(0)).with(Mark::Guide { points: path, dashed: false }).unlisted();
    let law = summary.scalability.as_ref().and_then(|law| scalability::curve(law, ends()[0], ends()[1]));
    let bounds = closed_bounds(summary, ends(), ABOVE * most);
    let mark = summary.load_line.as_ref().and_then(|line| Some((line, level::of_load_line(summary, line)?)));
    let panel = Panel::new(x, y).height(340.0).all([ideal, band, path]).all(law).all(bounds);
    let panel = panel.all(level::VERDICTS.map(|verdict| of_verdict(&levels, verdict)));
    let panel =
        panel.limits(bound.map(|(at, label)| Limit { at, label, ink: Ink::Neutral }).into_iter().collect());
    let panel = match mark {
        Some((line, level)) => panel.upright(upright(line, level)),
        None => panel,
    };
    Chart::new("chart-load-line", caption(summary)).panel(panel)
}

/// One hold of each load, the last that decides something: a level that decided nothing is held again.
fn decisive<'a>(rising: &[&'a LevelSummary]) -> Vec<&'a LevelSummary> {
    let mut chosen: Vec<&LevelSummary> = Vec::new();
    let decides = |level: &LevelSummary| matches!(level.verdict, LevelVerdict::Met | LevelVerdict::Missed);
    for &level in rising {
        match chosen.last_mut() {
            Some(last) if last.load.amount() == level.load.amount() => {
                if decides(level) || !decides(last) {
                    *last = level;
                }
            }
            _ => chosen.push(level),
        }
    }
    chosen
}

/// Bounds of throughput over the operations in flight, as far as the chart reaches: the asymptotic one, and balanced-job bounds where
/// they hold.
fn closed_bounds(summary: &Summary, [from, to]: [f64; 2], top: f64) -> Vec<Series> {
    let Some(bounds) = &summary.closed_bounds else { return Vec::new() };
    let curve = |name: &str, at: &dyn Fn(f64) -> Option<f64>| {
        let point = |amount: f64| (amount, at(amount).filter(|&rate| rate <= top));
        let points = scalability::between(from, to).map(point).collect();
        Series::new(name, Ink::Neutral).with(Mark::Guide { points, dashed: true })
    };
    let mut curves = vec![curve("upper bound", &|amount| Some(bounds.upper(amount)))];
    if bounds.balanced.is_some() {
        let end = |place: usize| move |amount: f64| bounds.balanced_at(amount).map(|ends| ends[place]);
        curves.push(curve("balanced-job bounds", &end(0)));
        curves.push(curve("balanced-job bounds", &end(1)).unlisted());
    }
    curves
}

/// The lowest rate that a component's processors allow by the utilisation law, and its name. The upper end of the interval:
/// the measured load line lies below it.
fn processor_bound(summary: &Summary) -> Option<(f64, String)> {
    let bounds = summary.laws.iter().filter_map(|laws| {
        let [_, highest] = laws.demand.as_ref()?.bound_interval?;
        Some((highest, format!("upper bound: processors of {}", laws.component)))
    });
    bounds.min_by(|one, other| one.0.total_cmp(&other.0))
}

/// The levels of one verdict.
fn of_verdict(levels: &[&LevelSummary], verdict: LevelVerdict) -> Series {
    let chosen = levels.iter().filter(|level| level.verdict == verdict);
    let point = |level: &&LevelSummary| {
        Some(Interval { at: level.load.amount(), value: level.achieved?, ends: level.achieved_interval() })
    };
    let points = chosen.filter_map(point).collect();
    let series = Series::new(verdict.name(), level::ink(verdict)).symbol(level::symbol(verdict));
    series.with(Mark::Intervals { points, of: "95 % interval" })
}

fn upright(line: &LoadLine, level: &LevelSummary) -> Upright {
    let least = if line.at_least { "at least " } else { "" };
    Upright {
        at: level.load.amount(),
        label: "load line".into(),
        value: format!("{least}{}", level::load_line(line)),
        ink: Ink::Curve(0),
    }
}

fn levels(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Text("Verdict"),
        Column::Number("Achieved"),
        Column::Number("Delivered"),
        Column::Text("Why it is not met"),
    ];
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .enumerate()
        .map(|(number, level)| {
            let before = number.checked_sub(1).and_then(|before| summary.levels.get(before));
            let delivered = (level.expected_deliveries > 0).then(|| level.delivered_ratio()).flatten();
            let delivered = delivered.map(|share| format!("{} %", text::floor_percent(share)));
            html! {
                tr {
                    @if before.is_some_and(|before| before.load.amount() == level.load.amount()) {
                        th scope="row" { (level::name(level)) " (again)" }
                    } @else {
                        (level_cell(level))
                    }
                    (verdict_cell(level.verdict))
                    (interval_cell(level.achieved, level.achieved_interval(), level::per_second))
                    (number_cell(delivered))
                    td.why { (level::why(level)) }
                }
            }
        })
        .collect();
    table(&columns, &rows)
}
