//! Processor and memory of the platform's components over the run.

use crate::chart::{Axis, Chart, INKS, Ink, MOST_POINTS, Panel, Series, Symbol};
use crate::html::table::{Column, number_cell, share_cell, table};
use crate::html::time_axis::RunTime;
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Nanos;
use plimsoll_model::record::{ComponentUsage, RunRecord};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// A reading as it is drawn; `None` in a gap.
struct Point {
    seconds: f64,
    /// Percent of one processor.
    cpu: Option<f64>,
    /// Resident memory in MiB.
    memory: Option<f64>,
}

/// Charts and table, or why there are none.
pub fn body(record: &RunRecord, summary: &Summary) -> Markup {
    if record.components.is_empty() {
        return html! {
            p.empty {
                "Nothing to show: the platform's processes were not observed. Plimsoll observes those that it starts, and those \
                 that the scenario lists under `platform.components`."
            }
        };
    }
    html! {
        (chart(record, summary).render())
        (totals(summary))
    }
}

fn totals(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Component"),
        Column::Number("CPU mean"),
        Column::Number("CPU max"),
        Column::Number("CPU idle before"),
        Column::Number("CPU idle after"),
        Column::Number("Waiting for CPU"),
        Column::Number("Kept by its quota"),
        Column::Number("Memory max"),
        Column::Number("Open files max"),
    ];
    let rows: Vec<Markup> = summary
        .components
        .iter()
        .map(|component| {
            html! {
                tr {
                    th scope="row" { (component.name) }
                    (share_cell(Some(component.cpu_mean)))
                    (share_cell(Some(component.cpu_max)))
                    (share_cell(component.idle.as_ref().map(|idle| idle.cpu_mean)))
                    (share_cell(component.idle_after.as_ref().map(|idle| idle.cpu_mean)))
                    (share_cell(component.run_delay.map(|wait| (wait - component.throttled).max(0.0))))
                    (share_cell(Some(component.throttled)))
                    (number_cell(Some(text::bytes(component.rss_max as f64))))
                    (number_cell(component.descriptors_max.map(|count| text::count(count as f64))))
                }
            }
        })
        .collect();
    table(&columns, &rows)
}

fn chart(record: &RunRecord, summary: &Summary) -> Chart {
    let time = RunTime::of(record);
    let components: Vec<(&str, Vec<Point>)> = summary
        .components
        .iter()
        .map(|component| {
            let own = record.components.iter().filter(|usage| usage.component == component.name);
            (component.name.as_str(), points(&own.collect::<Vec<_>>()))
        })
        .collect();
    let panel = |name: &str, value: fn(&Point) -> Option<f64>| {
        let values = components.iter().flat_map(|(_, points)| points).filter_map(value);
        let panel = Panel::new(time.axis(), Axis::linear(name, values)).height(190.0);
        let series = components.iter().enumerate().map(|(number, (name, points))| {
            let ink = if number < INKS { Ink::Curve(number) } else { Ink::Neutral };
            let points = points.iter().map(|point| (time.at(point.seconds), value(point))).collect();
            Series::new(name, ink).symbol(Symbol::of_curve(number)).line(points)
        });
        panel.regions(time.regions(record, summary)).all(series)
    };
    let caption = "Processor (100\u{a0}% is one whole processor) and resident memory of each component; shaded spans are the \
                   holds of the levels. Memory that keeps growing under a steady load, or a processor that stays full, \
                   points to what gives way.";
    Chart::new("chart-components", caption)
        .panel(panel("Processor (%)", |point| point.cpu))
        .panel(panel("Memory (MiB)", |point| point.memory))
}

/// The readings of one component, neighbours put together where there are too many. Where a reading does not begin
/// about where the last one ended, a gap stands between them.
fn points(readings: &[&ComponentUsage]) -> Vec<Point> {
    // Half, because a gap takes a point of its own.
    let together = readings.len().div_ceil(MOST_POINTS / 2).max(1);
    let mut points = Vec::new();
    let mut last: Option<Nanos> = None;
    for chunk in readings.chunks(together) {
        let Some((first, end)) = chunk.first().zip(chunk.last()) else { continue };
        let begin = first.at - first.window;
        if last.is_some_and(|last| begin - last > first.window) {
            points.push(Point { seconds: begin.as_secs_f64(), cpu: None, memory: None });
        }
        let cpu: Nanos = chunk.iter().map(|usage| usage.cpu).sum();
        let window: Nanos = chunk.iter().map(|usage| usage.window).sum();
        let memory = chunk.iter().map(|usage| usage.rss).max().map(|bytes| bytes as f64 / MEBIBYTE);
        points.push(Point {
            seconds: end.at.as_secs_f64(),
            cpu: (window > Nanos::ZERO).then(|| cpu.0 as f64 / window.0 as f64 * 100.0),
            memory,
        });
        last = Some(end.at);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(second: i64) -> ComponentUsage {
        ComponentUsage {
            component: "broker".into(),
            at: Nanos::from_secs(second),
            window: Nanos::from_secs(1),
            cpu: Nanos::from_millis(500),
            rss: 3 << 20,
            descriptors: Some(9),
            ..ComponentUsage::default()
        }
    }

    fn of_seconds(seconds: impl Iterator<Item = i64>) -> Vec<Point> {
        let readings: Vec<ComponentUsage> = seconds.map(reading).collect();
        points(&readings.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_pause_between_readings_stays_a_gap() {
        let cpu: Vec<_> = of_seconds([1, 2, 9].into_iter()).iter().map(|point| point.cpu).collect();
        assert_eq!(cpu, [Some(50.0), Some(50.0), None, Some(50.0)]);
    }

    #[test]
    fn a_long_run_has_a_bounded_number_of_points() {
        let points = of_seconds(1..=86_400);
        assert!(points.len() <= MOST_POINTS, "{}", points.len());
        assert!(points.iter().all(|point| point.cpu.is_some_and(|cpu| (cpu - 50.0).abs() < 1e-9)));
    }
}
