//! From values to places in the drawing.

use super::series::Mark;
use super::{Axis, Panel};

/// Of the room of a category, what is left free between it and the next.
const FREE: f64 = 0.26;
/// Widest bar or box.
const WIDEST: f64 = 54.0;

/// A panel's axes at their place in the drawing.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub x: &'a Axis,
    pub y: &'a Axis,
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// The room that a series has at a place: how far its middle is from that of the place, and its width.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    pub shift: f64,
    pub width: f64,
}

impl Frame<'_> {
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.x.scale.position(value)
    }

    pub fn y(&self, value: f64) -> f64 {
        self.bottom() - self.height * self.row(value)
    }

    /// The part of the height at which a value stands; names are read from the top.
    fn row(&self, value: f64) -> f64 {
        let position = self.y.scale.position(value);
        if self.y.has_places() { 1.0 - position } else { position }
    }

    /// Whether places stand along the vertical axis.
    pub fn lies(&self) -> bool {
        self.y.has_places()
    }

    /// The axis of places, and that of values.
    pub fn axes(&self) -> (&Axis, &Axis) {
        if self.lies() { (self.y, self.x) } else { (self.x, self.y) }
    }

    /// A value at a place, shifted along the axis of places.
    pub fn at(&self, place: f64, value: f64, shift: f64) -> (f64, f64) {
        if self.lies() {
            (self.x(value), self.y(place) + shift)
        } else {
            (self.x(place) + shift, self.y(value))
        }
    }

    /// The room of one of the panel's series at each place.
    pub fn slot(&self, panel: &Panel, number: usize) -> Slot {
        let (places, _) = self.axes();
        let length = if self.lies() { self.height } else { self.width };
        let count = if places.has_places() { places.ticks.len().max(1) } else { 24 };
        let room = length / count as f64 * (1.0 - FREE);
        let beside = |series: &&super::Series| {
            series
                .marks
                .iter()
                .any(|mark| matches!(mark, Mark::Boxes(_) | Mark::Bars(_) | Mark::Intervals { .. }))
        };
        if !panel.side_by_side {
            return Slot { shift: 0.0, width: room.min(WIDEST) };
        }
        let several = panel.series.iter().filter(beside).count().max(1);
        let before = panel.series.iter().take(number).filter(beside).count();
        let each = (room / several as f64).min(WIDEST * 1.15);
        let shift = (before as f64 + 0.5 - several as f64 / 2.0) * each;
        Slot { shift, width: each * 0.86 }
    }
}
