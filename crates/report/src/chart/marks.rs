//! How each kind of mark is drawn.

use super::frame::{Frame, Slot};
use super::number::px;
use super::series::{Bar, BoxOf, Interval, Mark, Series};
use maud::{Markup, html};

/// Up to so many points of a line have symbols each; of more, about [`SOME`] have.
const FEW: usize = 70;
const SOME: usize = 12;
const RADIUS: f64 = 3.4;
/// Symbols that stand alone.
const LARGE: f64 = 5.0;

/// All marks of a series.
pub fn drawn(frame: &Frame<'_>, series: &Series, slot: Slot) -> Markup {
    let symbol = series.symbol.unwrap_or_default();
    html! {
        @for mark in &series.marks {
            @match mark {
                Mark::Line { points, dashed } => {
                    (line(frame, points, *dashed))
                    @if let Some(symbol) = series.symbol { (symbol.at(&with_symbols(frame, points), RADIUS)) }
                }
                Mark::Guide { points, dashed } => (line(frame, points, *dashed)),
                Mark::Points(points) => {
                    (symbol.at(&places(frame, points.iter().copied(), slot), LARGE))
                }
                Mark::Band(points) => (band(frame, points)),
                Mark::Intervals { points, .. } => {
                    (ends(frame, points, slot))
                    (symbol.at(&places(frame, points.iter().map(|point| (point.at, point.value)), slot), LARGE))
                }
                Mark::Boxes(boxes) => (self::boxes(frame, boxes, slot)),
                Mark::Bars(bars) => (self::bars(frame, bars, slot)),
            }
        }
    }
}

fn places(frame: &Frame<'_>, points: impl Iterator<Item = (f64, f64)>, slot: Slot) -> Vec<(f64, f64)> {
    points.map(|(place, value)| frame.at(place, value, slot.shift)).collect()
}

/// A path through points, with its pen up at each gap.
fn line(frame: &Frame<'_>, points: &[(f64, Option<f64>)], dashed: bool) -> Markup {
    let mut path = String::new();
    let mut is_up = true;
    for (place, value) in points {
        let Some(value) = value else {
            is_up = true;
            continue;
        };
        let (x, y) = frame.at(*place, *value, 0.0);
        path.push_str(if is_up { "M" } else { " " });
        path += &format!("{} {}", px(x), px(y));
        is_up = false;
    }
    html! { path class=(if dashed { "line dashed" } else { "line" }) d=(path) {} }
}

/// The points of a line that have a symbol: all where they are few, else some and those between two gaps. Zeroes have none: a row
/// of them would hide the axis.
fn with_symbols(frame: &Frame<'_>, points: &[(f64, Option<f64>)]) -> Vec<(f64, f64)> {
    let count = points.iter().filter(|(_, value)| value.is_some()).count();
    let apart = if count <= FEW { 1 } else { count.div_ceil(SOME) };
    let is_gap = |place: Option<usize>| {
        place.and_then(|place| points.get(place)).is_none_or(|(_, value)| value.is_none())
    };
    let chosen = points.iter().enumerate().filter_map(|(place, (at, value))| {
        let alone = is_gap(place.checked_sub(1)) && is_gap(Some(place + 1));
        let shown = alone || place % apart == apart / 2;
        Some((*at, value.filter(|value| shown && *value != 0.0)?))
    });
    places(frame, chosen, Slot::default())
}

fn band(frame: &Frame<'_>, points: &[(f64, [f64; 2])]) -> Markup {
    let edge = |end: usize| {
        points.iter().filter_map(move |(place, ends)| Some(frame.at(*place, *ends.get(end)?, 0.0)))
    };
    let around = edge(0).chain(edge(1).collect::<Vec<_>>().into_iter().rev());
    let path: Vec<String> = around.map(|(x, y)| format!("{} {}", px(x), px(y))).collect();
    html! { path.band d={ "M" (path.join(" ")) "z" } {} }
}

/// A stroke from one place of the drawing to another.
fn stroke((x, y): (f64, f64), (to_x, to_y): (f64, f64)) -> String {
    format!("M{} {} {} {}", px(x), px(y), px(to_x), px(to_y))
}

/// A stroke across the axis of values.
fn across(frame: &Frame<'_>, (x, y): (f64, f64), half: f64) -> String {
    if frame.lies() { stroke((x, y - half), (x, y + half)) } else { stroke((x - half, y), (x + half, y)) }
}

/// A rectangle between two values.
fn between(frame: &Frame<'_>, place: f64, [from, to]: [f64; 2], slot: Slot) -> String {
    let half = slot.width / 2.0;
    let ((x, y), (to_x, to_y)) = (frame.at(place, from, slot.shift), frame.at(place, to, slot.shift));
    let (left, right, top, bottom) = if frame.lies() {
        (x.min(to_x), x.max(to_x), y - half, y + half)
    } else {
        (x - half, x + half, y.min(to_y), y.max(to_y))
    };
    format!("M{} {}H{}V{}H{}z", px(left), px(top), px(right), px(bottom), px(left))
}

/// From end to end of one interval, with a short stroke across each.
fn whisker(frame: &Frame<'_>, place: f64, [low, high]: [f64; 2], slot: Slot, half: f64) -> String {
    let (low, high) = (frame.at(place, low, slot.shift), frame.at(place, high, slot.shift));
    stroke(low, high) + &across(frame, low, half) + &across(frame, high, half)
}

fn ends(frame: &Frame<'_>, points: &[Interval], slot: Slot) -> Markup {
    let with_ends = points.iter().filter_map(|point| Some((point.at, point.ends?)));
    let path: String = with_ends.map(|(place, ends)| whisker(frame, place, ends, slot, 4.0)).collect();
    html! { @if !path.is_empty() { path.ends d=(path) {} } }
}

fn boxes(frame: &Frame<'_>, boxes: &[BoxOf], slot: Slot) -> Markup {
    let [mut whiskers, mut frames, mut medians] = [String::new(), String::new(), String::new()];
    let mut largest = Vec::new();
    for one in boxes {
        let [low, p25, p50, p75, high] = one.quartiles;
        let at = |value: f64| frame.at(one.at, value, slot.shift);
        let half = slot.width / 2.0;
        whiskers += &(stroke(at(low), at(p25)) + &stroke(at(p75), at(high)));
        whiskers += &(across(frame, at(low), half / 2.0) + &across(frame, at(high), half / 2.0));
        frames += &between(frame, one.at, [p25, p75], slot);
        medians += &across(frame, at(p50), half);
        largest.push(at(one.max));
    }
    html! {
        path.ends d=(whiskers) {}
        path.box d=(frames) {}
        path.median d=(medians) {}
        (super::Symbol::open(super::Shape::Circle).at(&largest, 2.8))
    }
}

fn bars(frame: &Frame<'_>, bars: &[Bar], slot: Slot) -> Markup {
    let path: String = bars.iter().map(|bar| between(frame, bar.at, [bar.from, bar.to], slot)).collect();
    let with_ends = bars.iter().filter_map(|bar| Some((bar.at, bar.ends?)));
    let ends: String = with_ends.map(|(place, ends)| whisker(frame, place, ends, slot, 5.0)).collect();
    html! {
        path.bar d=(path) {}
        @if !ends.is_empty() { path.ends.over d=(ends) {} }
    }
}
