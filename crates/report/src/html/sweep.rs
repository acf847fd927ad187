//! The runs of a matrix as one page: what came out in words, a chart of each quantity with all curves, and its table.

mod configurations;

use crate::chart::{self, Axis, Chart, Filling, Ink, Interval, Mark, Panel, Path, Series, Shape, Symbol};
use crate::html::sides::{self, Side};
use crate::html::table::{Column, in_pieces, interval_cell, number_cell, range};
use crate::html::verdict::started;
use crate::html::{Section, columns, head, level};
use crate::plain;
use crate::sweep::{at, axis_name, combination, curve_name, curves_name, foot, label, measured, shown};
use crate::text::{self, capitalised};
use maud::{DOCTYPE, Markup, html};
use plimsoll_analysis::sweep::{Cell, Measured, Origin, Quantity, Sweep};

/// Shapes and fillings: twelve marks, so that up to twelve curves differ by more than their colours.
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Diamond, Shape::Triangle];
const FILLINGS: [Filling; 3] = [Filling::Full, Filling::Open, Filling::Dotted];

/// Least difference of two values that can be seen in a chart of 380 pixels, as a share of the larger one.
const SEEN: f64 = 0.01;

/// The strongest of the grounds of a table that is a heat map, of which there are seven.
const STRONGEST: f64 = 6.0;

/// What the summary in words is about.
const IN_WORDS: [Quantity; 7] = [
    Quantity::LoadLine,
    Quantity::LoadLinePerCost,
    Quantity::Throughput,
    Quantity::Done,
    Quantity::PublishTimeMedian,
    Quantity::PublishTimeP99,
    Quantity::SubscribeTimeP99,
];

/// The sweep as one HTML file that opens offline.
pub fn page(sweep: &Sweep) -> String {
    let words = in_words(sweep);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{} \u{b7} sweep \u{b7} Plimsoll", sweep.name)))
            body {
                section.first {
                    p.eyebrow { "Sweep" }
                    h1 { (sweep.name) }
                    p.note { (origin(&sweep.origin)) }
                    @if !words.is_empty() {
                        ul.findings { @for sentence in words { li { (sentence) } } }
                    }
                    @for note in &sweep.notes {
                        p.note { (capitalised(note)) "." }
                    }
                }
                (columns(&sections(sweep)))
                (chart::script())
            }
        }
    };
    plain::page(markup.into_string())
}

/// What is said of configurations, then each quantity.
fn sections(sweep: &Sweep) -> Vec<Section> {
    let mut sections = configurations::sections(sweep);
    sections.extend(measured(sweep).map(|quantity| section(sweep, quantity)));
    sections
}

/// A quantity: its chart, and its table.
fn section(sweep: &Sweep, quantity: Quantity) -> Section {
    Section {
        id: quantity.name().replace([' ', ','], "-"),
        title: capitalised(quantity.name()),
        body: html! {
            (chart(sweep, quantity).render())
            @for names in coinciding(sweep, quantity) {
                p.note { "Curves that lie on each other, so that only one is seen: " (names.join("; ")) "." }
            }
            (values(sweep, quantity))
        },
    }
}

/// The names of curves that no eye can tell apart in the chart, together. Bars of categories stand beside each other.
fn coinciding(sweep: &Sweep, quantity: Quantity) -> Vec<Vec<String>> {
    let mut together: Vec<(Vec<String>, Vec<Interval>)> = Vec::new();
    let has_lines = numbers_along(sweep).is_some();
    for Side { name, values } in sides(sweep, quantity, 1.0) {
        let near = |a: &Interval, b: &Interval| {
            a.at == b.at && (a.value - b.value).abs() <= SEEN * a.value.max(b.value)
        };
        let equal = |other: &[Interval]| {
            other.len() == values.len() && other.iter().zip(&values).all(|(a, b)| near(a, b))
        };
        match together.iter_mut().find(|(_, other)| equal(other)) {
            Some((names, _)) => names.push(name),
            None => together.push((vec![name], values)),
        }
    }
    let names = together.into_iter().map(|(names, _)| names);
    names.filter(|names| has_lines && names.len() > 1).collect()
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

/// For each of the main quantities, between which combinations it lies, and whether their intervals keep them apart.
fn in_words(sweep: &Sweep) -> Vec<String> {
    let sentence = |quantity: Quantity| {
        let all = || sweep.cells.iter().filter_map(|cell| Some((cell, cell.measured(quantity)?)));
        let (highest, most) = all().max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
        let (lowest, least) = all().min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
        let show = show(quantity);
        let name = capitalised(quantity.name());
        if all().count() < 2 {
            return None;
        }
        if show(most.mean) == show(least.mean) {
            let which = if all().count() < sweep.cells.len() { " that has it" } else { "" };
            return Some(format!("{name}: {} in every combination{which}.", show(most.mean)));
        }
        let between = format!(
            "{name}: highest with {} ({}), lowest with {} ({}).",
            combination(sweep, &highest.position, None),
            show(most.mean),
            combination(sweep, &lowest.position, None),
            show(least.mean)
        );
        Some(match most.ci95.zip(least.ci95) {
            Some(([low, _], [_, high])) if low > high => {
                format!("{between} Their 95 % intervals do not overlap.")
            }
            Some(_) => format!("{between} Their 95 % intervals overlap, so the order may be chance."),
            None => between,
        })
    };
    IN_WORDS.into_iter().filter_map(sentence).collect()
}

/// What a curve is called in a legend: each value behind its key.
fn keyed_name(sweep: &Sweep, common: &[usize]) -> String {
    let keys = sweep.curves_by().into_iter().filter_map(|axis| sweep.axes.get(axis));
    let named = keys
        .zip(sweep.values_of(common))
        .map(|(axis, value)| format!("{} {}", label(axis.name()), label(value)));
    named.collect::<Vec<_>>().join(", ")
}

/// The unit in which values are drawn: times in seconds would have labels such as 0.00005.
fn unit(sweep: &Sweep, quantity: Quantity, highest: f64) -> (f64, String) {
    let name = capitalised(quantity.name());
    match (quantity, crate::sweep::unit(sweep, quantity)) {
        (Quantity::Throughput, _) => (1.0, "Throughput (/s)".to_owned()),
        (Quantity::Done, _) => (1.0, "Share of due operations that completed".to_owned()),
        (_, Some(unit)) => (1.0, format!("{name} ({unit})")),
        _ if highest < 1e-3 => (1e6, format!("{name} (\u{b5}s)")),
        _ if highest < 10.0 => (1e3, format!("{name} (ms)")),
        _ => (1.0, format!("{name} (s)")),
    }
}

/// The numbers along the horizontal axis; `None` where categories are there.
fn numbers_along(sweep: &Sweep) -> Option<Vec<f64>> {
    Some(sweep.axes.get(sweep.along)?.numbers()?.0)
}

/// Where a combination stands on the horizontal axis.
fn place(sweep: &Sweep, cell: &Cell) -> f64 {
    let place = cell.position.get(sweep.along).copied().unwrap_or_default();
    numbers_along(sweep).and_then(|numbers| numbers.get(place).copied()).unwrap_or(place as f64)
}

/// The curves, each with its values times `scale`.
fn sides(sweep: &Sweep, quantity: Quantity, scale: f64) -> Vec<Side> {
    let value = |cell: &Cell, measured: &Measured| Interval {
        at: place(sweep, cell),
        value: within(quantity, measured.mean) * scale,
        ends: measured.ci95.map(|ends| ends.map(|end| within(quantity, end) * scale)),
    };
    let side = |(common, cells): &(Vec<usize>, Vec<&Cell>)| {
        let name = keyed_name(sweep, common);
        let values = cells.iter().filter_map(|cell| Some(value(cell, cell.measured(quantity)?)));
        Side {
            name: if name.is_empty() { quantity.name().to_owned() } else { name },
            values: values.collect(),
        }
    };
    sweep.curves().iter().map(side).collect()
}

fn chart(sweep: &Sweep, quantity: Quantity) -> Chart {
    let highest = sweep.cells.iter().filter_map(|cell| cell.measured(quantity)).map(|measured| measured.mean);
    let (scale, name) = unit(sweep, quantity, highest.fold(0.0, f64::max));
    let curves = sweep.curves();
    let sides = sides(sweep, quantity, scale);
    let x = |cell: &Cell| place(sweep, cell);
    let predicted = predictions(&curves, quantity, x);
    let of_model = predicted.iter().flatten().filter_map(|(_, rate)| *rate);
    let y = match quantity {
        Quantity::Done => Axis::shares(&name),
        _ => Axis::fitting(&name, sides::extent(&sides).chain(of_model)),
    };
    let has_model = predicted.iter().any(|points| !points.is_empty());
    let chart = Chart::new(id(quantity), caption(quantity, has_model));
    let Some(numbers) = numbers_along(sweep) else {
        return chart
            .panel(sides::panel(Axis::places(&axis_name(sweep), foot(sweep)), y, sides).height(340.0));
    };
    let x = Axis::fitting(&axis_name(sweep), numbers.iter().copied());
    let series = sides.into_iter().zip(&curves).zip(predicted).enumerate().flat_map(
        |(number, ((side, (common, _)), model))| {
            let ink = Ink::Curve(*common.first().unwrap_or(&number));
            let path = side.values.iter().map(|value| (value.at, Some(value.value))).collect();
            let series = Series::new(&side.name, ink).symbol(symbol(sweep, common, number));
            let series = series.with(Mark::Guide { points: path, dashed: false });
            let series = series.with(Mark::Intervals { points: side.values, of: "95 % interval" });
            let model = Series::new(&format!("{}, predicted", side.name), ink).dashed(model).unlisted();
            [model, if curves.len() == 1 { series.unlisted() } else { series }]
        },
    );
    chart.panel(Panel::new(x, y).height(380.0).all(series))
}

/// What the model of the platform predicts for each curve, where there is one.
fn predictions(
    curves: &[(Vec<usize>, Vec<&Cell>)],
    quantity: Quantity,
    x: impl Fn(&Cell) -> f64,
) -> Vec<Path> {
    let of_curve = |(_, cells): &(Vec<usize>, Vec<&Cell>)| {
        let predicted = cells.iter().filter(|_| quantity == Quantity::Throughput);
        predicted.filter_map(|cell| Some((x(cell), Some(cell.predicted?)))).collect()
    };
    curves.iter().map(of_curve).collect()
}

fn caption(quantity: Quantity, has_model: bool) -> &'static str {
    match quantity {
        _ if has_model => {
            "Means over the runs of each combination; bars are 95\u{a0}% intervals over runs. Dashed: what the model of the platform \
             predicts, in the colour of its curve."
        }
        Quantity::Done => {
            "Means over the runs of each combination, with 95\u{a0}% intervals over runs where there are several. A hold may \
             also complete what was due before it: such shares count as 100\u{a0}%."
        }
        _ => {
            "Means over the runs of each combination, with 95\u{a0}% intervals over runs where there are several."
        }
    }
}

/// The mark of a curve: shapes by the second of two axes and fillings by the first, where there are enough of both; else by
/// its number.
fn symbol(sweep: &Sweep, common: &[usize], number: usize) -> Symbol {
    let sizes: Vec<usize> =
        sweep.curves_by().into_iter().filter_map(|axis| Some(sweep.axes.get(axis)?.values.len())).collect();
    let (filling, shape) = match (common, sizes.as_slice()) {
        ([first, second], [..=3, ..=4]) => (*first, *second),
        _ => (number / SHAPES.len(), number),
    };
    Symbol {
        shape: SHAPES.iter().cycle().nth(shape).copied().unwrap_or_default(),
        filling: FILLINGS.iter().cycle().nth(filling).copied().unwrap_or_default(),
    }
}

fn values(sweep: &Sweep, quantity: Quantity) -> Markup {
    let (name, head) = (curves_name(sweep), foot(sweep));
    let name = if name.is_empty() { axis_name(sweep) } else { name };
    let with_model =
        quantity == Quantity::Throughput && sweep.cells.iter().any(|cell| cell.predicted.is_some());
    let columns: Vec<Column<'_>> = head.iter().map(|value| Column::Number(value)).collect();
    let mut rows: Vec<(Markup, Vec<Markup>)> = Vec::new();
    for (common, cells) in sweep.curves() {
        let cell = |place: usize| at(&cells, sweep, place);
        let measured =
            (0..head.len()).map(|place| match cell(place).and_then(|cell| cell.measured(quantity)) {
                Some(measured) if quantity == Quantity::LoadLine => line_cell(sweep, measured),
                Some(measured) => interval_cell(Some(measured.mean), measured.ci95, show(quantity)),
                None => number_cell(None),
            });
        let curve = curve_name(sweep, &common);
        let curve = if curve.is_empty() { quantity.name().to_owned() } else { curve };
        rows.push((html! { th.free scope="row" { (curve) } }, measured.collect()));
        if with_model {
            let predicted = (0..head.len()).map(|place| {
                let predicted = cell(place).and_then(|cell| cell.predicted).map(level::per_second);
                let bound = cell(place).and_then(|cell| cell.bound_by.clone());
                html! { td.num { (predicted.unwrap_or_default()) span.interval { (bound.unwrap_or_default()) } } }
            });
            rows.push((html! { td { "predicted" } }, predicted.collect()));
        }
    }
    in_pieces(Column::Text(&name), &columns, &rows)
}

/// The load line of a combination, on a ground that is the stronger the higher it is: the table is a heat map.
fn line_cell(sweep: &Sweep, measured: &Measured) -> Markup {
    let lines = sweep.cells.iter().filter_map(|cell| cell.measured(Quantity::LoadLine));
    let (low, high) =
        lines.fold((f64::INFINITY, 0.0f64), |(low, high), line| (low.min(line.mean), high.max(line.mean)));
    let part = if high > low { (measured.mean - low) / (high - low) } else { 0.0 };
    let shade = (part * STRONGEST).round();
    html! {
        td class={ "num w" (shade) } {
            (crate::sweep::mean(measured))
            @if let Some([low, high]) = measured.ci95 {
                span.interval { (range(&show(Quantity::LoadLine)(low), &show(Quantity::LoadLine)(high))) }
            }
        }
    }
}

/// A value of the quantity, or an end of its interval, where it can lie: none is below zero, and a share ends at one.
fn within(quantity: Quantity, value: f64) -> f64 {
    if quantity == Quantity::Done { value.clamp(0.0, 1.0) } else { value.max(0.0) }
}

/// How a value of the quantity is shown.
fn show(quantity: Quantity) -> fn(f64) -> String {
    match quantity {
        Quantity::LoadLine => |value| shown(Quantity::LoadLine, within(Quantity::LoadLine, value)),
        Quantity::LoadLinePerCost => |value| shown(Quantity::LoadLinePerCost, value.max(0.0)),
        Quantity::Throughput => |value| level::per_second(within(Quantity::Throughput, value)),
        Quantity::Cost => |value| shown(Quantity::Cost, value),
        Quantity::Done => |value| shown(Quantity::Done, within(Quantity::Done, value)),
        _ => |value| shown(Quantity::PublishTime, within(Quantity::PublishTime, value)),
    }
}

/// The place of its chart in the page.
const fn id(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::LoadLine => "chart-load-line",
        Quantity::LoadLinePerCost => "chart-load-line-by-cost",
        Quantity::Cost => "chart-cost",
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
    use crate::chart::tests::data;
    use crate::sweep::tests::sweep;
    use plimsoll_analysis::sweep;
    use serde_json::{Value, json};

    /// The drawing of a quantity and its data.
    fn drawn(sweep: &Sweep, quantity: Quantity) -> (String, Value) {
        let page = chart(sweep, quantity).render().into_string();
        let (_, data) = data(&page).remove(0);
        (page, data)
    }

    #[test]
    fn curves_have_their_numbers_and_predictions_are_dashed() {
        let page = page(&sweep());
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
        let origin = "platform gateway \u{b7} hold 10.0 s \u{b7} warm-up 2.00 s \u{b7} quick form of the scenario, which tries \
                      it out \u{b7} Plimsoll 0.1.0 \u{b7} 2026-03-14 09:26:53 UTC";
        assert!(page.contains(origin));
        let (page, data) = drawn(&sweep(), Quantity::Throughput);
        let names: Vec<&str> =
            data.as_array().unwrap().iter().map(|table| table["n"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["handler serial, predicted", "handler serial", "handler <b>, predicted", "handler <b>"]
        );
        assert_eq!(page.matches("class=\"line dashed\"").count(), 2);
        assert_eq!(data[1]["d"][0], json!([0, 10, 50]), "delays are numbers");
        assert_eq!(data[1]["d"][1], json!([1010, 505, 336.667]));
        assert!(data[1]["d"][2][0].as_f64().unwrap() < 1010.0 - 100.0, "{data}");
    }

    #[test]
    fn values_that_only_look_like_numbers_stand_side_by_side() {
        let mut sweep = sweep();
        sweep.axes[1] =
            sweep::Axis { key: "mqtt.qos".into(), values: ["0", "1", "2"].map(str::to_owned).to_vec() };
        let (page, data) = drawn(&sweep, Quantity::Throughput);
        assert_eq!(data[0]["d"][0], json!(["0", "1", "2"]), "a name each");
        assert!(page.contains("class=\"bar\"") && page.contains(">qos</text>"));
        let gap = |row: usize| data[0]["p"][2 * row].as_i64().unwrap();
        assert!((gap(1) - gap(0) - (gap(2) - gap(1))).abs() <= 1, "equally far apart");
    }

    #[test]
    fn sizes_are_numbers_with_a_unit_and_mixed_values_are_names() {
        let with = |values: [&str; 3]| {
            let mut sweep = sweep();
            sweep.axes[1].values = values.map(str::to_owned).to_vec();
            drawn(&sweep, Quantity::Throughput)
        };
        let (page, data) = with(["64", "1KiB", "2KiB"]);
        assert_eq!(data[1]["d"][0], json!([64, 1024, 2048]));
        assert!(page.contains("delay (B)"), "{page}");
        let (page, data) = with(["64", "1s", "<b>"]);
        assert_eq!(data[0]["d"][0], json!(["64", "1s", "<b>"]));
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"));
    }

    #[test]
    fn shares_end_at_one_and_axes_begin_at_zero_or_say_that_they_are_logarithmic() {
        let mut sweep = sweep();
        let of = |sweep: &Sweep| chart(sweep, Quantity::Throughput).render().into_string();
        assert!(of(&sweep).contains(">0</text>") && !of(&sweep).contains("log scale"));
        let cell = sweep.cells.first_mut().unwrap();
        let done =
            Measured { quantity: Quantity::Done, values: vec![0.7], mean: 0.7, ci95: None, at_least: false };
        cell.quantities.push(done);
        cell.quantities[0].mean *= 1000.0;
        assert!(of(&sweep).contains("Throughput (/s), log scale"));
        sweep.cells[0].quantities.last_mut().unwrap().mean = 1.16;
        assert_eq!(drawn(&sweep, Quantity::Done).1[0]["d"][1][0], 1, "the data are what is drawn");
        assert_eq!(
            (show(Quantity::Done)(1.16), show(Quantity::Throughput)(-641.0)),
            ("100 %".into(), "0/s".into())
        );
        let done = chart(&sweep, Quantity::Done).render().into_string();
        assert!(done.contains(">100 %</text>") && !done.contains(">120 %"));
    }

    #[test]
    fn the_summary_names_the_ends_and_whether_intervals_keep_them_apart() {
        let told = in_words(&sweep());
        let first = "Throughput: highest with handler serial, delay 0ms (1,010/s), lowest with handler <b>, delay 50ms (252.5/s).";
        let first = first.replace("252.5/s", "252/s");
        assert!(told[0].starts_with(&first), "{told:?}");
        assert!(told[0].ends_with("Their 95 % intervals do not overlap."), "{told:?}");
        let mut same = sweep();
        same.cells.iter_mut().flat_map(|cell| &mut cell.quantities).for_each(|measured| measured.mean = 0.5);
        assert!(in_words(&same)[0].ends_with("in every combination."));
        same.cells.truncate(1);
        assert!(in_words(&same).is_empty());
    }

    #[test]
    fn curves_that_lie_on_each_other_are_named() {
        let mut sweep = sweep();
        sweep.cells.retain(|cell| cell.position != [0, 1]);
        assert!(coinciding(&sweep, Quantity::Throughput).is_empty());
        let throughputs = sweep.cells.iter_mut().flat_map(|cell| &mut cell.quantities);
        throughputs.filter(|one| one.quantity == Quantity::Throughput).for_each(|one| one.mean = 500.0);
        assert_eq!(coinciding(&sweep, Quantity::Throughput), [["handler serial", "handler <b>"]]);
        assert!(page(&sweep).contains("only one is seen: handler serial; handler &lt;b&gt;."));
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
            let marks: std::collections::BTreeSet<Symbol> = (0..curves)
                .map(|number| {
                    let common = match sizes.as_slice() {
                        [_, second] => vec![number / second, number % second],
                        _ => vec![number],
                    };
                    symbol(&sweep, &common, number)
                })
                .collect();
            assert_eq!(marks.len(), curves, "{sizes:?}");
        }
    }
}
