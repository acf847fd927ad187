//! Percentile curves per level, from the merged histograms of its samples.

use crate::html::figure::{self, Figure};
use crate::html::level;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::{Histogram, Metric};
use plotly::Scatter;
use plotly::common::{Anchor, DashType, Line, Mode, TickMode, Title};
use plotly::layout::{Annotation, Axis, AxisType};

/// Points of one curve.
const POINTS: usize = 120;
/// A curve ends where fewer observations than this lie beyond it, as quantiles do everywhere.
const FEWEST_BEYOND: f64 = 10.0;

/// One level's curve: `1 / (1 - q)` and the quantile in milliseconds.
struct Curve<'a> {
    level: &'a LevelSummary,
    colour: String,
    points: Vec<(f64, f64)>,
}

/// The chart.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let panels: Vec<(&str, Vec<Curve>)> =
        [("Publish time", Metric::PublishTime), ("Subscribe time", Metric::SubscribeTime)]
            .into_iter()
            .map(|(title, metric)| (title, curves(record, summary, metric)))
            .filter(|(_, curves)| !curves.is_empty())
            .collect();
    if panels.is_empty() {
        return html! { p.empty { "No level has enough observations for a curve." } };
    }
    chart(&panels).render(
        "How slow the slowest are: each step to the right is ten times rarer; a curve that rises steeply has a long \
         tail. A curve ends where fewer than ten observations lie beyond it; dashes mark levels that are not met.",
    )
}

fn curves<'a>(record: &RunRecord, summary: &'a Summary, metric: Metric) -> Vec<Curve<'a>> {
    let levels = level::rising(summary);
    let last = levels.len().saturating_sub(1).max(1) as f64;
    let curve = |(position, level): (usize, &'a LevelSummary)| {
        let of_record = record.levels.iter().find(|record| record.start.index == level.index)?;
        let points = points(&merged(of_record, metric));
        let colour = figure::ramp(position as f64 / last);
        (points.len() > 1).then_some(Curve { level, colour, points })
    };
    levels.into_iter().enumerate().filter_map(curve).collect()
}

fn merged(level: &LevelRecord, metric: Metric) -> Histogram {
    let mut merged = Histogram::new();
    for histogram in level.samples.iter().flatten().filter_map(|sample| sample.histograms.get(&metric)) {
        merged.merge(histogram);
    }
    merged
}

/// Equidistant on the logarithmic scale of `1 / (1 - q)`, up to what the observations can tell.
fn points(histogram: &Histogram) -> Vec<(f64, f64)> {
    let end = histogram.count() as f64 / FEWEST_BEYOND;
    if end < 1.0 {
        return Vec::new();
    }
    let rarity = |step: usize| end.powf(step as f64 / (POINTS - 1) as f64);
    let point = |rarity: f64| Some((rarity, histogram.quantile(1.0 - 1.0 / rarity)?.as_secs_f64() * 1e3));
    (0..POINTS).map(rarity).filter_map(point).filter(|(_, milliseconds)| *milliseconds > 0.0).collect()
}

/// Side by side over one time axis, so that heights compare.
fn chart(panels: &[(&str, Vec<Curve>)]) -> Figure {
    let all = || panels.iter().flat_map(|(_, curves)| curves).flat_map(|curve| &curve.points);
    let rarest = all().map(|(rarity, _)| *rarity).fold(1.0, f64::max);
    let y_axis = figure::log_axis("Time (ms, log scale)", all().map(|(_, milliseconds)| *milliseconds));
    let domains: &[[f64; 2]] = if panels.len() > 1 { &[[0.0, 0.485], [0.515, 1.0]] } else { &[[0.0, 1.0]] };
    let mut layout = figure::layout().y_axis(y_axis).legend(figure::legend().y(1.09));
    let mut titles = Vec::new();
    for (position, ((title, _), domain)) in panels.iter().zip(domains).enumerate() {
        let axis = percentile_axis(rarest).domain(domain);
        layout = if position == 0 { layout.x_axis(axis) } else { layout.x_axis2(axis) };
        titles.push(panel_title(title, domain[0]));
    }
    let mut figure = Figure::new("chart-percentiles", 480, layout.annotations(titles));
    for (position, (_, curves)) in panels.iter().enumerate() {
        let axis = if position == 0 { "x" } else { "x2" };
        for curve in curves {
            figure.add(trace(curve, axis, position == 0 || !has_curve(panels, curve.level)));
        }
    }
    figure
}

/// Whether the first panel has a curve of that level, which then stands in the legend already.
fn has_curve(panels: &[(&str, Vec<Curve>)], level: &LevelSummary) -> bool {
    panels.first().is_some_and(|(_, curves)| curves.iter().any(|curve| curve.level.index == level.index))
}

fn trace(curve: &Curve, axis: &str, in_legend: bool) -> Box<Scatter<f64, f64>> {
    let (x, y) = curve.points.iter().copied().unzip();
    let percentile = |(rarity, _): &(f64, f64)| format!("{:.5} %", (1.0 - 1.0 / rarity) * 100.0);
    let dash = if curve.level.verdict == LevelVerdict::Met { DashType::Solid } else { DashType::Dash };
    let name = level::name(curve.level);
    Scatter::new(x, y)
        .mode(Mode::Lines)
        .x_axis(axis)
        .legend_group(&name)
        .show_legend(in_legend)
        .name(&name)
        .text_array(curve.points.iter().map(percentile).collect::<Vec<String>>())
        .hover_template("%{text}: %{y:.3~f} ms")
        .line(Line::new().color(curve.colour.clone()).width(2.0).dash(dash))
}

fn panel_title(title: &str, left: f64) -> Annotation {
    Annotation::new()
        .text(format!("<b>{title}</b>"))
        .x_ref("paper")
        .x(left)
        .x_anchor(Anchor::Left)
        .y_ref("paper")
        .y(1.0)
        .y_anchor(Anchor::Bottom)
        .show_arrow(false)
}

fn percentile_axis(rarest: f64) -> Axis {
    let known = [
        (1.0, "0"),
        (2.0, "50"),
        (10.0, "90"),
        (100.0, "99"),
        (1e3, "99.9"),
        (1e4, "99.99"),
        (1e5, "99.999"),
        (1e6, "99.9999"),
    ];
    let shown: Vec<(f64, &str)> = known.into_iter().filter(|(rarity, _)| *rarity <= rarest * 1.01).collect();
    let (values, labels): (Vec<f64>, Vec<&str>) = shown.into_iter().unzip();
    figure::axis("")
        .title(Title::with_text("Percentile (%)"))
        .type_(AxisType::Log)
        .range(vec![0.0, rarest.max(2.0).log10() * 1.01])
        .tick_mode(TickMode::Array)
        .tick_values(values)
        .tick_text(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;

    #[test]
    fn a_curve_rises_and_ends_where_ten_observations_lie_beyond() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|millis| histogram.record(Nanos::from_millis(millis)));
        let points = points(&histogram);
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let (rarity, milliseconds) = *points.last().unwrap();
        assert!(
            (rarity - 100.0).abs() < 1e-6 && (milliseconds - 990.0).abs() < 2.0,
            "{rarity} {milliseconds}"
        );
    }

    #[test]
    fn few_observations_make_no_curve() {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(1));
        assert!(points(&histogram).is_empty());
        assert!(points(&Histogram::new()).is_empty());
    }
}
