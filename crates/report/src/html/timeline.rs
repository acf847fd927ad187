//! Throughput and errors over the run, sample by sample.

use crate::chart::{Axis, Chart, Ink, Panel, Path, Series, Shape, Symbol};
use crate::html::level;
use crate::html::pieces::{self, Piece};
use crate::html::time_axis::{self, RunTime};
use maud::{Markup, html};
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Counts;
use plimsoll_model::record::{LevelRecord, RunRecord};

/// What may go wrong with a message or a connection: its name, and its count.
type Wrong = (&'static str, fn(&Counts) -> u64);

const WRONG: [Wrong; 9] = [
    ("lost", Counts::lost),
    ("refused", |counts| counts.refused),
    ("unsent", |counts| counts.unsent),
    ("late", |counts| counts.late),
    ("duplicated", |counts| counts.duplicated),
    ("reordered", |counts| counts.reordered),
    ("queries failed", |counts| counts.queries_failed),
    ("connections lost", |counts| counts.disconnected),
    ("connecting failed", |counts| counts.connect_failed),
];
/// Most kinds of errors that are drawn, the most frequent ones: more could not be told apart.
const MOST_KINDS: usize = 6;

/// The chart, and what did not go wrong.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let count = record.levels.len();
    let levels: Vec<Vec<Piece>> =
        record.levels.iter().map(|level| pieces::pieces(level, count, None)).collect();
    let time = RunTime::of(record);
    let errors = errors(&levels, time);
    let caption = if errors.is_empty() {
        "Completed operations per second of each sample beside what was offered. A sample that could not be taken is a gap."
    } else {
        "Completed operations per second of each sample beside what was offered, and below it what went wrong with the messages \
         that were due then. A sample that could not be taken is a gap. Zeroes stand at the foot of a logarithmic axis."
    };
    let has_errors = !errors.is_empty();
    let chart = Chart::new("chart-timeline", caption).panel(throughput(record, summary, &levels, time));
    let highest = errors.iter().flat_map(|(_, points)| points).filter_map(|(_, rate)| *rate);
    let axis = Axis::fitting("Errors (/s)", highest.filter(|rate| *rate > 0.0));
    let symbols = Shape::ALL.iter().cycle();
    let series = errors.iter().zip(symbols).enumerate().map(|(number, ((name, points), shape))| {
        Series::new(name, Ink::Curve(number)).symbol(Symbol::full(*shape)).line(points.clone())
    });
    let panel =
        Panel::new(time.axis(), axis).height(130.0).regions(time.regions(record, summary)).all(series);
    let chart = if has_errors { chart.panel(panel) } else { chart };
    html! {
        (chart.render())
        @if !has_errors {
            p.note { "No message was lost, refused, late, duplicated, reordered or left unsent, and no connection was lost." }
        }
    }
}

fn throughput(record: &RunRecord, summary: &Summary, levels: &[Vec<Piece>], time: RunTime) -> Panel {
    let completed = |piece: &Piece| (time.at(piece.middle()), piece.per_second(|counts| counts.completed));
    let of_verdict = |verdict: LevelVerdict| {
        let own =
            time_axis::levels(record, summary).zip(levels).filter(|((_, level), _)| level.verdict == verdict);
        let points = own.flat_map(|(_, pieces)| {
            let end = pieces.last().map(|piece| (time.at(piece.end), None));
            pieces.iter().map(completed).chain(end)
        });
        let series = Series::new(&format!("completed, level {}", verdict.name()), level::ink(verdict));
        series.symbol(level::symbol(verdict)).line(points.collect())
    };
    let offered = offered(record, time);
    let rates = levels.iter().flatten().filter_map(|piece| completed(piece).1);
    let rates = rates.chain(offered.iter().filter_map(|(_, rate)| *rate));
    let panel = Panel::new(time.axis(), Axis::fitting("Throughput (/s)", rates.filter(|rate| *rate > 0.0)));
    let panel = panel.height(220.0).regions(time.regions(record, summary));
    let panel = panel.series(Series::new("offered", Ink::Neutral).dashed(offered));
    panel.all(level::VERDICTS.map(of_verdict))
}

/// What each level asks for, over its hold.
fn offered(record: &RunRecord, time: RunTime) -> Path {
    let of_level = |level: &LevelRecord| {
        let offered = level.start.load.offered()?;
        let begin = level.start.hold_start.as_secs_f64();
        let end = begin + level.start.hold.as_secs_f64();
        let points: Vec<(f64, f64)> = match &level.start.curve {
            Some(curve) => {
                curve.points().iter().map(|&(at, rate)| (begin + at.as_secs_f64(), rate)).collect()
            }
            None => vec![(begin, offered), (end, offered)],
        };
        let points = points.into_iter().map(|(at, rate)| (time.at(at), Some(rate)));
        Some(points.chain([(time.at(end), None)]).collect::<Path>())
    };
    record.levels.iter().filter_map(of_level).flatten().collect()
}

/// One kind of errors over the run, per second.
type Errors = (&'static str, Path);

/// The kinds of errors that there were, the most frequent ones.
fn errors(levels: &[Vec<Piece>], time: RunTime) -> Vec<Errors> {
    let all = |of: fn(&Counts) -> u64| -> u64 {
        levels.iter().flatten().filter_map(|piece| piece.counts.as_ref()).map(of).sum()
    };
    let mut wrong: Vec<(u64, Wrong)> =
        WRONG.into_iter().map(|wrong| (all(wrong.1), wrong)).filter(|(count, _)| *count > 0).collect();
    wrong.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let over_run = |of: fn(&Counts) -> u64| {
        let points = levels.iter().flat_map(|pieces| {
            let end = pieces.last().map(|piece| (time.at(piece.end), None));
            pieces.iter().map(|piece| (time.at(piece.middle()), piece.per_second(of))).chain(end)
        });
        points.collect()
    };
    wrong.into_iter().take(MOST_KINDS).map(|(_, (name, of))| (name, over_run(of))).collect()
}
