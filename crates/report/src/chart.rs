//! Charts as SVG: numbers and labels go in, markup comes out.
//!
//! A [`Chart`] is one or several [`Panel`]s with a caption. A panel has two axes, and [`Series`] that are drawn in it as lines,
//! points, intervals, boxes or bars, or a [`Heat`] map. The SVG is complete without script. The numbers behind it stand once beside
//! it as JSON; the small script of [`script`] reads them out under the pointer and writes them as CSV.
//!
//! Colours are classes of the style sheet, so that light, dark and print each have their own. No text is measured: widths are
//! estimated from the number of characters.

mod axis;
mod data;
mod draw;
mod frame;
mod heat;
mod label;
mod legend;
mod marks;
mod number;
mod overlay;
mod panel;
mod scale;
mod series;
mod symbol;

pub use axis::Axis;
pub use heat::Heat;
pub use label::shortened;
pub use panel::{Limit, Panel, Region, Upright};
pub use scale::Scale;
pub use series::{Bar, BoxOf, Ink, Interval, Mark, Path, Series};
pub use symbol::{Filling, Shape, Symbol};

use maud::{Markup, PreEscaped, html};

/// Most points of one curve: beyond it, neighbours are put together.
pub const MOST_POINTS: usize = 200;

/// How many inks there are for curves of equal rank.
pub const INKS: usize = 6;

const SCRIPT: &str = include_str!("../assets/chart.js");

/// A figure of a page: panels with what is common to them.
#[derive(Clone, Debug)]
pub struct Chart {
    id: String,
    caption: String,
    panels: Vec<Panel>,
    are_beside: bool,
    has_data: bool,
}

impl Chart {
    /// An empty chart. `id` is unique in the page and names the file of its data; `caption` says what to read off it.
    pub fn new(id: &str, caption: &str) -> Chart {
        Chart {
            id: id.to_owned(),
            caption: caption.to_owned(),
            panels: Vec::new(),
            are_beside: false,
            has_data: true,
        }
    }

    /// Adds a panel below the last one.
    pub fn panel(mut self, panel: Panel) -> Chart {
        self.panels.push(panel);
        self
    }

    /// Puts the panels beside each other.
    pub fn beside(mut self) -> Chart {
        self.are_beside = true;
        self
    }

    /// Leaves out the numbers behind the drawing: nobody reads those of one that is soon replaced.
    pub fn without_data(mut self) -> Chart {
        self.has_data = false;
        self
    }

    /// The figure: legend, drawing, data, caption. Nothing where nothing is drawn.
    pub fn render(&self) -> Markup {
        if self.panels.iter().all(Panel::is_empty) {
            return html! {};
        }
        let keys = legend::keys(&self.panels);
        let drawn = draw::panels(self, &keys);
        html! {
            figure.chart id=(self.id) {
                (legend::legend(&self.panels, &keys))
                div.canvas {
                    svg viewBox=(format!("0 0 {} {}", draw::WIDTH, drawn.height)) role="img" aria-label=(self.caption) {
                        (drawn.svg)
                    }
                }
                @if self.has_data { script type="application/json" { (PreEscaped(data::json(&drawn.tables))) } }
                figcaption { (self.caption) }
            }
        }
    }
}

/// The script element that a page with charts has once.
pub fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

#[cfg(test)]
pub(crate) mod tests;
