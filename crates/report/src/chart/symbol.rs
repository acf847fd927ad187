//! The marks of points, by which curves differ beside their colours.

use super::number::px;
use maud::{Markup, html};

/// The outline of a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// A disc.
    #[default]
    Circle,
    /// A square on its side.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle with one corner at the top.
    Triangle,
    /// Two strokes, as of a letter X.
    Cross,
}

impl Shape {
    /// All, in the order in which curves take them.
    pub const ALL: [Shape; 5] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::Cross];
}

/// What is within the outline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filling {
    /// The colour of the outline.
    #[default]
    Full,
    /// Nothing.
    Open,
    /// A dot.
    Dotted,
}

/// A mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its outline.
    pub shape: Shape,
    /// What is within.
    pub filling: Filling,
}

impl Symbol {
    /// A filled mark.
    pub const fn full(shape: Shape) -> Symbol {
        Symbol { shape, filling: Filling::Full }
    }

    /// An outline.
    pub const fn open(shape: Shape) -> Symbol {
        Symbol { shape, filling: Filling::Open }
    }

    /// The mark of the curve of that number.
    pub fn of_curve(number: usize) -> Symbol {
        Symbol::full(Shape::ALL.iter().cycle().nth(number).copied().unwrap_or_default())
    }

    /// The mark at each of the places, in one path.
    pub(super) fn at(self, places: &[(f64, f64)], radius: f64) -> Markup {
        let path = |radius: f64| -> String {
            places.iter().map(|(x, y)| outline(self.shape, *x, *y, radius)).collect()
        };
        let class = match (self.shape, self.filling) {
            (Shape::Cross, _) => "mark cross",
            (_, Filling::Full) => "mark",
            _ => "mark open",
        };
        html! {
            path class=(class) d=(path(radius)) {}
            @if self.filling == Filling::Dotted { path class="mark" d=(path(radius / 3.0)) {} }
        }
    }
}

fn outline(shape: Shape, x: f64, y: f64, r: f64) -> String {
    let [left, top, up] = [px(x - r), px(y - r), px(y - r * 1.15)];
    let (radius, side) = (px(r), px(2.0 * r));
    match shape {
        Shape::Circle => {
            format!("M{left} {}a{radius} {radius} 0 1 0 {side} 0a{radius} {radius} 0 1 0-{side} 0z", px(y))
        }
        Shape::Square => format!("M{left} {top}h{side}v{side}h-{side}z"),
        Shape::Diamond => {
            let r = r * 1.25;
            let half = px(r);
            format!("M{} {}l{half} {half}l-{half} {half}l-{half}-{half}z", px(x), px(y - r))
        }
        Shape::Triangle => {
            let (half, height) = (px(r * 1.15), px(r * 2.0));
            format!("M{} {up}l{half} {height}h-{}z", px(x), px(r * 2.3))
        }
        Shape::Cross => format!("M{left} {top}l{side} {side}m-{side} 0l{side}-{side}"),
    }
}
