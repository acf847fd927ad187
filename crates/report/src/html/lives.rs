//! Where events spent their lives at a gateway and before it, level by level.

use crate::html::level;
use crate::html::table::{Column, level_cell, number_cell, table, time_interval_cell};
use crate::text::{self, count, floor_percent};
use maud::{Markup, html};
use plimsoll_analysis::event_life::{ClockSummary, EventLife};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_analysis::time_summary::TimeSummary;
use plimsoll_model::Metric;

/// Whether a gateway told of events.
pub fn told(summary: &Summary) -> bool {
    summary.levels.iter().any(|level| level.event_life.is_some())
}

/// A group of rows for each level, and how well the gateway's clock is known.
pub fn body(summary: &Summary) -> Markup {
    let columns = [
        Column::Text("Level"),
        Column::Number("Done"),
        Column::Text("Time"),
        Column::Number("n"),
        Column::Number("Mean"),
        Column::Number("p50"),
        Column::Number("p99"),
    ];
    let lives = || summary.levels.iter().filter_map(|level| Some((level, level.event_life.as_ref()?)));
    let rows: Vec<Markup> = lives().flat_map(|(level, life)| rows(level, life)).collect();
    let clocks = lives().filter_map(|(level, life)| Some((level, life.clock?)));
    let least_known = clocks.max_by(|(_, a), (_, b)| a.offset_within.total_cmp(&b.offset_within));
    html! {
        (table(&columns, &rows))
        p.note {
            "Done is the load P: of the events due in the hold, those that were done in it. An event waits at its device \
             until it is fetched or sent, travels until the gateway retrieves it, waits at the dispatcher until the handler \
             takes it, and is done; processing begins with retrieval and so holds the dispatcher's part. Publish time is from its \
             creation to the end of its work, or to the answer to the device. Below a value stands its 95\u{a0}% interval."
        }
        @if let Some((level, clock)) = least_known { p.note { (clock_line(level, &clock)) } }
    }
}

fn rows(level: &LevelSummary, life: &EventLife) -> Vec<Markup> {
    let parts = [
        ("at device", &life.wait),
        ("transfer", &life.transfer),
        ("dispatch", &life.dispatch),
        ("processing", &life.processing),
        ("publish time", &level.times[Metric::PublishTime]),
    ];
    let row = |(place, (name, time)): (usize, (&str, &TimeSummary))| {
        let first = place == 0;
        let done = life.load.filter(|_| first).map(|load| format!("{} %", floor_percent(load.min(1.0))));
        html! {
            tr.group[first] {
                @if first { (level_cell(level)) (number_cell(done)) } @else { td {} td {} }
                td.nowrap { (name) }
                td.num { (count(time.n as f64)) }
                (time_interval_cell(time.mean, time.ci95))
                @for q in [0.5, 0.99] {
                    @let (value, interval) = time.quantile(q);
                    (time_interval_cell(value, interval))
                }
            }
        }
    };
    parts.into_iter().enumerate().map(row).collect()
}

/// How well times that begin by one clock and end by the other are known.
fn clock_line(level: &LevelSummary, clock: &ClockSummary) -> String {
    let time = |seconds: f64| text::time(Some(seconds.abs()));
    let side = if clock.offset < 0.0 { "behind" } else { "ahead of" };
    let drift = match clock.drift_within {
        Some(within) => format!("its drift is {:.1} ± {within:.1} parts per million", clock.drift),
        None => "its drift is not known".to_owned(),
    };
    let readings = match clock.readings {
        1 => "1 reading".to_owned(),
        readings => format!("{} readings", count(readings as f64)),
    };
    format!(
        "The gateway's clock was least known at {}: by {readings} it was {} {side} ours, ± {}, and {drift}. Transfer, and the publish \
         time where no answer marks its end, are no more exact than that; the other times each have one clock.",
        level::name(level),
        time(clock.offset),
        time(clock.offset_within),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Load;

    #[test]
    fn a_clock_is_told_with_what_is_not_known_of_it() {
        let level = LevelSummary { load: Load::Rate(50.0), ..LevelSummary::default() };
        let mut clock = ClockSummary {
            offset: -0.0012,
            offset_within: 0.00005,
            drift: -2.52,
            drift_within: Some(0.52),
            readings: 12,
            ..ClockSummary::default()
        };
        let told = clock_line(&level, &clock);
        assert!(
            told.contains("at 50/s: by 12 readings it was 1.20 ms behind ours, ± 50.0 µs, and"),
            "{told}"
        );
        assert!(told.contains("its drift is -2.5 ± 0.5 parts per million"), "{told}");
        (clock.offset, clock.drift_within, clock.readings) = (0.5, None, 1);
        let told = clock_line(&level, &clock);
        assert!(told.contains("by 1 reading it was 500 ms ahead of ours"), "{told}");
        assert!(told.contains("its drift is not known"), "{told}");
    }
}
