//! What observers saw: a table for each component, for the host and for the observers themselves, and charts of what matters most
//! over the load.

use crate::chart::{Axis, Chart, INKS, Ink, Interval, Mark, Panel, Series};
use crate::html::level;
use crate::html::table::{Column, in_pieces, number_cell, percent, range};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::gauges::{GaugeLevel, GaugeSummary, REPORTED};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;

/// Quantities that have a chart over the load: sampler, quantity, title of the axis.
const CHARTS: [(&str, &str, &str); 8] = [
    ("threads", "runnable threads", "Runnable threads"),
    ("threads", "context switches", "Context switches (/s)"),
    ("tcp", "established", "Established connections"),
    ("tcp", "unread", "Not read (bytes)"),
    ("tcp", "received", "Received (bytes/s)"),
    ("tcp", "sent", "Sent (bytes/s)"),
    ("host", "active memory", "Active memory (bytes)"),
    ("host", "run queue", "Run queue"),
];

/// So many metrics of the platform itself have a chart; the tables have all.
const MOST_METRICS: usize = 12;

/// Whether anything was seen in the hold of a level.
pub fn seen(summary: &Summary) -> bool {
    summary.gauges.iter().any(|gauge| !gauge.levels.is_empty())
}

/// Charts, then a table for each of what was observed: each quantity in each level's hold.
pub fn body(summary: &Summary) -> Markup {
    let seen: Vec<&GaugeSummary> = summary.gauges.iter().filter(|gauge| !gauge.levels.is_empty()).collect();
    let mut subjects: Vec<&str> = Vec::new();
    for gauge in &seen {
        if !subjects.contains(&gauge.subject.as_str()) {
            subjects.push(&gauge.subject);
        }
    }
    html! {
        p {
            "Means over the readings in the hold of each level, with their 95\u{a0}% intervals, and the largest reading. \
             Readings come once a second, less often where they are expensive. Metrics of the platform itself come as often as the scenario or the profile asks for them."
        }
        @if summary.levels.len() > 1 {
            @for (place, (sampler, quantity, title)) in CHARTS.iter().enumerate() {
                @let own: Vec<&GaugeSummary> =
                    seen.iter().copied().filter(|gauge| gauge.sampler == *sampler && gauge.quantity == *quantity).collect();
                @if !own.is_empty() { (chart(place, title, summary, &own).render()) }
            }
            @for (place, own) in named_metrics(&seen).iter().enumerate() {
                @let title = format!("{}{}", own[0].quantity, in_unit(&own[0].unit));
                (chart(CHARTS.len() + place, &title, summary, own).render())
            }
        }
        @for subject in subjects {
            h3 { (subject) }
            (of_subject(summary, &seen, subject))
        }
    }
}

/// Metrics that the platform itself tells, by their names and units: as many as a reader looks at.
fn named_metrics<'a>(seen: &[&'a GaugeSummary]) -> Vec<Vec<&'a GaugeSummary>> {
    let mut all: Vec<Vec<&GaugeSummary>> = Vec::new();
    for gauge in seen.iter().filter(|gauge| gauge.sampler == REPORTED) {
        let is_alike = |known: &Vec<&GaugeSummary>| {
            known.iter().any(|known| (&known.quantity, &known.unit) == (&gauge.quantity, &gauge.unit))
        };
        match all.iter().position(is_alike) {
            Some(place) => all[place].push(gauge),
            None if all.len() < MOST_METRICS => all.push(vec![gauge]),
            None => {}
        }
    }
    all
}

/// The unit behind the title of an axis.
fn in_unit(unit: &str) -> String {
    match unit {
        "count" => String::new(),
        "1/s" => " (/s)".to_owned(),
        other => format!(" ({other})"),
    }
}

/// Bytes in the unit that suits the largest value: the title with it, and its size.
fn in_units(title: &str, highest: f64) -> (String, f64) {
    let units = [("GiB", 1024f64.powi(3)), ("MiB", 1024f64.powi(2)), ("KiB", 1024.0)];
    let suits = units.into_iter().find(|(_, size)| title.contains("(bytes") && highest >= *size);
    suits.map_or_else(|| (title.to_owned(), 1.0), |(unit, size)| (title.replace("bytes", unit), size))
}

/// A quantity of each component over the load.
fn chart(place: usize, title: &str, summary: &Summary, gauges: &[&GaugeSummary]) -> Chart {
    let levels = level::rising(summary);
    let means = gauges.iter().flat_map(|gauge| &gauge.levels).map(|seen| seen.values.mean);
    let (title, unit) = &in_units(title, means.fold(0.0, f64::max));
    let points_of = |gauge: &GaugeSummary| -> Vec<Interval> {
        let of = |level: &&LevelSummary| {
            let GaugeLevel { values, .. } = of_level(gauge, level)?;
            let ends = values.interval.map(|ends| ends.map(|end| end / unit));
            Some(Interval { at: level.load.amount(), value: values.mean / unit, ends })
        };
        levels.iter().filter_map(of).collect()
    };
    let x = Axis::fitting(level::load_title(summary), levels.iter().map(|level| level.load.amount()));
    let tops = gauges
        .iter()
        .flat_map(|gauge| points_of(gauge))
        .map(|point| point.ends.map_or(point.value, |ends| ends[1]));
    let y = Axis::linear(title, tops.chain([0.0]));
    let series = gauges.iter().enumerate().map(|(number, gauge)| {
        let (points, ink) = (points_of(gauge), Ink::Curve(number % INKS));
        let path = points.iter().map(|point| (point.at, Some(point.value))).collect();
        Series::new(&gauge.subject, ink).line(path).with(Mark::Intervals { points, of: "95 % interval" })
    });
    let caption =
        format!("{title} over the load of the levels. The bars are the 95\u{a0}% intervals of the means.");
    Chart::new(&format!("chart-gauge-{place}"), &caption).panel(Panel::new(x, y).height(220.0).all(series))
}

fn of_level<'a>(gauge: &'a GaugeSummary, level: &LevelSummary) -> Option<&'a GaugeLevel> {
    gauge.levels.iter().find(|seen| seen.level == level.index)
}

fn of_subject(summary: &Summary, seen: &[&GaugeSummary], subject: &str) -> Markup {
    let levels = level::rising(summary);
    let own: Vec<&&GaugeSummary> = seen.iter().filter(|gauge| gauge.subject == subject).collect();
    let was_idle = own.iter().any(|gauge| gauge.idle.is_some());
    let names: Vec<String> = levels.iter().map(|level| level::name(level).to_string()).collect();
    let is_left = own.iter().any(|gauge| gauge.idle_after.is_some());
    let idle = was_idle.then_some(Column::Number("without load"));
    let after = is_left.then_some(Column::Number("after the load"));
    let columns: Vec<Column> =
        idle.into_iter().chain(names.iter().map(|name| Column::Number(name))).chain(after).collect();
    let row = |gauge: &&&GaugeSummary| {
        let head =
            html! { th.wraps scope="row" { (gauge.sampler) ": " (gauge.quantity) (of_what(&gauge.unit)) } };
        let idle = gauge.idle.as_ref().map(|idle| shown(idle.mean, &gauge.unit));
        let idle = was_idle.then(|| number_cell(idle));
        let cells = levels.iter().map(|level| cell(gauge, level));
        let after = gauge.idle_after.as_ref().map(|after| shown(after.mean, &gauge.unit));
        let after = is_left.then(|| number_cell(after));
        (head, idle.into_iter().chain(cells).chain(after).collect())
    };
    let rows: Vec<_> = own.iter().map(row).collect();
    in_pieces(Column::Text("Quantity"), &columns, &rows)
}

/// The mean of a quantity in a level, with its interval and the largest value below it.
fn cell(gauge: &GaugeSummary, level: &LevelSummary) -> Markup {
    let Some(GaugeLevel { values, max, .. }) = of_level(gauge, level) else { return number_cell(None) };
    let of = |value: f64| shown(value, &gauge.unit);
    html! {
        td.num {
            (of(values.mean))
            @if let Some([lo, hi]) = values.interval.filter(|[lo, hi]| lo < hi) {
                span.interval { (range(&of(lo), &of(hi))) }
                span.interval { "max\u{a0}" (of(*max).replace(' ', "\u{a0}")) }
            }
        }
    }
}

/// Of what percents are, where it is not evident.
fn of_what(unit: &str) -> &'static str {
    if unit == "processors" { " (% of a processor)" } else { "" }
}

/// A value in its unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "share" | "processors" => percent(value),
        "bytes" => text::bytes(value),
        "seconds" => text::time(Some(value)),
        "1/s" => level::per_second(value),
        "bytes/s" => format!("{}/s", text::bytes(value)),
        "count" => text::rate(value),
        other => format!("{} {other}", text::rate(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An observer that nobody here has heard of is shown all the same.
    #[test]
    fn what_an_observer_sees_stands_below_what_it_looks_at() {
        let mut record = crate::html::synthetic::record();
        let start = record.levels[0].start.clone();
        let gauge = |sampler: &str, quantity: &str, value: f64| plimsoll_model::record::Gauge {
            at: start.hold_start + start.hold,
            sampler: sampler.into(),
            subject: "host".into(),
            quantity: quantity.into(),
            unit: "share".into(),
            value,
        };
        record.gauges = vec![gauge("pressure", "io", 0.25), gauge("unheard", "of", 0.5)];
        let summary = plimsoll_analysis::summarize(&record);
        assert!(seen(&summary));
        let told = body(&summary).into_string();
        for part in ["<h3>host</h3>", "pressure: io", "25 %", "unheard: of", "50 %"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn large_numbers_of_bytes_are_drawn_in_larger_units() {
        assert_eq!(in_units("Received (bytes/s)", 3e6), ("Received (MiB/s)".to_owned(), 1024.0 * 1024.0));
        assert_eq!(in_units("Run queue", 3e6), ("Run queue".to_owned(), 1.0));
    }

    #[test]
    fn values_are_shown_in_their_units() {
        let told = [(0.0312, "share"), (2048.0, "bytes"), (0.001, "seconds"), (12.0, "1/s"), (3.0, "pages")];
        let told = told.map(|(value, unit)| shown(value, unit));
        assert_eq!(told, ["3.1 %", "2.0 KiB", "1.00 ms", "12/s", "3 pages"]);
    }
}
