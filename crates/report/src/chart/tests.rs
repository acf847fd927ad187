//! What is drawn, and that the data beside it say the same.

use super::scale::{linear_ticks, log_ticks, step};
use super::*;
use serde_json::{Value, json};

/// The data of every chart of a page, by the chart's id.
pub fn data(page: &str) -> Vec<(String, Value)> {
    let chart = |part: &str| {
        let (id, rest) = part.split_once('"').unwrap();
        let (_, rest) = rest.split_once("<script type=\"application/json\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        (id.to_owned(), serde_json::from_str(json).unwrap())
    };
    page.split("<figure class=\"chart\" id=\"").skip(1).map(chart).collect()
}

fn labels(ticks: &[(f64, String)]) -> Vec<&str> {
    ticks.iter().map(|(_, label)| label.as_str()).collect()
}

fn drawn(panel: Panel) -> (String, Value) {
    let page = Chart::new("chart-x", "What it shows.").panel(panel).render().into_string();
    let (_, data) = data(&page).remove(0);
    (page, data)
}

fn plain(series: Series) -> (String, Value) {
    let x = Axis::span("Time (s)", 0.0, 10.0);
    drawn(Panel::new(x, Axis::linear("Rate (/s)", [100.0].into_iter())).series(series))
}

#[test]
fn steps_are_round() {
    let found = [1.0, 7.0, 95.0, 4200.0, 0.03].map(|range| step(range, 6));
    assert_eq!(found, [0.2, 2.0, 20.0, 1000.0, 0.005]);
    assert_eq!([step(0.0, 6), step(f64::NAN, 6), step(f64::INFINITY, 6)], [1.0; 3]);
}

#[test]
fn linear_ticks_are_multiples_with_the_decimals_that_they_need() {
    assert_eq!(labels(&linear_ticks(0.0, 3000.0, 1000.0)), ["0", "1,000", "2,000", "3,000"]);
    assert_eq!(labels(&linear_ticks(0.0, 1.0, 0.5)), ["0.0", "0.5", "1.0"]);
    assert_eq!(labels(&linear_ticks(-20.0, 20.0, 20.0)), ["-20", "0", "20"]);
}

#[test]
fn logarithmic_ticks_are_decades_with_steps_between_few_of_them() {
    assert_eq!(labels(&log_ticks(0.9, 60.0)), ["1", "2", "5", "10", "20", "50"]);
    assert_eq!(labels(&log_ticks(0.01, 1e4)), ["0.01", "0.1", "1", "10", "100", "1,000", "10,000"]);
    assert!(log_ticks(1e-9, 1e12).len() <= 10);
}

#[test]
fn a_linear_axis_begins_at_zero_and_ends_at_a_tick() {
    let axis = Axis::linear("", [4100.0, 3900.0].into_iter());
    assert_eq!(axis.scale, Scale::Linear { low: 0.0, high: 5000.0 });
    assert_eq!(axis.ticks.last().unwrap().0, 5000.0);
    let below = Axis::linear("", [-130.0, 40.0].into_iter());
    assert_eq!(below.scale, Scale::Linear { low: -150.0, high: 50.0 });
    assert_eq!(Axis::linear("", [9.0].into_iter()).scale, Scale::Linear { low: 0.0, high: 10.0 });
    let Scale::Linear { low, high } = Axis::linear("", std::iter::empty()).scale else {
        panic!("it has a range")
    };
    assert!(low == 0.0 && high > 1.0);
}

#[test]
fn an_axis_is_logarithmic_where_values_span_decades_and_says_so() {
    let wide = Axis::fitting("Rate (/s)", [10.0, 400.0].into_iter());
    assert!(wide.is_log());
    assert_eq!(wide.title(), "Rate (/s), log scale");
    let narrow = Axis::fitting("Rate (/s)", [100.0, 400.0].into_iter());
    assert_eq!((narrow.is_log(), narrow.title().as_str()), (false, "Rate (/s)"));
    assert!(!Axis::fitting("", [0.0, -400.0, 1.0].into_iter()).is_log());
    let Scale::Log { low, high } = Axis::log("", std::iter::empty()).scale else { panic!("it has a range") };
    assert!(low < high);
}

#[test]
fn shares_end_at_one() {
    let axis = Axis::shares("done");
    assert_eq!(axis.scale, Scale::Linear { low: 0.0, high: 1.0 });
    assert_eq!(labels(&axis.ticks), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
}

#[test]
fn values_stand_in_proportion_or_by_ratio() {
    let linear = Scale::Linear { low: 0.0, high: 10.0 };
    assert_eq!([0.0, 2.5, 10.0, 99.0, -9.0].map(|value| linear.position(value)), [0.0, 0.25, 1.0, 1.0, 0.0]);
    let log = Scale::Log { low: 1.0, high: 100.0 };
    assert_eq!([1.0, 10.0, 100.0, 0.0, -1.0].map(|value| log.position(value)), [0.0, 0.5, 1.0, 0.0, 0.0]);
    assert_eq!(Scale::Places(2).position(0.0), 0.25);
    assert_eq!(Scale::Linear { low: 1.0, high: 1.0 }.position(f64::NAN), 0.0);
}

#[test]
fn a_gap_stays_a_gap() {
    let points = vec![(1.0, Some(10.0)), (2.0, None), (3.0, Some(30.0)), (4.0, Some(40.0))];
    let (page, data) = plain(Series::new("completed", Ink::Curve(0)).line(points));
    let (_, path) = page.rsplit_once("class=\"line\" d=\"").unwrap();
    let (path, _) = path.split_once('"').unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(data[0]["d"], json!([[1, 3, 4], [10, 30, 40]]), "no row for what was not measured");
}

#[test]
fn the_data_are_the_numbers_that_are_drawn() {
    let points = vec![(2.5, Some(123.456_789)), (5.0, Some(0.0)), (10.0, Some(80.0))];
    let (page, data) = plain(Series::new("completed", Ink::Curve(0)).line(points));
    let table = &data[0];
    assert_eq!((&table["n"], &table["c"]), (&json!("completed"), &json!(["Time (s)", "Rate (/s)"])));
    assert_eq!(table["d"], json!([[2.5, 5, 10], [123.457, 0, 80]]));
    let (_, path) = page.rsplit_once("class=\"line\" d=\"M").unwrap();
    let (path, _) = path.split_once('"').unwrap();
    let path: Vec<f64> = path.split(' ').map(|number| number.parse().unwrap()).collect();
    let places: Vec<f64> =
        table["p"].as_array().unwrap().iter().map(|place| place.as_f64().unwrap()).collect();
    assert!(
        path.iter().zip(&places).all(|(drawn, read)| (drawn - read).abs() <= 0.55),
        "{path:?} {places:?}"
    );
    // A third of the way along the axis is a third of the way in the drawing.
    let of_time = (path[2] - path[0]) / (path[4] - path[0]);
    assert!((of_time - 2.5 / 7.5).abs() < 0.01, "{of_time}");
}

#[test]
fn categories_stand_side_by_side_and_are_named_in_the_data() {
    let x = Axis::places("qos", ["0", "1", "2"].map(str::to_owned));
    let bars = |by: f64| {
        (0..3)
            .map(|at| Bar { at: f64::from(at), from: 0.0, to: by * f64::from(at + 1), ends: None })
            .collect()
    };
    let series = |name, ink, by| Series::new(name, Ink::Curve(ink)).with(Mark::Bars(bars(by)));
    let panel = Panel::new(x, Axis::linear("Rate (/s)", [30.0].into_iter())).side_by_side();
    let (page, data) = drawn(panel.all([series("a", 0, 5.0), series("b", 1, 10.0)]));
    assert_eq!(data[0]["d"], json!([["0", "1", "2"], [5, 10, 15]]));
    let middle = |table: usize, row: usize| data[table]["p"][2 * row].as_i64().unwrap();
    assert!(middle(0, 0) < middle(1, 0) && middle(1, 0) < middle(0, 1), "{data}");
    assert!([0, 1, 2].iter().all(|name| page.contains(&format!("text-anchor=\"middle\">{name}</text>"))));
}

#[test]
fn boxes_lie_where_names_stand_beside_them() {
    let y = Axis::places("", ["first", "second"].map(str::to_owned));
    let one = |at: f64| BoxOf { at, quartiles: [1.0, 2.0, 3.0, 4.0, 5.0], max: 8.0 };
    let boxes = Series::new("time", Ink::Curve(0)).with(Mark::Boxes(vec![one(0.0), one(1.0)])).unlisted();
    let (page, data) = drawn(Panel::new(Axis::linear("Time (ms)", [8.0].into_iter()), y).series(boxes));
    assert_eq!(data[0]["d"][0], json!(["first", "second"]));
    let p = &data[0]["p"];
    assert_eq!(p[0], p[2], "equal times stand below each other");
    assert!(p[1].as_i64() < p[3].as_i64(), "names are read from the top");
    assert!(!page.contains("class=\"legend\""), "one series that its axis names");
}

#[test]
fn the_heat_of_a_cell_is_its_count() {
    let heat = Heat {
        counted: "messages",
        columns: vec![(0.0, 1.0, vec![1, 0]), (1.0, 2.0, Vec::new()), (2.0, 3.0, vec![50, 1000])],
        edges: vec![1.0, 10.0, 100.0],
    };
    let axis = Axis::log("Time (ms)", [1.0, 100.0].into_iter());
    let (page, data) = drawn(Panel::new(Axis::span("Time (s)", 0.0, 3.0), axis).heat(heat.clone()));
    assert_eq!(data[0]["v"], json!([[1, 0], [], [50, 1000]]));
    assert_eq!(heat.steps().first(), Some(&(0, 1)));
    let cells = |shade: usize| page.matches(&format!("<path class=\"cell h{shade}\"")).count();
    assert_eq!((cells(0), cells(6)), (1, 1), "the fewest and the most");
    assert!(page.contains("messages:"));
}

#[test]
fn each_limit_has_one_label() {
    let limit = |at, label: &str| Limit { at, label: label.into(), ink: Ink::Curve(0) };
    let x = Axis::span("Time (s)", 0.0, 10.0);
    let limits =
        vec![limit(50.0, "a < 50"), limit(50.0, "b < 50"), limit(50.0, "a < 50"), limit(49.0, "c < 49")];
    let line = Series::new("x", Ink::Curve(0)).line(vec![(0.0, Some(1.0)), (1.0, Some(2.0))]);
    let panel = Panel::new(x, Axis::linear("Rate (/s)", [100.0].into_iter())).limits(limits).series(line);
    let (page, _) = drawn(panel);
    assert_eq!(page.matches("class=\"limit").count(), 2);
    assert!(page.contains(">a &lt; 50, b &lt; 50</text>"), "{page}");
    let heights: Vec<f64> = page
        .split("class=\"named c0\"")
        .skip(1)
        .map(|part| part.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!((heights[0] - heights[1]).abs() >= 14.0, "they do not run into each other: {heights:?}");
}

#[test]
fn names_that_do_not_fit_are_turned_or_left_out() {
    let names: Vec<String> = (0..120).map(|number| format!("a long name of number {number}")).collect();
    let points = (0..120).map(|at| (f64::from(at), 1.0)).collect();
    let y = Axis::linear("", [1.0].into_iter());
    let few = Axis::places("", names.iter().take(8).cloned());
    let series = Series::new("x", Ink::Curve(0)).with(Mark::Points(points));
    let (page, _) = drawn(Panel::new(few, y.clone()).series(series.clone()));
    assert_eq!(page.matches("rotate(-32").count(), 8);
    let (page, _) = drawn(Panel::new(Axis::places("", names), y).series(series));
    assert!(page.matches("rotate(-32").count() <= 60);
    let regions = (0..60).map(|at| Region {
        from: f64::from(at),
        to: f64::from(at + 1),
        name: "1,000/s".into(),
        ink: Ink::Neutral,
    });
    let x = Axis::span("Time (s)", 0.0, 60.0);
    let line = Series::new("x", Ink::Curve(0)).line(vec![(0.0, Some(1.0))]);
    let panel = Panel::new(x, Axis::linear("", [1.0].into_iter())).regions(regions.collect()).series(line);
    let (page, _) = drawn(panel);
    assert!(page.matches("text-anchor=\"middle\">1,000/s</text>").count() < 20);
    assert_eq!(page.matches("<title>1,000/s</title>").count(), 60);
}

#[test]
fn no_text_becomes_markup_or_ends_the_data() {
    let hostile = "</script><script>alert(1)</script><!--&amp;\u{2028}\"'";
    let x = Axis::places(hostile, [hostile.to_owned()]);
    let series = Series::new(hostile, Ink::Curve(0)).with(Mark::Points(vec![(0.0, 1.0)]));
    let region = Region { from: 0.0, to: 1.0, name: hostile.into(), ink: Ink::Neutral };
    let limit = Limit { at: 1.0, label: hostile.into(), ink: Ink::Neutral };
    let panel = Panel::new(x, Axis::linear(hostile, [1.0].into_iter())).series(series);
    let panel = panel.regions(vec![region]).limits(vec![limit]);
    let page = Chart::new("chart-x", hostile).panel(panel).render().into_string();
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (1, 1), "{page}");
    assert!(!page.contains("<!--"));
    assert_eq!(data(&page)[0].1[0]["n"], hostile, "and it is still the name");
}

#[test]
fn a_chart_without_anything_is_no_chart() {
    let axis = || Axis::linear("", std::iter::empty());
    assert_eq!(Chart::new("chart-x", "").panel(Panel::new(axis(), axis())).render().into_string(), "");
}

#[test]
fn each_of_the_first_curves_has_a_mark_of_its_own() {
    let marks: std::collections::BTreeSet<Symbol> = (0..5).map(Symbol::of_curve).collect();
    assert_eq!(marks.len(), 5);
}

#[test]
fn the_script_is_small_and_takes_no_text_for_markup() {
    assert!(SCRIPT.len() < 8 * 1024, "{} bytes", SCRIPT.len());
    for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "</script"] {
        assert!(!SCRIPT.contains(forbidden), "{forbidden}");
    }
}
