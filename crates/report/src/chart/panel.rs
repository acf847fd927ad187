//! A rectangle with two axes, and what is in it.

use super::{Axis, Heat, Ink, Series};

/// A span of the horizontal axis that is shaded.
#[derive(Clone, Debug)]
pub struct Region {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is called, above the panel.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
}

/// A line across the panel at a value.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The value.
    pub at: f64,
    /// What it is called.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
}

/// An upright line at a place.
#[derive(Clone, Debug)]
pub struct Upright {
    /// The place.
    pub at: f64,
    /// What it is called.
    pub label: String,
    /// What it says.
    pub value: String,
    /// Its colour.
    pub ink: Ink,
}

/// A rectangle with two axes. Places stand along the vertical axis where that has names, else along the horizontal one.
#[derive(Clone, Debug)]
pub struct Panel {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) height: f64,
    pub(super) series: Vec<Series>,
    pub(super) regions: Vec<Region>,
    pub(super) limits: Vec<Limit>,
    pub(super) uprights: Vec<Upright>,
    pub(super) heat: Option<Heat>,
    pub(super) side_by_side: bool,
}

impl Panel {
    /// An empty panel.
    pub fn new(x: Axis, y: Axis) -> Panel {
        Panel {
            x,
            y,
            height: 300.0,
            series: Vec::new(),
            regions: Vec::new(),
            limits: Vec::new(),
            uprights: Vec::new(),
            heat: None,
            side_by_side: false,
        }
    }

    /// Sets the height of the drawing in units of which the figure is 900 wide.
    pub fn height(mut self, height: f64) -> Panel {
        self.height = height;
        self
    }

    /// Puts the series beside each other at every place.
    pub fn side_by_side(mut self) -> Panel {
        self.side_by_side = true;
        self
    }

    /// Shades spans of the horizontal axis.
    pub fn regions(mut self, regions: Vec<Region>) -> Panel {
        self.regions = regions;
        self
    }

    /// Draws lines at values. Those at the same value share one line.
    pub fn limits(mut self, limits: Vec<Limit>) -> Panel {
        self.limits = limits;
        self
    }

    /// Draws an upright line.
    pub fn upright(mut self, upright: Upright) -> Panel {
        self.uprights.push(upright);
        self
    }

    /// Draws a heat map.
    pub fn heat(mut self, heat: Heat) -> Panel {
        self.heat = Some(heat);
        self
    }

    /// Draws a series; nothing where it has nothing.
    pub fn series(mut self, series: Series) -> Panel {
        if !series.marks.is_empty() {
            self.series.push(series);
        }
        self
    }

    /// Draws several series.
    pub fn all(self, series: impl IntoIterator<Item = Series>) -> Panel {
        series.into_iter().fold(self, Panel::series)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty() && self.heat.is_none()
    }
}
