//! Publish, subscribe and query time per level: boxplots and quantiles with their intervals.

use crate::html::figure::{self, BLUE, Figure, ORANGE, PURPLE};
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
use plotly::box_plot::BoxPoints;
use plotly::common::{Anchor, DashType, Font, Line, Marker, MarkerSymbol, TickMode};
use plotly::layout::{Annotation, BoxMode, Shape, ShapeLine, ShapeType};
use plotly::{BoxPlot, Layout};

/// A box as Plotly takes it: position, and the points beyond the whiskers.
type Boxes = BoxPlot<f64, Vec<f64>>;

/// One of the times, and how it is shown.
struct Shown {
    metric: Metric,
    name: &'static str,
    colour: &'static str,
    boxplot: fn(&LevelSummary) -> Option<&BoxplotSummary>,
}

const SHOWN: [Shown; 3] = [
    Shown {
        metric: Metric::PublishTime,
        name: "publish time",
        colour: BLUE,
        boxplot: |level| level.publish_boxplot.as_ref(),
    },
    Shown {
        metric: Metric::SubscribeTime,
        name: "subscribe time",
        colour: PURPLE,
        boxplot: |level| level.subscribe_boxplot.as_ref(),
    },
    Shown {
        metric: Metric::QueryTime,
        name: "query time",
        colour: ORANGE,
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
            p.note { "At QoS 0 nothing is acknowledged, so there is no publish time." }
        }
        @if record.terms.subscribers == 0 {
            p.note { "The scenario has no subscribers, so there is no subscribe time." }
        }
        @if shown.is_empty() {
            p.empty { "No message was acknowledged or delivered." }
        } @else {
            (chart(record, &levels, &shown).render(
                "Time from due to acknowledged and to received, of queries to answered: the box holds the middle half, \
                 whiskers reach 1.5 box lengths, the dot is the slowest; dashed lines are objectives."
            ))
            (quantiles(summary, &shown))
        }
    }
}

fn chart(record: &RunRecord, levels: &[&LevelSummary], shown: &[&Shown]) -> Figure {
    let limits: Vec<(&Objective, &Shown)> = record
        .terms
        .objectives
        .level
        .iter()
        .filter_map(|objective| match objective.subject {
            // Those of one population are not the times that are drawn.
            Subject::Quantile(metric, _) if objective.population.is_none() => {
                Some((objective, *shown.iter().find(|shown| shown.metric == metric)?))
            }
            _ => None,
        })
        .collect();
    let boxes = || shown.iter().flat_map(|shown| levels.iter().filter_map(|level| (shown.boxplot)(level)));
    let values = boxes()
        .flat_map(|b| [b.lower_whisker, b.p25, b.p50, b.p75, b.upper_whisker, b.max])
        .chain(limits.iter().map(|(objective, _)| objective.bound))
        .map(milliseconds);
    let names: Vec<String> = levels.iter().map(|level| level::name(level)).collect();
    let positions: Vec<f64> = (0..levels.len()).map(|position| position as f64).collect();
    let x_axis = figure::axis("Level")
        .tick_mode(TickMode::Array)
        .tick_values(positions)
        .tick_text(names)
        .show_grid(false)
        .range(vec![-0.5, levels.len() as f64 - 0.5]);
    let layout = figure::layout()
        .x_axis(x_axis)
        .y_axis(figure::log_axis("Time (ms, log scale)", values))
        .box_mode(BoxMode::Group)
        .box_gap(0.35)
        .box_group_gap(0.15);
    let mut figure = Figure::new("chart-times", 460, mark_limits(layout, &limits));
    for shown in shown {
        figure.add(boxes_of(levels, shown));
    }
    figure
}

fn boxes_of(levels: &[&LevelSummary], shown: &Shown) -> Box<Boxes> {
    let taken: Vec<(f64, &BoxplotSummary)> = levels
        .iter()
        .enumerate()
        .filter_map(|(position, level)| Some((position as f64, (shown.boxplot)(level)?)))
        .collect();
    let part = |pick: fn(&BoxplotSummary) -> f64| -> Vec<f64> {
        taken.iter().map(|(_, boxplot)| milliseconds(pick(boxplot))).collect()
    };
    let slowest = taken.iter().map(|(_, boxplot)| vec![milliseconds(boxplot.max)]).collect();
    BoxPlot::new_xy(taken.iter().map(|(position, _)| *position).collect(), slowest)
        .lower_fence(part(|b| b.lower_whisker))
        .q1(part(|b| b.p25))
        .median(part(|b| b.p50))
        .q3(part(|b| b.p75))
        .upper_fence(part(|b| b.upper_whisker))
        .box_points(BoxPoints::All)
        .jitter(0.0)
        .point_pos(0.0)
        .name(shown.name)
        .marker(Marker::new().color(shown.colour).size(5).symbol(MarkerSymbol::CircleOpen))
        .line(Line::new().color(shown.colour).width(1.5))
}

/// In milliseconds, and never zero, which a logarithmic axis does not have.
fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).max(1e-6)
}

fn mark_limits(layout: Layout, limits: &[(&Objective, &Shown)]) -> Layout {
    let line = |(objective, shown): &(&Objective, &Shown)| {
        let y = milliseconds(objective.bound);
        Shape::new()
            .shape_type(ShapeType::Line)
            .x_ref("paper")
            .x0(0.0)
            .x1(1.0)
            .y0(y)
            .y1(y)
            .line(ShapeLine::new().color(shown.colour).width(1.5).dash(DashType::Dash))
    };
    let label = |(objective, shown): &(&Objective, &Shown)| {
        Annotation::new()
            .text(figure::text(&at_the_line(objective, limits)))
            .x_ref("paper")
            .x(0.0)
            .x_anchor(Anchor::Left)
            .x_shift(4.0)
            // A logarithmic axis places annotations by the logarithm, shapes by the value.
            .y(milliseconds(objective.bound).log10())
            .y_anchor(Anchor::Bottom)
            .show_arrow(false)
            .font(Font::new().color(shown.colour).size(12))
    };
    // Labels of lines that lie upon each other could not be read.
    let own = limits.iter().enumerate().filter(|(position, (objective, _))| {
        limits.iter().take(*position).all(|(other, _)| other.bound != objective.bound)
    });
    let labels = own.map(|(_, limit)| label(limit)).collect();
    layout.shapes(limits.iter().map(line).collect()).annotations(labels)
}

/// All objectives whose line is that of this one.
fn at_the_line(objective: &Objective, limits: &[(&Objective, &Shown)]) -> String {
    let same = limits.iter().filter(|(other, _)| other.bound == objective.bound);
    same.map(|(other, _)| other.to_string()).collect::<Vec<_>>().join(", ")
}

fn quantiles(summary: &Summary, shown: &[&Shown]) -> Markup {
    let columns: Vec<Column> = [Column::Text("Level"), Column::Text("Time")]
        .into_iter()
        .chain(
            [
                "n",
                "Mean",
                "p50",
                "p90",
                "p99",
                "p99.9",
                "Max",
                "p50 from send",
                "p99 from send",
                "Lateness in it: p50",
                "p99",
            ]
            .map(Column::Number),
        )
        .collect();
    let ages = summary.levels.iter().any(|level| level.times[Metric::Freshness].n > 0);
    let freshness = ages.then_some((Metric::Freshness, "freshness"));
    let times: Vec<(Metric, &str)> =
        shown.iter().map(|shown| (shown.metric, shown.name)).chain(freshness).collect();
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .flat_map(|level| {
            let rows = times.iter().enumerate();
            rows.map(move |(position, &(metric, name))| row(level, metric, name, position == 0))
        })
        .collect();
    html! {
        (table(&columns, &rows))
        p.note {
            "Below a value stands its 95\u{a0}% interval. A quantile is told only with ten observations beyond it, a mean \
             only where the level kept up. Times count from when a message was due; "
            em { "from send" } " leaves out the wait before it could be sent, and so the generator's lateness, which \
            stands beside."
            @if ages { " Freshness is the age of a device's newest message that a subscriber has, as time goes by." }
        }
    }
}

fn row(level: &LevelSummary, metric: Metric, name: &str, first: bool) -> Markup {
    let absent = TimeSummary::default();
    let (from_send, lateness) = match metric {
        Metric::SubscribeTime => (&level.times[Metric::SubscribeTimeFromSend], &level.generator.lateness),
        Metric::PublishTime => (&level.times[Metric::PublishTimeFromSend], &level.generator.lateness),
        Metric::QueryTime => (&absent, &level.generator.lateness),
        _ => (&absent, &absent),
    };
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
            (time_cell(from_send.p50))
            (time_cell(from_send.p99))
            (time_cell(lateness.p50))
            (time_cell(lateness.p99))
        }
    }
}
