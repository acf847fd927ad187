//! Offered against achieved load, and the levels in one table.

use crate::html::figure::{self, BLUE, Figure, NEUTRAL};
use crate::html::level;
use crate::html::table::{Column, interval_cell, level_cell, number_cell, table, verdict_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::summary::Summary;
use plotly::Scatter;
use plotly::common::{Anchor, DashType, Fill, Font, HoverInfo, Line, Marker, Mode};
use plotly::layout::{Annotation, HAlign};

/// Chart and table.
pub fn body(summary: &Summary) -> Markup {
    if summary.levels.iter().all(|level| level.achieved.is_none()) {
        return html! {
            p.empty { "Nothing was published: the devices were idle." }
            (levels(summary))
        };
    }
    let closed = level::is_closed(summary);
    let caption = if level::connects(summary) {
        "Achieved load over devices connected. The band is the 95\u{a0}% interval of the samples' mean."
    } else if closed {
        "Achieved load over operations kept in flight: where the curve flattens, more concurrency only waits. The \
         band is the 95\u{a0}% interval of the samples' mean."
    } else {
        "Achieved over offered load: a platform that keeps up stays on the dashed diagonal. The band is the 95\u{a0}% \
         interval of the samples' mean."
    };
    html! {
        (chart(summary, closed).render(caption))
        (levels(summary))
    }
}

fn chart(summary: &Summary, closed: bool) -> Figure {
    let levels: Vec<&LevelSummary> =
        level::rising(summary).into_iter().filter(|level| level.achieved.is_some()).collect();
    let connects = level::connects(summary);
    let x_title = match (connects, closed) {
        (true, _) => "Devices",
        (false, true) => "Operations in flight",
        (false, false) => "Offered load (msg/s)",
    };
    let highest = levels.iter().map(|level| level.load.amount()).fold(0.0, f64::max);
    let offered = levels.iter().filter_map(|level| level.load.offered());
    let bands = levels.iter().filter_map(|level| Some(level.achieved_interval()?[1]));
    let achieved = levels.iter().filter_map(|level| level.achieved);
    let right = highest.max(1.0) * 1.06;
    let top = offered.chain(bands).chain(achieved).fold(1.0, f64::max) * 1.08;
    let mut layout = figure::layout()
        .x_axis(figure::axis(x_title).range(vec![0.0, right]))
        .y_axis(figure::axis("Achieved load (msg/s)").range(vec![0.0, top]));
    let mark = summary.load_line.as_ref().and_then(|line| Some((line, level::of_load_line(summary, line)?)));
    if let Some((line, level)) = mark {
        layout = layout.annotations(vec![load_line_label(line, level.load.amount(), right)]);
    }
    let mut figure = Figure::new("chart-load-line", 440, layout);
    if let Some((_, level)) = mark {
        let x = level.load.amount();
        let upright = Scatter::new(vec![x, x], vec![0.0, top])
            .mode(Mode::Lines)
            .show_legend(false)
            .hover_info(HoverInfo::Skip)
            .line(Line::new().color(BLUE).width(2.0));
        figure.add(upright);
    }
    if !closed && !connects {
        let ends = vec![0.0, highest];
        let ideal = Scatter::new(ends.clone(), ends)
            .mode(Mode::Lines)
            .name("ideal")
            .hover_info(HoverInfo::Skip)
            .line(Line::new().color(NEUTRAL).width(1.5).dash(DashType::Dash));
        figure.add(ideal);
    }
    add_band(&mut figure, &levels);
    let (x, y) = levels.iter().map(|level| (level.load.amount(), level.achieved)).unzip();
    let path: Box<Scatter<f64, Option<f64>>> = Scatter::new(x, y);
    figure.add(
        path.mode(Mode::Lines)
            .show_legend(false)
            .hover_info(HoverInfo::Skip)
            .line(Line::new().color(BLUE).width(2.0)),
    );
    for verdict in level::VERDICTS {
        add_markers(&mut figure, &levels, verdict);
    }
    figure
}

fn add_band(figure: &mut Figure, levels: &[&LevelSummary]) {
    let bands: Vec<(f64, [f64; 2])> =
        levels.iter().filter_map(|level| Some((level.load.amount(), level.achieved_interval()?))).collect();
    let edge = |end: usize| -> Box<Scatter<f64, Option<f64>>> {
        let (x, y) = bands.iter().map(|(x, ends)| (*x, ends.get(end).copied())).unzip();
        Scatter::new(x, y)
            .mode(Mode::Lines)
            .hover_info(HoverInfo::Skip)
            .line(Line::new().width(0.0).color(BLUE))
    };
    figure.add(edge(0).show_legend(false));
    figure.add(edge(1).fill(Fill::ToNextY).fill_color("rgba(47,127,193,0.22)").name("95 % interval"));
}

fn add_markers(figure: &mut Figure, levels: &[&LevelSummary], verdict: LevelVerdict) {
    let chosen: Vec<&&LevelSummary> = levels.iter().filter(|level| level.verdict == verdict).collect();
    if chosen.is_empty() {
        return;
    }
    let (x, y) = chosen.iter().map(|level| (level.load.amount(), level.achieved)).unzip();
    let told: Vec<String> = chosen
        .iter()
        .map(|level| {
            let band = level
                .achieved_interval()
                .map(|[lo, hi]| format!(" ({} to {})", level::rate(lo), level::rate(hi)));
            let achieved = level.achieved.map(level::rate).unwrap_or_default();
            let name = level::name(level);
            format!("{name}: {}<br>achieved {achieved}/s{}", verdict.name(), band.unwrap_or_default())
        })
        .collect();
    let marker = Marker::new().size(11).color(level::colour(verdict)).symbol(level::symbol(verdict));
    let trace: Box<Scatter<f64, Option<f64>>> = Scatter::new(x, y);
    figure.add(
        trace
            .mode(Mode::Markers)
            .name(verdict.name())
            .marker(marker)
            .hover_info(HoverInfo::Text)
            .hover_text_array(told),
    );
}

/// The label of the upright, on the side where there is room.
fn load_line_label(line: &LoadLine, x: f64, right: f64) -> Annotation {
    let (anchor, shift, align) = if x > right / 2.0 {
        (Anchor::Right, -6.0, HAlign::Right)
    } else {
        (Anchor::Left, 6.0, HAlign::Left)
    };
    let least = if line.at_least { "at least " } else { "" };
    Annotation::new()
        .text(format!("<b>load line</b><br>{least}{}", level::load_line(line)))
        .x(x)
        .x_anchor(anchor)
        .x_shift(shift)
        .y_ref("paper")
        .y(1.0)
        .y_anchor(Anchor::Top)
        .align(align)
        .show_arrow(false)
        .font(Font::new().color(BLUE).size(13))
}

fn levels(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Text("Verdict"),
        Column::Number("Achieved msg/s"),
        Column::Number("Delivered"),
        Column::Text("Why it is not met"),
    ];
    let rows: Vec<Markup> = summary
        .levels
        .iter()
        .map(|level| {
            let delivered = (level.expected_deliveries > 0).then(|| level.delivered_ratio()).flatten();
            let delivered = delivered.map(|share| format!("{} %", text::floor_percent(share)));
            html! {
                tr {
                    (level_cell(level))
                    (verdict_cell(level.verdict))
                    (interval_cell(level.achieved, level.achieved_interval(), level::rate))
                    (number_cell(delivered))
                    td.why { (level::why(level)) }
                }
            }
        })
        .collect();
    table(&columns, &rows)
}
