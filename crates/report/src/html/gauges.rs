//! What observers saw: one table for each of them, whatever it looks at.

use crate::html::level;
use crate::html::table::{Column, in_pieces, level_cell, number_cell};
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::gauges::GaugeSummary;
use plimsoll_analysis::summary::Summary;

/// Whether anything was seen in the hold of a level.
pub fn seen(summary: &Summary) -> bool {
    summary.gauges.iter().any(|gauge| !gauge.levels.is_empty())
}

/// A table for each observer: mean and largest value of each quantity in each level's hold.
pub fn body(summary: &Summary) -> Markup {
    let mut samplers: Vec<&str> = Vec::new();
    for gauge in summary.gauges.iter().filter(|gauge| !gauge.levels.is_empty()) {
        if !samplers.contains(&gauge.sampler.as_str()) {
            samplers.push(&gauge.sampler);
        }
    }
    html! {
        @for sampler in samplers {
            h3 { (sampler) }
            (of_sampler(summary, sampler))
        }
    }
}

fn of_sampler(summary: &Summary, sampler: &str) -> Markup {
    let gauges: Vec<&GaugeSummary> =
        summary.gauges.iter().filter(|gauge| gauge.sampler == sampler && !gauge.levels.is_empty()).collect();
    let titles: Vec<String> = gauges
        .iter()
        .flat_map(|gauge| ["mean", "max"].map(|part| format!("{} {} {part}", gauge.subject, gauge.quantity)))
        .collect();
    let columns: Vec<Column> = titles.iter().map(|title| Column::Number(title)).collect();
    let row = |level| {
        let cells = gauges.iter().flat_map(|gauge| cells(gauge, level));
        (level_cell(level), cells.map(number_cell).collect())
    };
    let rows: Vec<_> = level::rising(summary).into_iter().map(row).collect();
    in_pieces(Column::Text("Level"), &columns, &rows)
}

fn cells(gauge: &GaugeSummary, level: &plimsoll_analysis::level::LevelSummary) -> [Option<String>; 2] {
    let seen = gauge.levels.iter().find(|seen| seen.level == level.index);
    seen.map_or([None, None], |seen| [seen.mean.mean, seen.max].map(|value| Some(shown(value, &gauge.unit))))
}

/// A value in its unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "share" => format!("{:.1} %", value * 100.0),
        "bytes" => text::bytes(value),
        "seconds" => text::time(Some(value)),
        "1/s" => level::per_second(value),
        other => format!("{} {other}", text::rate(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An observer that nobody here has heard of is shown all the same.
    #[test]
    fn each_observer_has_a_table_of_its_own() {
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
        for part in
            ["<h3>pressure</h3>", "host io mean", "25.0 %", "<h3>unheard</h3>", "host of max", "50.0 %"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn values_are_shown_in_their_units() {
        let told = [(0.0312, "share"), (2048.0, "bytes"), (0.001, "seconds"), (12.0, "1/s"), (3.0, "pages")];
        let told = told.map(|(value, unit)| shown(value, unit));
        assert_eq!(told, ["3.1 %", "2.0 KiB", "1.00 ms", "12/s", "3 pages"]);
    }
}
