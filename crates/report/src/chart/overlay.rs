//! What lies behind and over the curves: shaded spans, lines at limits, upright lines, and their labels.

use super::frame::Frame;
use super::number::px;
use super::panel::{Limit, Panel, Upright};
use super::{Ink, Mark, label};
use maud::{Markup, html};

/// From one line of text to the next.
const LINE: f64 = 16.0;

/// Shaded spans, with their names above the panel where they are wanted and do not run into each other.
pub fn regions(frame: &Frame<'_>, panel: &Panel, are_named: bool) -> Markup {
    let middle = |from: f64, to: f64| (frame.x(from) + frame.x(to)) / 2.0;
    let names = panel.regions.iter().map(|region| (middle(region.from, region.to), region.name.as_str(), ()));
    html! {
        @for region in &panel.regions {
            @let (left, right) = (frame.x(region.from), frame.x(region.to));
            rect class={ "region " (region.ink.class()) } x=(px(left)) y=(px(frame.top)) width=(px((right - left).max(1.0)))
                height=(px(frame.height)) { title { (region.name) } }
        }
        @if are_named {
            @for (x, name, ()) in label::apart(names) {
                text.tick x=(px(x)) y=(px(frame.top - 6.0)) text-anchor="middle" { (name) }
            }
        }
    }
}

/// A line with all the labels that belong to it.
struct Line {
    y: f64,
    labels: Vec<String>,
    ink: Ink,
}

/// Limits at their values, one label for each of them, at that end of the line where it covers fewer points.
pub fn limits(frame: &Frame<'_>, panel: &Panel) -> Markup {
    let limits: &[Limit] = &panel.limits;
    let points = if limits.is_empty() { Vec::new() } else { points(frame, panel) };
    let mut lines: Vec<Line> = Vec::new();
    for limit in limits {
        let y = frame.y(limit.at);
        match lines.iter_mut().find(|line| (line.y - y).abs() < 1.0) {
            Some(line) if line.labels.contains(&limit.label) => {}
            Some(line) => line.labels.push(limit.label.clone()),
            None => lines.push(Line { y, labels: vec![limit.label.clone()], ink: limit.ink }),
        }
    }
    lines.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut last = frame.top - LINE;
    let mut baseline = |line: f64| {
        let above = line - 5.0;
        last = if above - last >= LINE { above } else { (line + 13.0).max(last + LINE) };
        last
    };
    let baselines: Vec<f64> = lines.iter().map(|line| baseline(line.y)).collect();
    html! {
        @for (line, y) in lines.iter().zip(baselines) {
            @let text = line.labels.join(", ");
            @let (x, anchor) = free_end(frame, &points, label::width(&text), y);
            path class={ "limit " (line.ink.class()) } d={ "M" (px(frame.left)) " " (px(line.y)) "H" (px(frame.right())) } {}
            text class={ "named " (line.ink.class()) } x=(px(x)) y=(px(y)) text-anchor=(anchor) { (text) }
        }
    }
}

/// Where the series have points, in the drawing.
fn points(frame: &Frame<'_>, panel: &Panel) -> Vec<(f64, f64)> {
    let of_mark = |mark: &Mark| -> Vec<(f64, f64)> {
        match mark {
            Mark::Line { points, .. } | Mark::Guide { points, .. } => {
                points.iter().filter_map(|(at, value)| Some((*at, (*value)?))).collect()
            }
            Mark::Points(points) => points.clone(),
            Mark::Intervals { points, .. } => points.iter().map(|point| (point.at, point.value)).collect(),
            Mark::Band(_) | Mark::Boxes(_) | Mark::Bars(_) => Vec::new(),
        }
    };
    let all = panel.series.iter().flat_map(|series| &series.marks).flat_map(of_mark);
    all.map(|(at, value)| frame.at(at, value, 0.0)).collect()
}

/// The end of a line at which a label of this width covers fewer points: its place, and the anchor of the text there.
fn free_end(frame: &Frame<'_>, points: &[(f64, f64)], width: f64, baseline: f64) -> (f64, &'static str) {
    let ends = [(frame.left + 6.0, "start"), (frame.right() - 6.0, "end")];
    let covered = |(x, anchor): (f64, &str)| {
        let from = if anchor == "end" { x - width } else { x };
        let is_under = |(x, y): &&(f64, f64)| {
            (from..=from + width).contains(x) && (baseline - LINE..=baseline + 4.0).contains(y)
        };
        points.iter().filter(is_under).count()
    };
    let [left, right] = ends;
    if covered(right) < covered(left) { right } else { left }
}

/// An upright line, its label on the side where there is room.
pub fn upright(frame: &Frame<'_>, upright: &Upright) -> Markup {
    let x = frame.x(upright.at);
    let (beside, anchor) =
        if x > frame.left + frame.width / 2.0 { (x - 7.0, "end") } else { (x + 7.0, "start") };
    let class = upright.ink.class();
    html! {
        path class={ "upright " (class) } d={ "M" (px(x)) " " (px(frame.top)) "V" (px(frame.bottom())) } {}
        text class={ "named strong " (class) } x=(px(beside)) y=(px(frame.top + LINE)) text-anchor=(anchor) { (upright.label) }
        text class={ "named " (class) } x=(px(beside)) y=(px(frame.top + 2.0 * LINE)) text-anchor=(anchor) { (upright.value) }
    }
}
