//! From what a run recorded to what it means: levels with their intervals, whose limit it was, the load line, the
//! verdict. Pure: the same record gives the same summary.

pub mod early_stop;
pub mod level;
pub mod load_line;
mod memory;
pub mod objective;
pub mod search;
pub mod summary;
pub mod validity;
pub mod wire;

use plimsoll_model::record::{RunEnd, RunRecord};
use plimsoll_model::{Histogram, Metric, Verdict};
use summary::{ComponentSummary, Generator, Summary, TimeSummary};

/// The version of the summary's schema; frozen as 1 once the engine's truth tests stand.
pub const SCHEMA: u32 = 0;

/// The summary of a run, as far as it was recorded.
pub fn summarize(record: &RunRecord) -> Summary {
    let mut levels: Vec<_> =
        record.levels.iter().map(|level| level::summarize(level, &record.terms)).collect();
    for (level, own) in levels.iter_mut().zip(&record.levels) {
        level.platform_memory = memory::at_end_of_hold(record, own);
    }
    let search = record.terms.search.map(|terms| search::Search::over(terms, &record.levels, &levels));
    let finding = search.map(|search| search.finding());
    let load_line = match &finding {
        Some(finding) => load_line::of_search(&levels, finding),
        None => load_line::find(&levels),
    };
    let (verdict, reason) = match &record.end {
        Some(RunEnd::Failed(reason)) => (Verdict::Failed, reason.clone()),
        Some(RunEnd::Interrupted) => (Verdict::Interrupted, "stopped by the user".to_owned()),
        None => {
            (Verdict::Interrupted, "the run has no end: it was killed, or it is still going on".to_owned())
        }
        Some(RunEnd::Complete) => {
            let demanded = record.terms.objectives.load_line;
            load_line::judge(&levels, load_line.as_ref(), finding.as_ref(), demanded)
        }
    };
    let mut lateness = Histogram::new();
    for sample in record.levels.iter().flat_map(|level| level.samples.iter().flatten()) {
        if let Some(histogram) = sample.histograms.get(&Metric::Lateness) {
            lateness.merge(histogram);
        }
    }
    let connect_time = record.set_up.histograms.get(&Metric::ConnectTime);
    Summary {
        schema: SCHEMA,
        run: record.id.clone(),
        name: record.name.clone(),
        verdict,
        reason,
        load_line,
        notes: finding
            .iter()
            .map(|finding| finding.story(levels.len()))
            .chain(early_stop::story(record, &levels))
            .collect(),
        search: finding,
        objectives: record.terms.objectives.level.iter().map(ToString::to_string).collect(),
        generator: Generator::over(&levels, TimeSummary::of(&[&lateness], true)),
        connect_time: TimeSummary::of(&connect_time.into_iter().collect::<Vec<_>>(), true),
        wire: wire::WireSummary::of(&record.set_up.counts, |metric| {
            record.set_up.histograms.get(&metric).cloned().unwrap_or_default()
        }),
        memory_per_connection: memory::per_connection(&levels),
        components: ComponentSummary::of(record),
        provenance: serde_json::to_value(&record.provenance).unwrap_or_default(),
        levels,
    }
}
