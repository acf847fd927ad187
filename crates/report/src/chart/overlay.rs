//! What lies behind and over the curves: shaded spans, lines at limits, upright lines, and their labels.

use super::frame::Frame;
use super::number::px;
use super::panel::{Limit, Panel, Upright};
use super::{Ink, label};
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

/// Limits at their values, one label for each of them.
pub fn limits(frame: &Frame<'_>, limits: &[Limit]) -> Markup {
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
            path class={ "limit " (line.ink.class()) } d={ "M" (px(frame.left)) " " (px(line.y)) "H" (px(frame.right())) } {}
            text class={ "named " (line.ink.class()) } x=(px(frame.left + 6.0)) y=(px(y)) { (line.labels.join(", ")) }
        }
    }
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
