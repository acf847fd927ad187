//! What is drawn in a panel under one name.

use super::symbol::Symbol;

/// The colour of a series: a class of the style sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ink {
    /// One of six for series of equal rank.
    Curve(usize),
    /// A class with a tone of its own, such as the name of a verdict.
    Class(&'static str),
    /// What only guides the eye.
    Neutral,
    /// Between light load (0) and heavy load (1).
    Ramp(f64),
}

impl Ink {
    /// The class.
    pub(super) fn class(self) -> String {
        match self {
            Ink::Curve(number) => format!("c{}", number % super::INKS),
            Ink::Class(class) => class.to_owned(),
            Ink::Neutral => "cn".to_owned(),
            Ink::Ramp(position) => format!("r{:.0}", position.clamp(0.0, 1.0) * 7.0),
        }
    }
}

/// A value with what it may be within.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Where it stands on the axis of places.
    pub at: f64,
    /// The value.
    pub value: f64,
    /// Lower and upper end; `None` where they are not known.
    pub ends: Option<[f64; 2]>,
}

/// A box with whiskers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoxOf {
    /// Where it stands on the axis of places.
    pub at: f64,
    /// Lower whisker, first quartile, median, third quartile, upper whisker.
    pub quartiles: [f64; 5],
    /// The largest value.
    pub max: f64,
}

/// A bar, or a part of one that is stacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Where it stands on the axis of places.
    pub at: f64,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Its interval; `None` where there is none.
    pub ends: Option<[f64; 2]>,
}

/// A path of places and values. A point without a value is a gap.
pub type Path = Vec<(f64, Option<f64>)>;

/// One way of drawing values.
#[derive(Clone, Debug)]
pub enum Mark {
    /// A line through points, with the series' symbol at them where they are few. A point without a value is a gap.
    Line {
        /// Place and value.
        points: Path,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// A line that only guides the eye: it is no data.
    Guide {
        /// Place and value.
        points: Path,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// The series' symbol at each point.
    Points(Vec<(f64, f64)>),
    /// A shaded band between two values.
    Band(Vec<(f64, [f64; 2])>),
    /// The series' symbol with a bar from end to end.
    Intervals {
        /// The values.
        points: Vec<Interval>,
        /// What the ends are.
        of: &'static str,
    },
    /// Boxes with whiskers, a ring at the largest value.
    Boxes(Vec<BoxOf>),
    /// Bars.
    Bars(Vec<Bar>),
}

impl Mark {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Mark::Line { points, .. } | Mark::Guide { points, .. } => points.is_empty(),
            Mark::Points(points) => points.is_empty(),
            Mark::Band(points) => points.is_empty(),
            Mark::Intervals { points, .. } => points.is_empty(),
            Mark::Boxes(boxes) => boxes.is_empty(),
            Mark::Bars(bars) => bars.is_empty(),
        }
    }
}

/// What is drawn under one name, in one colour and with one symbol.
#[derive(Clone, Debug)]
pub struct Series {
    pub(super) name: String,
    pub(super) ink: Ink,
    pub(super) symbol: Option<Symbol>,
    pub(super) marks: Vec<Mark>,
    pub(super) is_listed: bool,
}

impl Series {
    /// An empty series. Those of one name in several panels share their place in the legend.
    pub fn new(name: &str, ink: Ink) -> Series {
        Series { name: name.to_owned(), ink, symbol: None, marks: Vec::new(), is_listed: true }
    }

    /// Sets the mark of its points; a line without one has none.
    pub fn symbol(mut self, symbol: Symbol) -> Series {
        self.symbol = Some(symbol);
        self
    }

    /// Adds something to draw; nothing is added where it is empty.
    pub fn with(mut self, mark: Mark) -> Series {
        if !mark.is_empty() {
            self.marks.push(mark);
        }
        self
    }

    /// Adds a line.
    pub fn line(self, points: Path) -> Series {
        self.with(Mark::Line { points, dashed: false })
    }

    /// Adds a dashed line.
    pub fn dashed(self, points: Path) -> Series {
        self.with(Mark::Line { points, dashed: true })
    }

    /// Leaves it out of the legend.
    pub fn unlisted(mut self) -> Series {
        self.is_listed = false;
        self
    }
}
