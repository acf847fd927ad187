//! The runs of a matrix as one page: a chart of each quantity with all curves, and its table.

use crate::html::figure::{self, CURVES, Figure};
use crate::html::table::{Column, interval_cell, number_cell, table};
use crate::html::verdict::started;
use crate::html::{head, plotly_script};
use crate::sweep::{at, axis_name, curve_name, curves_name, foot, heading, measured, shown};
use crate::text::{self, count};
use maud::{DOCTYPE, Markup, html};
use plimsoll_analysis::sweep::{Cell, Origin, Quantity, Sweep};
use plotly::Scatter;
use plotly::common::{DashType, ErrorData, ErrorType, HoverInfo, Line, Marker, MarkerSymbol, Mode, TickMode};
use plotly::layout::{Axis, AxisType};

/// Shapes and, in each, fillings: twelve marks, so that up to twelve curves are not told apart by colours alone.
const SHAPES: [[MarkerSymbol; 3]; 4] = [
    [MarkerSymbol::Circle, MarkerSymbol::CircleOpen, MarkerSymbol::CircleDot],
    [MarkerSymbol::Square, MarkerSymbol::SquareOpen, MarkerSymbol::SquareDot],
    [MarkerSymbol::Diamond, MarkerSymbol::DiamondOpen, MarkerSymbol::DiamondDot],
    [MarkerSymbol::Cross, MarkerSymbol::CrossOpen, MarkerSymbol::CrossDot],
];

/// The sweep as one HTML file that opens offline.
pub fn page(sweep: &Sweep) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{} \u{b7} sweep \u{b7} Plimsoll", sweep.name), &plotly_script()))
            body {
                main {
                    h1 { (sweep.name) }
                    p.note { (origin(&sweep.origin)) }
                    @for note in &sweep.notes {
                        p { (note) }
                    }
                    @for quantity in measured(sweep) {
                        section {
                            h2 { (heading(quantity)) }
                            (chart(sweep, quantity).render(caption(sweep, quantity)))
                            (values(sweep, quantity))
                        }
                    }
                }
            }
        }
    };
    markup.into_string()
}

/// Of what the page is, in a line.
fn origin(origin: &Origin) -> String {
    let time = |seconds: Option<f64>| seconds.map(|seconds| text::time(Some(seconds)));
    let parts = [
        origin.platform.as_ref().map(|platform| format!("platform {platform}")),
        time(origin.hold).map(|hold| format!("hold {hold}")),
        time(origin.warm_up).map(|warm_up| format!("warm-up {warm_up}")),
        origin.quick.then(|| "quick form of the scenario, which tries it out".to_owned()),
        Some(format!("Plimsoll {}", origin.plimsoll)),
        Some(started(&origin.written)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" \u{b7} ")
}

fn caption(sweep: &Sweep, quantity: Quantity) -> &'static str {
    let predicted = sweep.cells.iter().any(|cell| cell.predicted.is_some());
    if quantity == Quantity::Throughput && predicted {
        "Means over the runs of each combination; bars are 95\u{a0}% intervals over runs. Dashed: what the model of the platform \
         predicts, in the colour of its curve."
    } else {
        "Means over the runs of each combination; bars are 95\u{a0}% intervals over runs."
    }
}

fn chart(sweep: &Sweep, quantity: Quantity) -> Figure {
    let all = || sweep.cells.iter().filter_map(|cell| cell.measured(quantity));
    let means = || all().map(|measured| measured.mean).filter(|mean| *mean > 0.0);
    let (low, high) =
        means().fold((f64::INFINITY, 0.0f64), |(low, high), mean| (low.min(mean), high.max(mean)));
    // Times in seconds would have labels such as 0.00005.
    let scale = match quantity {
        quantity if !quantity.is_time() => 1.0,
        _ if high < 1e-3 => 1e6,
        _ if high < 10.0 => 1e3,
        _ => 1.0,
    };
    let title = match (quantity, scale) {
        (Quantity::Throughput, _) => "operations/s".to_owned(),
        (Quantity::Done, _) => "share".to_owned(),
        (quantity, scale) if scale > 1e4 => format!("{} (\u{b5}s)", quantity.name()),
        (quantity, scale) if scale > 1.0 => format!("{} (ms)", quantity.name()),
        (quantity, _) => format!("{} (s)", quantity.name()),
    };
    // Over more than a decade and a half, light and heavy load would not show in one linear chart.
    let vertical = if high > 30.0 * low && quantity != Quantity::Done {
        figure::log_axis(&title, means().map(|mean| mean * scale))
    } else {
        figure::axis(&title)
    };
    let numbers = sweep.axes.get(sweep.along).and_then(|axis| axis.numbers()).map(|(numbers, _)| numbers);
    let layout = figure::layout().x_axis(horizontal(sweep, numbers.is_some())).y_axis(vertical);
    let mut figure = Figure::new(id(quantity), 520, layout);
    let x = |cell: &Cell| {
        let place = cell.position.get(sweep.along).copied().unwrap_or_default();
        numbers.as_ref().and_then(|numbers| numbers.get(place).copied()).unwrap_or(place as f64).to_string()
    };
    for (number, (common, cells)) in sweep.curves().into_iter().enumerate() {
        let colour = *CURVES.iter().cycle().nth(*common.first().unwrap_or(&number)).unwrap_or(&CURVES[0]);
        let name = figure::text(&curve_name(sweep, &common));
        if quantity == Quantity::Throughput {
            let predicted = cells.iter().filter_map(|cell| Some((x(cell), cell.predicted?)));
            let (xs, ys): (Vec<String>, Vec<f64>) = predicted.unzip();
            if !xs.is_empty() {
                figure.add(
                    Scatter::new(xs, ys)
                        .mode(Mode::Lines)
                        .name(format!("{name}, predicted"))
                        .legend_group(name.clone())
                        .show_legend(false)
                        .hover_info(HoverInfo::Skip)
                        .line(Line::new().color(colour).width(1.2).dash(DashType::Dash)),
                );
            }
        }
        let points: Vec<_> =
            cells.iter().filter_map(|cell| Some((x(cell), cell.measured(quantity)?))).collect();
        let half = |ci95: Option<[f64; 2]>| ci95.map_or(0.0, |[low, high]| (high - low) / 2.0 * scale);
        let bars = ErrorData::new(ErrorType::Data)
            .array(points.iter().map(|(_, measured)| half(measured.ci95)).collect())
            .thickness(1.0)
            .width(3);
        let (xs, ys): (Vec<String>, Vec<f64>) =
            points.iter().map(|(x, measured)| (x.clone(), measured.mean * scale)).unzip();
        figure.add(
            Scatter::new(xs, ys)
                .mode(Mode::LinesMarkers)
                .name(name.clone())
                .legend_group(name)
                .marker(Marker::new().color(colour).size(9).symbol(symbol(sweep, &common, number)))
                .line(Line::new().color(colour).width(1.6))
                .error_y(bars),
        );
    }
    figure
}

/// The axis along the foot. Values that are no numbers stand at their places with their labels: Plotly would guess from texts
/// whether they are numbers, leave out those that then are none, and order them as they come.
fn horizontal(sweep: &Sweep, of_numbers: bool) -> Axis {
    let axis = figure::axis(&figure::text(&axis_name(sweep))).type_(AxisType::Linear);
    if of_numbers {
        return axis;
    }
    let labels: Vec<String> = foot(sweep).iter().map(|value| figure::text(value)).collect();
    let places = (0..labels.len()).map(|place| place as f64).collect();
    axis.tick_mode(TickMode::Array).tick_values(places).tick_text(labels)
}

/// The mark of a curve: shapes by the second of two axes and fillings by the first, where there are enough of both; else by
/// its number.
fn symbol(sweep: &Sweep, common: &[usize], number: usize) -> MarkerSymbol {
    let sizes: Vec<usize> =
        sweep.curves_by().into_iter().filter_map(|axis| Some(sweep.axes.get(axis)?.values.len())).collect();
    let (filling, shape) = match (common, sizes.as_slice()) {
        ([first, second], [..=3, ..=4]) => (*first, *second),
        _ => (number / SHAPES.len(), number),
    };
    let shapes = SHAPES.iter().cycle().nth(shape).unwrap_or(&SHAPES[0]);
    shapes.iter().cycle().nth(filling).cloned().unwrap_or(MarkerSymbol::Circle)
}

fn values(sweep: &Sweep, quantity: Quantity) -> Markup {
    let (name, head) = (curves_name(sweep), foot(sweep));
    let with_model =
        quantity == Quantity::Throughput && sweep.cells.iter().any(|cell| cell.predicted.is_some());
    let columns: Vec<Column<'_>> =
        std::iter::once(Column::Text(&name)).chain(head.iter().map(|value| Column::Number(value))).collect();
    let rows: Vec<Markup> = sweep
        .curves()
        .into_iter()
        .map(|(common, cells)| {
            html! {
                tr {
                    td { (curve_name(sweep, &common)) }
                    @for place in 0..head.len() {
                        @let cell = at(&cells, sweep, place);
                        @if let Some(measured) = cell.and_then(|cell| cell.measured(quantity)) {
                            (interval_cell(Some(measured.mean), measured.ci95, show(quantity)))
                        } @else {
                            (number_cell(None))
                        }
                    }
                }
                @if with_model {
                    tr {
                        td { "predicted" }
                        @for place in 0..head.len() {
                            @let cell = at(&cells, sweep, place);
                            td.num {
                                (cell.and_then(|cell| cell.predicted).map(count).unwrap_or_default())
                                span.interval { (cell.and_then(|cell| cell.bound_by.clone()).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
        })
        .collect();
    table(&columns, &rows)
}

/// How a value of the quantity is shown.
fn show(quantity: Quantity) -> fn(f64) -> String {
    match quantity {
        Quantity::Throughput => |value| shown(Quantity::Throughput, value),
        Quantity::Done => |value| shown(Quantity::Done, value),
        _ => |value| shown(Quantity::PublishTime, value),
    }
}

/// The place of its chart in the page.
const fn id(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Throughput => "chart-throughput",
        Quantity::Done => "chart-done",
        Quantity::PublishTime => "chart-publish-time",
        Quantity::PublishTimeMedian => "chart-publish-time-median",
        Quantity::PublishTimeP99 => "chart-publish-time-p99",
        Quantity::SubscribeTimeMedian => "chart-subscribe-time-median",
        Quantity::SubscribeTimeP99 => "chart-subscribe-time-p99",
        Quantity::WaitTime => "chart-wait-time",
        Quantity::TransferTime => "chart-transfer-time",
        Quantity::DispatchTime => "chart-dispatch-time",
        Quantity::ProcessingTime => "chart-processing-time",
        Quantity::PlatformCpu => "chart-platform-cpu",
        Quantity::GeneratorCpu => "chart-generator-cpu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::tests::sweep;
    use plimsoll_analysis::sweep;

    #[test]
    fn curves_have_marks_of_their_own_and_predictions_are_dashed() {
        let page = page(&sweep());
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
        let origin = "platform gateway \u{b7} hold 10.0 s \u{b7} warm-up 2.00 s \u{b7} quick form of the scenario, which tries \
                      it out \u{b7} Plimsoll 0.1.0 \u{b7} 2026-03-14 09:26:53 UTC";
        assert!(page.contains(origin));
        let chart = serde_json::to_value(chart(&sweep(), Quantity::Throughput)).unwrap();
        let traces = chart["data"].as_array().unwrap();
        let dashed = traces.iter().filter(|trace| trace["line"]["dash"] == "dash").count();
        assert_eq!((traces.len(), dashed), (4, 2));
        let marks: Vec<_> = traces.iter().filter_map(|trace| trace["marker"]["symbol"].as_str()).collect();
        assert_eq!(marks, ["circle", "square"]);
        assert_eq!(traces[1]["x"], serde_json::json!(["0", "10", "50"]));
        assert!(traces[1]["error_y"]["array"][0].as_f64().unwrap() > 100.0);
    }

    /// No value is left to the guess of the program that draws it.
    #[test]
    fn all_values_stand_along_the_foot() {
        let drawn = |values: [&str; 3]| {
            let mut sweep = sweep();
            sweep.axes[1].values = values.map(str::to_owned).to_vec();
            let chart = serde_json::to_value(chart(&sweep, Quantity::Throughput)).unwrap();
            (chart["data"][1]["x"].clone(), chart["layout"]["xaxis"].clone())
        };
        let (x, axis) = drawn(["64", "1KiB", "2KiB"]);
        assert_eq!((&x, &axis["type"]), (&serde_json::json!(["64", "1024", "2048"]), &"linear".into()));
        assert!(axis["title"].to_string().contains("(B)") && axis["ticktext"].is_null(), "{axis}");
        let (x, axis) = drawn(["64", "1s", "<b>"]);
        assert_eq!((&x, &axis["type"]), (&serde_json::json!(["0", "1", "2"]), &"linear".into()));
        assert_eq!(axis["tickvals"], serde_json::json!([0.0, 1.0, 2.0]));
        assert_eq!(axis["ticktext"], serde_json::json!(["64", "1s", "&lt;b&gt;"]));
    }

    #[test]
    fn up_to_twelve_curves_have_marks_of_their_own() {
        let axis = |key: &str, count: usize| sweep::Axis {
            key: key.into(),
            values: (0..count).map(|number| number.to_string()).collect(),
        };
        for sizes in [vec![3, 3], vec![2, 6], vec![12], vec![2, 2, 3]] {
            let mut sweep = sweep();
            sweep.axes = sizes.iter().map(|size| axis("a", *size)).chain([axis("foot", 2)]).collect();
            sweep.along = sizes.len();
            let curves: usize = sizes.iter().product();
            let marks: std::collections::BTreeSet<String> = (0..curves)
                .map(|number| {
                    let common = match sizes.as_slice() {
                        [_, second] => vec![number / second, number % second],
                        _ => vec![number],
                    };
                    serde_json::to_string(&symbol(&sweep, &common, number)).unwrap()
                })
                .collect();
            assert_eq!(marks.len(), curves, "{sizes:?}");
        }
    }
}
