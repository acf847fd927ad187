//! The layout of a drawing: panels, their margins, grid, ticks and titles.

use super::data::{self, Part};
use super::frame::Frame;
use super::number::px;
use super::{Axis, Chart, Panel, label, marks, overlay};
use maud::{Markup, html};

/// Width of every drawing, in its own units.
pub const WIDTH: f64 = 900.0;

const RIGHT: f64 = 28.0;
const HEAD: f64 = 12.0;
const NAMES: f64 = 16.0;
const TICKS: f64 = 22.0;
const BETWEEN: f64 = 26.0;
/// Least distance of two lines of text.
const LINE: f64 = 15.0;
/// Most characters of a name beside an axis.
const LONGEST: usize = 44;
/// Sine of the angle of names that do not fit beside each other.
const SINE: f64 = 0.53;

/// What was drawn.
pub struct Drawn {
    /// The content of the SVG.
    pub svg: Markup,
    /// Its height.
    pub height: f64,
    /// The data behind it.
    pub tables: Vec<Part>,
}

/// What stands below a panel.
struct Foot {
    /// Whether ticks have labels there.
    has_ticks: bool,
    /// Whether names stand at an angle.
    is_angled: bool,
    /// Every which name is written.
    every: usize,
    height: f64,
}

/// All panels.
pub fn panels(chart: &Chart, keys: &[&str]) -> Drawn {
    let panels = &chart.panels;
    let beside = if chart.are_beside { panels.len().max(1) } else { 1 };
    let margin = panels.iter().map(|panel| left_of(&panel.y)).fold(0.0, f64::max);
    let each = (WIDTH - BETWEEN * (beside - 1) as f64) / beside as f64;
    let (mut top, mut bottom) = (0.0, 0.0f64);
    let mut drawn = Vec::new();
    let mut tables = Vec::new();
    for (number, panel) in panels.iter().enumerate() {
        let has_names = !panel.regions.is_empty() && (number == 0 || chart.are_beside);
        let head = HEAD + if has_names { NAMES } else { 0.0 };
        let before = if chart.are_beside { number as f64 * (each + BETWEEN) } else { 0.0 };
        let width = each - margin - RIGHT;
        let below = panels.get(number + 1).filter(|_| !chart.are_beside);
        let foot = foot(&panel.x, width, below.is_none_or(|below| below.x.title() != panel.x.title()));
        let frame = Frame {
            x: &panel.x,
            y: &panel.y,
            left: before + margin,
            top: top + head,
            width,
            height: panel.height,
        };
        drawn.push(self::panel(&frame, panel, keys, &foot, (before, has_names)));
        tables.extend(parts(&frame, panel, keys));
        let end = frame.bottom() + foot.height;
        bottom = bottom.max(end);
        if !chart.are_beside {
            top = end;
        }
    }
    Drawn { svg: html! { @for panel in drawn { (panel) } }, height: bottom.ceil(), tables }
}

fn key(keys: &[&str], name: &str) -> usize {
    keys.iter().position(|key| *key == name).unwrap_or_default()
}

fn parts(frame: &Frame<'_>, panel: &Panel, keys: &[&str]) -> Vec<Part> {
    let heat = panel.heat.iter().map(|heat| Part::Heat(heat.table(frame)));
    let series = panel.series.iter().enumerate().flat_map(|(number, series)| {
        data::tables(frame, series, key(keys, &series.name), frame.slot(panel, number))
    });
    heat.chain(series).collect()
}

fn panel(
    frame: &Frame<'_>,
    panel: &Panel,
    keys: &[&str],
    foot: &Foot,
    (left, has_names): (f64, bool),
) -> Markup {
    let [grid, axes] = grid(frame);
    html! {
        (overlay::regions(frame, panel, has_names))
        (grid)
        @if let Some(heat) = &panel.heat { (heat.drawn(frame)) }
        (ticks_beside(frame))
        @if foot.has_ticks { (ticks_below(frame, foot)) }
        @if !frame.y.title().is_empty() {
            text.axis x=(px(left + 14.0)) y=(px(frame.top + frame.height / 2.0)) text-anchor="middle"
                transform={ "rotate(-90 " (px(left + 14.0)) " " (px(frame.top + frame.height / 2.0)) ")" } { (frame.y.title()) }
        }
        @for (number, series) in panel.series.iter().enumerate() {
            g class={ "series " (series.ink.class()) } data-k=(key(keys, &series.name)) {
                (marks::drawn(frame, series, frame.slot(panel, number)))
            }
        }
        (axes)
        (overlay::limits(frame, panel))
        @for upright in &panel.uprights { (overlay::upright(frame, upright)) }
    }
}

/// Lines at the ticks of both axes, and the axes themselves. Between names there are no lines.
fn grid(frame: &Frame<'_>) -> [Markup; 2] {
    let across = |axis: &Axis| if axis.has_places() { Vec::new() } else { axis.ticks.clone() };
    let mut path = String::new();
    for (value, _) in across(frame.y) {
        path += &format!("M{} {}H{}", px(frame.left), px(frame.y(value)), px(frame.right()));
    }
    for (value, _) in across(frame.x) {
        path += &format!("M{} {}V{}", px(frame.x(value)), px(frame.top), px(frame.bottom()));
    }
    let zero = |axis: &Axis| {
        !axis.is_log() && !axis.has_places() && axis.ticks.iter().any(|(value, _)| *value < 0.0)
    };
    let mut axes =
        format!("M{} {}V{}H{}", px(frame.left), px(frame.top), px(frame.bottom()), px(frame.right()));
    if zero(frame.y) {
        axes += &format!("M{} {}H{}", px(frame.left), px(frame.y(0.0)), px(frame.right()));
    }
    if zero(frame.x) {
        axes += &format!("M{} {}V{}", px(frame.x(0.0)), px(frame.top), px(frame.bottom()));
    }
    [html! { path.grid d=(path) {} }, html! { path.frame d=(axes) {} }]
}

fn ticks_beside(frame: &Frame<'_>) -> Markup {
    let mut last = f64::INFINITY;
    let mut fits = |value: f64| {
        let y = frame.y(value);
        let fits = frame.lies() || last - y >= LINE;
        if fits {
            last = y;
        }
        fits
    };
    let ticks: Vec<&(f64, String)> = frame.y.ticks.iter().filter(|(value, _)| fits(*value)).collect();
    html! {
        @for (value, name) in ticks {
            text.tick x=(px(frame.left - 8.0)) y=(px(frame.y(*value) + 4.2)) text-anchor="end" {
                (label::shortened(name, LONGEST))
                @if name.chars().count() > LONGEST { title { (name) } }
            }
        }
    }
}

fn ticks_below(frame: &Frame<'_>, foot: &Foot) -> Markup {
    let baseline = frame.bottom() + 16.0;
    let labels = frame.x.ticks.iter().map(|(value, name)| (frame.x(*value), name.as_str(), ()));
    let angled = frame.x.ticks.iter().step_by(foot.every).filter(|_| foot.is_angled);
    let level = if foot.is_angled { Vec::new() } else { label::apart(labels) };
    html! {
        @for (x, name, ()) in level {
            text.tick x=(px(x)) y=(px(baseline)) text-anchor="middle" { (name) }
        }
        @for (value, name) in angled {
            @let x = frame.x(*value) + 4.0;
            text.tick x=(px(x)) y=(px(baseline - 2.0)) text-anchor="end" transform={ "rotate(-32 " (px(x)) " " (px(baseline - 2.0)) ")" } {
                (label::shortened(name, LONGEST))
                @if name.chars().count() > LONGEST { title { (name) } }
            }
        }
        @if !frame.x.title().is_empty() {
            text.axis x=(px(frame.left + frame.width / 2.0)) y=(px(frame.bottom() + foot.height - 8.0)) text-anchor="middle" { (frame.x.title()) }
        }
    }
}

/// The room that an axis takes at the left.
fn left_of(axis: &Axis) -> f64 {
    let widest = axis.ticks.iter().map(|(_, name)| label::width(&label::shortened(name, LONGEST)));
    let title = if axis.title().is_empty() { 16.0 } else { 26.0 };
    (title + widest.fold(0.0, f64::max) + 12.0).max(48.0)
}

/// What an axis needs below its panel.
fn foot(axis: &Axis, width: f64, has_ticks: bool) -> Foot {
    let title = if axis.title().is_empty() { 0.0 } else { 22.0 };
    let widest = axis.ticks.iter().map(|(_, name)| label::width(&label::shortened(name, LONGEST)));
    let widest = widest.fold(0.0, f64::max);
    let room = width / axis.ticks.len().max(1) as f64;
    let is_angled = axis.has_places() && widest + 8.0 > room;
    let height = match (has_ticks, is_angled) {
        (false, _) => 4.0,
        (true, false) => TICKS + title + 4.0,
        (true, true) => TICKS + widest * SINE + title,
    };
    Foot { has_ticks, is_angled, every: (16.0 / room).ceil().max(1.0) as usize, height }
}
