//! Latency over the run: quantiles of each time sample by sample, and its heat map.

use crate::chart::{Axis, Chart, Heat, Ink, Limit, Panel, Path, Series, Symbol};
use crate::html::pieces::{self, Piece};
use crate::html::time_axis::RunTime;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::quantile_of;
use plimsoll_model::objective::Subject;
use plimsoll_model::record::RunRecord;
use plimsoll_model::{Histogram, Metric, Nanos};

/// The times that are drawn over the run.
const TIMES: [(Metric, &str); 3] = [
    (Metric::PublishTime, "Publish time"),
    (Metric::SubscribeTime, "Subscribe time"),
    (Metric::QueryTime, "Query time"),
];
/// How far above a limit the axis reaches, so that its name fits.
const ROOM_FOR_NAME: f64 = 2.5;
/// Rows of a heat map for each power of ten.
const ROWS: i32 = 8;
/// Most rows of a heat map.
const MOST_ROWS: i32 = 40;
/// Shorter times, in milliseconds, are in the lowest row.
const LEAST: f64 = 1e-4;

/// One time over the run: its pieces, level by level.
struct Seen {
    metric: Metric,
    name: &'static str,
    levels: Vec<Vec<Piece>>,
}

impl Seen {
    fn of(record: &RunRecord, (metric, name): (Metric, &'static str)) -> Option<Seen> {
        let count = record.levels.len();
        let levels: Vec<Vec<Piece>> =
            record.levels.iter().map(|level| pieces::pieces(level, count, Some(metric))).collect();
        levels.iter().flatten().any(|piece| !piece.times.is_empty()).then_some(Seen { metric, name, levels })
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.levels.iter().flatten()
    }
}

/// Charts of latency; nothing where nothing was acknowledged, delivered or answered.
pub fn charts(record: &RunRecord, summary: &Summary) -> Markup {
    let seen: Vec<Seen> = TIMES.into_iter().filter_map(|time| Seen::of(record, time)).collect();
    let leading = seen.iter().find(|seen| seen.metric == summary.leading_time).or(seen.first());
    let Some(leading) = leading else { return html! {} };
    let time = RunTime::of(record);
    let caption = "Latency by the time at which messages were due, of those that came to their end: half took no longer than p50, 99 \
                   of 100 no longer than p99, none longer than max. Shaded spans are the holds of the levels; between them \
                   nothing is measured. Samples are put together, for all three, where one has too few messages for p99.";
    let panels = seen.iter().map(|seen| curves(record, summary, time, seen));
    let latency = panels.fold(Chart::new("chart-latency", caption), Chart::panel);
    html! {
        (latency.render())
        (heat_map(record, summary, time, leading).render())
    }
}

fn curves(record: &RunRecord, summary: &Summary, time: RunTime, seen: &Seen) -> Panel {
    // All three are of the same messages: a p99 of several samples above the max of one would be nonsense.
    let levels: Vec<_> = seen.levels.iter().map(|level| (level, same_messages(level))).collect();
    let over_run = |of: &dyn Fn(&Histogram) -> Option<Nanos>| -> Path {
        let mut points: Path = Vec::new();
        for (level, groups) in &levels {
            let own = pieces::over_time(groups, of);
            let own = own.into_iter().map(|(at, value)| (time.at(at), value.filter(|ms| *ms > 0.0)));
            points.extend(own);
            let end = level.last().map_or(0.0, |piece| piece.end);
            points.push((time.at(end), None));
        }
        if points.iter().all(|(_, value)| value.is_none()) { Vec::new() } else { points }
    };
    let shown = [
        ("p50", over_run(&|times| quantile_of(times, 0.5))),
        ("p99", over_run(&|times| quantile_of(times, 0.99))),
        ("max", over_run(&Histogram::max)),
    ];
    let limits = limits(record, seen.metric);
    let values = shown.iter().flat_map(|(_, points)| points).filter_map(|(_, value)| *value);
    // The name of a limit stands above its line, and needs room below the names of levels.
    let values = values.chain(limits.iter().map(|limit| limit.at * ROOM_FOR_NAME));
    let y = Axis::log(&format!("{} (ms)", seen.name), values);
    let panel =
        Panel::new(time.axis(), y).height(210.0).regions(time.regions(record, summary)).limits(limits);
    let inks = [Ink::Curve(0), Ink::Curve(1), Ink::Curve(3)];
    let series = shown.into_iter().zip(inks).enumerate().map(|(number, ((name, points), ink))| {
        Series::new(name, ink).symbol(Symbol::of_curve(number)).line(points)
    });
    panel.all(series)
}

/// The pieces of a level, put together until each has enough observations for p99; where the level has too few, for p50.
fn same_messages(level: &[Piece]) -> Vec<Option<Piece>> {
    let groups = pieces::enough_for(level, 0.99);
    if groups.iter().any(Option::is_some) { groups } else { pieces::enough_for(level, 0.5) }
}

/// The objectives of a time, those of one population apart: the curves are those of all.
fn limits(record: &RunRecord, metric: Metric) -> Vec<Limit> {
    let own = record.terms.objectives.level.iter().filter(|objective| {
        let is_of = matches!(objective.subject, Subject::Quantile(of, _) | Subject::Mean(of) if of == metric);
        objective.population.is_none() && is_of
    });
    own.map(|objective| Limit {
        at: objective.bound * 1e3,
        label: objective.to_string(),
        ink: Ink::Class("missed"),
    })
    .collect()
}

fn heat_map(record: &RunRecord, summary: &Summary, time: RunTime, seen: &Seen) -> Chart {
    let all = || seen.pieces().map(|piece| &piece.times).filter(|times| !times.is_empty());
    let milliseconds = |of: fn(&Histogram) -> Option<Nanos>| -> Vec<f64> {
        all().filter_map(of).map(|time| (time.as_secs_f64() * 1e3).max(LEAST)).collect()
    };
    let low = milliseconds(Histogram::min).into_iter().fold(f64::INFINITY, f64::min);
    let high = milliseconds(Histogram::max).into_iter().fold(low, f64::max);
    let rows_for = |rows: i32| {
        let row = |value: f64, round: fn(f64) -> f64| round(value.log10() * f64::from(rows)) as i32;
        (row(low, f64::floor), row(high, f64::ceil).max(row(low, f64::floor) + 1), rows)
    };
    let fits = [ROWS, ROWS / 2, ROWS / 4].map(rows_for);
    let (first, last, rows) =
        fits.into_iter().find(|(first, last, _)| last - first <= MOST_ROWS).unwrap_or(fits[2]);
    let edges: Vec<f64> = (first..=last).map(|row| 10f64.powf(f64::from(row) / f64::from(rows))).collect();
    let columns = seen
        .pieces()
        .filter(|piece| piece.counts.is_some())
        .map(|piece| (time.at(piece.begin), time.at(piece.end), counts(&piece.times, &edges)));
    let heat = Heat { counted: "messages", columns: columns.collect(), edges: edges.clone() };
    let y = Axis::log(&format!("{} (ms)", seen.name), edges.iter().copied());
    let panel = Panel::new(time.axis(), y).height(230.0).regions(time.regions(record, summary)).heat(heat);
    let caption = format!(
        "How the {} spreads: each cell counts the messages that were due in a sample and took that long. A single band is steady. \
         A second band, or scattered cells above the first, are messages that waited.",
        seen.name.to_lowercase()
    );
    Chart::new("chart-heat", &caption).panel(panel)
}

/// Observations by the rows of a heat map; nothing where there are none.
fn counts(times: &Histogram, edges: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; edges.len().saturating_sub(1)];
    for (nanos, count) in times.buckets() {
        let milliseconds = nanos as f64 / 1e6;
        let row = edges
            .iter()
            .rposition(|edge| *edge <= milliseconds)
            .unwrap_or(0)
            .min(counts.len().saturating_sub(1));
        if let Some(cell) = counts.get_mut(row) {
            *cell += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_observation_is_in_one_row() {
        let mut times = Histogram::new();
        for micros in [1, 500, 1500, 15_000, 99_000_000] {
            times.record(Nanos::from_micros(micros));
        }
        assert_eq!(counts(&times, &[1.0, 10.0, 100.0]), [3, 2]);
        assert!(counts(&times, &[]).is_empty());
    }
}
