//! Runs side by side: what differs between platforms, mappings or settings, with the run as the unit.
//!
//! Two candidates differ only where repeated runs of both, taken in turns, say so with a 95 % interval: what one run tells
//! of the other platform includes whatever else went on at the time.

mod labels;

use crate::level::LevelSummary;
use crate::summary::Summary;
use labels::Named;
use plimsoll_model::{Metric, Validity};
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the schema of a comparison.
pub const SCHEMA: u32 = 0;

/// A run to be compared.
pub struct Compared<'a> {
    /// What tells candidates apart: runs with equal text here are repeats of one.
    pub key: &'a str,
    /// What its platform is called.
    pub platform: String,
    /// Its settings, by keys of the scenario.
    pub settings: BTreeMap<String, String>,
    /// When it began; texts are in the order of times.
    pub started: &'a str,
    /// Its result.
    pub summary: &'a Summary,
    /// What its platform profile says beside numbers.
    pub qualities: BTreeMap<String, String>,
}

/// Candidates side by side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Comparison {
    /// Version of this schema.
    pub schema: u32,
    /// The candidates; differences count from the first.
    pub candidates: Vec<Candidate>,
    /// What is compared, level by level.
    pub rows: Vec<Row>,
    /// What the reader must know, for people.
    pub notes: Vec<String>,
}

/// What is compared: a platform, a mapping, a setting.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Candidate {
    /// Its name.
    pub label: String,
    /// Its runs, in the order of time.
    pub runs: Vec<String>,
    /// What its platform profile says beside numbers.
    pub qualities: BTreeMap<String, String>,
}

/// One quantity of one level.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Row {
    /// The level, `None` for what belongs to the whole run.
    pub level: Option<String>,
    /// The quantity.
    pub quantity: String,
    /// What its values are.
    pub unit: Unit,
    /// For each candidate, the value of each of its runs that has one.
    pub values: Vec<Vec<f64>>,
    /// For each candidate but the first, how it differs from the first.
    pub differences: Vec<Difference>,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A fraction of one.
    Share,
}

/// How a candidate differs from the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Difference {
    /// 95 % interval of its mean minus the first's; null where one has fewer than two runs.
    pub ci95: Option<[f64; 2]>,
    /// What can be said.
    pub finding: Conclusion,
}

/// What can be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Higher than the first.
    Higher,
    /// Lower than the first.
    Lower,
    /// The interval has zero in it.
    NotDistinguishable,
    /// One of them was run once.
    RunOnce,
    /// All runs of one came before all of the other: whatever changed meanwhile may be the difference.
    NotInTurns,
    /// Some runs have no such value, as where a level was not valid.
    NotInAllRuns,
    /// One of them has no such value, or none that could be compared.
    Absent,
}

/// The mean of some values, `None` of none.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 95 % interval of the mean of some values by Student's t; `None` of fewer than two.
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    student::mean_interval(values).map(|interval| [interval.lo, interval.hi])
}

type Quantity = (&'static str, Unit, fn(&LevelSummary) -> Option<f64>);

/// What is compared of each level, in the order of reports.
const QUANTITIES: [Quantity; 11] = [
    ("achieved", Unit::PerSecond, |level| level.achieved),
    ("publish time, median", Unit::Seconds, |level| level.times[Metric::PublishTime].p50),
    ("publish time, 99 %", Unit::Seconds, |level| level.times[Metric::PublishTime].p99),
    ("subscribe time, median", Unit::Seconds, |level| level.times[Metric::SubscribeTime].p50),
    ("subscribe time, 99 %", Unit::Seconds, |level| level.times[Metric::SubscribeTime].p99),
    ("query time, median", Unit::Seconds, |level| level.times[Metric::QueryTime].p50),
    ("lost of the expected deliveries", Unit::Share, |level| {
        (level.expected_deliveries > 0).then(|| level.lost as f64 / level.expected_deliveries as f64)
    }),
    ("content of a message", Unit::Bytes, |level| level.marshalled_size),
    ("message as a packet", Unit::Bytes, |level| level.publication_size),
    ("sent and received per message", Unit::Bytes, |level| {
        (level.sent > 0).then(|| (level.bytes_sent + level.bytes_received) as f64 / level.sent as f64)
    }),
    ("the same with all headers", Unit::Bytes, |level| level.sizes.data_per_message),
];

/// Compares runs. The first candidate is that of the first run given.
pub fn compare(runs: &[Compared<'_>]) -> Comparison {
    let mut groups: Vec<(&str, Vec<&Compared<'_>>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(key, _)| *key == run.key) {
            Some((_, group)) => group.push(run),
            None => groups.push((run.key, vec![run])),
        }
    }
    for (_, group) in &mut groups {
        group.sort_by_key(|run| run.started);
    }
    let groups: Vec<Vec<&Compared<'_>>> = groups.into_iter().map(|(_, group)| group).collect();
    let mut rows = vec![row(&groups, None, "load line", Unit::PerSecond, |run| {
        run.summary.load_line.as_ref().and_then(|line| line.rate)
    })];
    // It falls on the levels that were run and is often only a bound: no interval tells how far two are apart.
    for row in &mut rows {
        row.differences.fill(Difference { ci95: None, finding: Conclusion::Absent });
    }
    for label in levels(&groups) {
        for (quantity, unit, of) in QUANTITIES {
            let value = |run: &Compared<'_>| valid(run, &label).and_then(of);
            rows.push(row(&groups, Some(label.clone()), quantity, unit, value));
        }
        for population in populations(&groups, &label) {
            for (quantity, unit, of) in QUANTITIES {
                let value = |run: &Compared<'_>| {
                    let level = valid(run, &label)?;
                    of(&level.populations.iter().find(|own| own.name == population)?.figures)
                };
                let label = format!("{label}, {population}");
                rows.push(row(&groups, Some(label), quantity, unit, value));
            }
        }
    }
    rows.retain(|row| row.values.iter().any(|values| !values.is_empty()));
    Comparison { schema: SCHEMA, candidates: candidates(&groups), notes: notes(&groups, &rows), rows }
}

fn candidates(groups: &[Vec<&Compared<'_>>]) -> Vec<Candidate> {
    let named = groups.iter().filter_map(|group| group.first()).map(|run| Named {
        platform: &run.platform,
        settings: &run.settings,
        name: &run.summary.name,
    });
    let labels = labels::of(&named.collect::<Vec<_>>());
    let told = groups.iter().zip(labels).map(|(group, label)| Candidate {
        label,
        runs: group.iter().map(|run| run.summary.run.clone()).collect(),
        qualities: group.first().map(|run| run.qualities.clone()).unwrap_or_default(),
    });
    told.collect()
}

/// The populations of a level of all runs, in the order in which they are met first.
fn populations(groups: &[Vec<&Compared<'_>>], label: &str) -> Vec<String> {
    let levels = groups.iter().flatten().flat_map(|run| &run.summary.levels);
    let mut names: Vec<String> = Vec::new();
    for own in levels.filter(|level| level.load.to_string() == label).flat_map(|level| &level.populations) {
        if !names.contains(&own.name) {
            names.push(own.name.clone());
        }
    }
    names
}

/// The level of a run by its load: its last valid hold, since a level that decided nothing is held again.
fn valid<'a>(run: &Compared<'a>, label: &str) -> Option<&'a LevelSummary> {
    let mut holds = run.summary.levels.iter().rev().filter(|level| !level.falling);
    holds.find(|level| level.load.to_string() == label && level.validity == Validity::Valid)
}

/// The levels of all runs, in the order in which they are met first.
fn levels(groups: &[Vec<&Compared<'_>>]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for level in groups.iter().flatten().flat_map(|run| &run.summary.levels) {
        let label = level.load.to_string();
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

fn row(
    groups: &[Vec<&Compared<'_>>],
    level: Option<String>,
    quantity: &str,
    unit: Unit,
    value: impl Fn(&Compared<'_>) -> Option<f64>,
) -> Row {
    let values: Vec<Vec<f64>> =
        groups.iter().map(|group| group.iter().filter_map(|run| value(run)).collect()).collect();
    let starts = |group: &Vec<&Compared<'_>>| group.iter().map(|run| run.started.to_owned()).collect();
    let sides: Vec<Side> =
        groups.iter().zip(&values).map(|(group, values)| Side { starts: starts(group), values }).collect();
    let differences = sides.iter().skip(1).filter_map(|side| Some(difference(sides.first()?, side)));
    let differences = differences.collect();
    Row { level, quantity: quantity.to_owned(), unit, values, differences }
}

/// One candidate's runs: when they began, and the values of those that have one.
struct Side<'a> {
    starts: Vec<String>,
    values: &'a [f64],
}

impl Side<'_> {
    /// Whether each run has a value: those that have none lack it for a reason that a mean of the others hides.
    fn is_whole(&self) -> bool {
        self.starts.len() == self.values.len()
    }
}

fn difference(first: &Side<'_>, other: &Side<'_>) -> Difference {
    let interval = student::difference_interval(first.values, other.values);
    let ci95 = interval.map(|interval| [interval.lo, interval.hi]);
    let finding = match interval {
        _ if first.values.is_empty() || other.values.is_empty() => Conclusion::Absent,
        _ if !first.is_whole() || !other.is_whole() => Conclusion::NotInAllRuns,
        None => Conclusion::RunOnce,
        Some(_) if !are_in_turns(&first.starts, &other.starts) => Conclusion::NotInTurns,
        Some(interval) if interval.lo > 0.0 => Conclusion::Higher,
        Some(interval) if interval.hi < 0.0 => Conclusion::Lower,
        Some(_) => Conclusion::NotDistinguishable,
    };
    Difference { ci95, finding }
}

/// Whether runs of both took turns: in the order of time they change sides at least as often as the rarer side has runs.
fn are_in_turns(one: &[String], other: &[String]) -> bool {
    let mut all: Vec<(&String, bool)> = one.iter().map(|start| (start, false)).collect();
    all.extend(other.iter().map(|start| (start, true)));
    all.sort();
    let changes = all.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    changes >= one.len().min(other.len())
}

fn notes(groups: &[Vec<&Compared<'_>>], rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let found = |finding| rows.iter().any(|row| row.differences.iter().any(|one| one.finding == finding));
    if groups.len() < 2 {
        notes
            .push("all runs are repeats of one scenario on one platform: there is nothing to compare".into());
    }
    if found(Conclusion::RunOnce) {
        notes.push(
            "what was run once has no interval, so no difference is claimed: give the scenario files instead of runs, \
             with --repeat 5, to run them in turns"
                .into(),
        );
    }
    if found(Conclusion::NotInTurns) {
        notes.push(
            "the candidates did not take turns: what else changed meanwhile may be the difference, so none is \
             claimed"
                .into(),
        );
    }
    let mut left_out = Vec::new();
    for run in groups.iter().flatten() {
        let levels = run.summary.levels.iter().filter(|level| valid(run, &level.load.to_string()).is_none());
        left_out.extend(levels.map(|level| format!("{} of {}", level.load, run.summary.run)));
    }
    // A level that decided nothing is held again.
    left_out.dedup();
    if !left_out.is_empty() {
        notes.push(format!("left out, because they measured this host: {}", left_out.join(", ")));
    }
    let without: Vec<&str> = groups
        .iter()
        .flatten()
        .filter(|run| run.summary.load_line.is_none())
        .map(|run| run.summary.run.as_str())
        .collect();
    if !without.is_empty() {
        notes.push(format!("without a load line: {}", without.join(", ")));
    }
    // What never varies differs for certain, and not by chance.
    let by_chance = |one: &&Difference| one.ci95.is_some_and(|[low, high]| high > low);
    let compared: Vec<&Difference> = rows.iter().flat_map(|row| &row.differences).filter(by_chance).collect();
    let claims =
        compared.iter().filter(|one| matches!(one.finding, Conclusion::Higher | Conclusion::Lower)).count();
    if claims > 0 {
        notes.push(format!(
            "{} comparisons are of what varies: if nothing differed, one in twenty would still be found different; \
             {claims} were",
            compared.len()
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
