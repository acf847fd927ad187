//! Runs of one schedule: their figures by the time of day.

use crate::text::{time, wrapped};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Metric;

/// A run of a schedule.
pub struct Occurrence {
    /// When it began, RFC 3339.
    pub started: String,
    /// Its result.
    pub summary: Summary,
}

impl Occurrence {
    /// Hours since midnight in this host's time zone, and the date with the time as text; `None` for a text that is no
    /// time.
    pub fn clock(&self) -> Option<(f64, String)> {
        let begun = self.started.parse::<Timestamp>().ok()?.to_zoned(TimeZone::system());
        let hours = f64::from(begun.hour()) + f64::from(begun.minute()) / 60.0;
        Some((hours, begun.strftime("%Y-%m-%d %H:%M").to_string()))
    }
}

/// Occurrences by the time of day.
pub(crate) fn by_time_of_day(runs: &[Occurrence]) -> Vec<(f64, String, &Summary)> {
    let mut sorted: Vec<(f64, String, &Summary)> = runs
        .iter()
        .filter_map(|run| {
            let (hours, told) = run.clock()?;
            Some((hours, told, &run.summary))
        })
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    sorted
}

/// The levels of all runs by the time of day, for the terminal.
pub fn render(runs: &[Occurrence]) -> String {
    let mut out = format!(
        "\nby time of day\n{:>16} {:>16}{:>9}{:>9}{:>9}{:>9}  verdict\n",
        "begun", "level", "pub p50", "pub p99", "sub p50", "network"
    );
    for (_, told, summary) in by_time_of_day(runs) {
        if summary.levels.is_empty() {
            out += &wrapped(&format!("{told}: {}", summary.reason), "").join("\n");
            out.push('\n');
        }
        for level in &summary.levels {
            let row = format!(
                "{told:>16} {:>16}{:>9}{:>9}{:>9}{:>9}  {}",
                level.load,
                time(level.times[Metric::PublishTime].p50),
                time(level.times[Metric::PublishTime].p99),
                time(level.times[Metric::SubscribeTime].p50),
                time(level.wire.network_rtt.p50),
                level.verdict.name(),
            );
            out += row.trim_end();
            out.push('\n');
        }
    }
    out
}
