//! What all charts have in common: frame, axes, colours and the way into the page.

use maud::{Markup, PreEscaped, html};
use plotly::common::{Anchor, ExponentFormat, Font, Orientation, TickMode, Title};
use plotly::configuration::{DisplayModeBar, ModeBarButtonName};
use plotly::layout::{Axis, AxisType, HoverMode, Legend, Margin, ModeBar, TicksDirection, TraceOrder};
use plotly::{Configuration, Layout, Trace, Traces};
use serde::Serialize;

/// Publish times, and the load line.
pub const BLUE: &str = "#2f7fc1";
/// Subscribe times.
pub const PURPLE: &str = "#b8629b";
/// Times of northbound queries.
pub const ORANGE: &str = "#d55e00";
/// What only guides the eye.
pub const NEUTRAL: &str = "#8791a0";
/// One each for several curves of equal rank.
pub const CURVES: [&str; 6] = [BLUE, ORANGE, "#009e73", PURPLE, "#e69f00", "#56b4e9"];
/// Most points of one curve: beyond it, neighbours are put together.
pub const MOST_POINTS: usize = 200;

const INK: &str = "#4a5462";
const GRID: &str = "#e4e8ed";
const CLEAR: &str = "rgba(0,0,0,0)";
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/// A chart.
#[derive(Serialize)]
pub struct Figure {
    #[serde(rename = "data")]
    traces: Traces,
    layout: Layout,
    config: Configuration,
    #[serde(skip)]
    id: &'static str,
    #[serde(skip)]
    height: usize,
}

impl Figure {
    /// An empty chart; `id` is unique in the page, `height` in pixels.
    pub fn new(id: &'static str, height: usize, layout: Layout) -> Figure {
        let buttons = vec![
            ModeBarButtonName::Lasso2d,
            ModeBarButtonName::Select2d,
            ModeBarButtonName::ZoomIn2d,
            ModeBarButtonName::ZoomOut2d,
            ModeBarButtonName::AutoScale2d,
        ];
        let config = Configuration::new()
            .responsive(true)
            .display_logo(false)
            .display_mode_bar(DisplayModeBar::Hover)
            .mode_bar_buttons_to_remove(buttons);
        Figure { traces: Traces::new(), layout, config, id, height }
    }

    /// Adds a curve.
    pub fn add(&mut self, trace: Box<dyn Trace>) {
        self.traces.push(trace);
    }

    /// The chart with the sentence that says what to read off it.
    pub fn render(&self, caption: &str) -> Markup {
        // Charts hold numbers and text only; nothing of that can fail to become JSON.
        let json = script_safe(&serde_json::to_string(self).unwrap_or_default());
        html! {
            figure {
                div.plot id=(self.id) style={ "height:" (self.height) "px" } role="img" aria-label=(caption) {}
                script { (PreEscaped(format!("Plotly.newPlot(\"{}\",{json});", self.id))) }
                figcaption { (caption) }
            }
        }
    }
}

/// A legend in one line above the chart.
pub fn legend() -> Legend {
    Legend::new()
        .orientation(Orientation::Horizontal)
        .x(0.0)
        .x_anchor(Anchor::Left)
        .y(1.03)
        .y_anchor(Anchor::Bottom)
        .background_color(CLEAR)
        .trace_order(TraceOrder::Normal)
}

/// The common layout.
pub fn layout() -> Layout {
    Layout::new()
        .auto_size(true)
        .font(Font::new().family(FONT).size(13).color(INK))
        .paper_background_color(CLEAR)
        .plot_background_color(CLEAR)
        .margin(Margin::new().left(64).right(16).top(24).bottom(52))
        .hover_mode(HoverMode::Closest)
        .mode_bar(ModeBar::new().background_color(CLEAR).color(NEUTRAL).active_color(INK))
        .legend(legend())
}

/// A linear axis with its title, unit included.
pub fn axis(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .grid_color(GRID)
        .line_color(GRID)
        .tick_color(GRID)
        .ticks(TicksDirection::Outside)
        .tick_length(5)
        .zero_line(false)
        .auto_margin(true)
        .exponent_format(ExponentFormat::None)
        .separate_thousands(true)
}

/// A logarithmic axis over the positive ones of `values`, with labels at 1, 2 and 5 where few decades are spanned.
pub fn log_axis(title: &str, values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values
        .filter(|value| *value > 0.0 && value.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = if low <= high { (low / 1.25, high * 1.6) } else { (0.1, 10.0) };
    let steps: &[f64] = if (high / low).log10() < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks: Vec<f64> = decades
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .filter(|tick| (low..=high).contains(tick))
        .collect();
    let labels: Vec<String> = ticks.iter().map(|tick| decimal(*tick)).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(vec![low.log10(), high.log10()])
        .tick_mode(TickMode::Array)
        .tick_values(ticks)
        .tick_text(labels)
}

/// A tick of a logarithmic axis: as many decimals as it needs, thousands set apart.
fn decimal(value: f64) -> String {
    if value >= 1.0 {
        return crate::text::count(value);
    }
    let decimals = (-value.log10()).ceil().max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// Text for Plotly, which takes some markup in text for markup.
pub fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON that cannot end the script element in which it stands.
fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// The colour of a curve between light load (0) and heavy load (1): blue over ochre to red, told apart without
/// green.
pub fn ramp(position: f64) -> String {
    const STOPS: [[f64; 3]; 4] =
        [[47.0, 127.0, 193.0], [116.0, 167.0, 178.0], [226.0, 164.0, 40.0], [205.0, 66.0, 28.0]];
    let scaled = position.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let left = (scaled.floor() as usize).min(STOPS.len() - 2);
    let [Some(from), Some(to)] = [STOPS.get(left), STOPS.get(left + 1)] else { return NEUTRAL.to_owned() };
    let share = scaled - left as f64;
    let mixed: Vec<String> = from
        .iter()
        .zip(to)
        .map(|(from, to)| format!("{:02x}", (from + (to - from) * share).round() as u8))
        .collect();
    format!("#{}", mixed.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_written_as_decimals() {
        let shown = [0.001, 0.05, 0.5, 1.0, 20.0, 5000.0].map(decimal);
        assert_eq!(shown, ["0.001", "0.05", "0.5", "1", "20", "5,000"]);
    }

    #[test]
    fn a_script_element_cannot_be_ended_by_text() {
        assert_eq!(script_safe("\"</script><!--\""), "\"\\u003c/script>\\u003c!--\"");
    }

    #[test]
    fn colours_run_from_blue_to_red() {
        assert_eq!([ramp(0.0), ramp(1.0), ramp(7.0)], ["#2f7fc1", "#cd421c", "#cd421c"]);
    }

    #[test]
    fn an_axis_without_values_still_has_a_range() {
        let axis = serde_json::to_value(log_axis("ms", std::iter::empty())).unwrap();
        assert_eq!(axis["range"].as_array().unwrap().len(), 2);
    }
}
