//! Publish, subscribe and query time per level: boxplots and quantiles with their intervals.

use crate::chart::{Axis, BoxOf, Chart, Ink, Limit, Mark, Panel, Series};
use crate::html::level;
use crate::html::table::{Column, level_cell, table, time_cell, time_interval_cell};
use maud::{Markup, html};
use plimsoll_analysis::level::{BoxplotSummary, LevelSummary};
use plimsoll_analysis::objective;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
use plimsoll_model::Metric;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::RunRecord;

/// One of the times, and how it is shown.
struct Shown {
    metric: Metric,
    name: &'static str,
    ink: Ink,
    boxplot: fn(&LevelSummary) -> Option<&BoxplotSummary>,
}

const SHOWN: [Shown; 3] = [
    Shown {
        metric: Metric::PublishTime,
        name: "publish time",
        ink: Ink::Curve(0),
        boxplot: |level| level.publish_boxplot.as_ref(),
    },
    Shown {
        metric: Metric::SubscribeTime,
        name: "subscribe time",
        ink: Ink::Curve(3),
        boxplot: |level| level.subscribe_boxplot.as_ref(),
    },
    Shown {
        metric: Metric::QueryTime,
        name: "query time",
        ink: Ink::Curve(1),
        boxplot: |level| level.query_boxplot.as_ref(),
    },
];

/// Chart and table.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let levels = level::rising(summary);
    let shown: Vec<&Shown> =
        SHOWN.iter().filter(|shown| levels.iter().any(|level| (shown.boxplot)(level).is_some())).collect();
    html! {
        @if !record.terms.acknowledges() {
            p.note { "Nothing is acknowledged here, as at QoS 0, so there is no publish time." }
        }
        @if record.terms.subscribers == 0 {
            p.note { "The scenario has no subscribers, so there is no subscribe time." }
        }
        @if shown.is_empty() {
            p.empty { "No message was acknowledged or delivered." }
        } @else {
            (chart(record, &levels, &shown).render())
            (quantiles(summary, &shown))
        }
    }
}

fn chart(record: &RunRecord, levels: &[&LevelSummary], shown: &[&Shown]) -> Chart {
    let limits = limits(record, shown);
    let boxes = shown.iter().flat_map(|shown| levels.iter().filter_map(|level| (shown.boxplot)(level)));
    let values = boxes
        .flat_map(|b| [b.lower_whisker, b.p25, b.p50, b.p75, b.upper_whisker, b.max])
        .map(milliseconds)
        .chain(limits.iter().map(|limit| limit.at));
    let y = Axis::log("Time (ms)", values);
    let x = Axis::places("Level", levels.iter().map(|level| level::name(level)));
    let panel = Panel::new(x, y).height(360.0).side_by_side().limits(limits);
    let series = shown.iter().map(|shown| {
        let boxes = levels.iter().enumerate().filter_map(|(place, level)| {
            let b = (shown.boxplot)(level)?;
            Some(BoxOf {
                at: place as f64,
                quartiles: [b.lower_whisker, b.p25, b.p50, b.p75, b.upper_whisker].map(milliseconds),
                max: milliseconds(b.max),
            })
        });
        Series::new(shown.name, shown.ink).with(Mark::Boxes(boxes.collect()))
    });
    let caption = "Time from due to acknowledged and to received, of queries to answered. The box holds the middle half, \
                   whiskers reach 1.5 box lengths, the ring is the slowest. Dashed lines are objectives.";
    Chart::new("chart-times", caption).panel(panel.all(series))
}

/// The objectives of the times that are drawn; those of one population are not these times.
fn limits(record: &RunRecord, shown: &[&Shown]) -> Vec<Limit> {
    let of = |objective: &Objective| match objective.subject {
        Subject::Quantile(metric, _) if objective.population.is_none() => {
            let shown = shown.iter().find(|shown| shown.metric == metric)?;
            Some(Limit { at: milliseconds(objective.bound), label: objective.to_string(), ink: shown.ink })
        }
        _ => None,
    };
    record.terms.objectives.level.iter().filter_map(of).collect()
}

/// In milliseconds, and never zero, which a logarithmic axis does not have.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).max(1e-6)
}

/// Two tables, so that each fits a narrow page: the times from due, and what of them came before sending.
fn quantiles(summary: &Summary, shown: &[&Shown]) -> Markup {
    let text = [Column::Text("Level"), Column::Text("Time")];
    let columns =
        text.into_iter().chain(["n", "Mean", "p50", "p90", "p99", "p99.9", "Max"].map(Column::Number));
    let ages = summary.levels.iter().any(|level| level.times[Metric::Freshness].n > 0);
    let freshness = ages.then_some((Metric::Freshness, "freshness"));
    let times: Vec<(Metric, &str)> =
        shown.iter().map(|shown| (shown.metric, shown.name)).chain(freshness).collect();
    let rows_of =
        |row: fn(&LevelSummary, Metric, &str, bool) -> Markup, times: &[(Metric, &str)]| -> Vec<Markup> {
            let of_level = |level| {
                let times = times.iter().enumerate();
                times
                    .map(move |(position, &(metric, name))| row(level, metric, name, position == 0))
                    .collect::<Vec<_>>()
            };
            summary.levels.iter().flat_map(of_level).collect()
        };
    let due: Vec<(Metric, &str)> =
        times.iter().copied().filter(|(metric, _)| *metric != Metric::Freshness).collect();
    let parts = [
        Column::Text("Level"),
        Column::Text("Time"),
        Column::Number("From send, p50"),
        Column::Number("From send, p99"),
        Column::Number("Lateness, p50"),
        Column::Number("Lateness, p99"),
    ];
    html! {
        (table(&columns.collect::<Vec<_>>(), &rows_of(row, &times)))
        p.note {
            "Below a value stands its 95\u{a0}% interval. A quantile needs ten observations beyond it; a mean exists \
             only where the level kept up. Times count from when a message was due."
            @if ages { " Freshness is the age of a device's newest message that a subscriber has." }
        }
        h3.apart { "Time before sending" }
        (table(&parts, &rows_of(parts_row, &due)))
        p.note {
            "Times " em { "from send" } " leave out the wait before a message could be sent. Lateness is the part of that wait \
             that the generator caused."
        }
    }
}

fn row(level: &LevelSummary, metric: Metric, name: &str, first: bool) -> Markup {
    let absent = TimeSummary::default();
    let time = objective::time(level, metric).unwrap_or(&absent);
    let quantile_cell = |q: f64| {
        let (value, interval) = time.quantile(q);
        time_interval_cell(value, interval)
    };
    html! {
        tr.group[first] {
            @if first { (level_cell(level)) } @else { td {} }
            td.nowrap { (name.trim_end_matches(" time")) }
            td.num { (crate::text::count(time.n as f64)) }
            (time_interval_cell(time.mean, time.ci95))
            @for q in [0.5, 0.9, 0.99, 0.999] { (quantile_cell(q)) }
            (time_cell(time.max))
        }
    }
}

fn parts_row(level: &LevelSummary, metric: Metric, name: &str, first: bool) -> Markup {
    let absent = TimeSummary::default();
    let from_send = match metric {
        Metric::SubscribeTime => &level.times[Metric::SubscribeTimeFromSend],
        Metric::PublishTime => &level.times[Metric::PublishTimeFromSend],
        _ => &absent,
    };
    let lateness = &level.generator.lateness;
    html! {
        tr.group[first] {
            @if first { (level_cell(level)) } @else { td {} }
            td.nowrap { (name.trim_end_matches(" time")) }
            (time_cell(from_send.p50))
            (time_cell(from_send.p99))
            (time_cell(lateness.p50))
            (time_cell(lateness.p99))
        }
    }
}
