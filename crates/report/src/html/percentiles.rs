//! Percentile curves per level, from the merged histograms of its samples.

use crate::chart::{Axis, Chart, Ink, Mark, Panel, Scale, Series, Symbol};
use crate::html::level;
use maud::{Markup, html};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::{Histogram, Metric};

/// Points of one curve.
const POINTS: usize = 80;
/// Most levels that are drawn.
const MOST_LEVELS: usize = 12;
/// A curve ends where fewer observations than this lie beyond it, as quantiles do everywhere.
const FEWEST_BEYOND: f64 = 10.0;

/// One level's curve: `1 / (1 - q)` and the quantile in milliseconds.
struct Curve<'a> {
    level: &'a LevelSummary,
    position: f64,
    points: Vec<(f64, f64)>,
}

/// The chart.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    let levels = drawn(summary);
    let panels: Vec<(&str, Vec<Curve>)> =
        [("Publish time", Metric::PublishTime), ("Subscribe time", Metric::SubscribeTime)]
            .into_iter()
            .map(|(title, metric)| (title, curves(record, &levels, metric)))
            .filter(|(_, curves)| !curves.is_empty())
            .collect();
    if panels.is_empty() {
        return html! { p.empty { "No level has enough observations for a curve." } };
    }
    html! {
        (chart(&panels).render())
        @if levels.len() < summary.levels.len() {
            p.note { (levels.len()) " of " (summary.levels.len()) " levels are drawn." }
        }
    }
}

/// The levels of which curves are drawn, by rising load: the lowest, the highest, and some evenly between them.
fn drawn(summary: &Summary) -> Vec<&LevelSummary> {
    let levels = level::rising(summary);
    let count = levels.len().min(MOST_LEVELS);
    let last = levels.len().saturating_sub(1);
    let place = |number: usize| number * last / count.saturating_sub(1).max(1);
    (0..count).filter_map(|number| levels.get(place(number)).copied()).collect()
}

fn curves<'a>(record: &RunRecord, levels: &[&'a LevelSummary], metric: Metric) -> Vec<Curve<'a>> {
    let last = levels.len().saturating_sub(1).max(1) as f64;
    let curve = |(position, level): (usize, &&'a LevelSummary)| {
        let of_record = record.levels.iter().find(|record| record.start.index == level.index)?;
        let points = points(&merged(of_record, metric));
        (points.len() > 1).then_some(Curve { level, position: position as f64 / last, points })
    };
    levels.iter().enumerate().filter_map(curve).collect()
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

/// Side by side over one axis of times, so that heights compare.
fn chart(panels: &[(&str, Vec<Curve>)]) -> Chart {
    let all = || panels.iter().flat_map(|(_, curves)| curves).flat_map(|curve| &curve.points);
    let rarest = all().map(|(rarity, _)| *rarity).fold(1.0, f64::max);
    let y_axis =
        |name: &str| Axis::log(&format!("{name} (ms)"), all().map(|(_, milliseconds)| *milliseconds));
    let chart = Chart::new(
        "chart-percentiles",
        "How slow the slowest are: each step to the right is ten times rarer, and a curve that rises steeply has a long tail. A \
         curve ends where fewer than ten observations lie beyond it. Dashed curves belong to levels that are not met.",
    );
    let panel = |(title, curves): &(&str, Vec<Curve>)| {
        let panel = Panel::new(percentile_axis(rarest), y_axis(title)).height(330.0);
        panel.all(curves.iter().enumerate().map(series))
    };
    panels.iter().map(panel).fold(chart, Chart::panel).beside()
}

/// A curve with a colour and a mark by the place of its level.
fn series((number, curve): (usize, &Curve)) -> Series {
    let dashed = curve.level.verdict != LevelVerdict::Met;
    let points = curve.points.iter().map(|(rarity, milliseconds)| (*rarity, Some(*milliseconds))).collect();
    let series = Series::new(&level::name(curve.level), Ink::Ramp(curve.position));
    series.symbol(Symbol::of_curve(number)).with(Mark::Line { points, dashed })
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
    let shown = known.into_iter().filter(|(rarity, _)| *rarity <= rarest * 1.01);
    let ticks = shown.map(|(rarity, label)| (rarity, label.to_owned())).collect();
    let scale = Scale::Log { low: 1.0, high: rarest.max(2.0) * 1.01 };
    Axis::ticked("Percentile (%)", scale, ticks).reading(|rarity| (1.0 - 1.0 / rarity) * 100.0)
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

    #[test]
    fn of_many_levels_some_are_drawn_with_the_lowest_and_the_highest() {
        let mut record = crate::html::synthetic::record();
        let mut summary = plimsoll_analysis::summarize(&record);
        assert_eq!(drawn(&summary).len(), 6);
        record.levels.truncate(1);
        let one = summary.levels[0].clone();
        let level = |number: u32| LevelSummary {
            load: plimsoll_model::Load::Rate(f64::from(number)),
            index: number as u16,
            ..one.clone()
        };
        summary.levels = (1..=40).map(level).collect();
        let amounts: Vec<f64> = drawn(&summary).iter().map(|level| level.load.amount()).collect();
        assert_eq!((amounts.len(), amounts[0], amounts[11]), (MOST_LEVELS, 1.0, 40.0));
    }
}
