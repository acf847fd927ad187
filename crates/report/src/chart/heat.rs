//! A heat map: how many observations fell into each cell of two axes.

use super::frame::Frame;
use super::number::{datum, px};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

/// Shades.
pub const SHADES: usize = 7;

/// Counts in cells: columns along the horizontal axis, rows along the vertical one.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// What is counted.
    pub counted: &'static str,
    /// Begin, end and counts by row of each column; one without observations has no counts.
    pub columns: Vec<(f64, f64, Vec<u64>)>,
    /// The edges of rows, rising: one more than there are rows.
    pub edges: Vec<f64>,
}

/// A heat map as data.
#[derive(Debug, Serialize)]
pub struct HeatTable {
    /// Names of begin and end of columns, of begin and end of rows, and of the counts.
    c: [String; 5],
    /// Begin and end of each column.
    x: Vec<[Value; 2]>,
    /// The edges of rows.
    y: Vec<Value>,
    /// Counts by column and row.
    v: Vec<Vec<u64>>,
    /// Begin and end of each column in the drawing.
    px: Vec<[i64; 2]>,
    /// The edges of rows in the drawing.
    py: Vec<i64>,
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Heat {
    /// The largest count.
    fn most(&self) -> u64 {
        self.columns.iter().flat_map(|(.., counts)| counts).copied().max().unwrap_or(0)
    }

    /// The smallest count of each shade that some cell can have: equal ratios are equally far apart.
    pub fn steps(&self) -> Vec<(usize, u64)> {
        let most = self.most().max(1) as f64;
        let mut steps: Vec<(usize, u64)> = Vec::new();
        for shade in 0..SHADES {
            let least = most.powf(shade as f64 / SHADES as f64).ceil().max(1.0) as u64;
            match steps.last_mut() {
                Some(last) if last.1 == least => last.0 = shade,
                _ => steps.push((shade, least)),
            }
        }
        steps
    }

    /// The cells, a path for each shade.
    pub fn drawn(&self, frame: &Frame<'_>) -> Markup {
        let steps = self.steps();
        let mut paths = vec![String::new(); SHADES];
        for (from, to, counts) in &self.columns {
            let (left, right) = (tenths(frame.x(*from)), tenths(frame.x(*to)));
            for (row, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let shade =
                    steps.iter().rev().find(|(_, least)| count >= least).map_or(0, |(shade, _)| *shade);
                let Some([low, high]) =
                    self.edges.get(row).zip(self.edges.get(row + 1)).map(|(a, b)| [*a, *b])
                else {
                    continue;
                };
                // Rounded before they are subtracted: cells meet without a seam.
                let (top, bottom) = (tenths(frame.y(high)), tenths(frame.y(low)));
                let width = px((right - left).max(0.6));
                if let Some(path) = paths.get_mut(shade) {
                    *path += &format!("M{} {}h{width}v{}h-{width}z", px(left), px(top), px(bottom - top));
                }
            }
        }
        html! {
            @for (shade, path) in paths.iter().enumerate() {
                @if !path.is_empty() { path class={ "cell h" (shade) } d=(path) {} }
            }
        }
    }

    /// The counts with their places.
    pub fn table(&self, frame: &Frame<'_>) -> HeatTable {
        let whole = |value: f64| value.round() as i64;
        let (x, y) = (frame.x.name(), frame.y.name());
        HeatTable {
            c: [
                format!("{x}, from"),
                format!("{x}, to"),
                format!("{y}, above"),
                format!("{y}, up to"),
                self.counted.to_owned(),
            ],
            x: self.columns.iter().map(|(from, to, _)| [datum(*from), datum(*to)]).collect(),
            y: self.edges.iter().map(|edge| datum(*edge)).collect(),
            v: self.columns.iter().map(|(.., counts)| counts.clone()).collect(),
            px: self
                .columns
                .iter()
                .map(|(from, to, _)| [whole(frame.x(*from)), whole(frame.x(*to))])
                .collect(),
            py: self.edges.iter().map(|edge| whole(frame.y(*edge))).collect(),
        }
    }
}
