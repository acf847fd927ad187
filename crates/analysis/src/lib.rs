//! From what a run recorded to what it means: levels with their intervals, whose limit it was, the load line, the
//! verdict. Pure: the same record gives the same summary.

mod achieved;
mod blame;
pub mod capacity_plan;
pub mod censored;
mod clear;
pub mod clocks;
pub mod closed_bounds;
pub mod compare;
pub mod cost;
pub mod curve;
pub mod dissection;
pub mod duplicates;
pub mod early_stop;
pub mod energy;
pub mod event_life;
pub mod exchange;
pub mod experiment;
pub mod faults;
pub mod gauges;
pub mod generator;
pub mod growth;
pub mod headroom;
pub mod history;
pub mod hysteresis;
mod inference;
pub mod laws;
pub mod learning;
pub mod level;
pub mod limits;
pub mod load_line;
pub mod management;
mod measured;
mod memory;
pub mod objective;
pub mod processor_bound;
mod processors;
pub mod rejudged;
mod sample_tests;
pub mod scalability;
pub mod search;
pub mod sizes;
mod stall;
mod standing;
mod starvation;
pub mod summary;
pub mod sweep;
pub mod time_summary;
pub mod usage;
pub mod validity;
mod verdict;
mod warming;
pub mod wire;

use cost::CostSummary;
use dissection::DissectionSummary;
use experiment::observed::Observed;
use level::{LevelSummary, LevelVerdict};
use load_line::LoadLine;
pub use measured::summarize as summarize_level;
use plimsoll_model::record::{RunEnd, RunRecord, Terms};
use plimsoll_model::{Histogram, Metric, Validity, Verdict};

use summary::{ComponentSummary, Summary};
use time_summary::TimeSummary;

/// The version of the summary's schema. Version 1 is frozen: keys may be added to it, none is taken away or changes its
/// meaning or unit (docs/metrics.md).
pub const SCHEMA: u32 = 1;

/// The summary of a run, as far as it was recorded.
pub fn summarize(record: &RunRecord) -> Summary {
    // One that another version wrote differently is left out.
    let dissection: Option<DissectionSummary> =
        record.dissection.as_ref().and_then(|text| serde_json::from_str(text).ok());
    let levels = levels(record, dissection.as_ref());
    let search = record.terms.search.map(|terms| search::Search::over(terms, &record.levels, &levels));
    let finding = search.map(|search| search.finding());
    let load_line = match &finding {
        Some(finding) => load_line::of_search(&levels, finding),
        None => load_line::find(&levels),
    };
    let pairs = record.levels.iter().map(|level| &level.start).zip(&levels);
    let pairs: Vec<_> = pairs.filter(|(start, _)| !start.falling).collect();
    let laws = laws::of(&pairs, &record.components, &record.gauges);
    let load_line = load_line.map(|line| load_line::bounded(line, &laws, &levels));
    let by_levels = limits::of_levels(&levels, record);
    let (experiment, limits) = match experiment::of(record, dissection.as_ref()) {
        Some((mut experiment, mut limits)) => {
            let dissection = dissection.as_ref();
            experiment.confront(
                &mut limits,
                &Observed { by_levels, laws: &laws, dissection, experiment: &record.experiment },
            );
            (Some(experiment), limits)
        }
        // What an experiment does not say is not said by less.
        None => (None, by_levels),
    };
    let (verdict, reason) = match &experiment {
        Some(experiment) if levels.is_empty() && record.end == Some(RunEnd::Complete) => {
            experiment.judge(&limits)
        }
        // Nothing but an experiment, which came to no part that it could slow.
        None if levels.is_empty()
            && !record.experiment.is_empty()
            && record.end == Some(RunEnd::Complete) =>
        {
            (Verdict::Invalid, experiment::why_nothing(&record.provenance.notes))
        }
        _ => judge(record, &levels, load_line.as_ref(), finding.as_ref()),
    };
    let over_levels = |metric| {
        let mut merged = Histogram::new();
        let samples = record.levels.iter().flat_map(|level| level.samples.iter().flatten());
        samples.filter_map(|sample| sample.histograms.get(&metric)).for_each(|seen| merged.merge(seen));
        TimeSummary::of(&[&merged], true)
    };
    let connect_time = record.set_up.histograms.get(&Metric::ConnectTime);
    let gauges = gauges::of(&record.gauges, &record.levels);
    let soaks = growth::of(&record.levels, &record.components, &record.gauges);
    let energy = energy::of(&gauges, &levels, load_line.as_ref());
    let hysteresis = hysteresis::of(record, &levels);
    let cost = record.terms.cost.as_ref().map(|cost| CostSummary::of(cost, load_line.as_ref()));
    Summary {
        schema: SCHEMA,
        run: record.id.clone(),
        name: record.name.clone(),
        verdict,
        reason,
        load_line,
        demanded_load_line: record.terms.objectives.load_line,
        notes: finding
            .iter()
            .flat_map(|finding| [Some(finding.story(levels.len())), finding.early()])
            .flatten()
            .chain(early_stop::story(record, &levels))
            .chain(early_stop::skipped(record, &levels))
            .chain(duplicates::story(&levels))
            .chain(growth::stories(&soaks))
            .chain(hysteresis.iter().map(|found| found.told.clone()))
            .chain(record.provenance.notes.iter().cloned())
            .collect(),
        search: finding,
        leading_time: record.terms.leading_time(),
        objectives: record.terms.objectives.level.iter().map(ToString::to_string).collect(),
        generator: summary::generator_over(
            &levels,
            [Metric::Lateness, Metric::AtWorkWhenLate, Metric::ReceiverLag].map(over_levels),
        ),
        connect_time: TimeSummary::of(&connect_time.into_iter().collect::<Vec<_>>(), true),
        wire: wire::WireSummary::of(&record.set_up.counts, |metric| {
            record.set_up.histograms.get(&metric).cloned().unwrap_or_default()
        }),
        memory_per_connection: memory::per_connection(&levels),
        components: ComponentSummary::of(record),
        gauges,
        closed_bounds: closed_bounds::of(&levels, &laws),
        laws,
        scalability: scalability::of(&levels, record.provenance.seed),
        limits,
        experiment,
        cost,
        energy,
        soaks,
        hysteresis,
        dissection,
        provenance: serde_json::to_value(&record.provenance).unwrap_or_default(),
        levels,
    }
}

/// The levels, each with what its times rose with and who is to blame for it.
fn levels(record: &RunRecord, capture: Option<&DissectionSummary>) -> Vec<LevelSummary> {
    let summarize = |level| measured::summarize(level, &record.terms, &record.components);
    let mut levels: Vec<_> = record.levels.iter().map(summarize).collect();
    // A run ends within its last level alone: where others follow, it was resumed.
    let earlier = levels.iter_mut().rev().skip(1);
    earlier.filter(|level| level.verdict == LevelVerdict::Unfinished).for_each(interrupted);
    let trips = if record.terms.qos == 2 { 2 } else { 1 };
    let Terms { local, relayed, ref objectives, datagrams, .. } = record.terms;
    inference::infer(&mut levels, inference::Setting { trips, local, objectives });
    let refused = levels.iter().map(|level| level.refused).sum();
    for (level, own) in levels.iter_mut().zip(&record.levels) {
        let components = record.components.as_slice();
        let evidence = blame::Evidence {
            record: own,
            components,
            capture,
            refused,
            local,
            relayed,
            datagrams,
            trips,
            objectives,
        };
        level.blame = blame::of(level, &evidence).map(|blame| blame.beside_faults(level));
    }
    levels
}

/// Makes a level invalid within which the run was interrupted.
fn interrupted(level: &mut LevelSummary) {
    level.verdict = LevelVerdict::Invalid;
    level.validity = Validity::Interrupted;
    level.reasons = vec!["the run was interrupted within this level, and resumed after it".to_owned()];
    faults::judge_validity(level);
}

/// The verdict on a run, and why.
fn judge(
    record: &RunRecord,
    levels: &[LevelSummary],
    line: Option<&LoadLine>,
    finding: Option<&search::Finding>,
) -> (Verdict, String) {
    match &record.end {
        Some(RunEnd::Failed(reason) | RunEnd::WorkerLost(reason)) => (Verdict::Failed, reason.clone()),
        Some(RunEnd::Interrupted) => (Verdict::Interrupted, "stopped by the user".to_owned()),
        Some(RunEnd::Killed) => (
            Verdict::Interrupted,
            "it was killed, or its host went down: this is what it had measured".to_owned(),
        ),
        None if record.goes_on => {
            (Verdict::Running, "the run still goes on: this is what it has so far".to_owned())
        }
        None => (
            Verdict::Interrupted,
            "the run has no end: it was killed, or it still goes on on another host".to_owned(),
        ),
        Some(RunEnd::PlatformDied(death)) => {
            (Verdict::Missed, load_line::of_the_dead(death, levels, &record.experiment, line))
        }
        Some(RunEnd::Complete) => load_line::judge(levels, line, finding, record.terms.objectives.load_line),
    }
}
