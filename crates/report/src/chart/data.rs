//! The numbers behind a drawing, for the script and for programs that read the file.

use super::frame::{Frame, Slot};
use super::heat::HeatTable;
use super::number::datum;
use super::series::{Mark, Series};
use serde::Serialize;
use serde_json::Value;

/// What one mark draws: a table by columns.
#[derive(Debug, Serialize)]
pub struct Table {
    /// The name of the series.
    n: String,
    /// Its key in the legend.
    k: usize,
    /// What the columns are.
    c: Vec<String>,
    /// The columns.
    d: Vec<Vec<Value>>,
    /// Where each row stands in the drawing: horizontally and vertically by turns. Empty for what is not read out.
    p: Vec<i64>,
}

/// The data of a chart, part by part.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Part {
    /// A mark.
    Table(Table),
    /// A heat map.
    Heat(HeatTable),
}

/// JSON that can neither end the script element in which it stands nor begin another.
pub fn json(parts: &[Part]) -> String {
    // Numbers and text only; nothing of that can fail to become JSON. Outside of texts JSON has none of the three.
    let json = serde_json::to_string(parts).unwrap_or_default();
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The tables of a series; guides are no data.
pub fn tables(frame: &Frame<'_>, series: &Series, key: usize, slot: Slot) -> Vec<Part> {
    let table = |mark: &Mark| {
        let (columns, rows) = rows(frame, mark, slot)?;
        let column = |place: usize| rows.iter().filter_map(|row| row.cells.get(place).cloned()).collect();
        let positions = rows.iter().filter_map(|row| row.at).flat_map(|(x, y)| [x, y]);
        Some(Part::Table(Table {
            n: series.name.clone(),
            k: key,
            d: (0..columns.len()).map(column).collect(),
            p: positions.map(|place| place.round() as i64).collect(),
            c: columns,
        }))
    };
    series.marks.iter().filter_map(table).collect()
}

/// A row of data, and where it stands in the drawing.
struct Row {
    cells: Vec<Value>,
    at: Option<(f64, f64)>,
}

fn rows(frame: &Frame<'_>, mark: &Mark, slot: Slot) -> Option<(Vec<String>, Vec<Row>)> {
    let (places, values) = frame.axes();
    let (place_name, value_name) = (places.name().to_owned(), values.name().to_owned());
    let place = |at: f64| places.place(at).map_or_else(|| datum((places.reads)(at)), Value::from);
    let end = |ends: Option<[f64; 2]>, which: usize| {
        ends.and_then(|ends| ends.get(which).copied()).map_or(Value::Null, datum)
    };
    let named = |more: &[String]| {
        let both = [place_name.clone(), value_name.clone()];
        both.into_iter().chain(more.iter().cloned()).collect::<Vec<_>>()
    };
    let plain = |at: f64, value: f64| Row {
        cells: vec![place(at), datum(value)],
        at: Some(frame.at(at, value, slot.shift)),
    };
    Some(match mark {
        Mark::Guide { .. } => return None,
        Mark::Line { points, .. } => {
            let rows = points.iter().filter_map(|(at, value)| Some((*at, (*value)?)));
            let row = |(at, value)| Row {
                cells: vec![place(at), datum(value)],
                at: Some(frame.at(at, value, 0.0)),
            };
            (named(&[]), rows.map(row).collect())
        }
        Mark::Points(points) => (named(&[]), points.iter().map(|(at, value)| plain(*at, *value)).collect()),
        Mark::Band(points) => {
            let row = |(at, [low, high]): &(f64, [f64; 2])| Row {
                cells: vec![place(*at), datum(*low), datum(*high)],
                at: None,
            };
            let columns =
                vec![place_name.clone(), format!("{value_name}, from"), format!("{value_name}, to")];
            (columns, points.iter().map(row).collect())
        }
        Mark::Intervals { points, of } => {
            let row = |point: &super::Interval| {
                let mut row = plain(point.at, point.value);
                row.cells.extend([end(point.ends, 0), end(point.ends, 1)]);
                row
            };
            (named(&[format!("{of}, from"), format!("{of}, to")]), points.iter().map(row).collect())
        }
        Mark::Boxes(boxes) => {
            let row = |one: &super::BoxOf| Row {
                cells: [place(one.at)]
                    .into_iter()
                    .chain(one.quartiles.map(datum))
                    .chain([datum(one.max)])
                    .collect(),
                at: Some(frame.at(one.at, one.quartiles[2], slot.shift)),
            };
            let parts = ["lower whisker", "p25", "p50", "p75", "upper whisker", "max"];
            let parts = parts.map(|part| format!("{value_name}, {part}"));
            ([place_name.clone()].into_iter().chain(parts).collect(), boxes.iter().map(row).collect())
        }
        Mark::Bars(bars) => {
            let have_ends = bars.iter().any(|bar| bar.ends.is_some());
            let row = |bar: &super::Bar| {
                let mut row = plain(bar.at, bar.to);
                row.cells = vec![place(bar.at), datum(bar.to - bar.from)];
                if have_ends {
                    row.cells.extend([end(bar.ends, 0), end(bar.ends, 1)]);
                }
                row
            };
            let ends = ["95 % interval, from", "95 % interval, to"].map(str::to_owned);
            let ends = if have_ends { ends.as_slice() } else { &[] };
            (named(ends), bars.iter().map(row).collect())
        }
    })
}
