//! What varies against what comes of it: the runs of a scenario's `matrix`, each combination with an interval over its repeats.

mod changes;
mod quantity;
mod worth;

use crate::cost::CostSummary;
use crate::headroom::Headroom;
use crate::level::LevelSummary;
use crate::limits::Limit;
use crate::load_line::LoadLine;
use crate::summary::Summary;
use plimsoll_model::{Validity, Verdict};
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

pub use changes::{Change, Effect};
pub use quantity::Quantity;
pub use worth::Worth;

/// Version of the schema of a sweep.
pub const SCHEMA: u32 = 0;

/// Last parts of keys whose values are names, though they look like numbers: QoS 2 is not twice QoS 1.
const NAMES: [&str; 2] = ["qos", "version"];
/// Runs that a note names; the files have all of them.
const MOST_NAMED: usize = 5;

/// A run of one combination.
pub struct Taken {
    /// The index of its value on each axis.
    pub position: Vec<usize>,
    /// Its id in the run store.
    pub run: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// The level that says what it found; `None` where none was run.
    pub level: Option<LevelSummary>,
    /// Its load line.
    pub line: Option<LoadLine>,
    /// The load line that the scenario demands.
    pub demanded: Option<f64>,
    /// What limits its load.
    pub limits: Vec<Limit>,
    /// What its platform costs.
    pub cost: Option<CostSummary>,
    /// How much room what limits has, and what comes next.
    pub headroom: Option<Headroom>,
}

impl Taken {
    /// A run of the combination at that position.
    pub fn of(position: &[usize], summary: &Summary) -> Taken {
        Taken {
            position: position.to_vec(),
            run: summary.run.clone(),
            verdict: summary.verdict,
            level: deciding(&summary.levels, summary.load_line.as_ref().map(|line| line.level)).cloned(),
            line: summary.load_line.clone(),
            demanded: summary.demanded_load_line,
            limits: summary.limits.clone(),
            cost: summary.cost.clone(),
            headroom: Headroom::of(summary),
        }
    }
}

/// A key of the scenario that varied.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Axis {
    /// The key.
    pub key: String,
    /// Its values, as written.
    pub values: Vec<String>,
}

impl Axis {
    /// The key's last part, which is what people call it.
    pub fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }

    /// The numbers of its values, with their unit; `None` where they are names, or not of one kind.
    pub fn numbers(&self) -> Option<(Vec<f64>, &str)> {
        plimsoll_scenario::numbers(&self.values).filter(|_| !NAMES.contains(&self.name()))
    }
}

/// The runs of a matrix.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Sweep {
    /// Version of this schema.
    pub schema: u32,
    /// The scenario's name.
    pub name: String,
    /// Where it comes from, and what its runs have in common.
    pub origin: Origin,
    /// What varied.
    pub axes: Vec<Axis>,
    /// Which of the axes charts have along their foot: the first of numbers, else the first.
    pub along: usize,
    /// What load lines are amounts of, for people; null where no run has one.
    pub line_unit: Option<String>,
    /// The combinations that were run, in the order of the matrix.
    pub cells: Vec<Cell>,
    /// What each single change did to the load line: combinations that differ by neighbouring values of one key.
    pub changes: Vec<Change>,
    /// What combinations sustain for their money; null where none has a price and a load line.
    pub worth: Option<Worth>,
    /// What the reader must know, for people.
    pub notes: Vec<String>,
}

/// Where a sweep comes from, and what its runs have in common.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Origin {
    /// Version of Plimsoll.
    pub plimsoll: String,
    /// When the runs were put together, RFC 3339 in UTC.
    pub written: String,
    /// Whether the quick form of the scenario was run, which tries it out.
    pub quick: bool,
    /// The platform's profile; null where it varies.
    pub platform: Option<String>,
    /// Load before each hold that is not counted, in seconds; null where it varies.
    pub warm_up: Option<f64>,
    /// Measured time of each level, in seconds; null where it varies.
    pub hold: Option<f64>,
}

/// One combination.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Cell {
    /// The index of its value on each axis.
    pub position: Vec<usize>,
    /// Its runs.
    pub runs: Vec<RunOfCell>,
    /// What was measured of the runs that count: what each of them has.
    pub quantities: Vec<Measured>,
    /// What limits the load, what most runs name first; empty where none names anything.
    pub limits: Vec<NamedLimit>,
    /// The throughput that a model of the platform predicts, per second; null where there is none.
    pub predicted: Option<f64>,
    /// What bounds it according to that model.
    pub bound_by: Option<String>,
}

/// One run of a combination.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunOfCell {
    /// Its id in the run store.
    pub run: String,
    /// Its verdict.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub verdict: Verdict,
    /// The index of the level that counts: that of the load line, else the last; null where no level was run.
    pub level: Option<u16>,
    /// Whose limit that level measured; null as there. A run counts where it is `valid`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub validity: Option<Validity>,
}

/// What limits the load of a combination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct NamedLimit {
    /// What it is, for people.
    pub name: String,
    /// How many runs name it.
    pub runs: usize,
}

/// A quantity of a combination.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Measured {
    /// Which one.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub quantity: Quantity,
    /// The value of each run that counts.
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Its 95 % interval over the runs by Student's t; null with fewer than two.
    pub ci95: Option<[f64; 2]>,
    /// Whether it may be more: the load line of some run lies above all levels that count.
    pub at_least: bool,
}

impl Cell {
    /// A quantity, where it was measured.
    pub fn measured(&self, quantity: Quantity) -> Option<&Measured> {
        self.quantities.iter().find(|measured| measured.quantity == quantity)
    }
}

impl Sweep {
    /// Puts runs of a matrix together.
    pub fn of(name: &str, origin: Origin, axes: Vec<Axis>, taken: &[Taken]) -> Sweep {
        let mut cells: Vec<(&Vec<usize>, Vec<&Taken>)> = Vec::new();
        for run in taken {
            match cells.iter_mut().find(|(position, _)| **position == run.position) {
                Some((_, runs)) => runs.push(run),
                None => cells.push((&run.position, vec![run])),
            }
        }
        cells.sort_by_key(|(position, _)| *position);
        let cells: Vec<Cell> = cells.into_iter().map(|(position, runs)| cell(position, &runs)).collect();
        let varies = |axis: &&Axis| axis.values.len() > 1;
        let along = axes
            .iter()
            .position(|axis| varies(&axis) && axis.numbers().is_some())
            .or_else(|| axes.iter().position(|axis| varies(&axis)))
            .unwrap_or(0);
        let (mut notes, changes) = (notes(&cells, taken), changes::of(&axes, &cells, taken));
        notes.extend(changes::note(&changes));
        let worth = worth::of(&cells, taken);
        let line_unit = taken.iter().find_map(|run| Some(run.line.as_ref()?.unit().to_owned()));
        let name = name.to_owned();
        Sweep { schema: SCHEMA, name, origin, axes, along, line_unit, cells, changes, worth, notes }
    }

    /// The axes beside that along the foot which have several values: each combination of theirs is a curve.
    pub fn curves_by(&self) -> Vec<usize> {
        let others = self
            .axes
            .iter()
            .enumerate()
            .filter(|(index, axis)| *index != self.along && axis.values.len() > 1);
        others.map(|(index, _)| index).collect()
    }

    /// The curves: the cells that differ along the foot alone, with what they have in common.
    pub fn curves(&self) -> Vec<(Vec<usize>, Vec<&Cell>)> {
        let by = self.curves_by();
        let mut curves: Vec<(Vec<usize>, Vec<&Cell>)> = Vec::new();
        for cell in &self.cells {
            let own: Vec<usize> = by.iter().filter_map(|axis| cell.position.get(*axis).copied()).collect();
            match curves.iter_mut().find(|(common, _)| *common == own) {
                Some((_, cells)) => cells.push(cell),
                None => curves.push((own, vec![cell])),
            }
        }
        curves
    }

    /// What a curve is called: its values, as written.
    pub fn values_of(&self, common: &[usize]) -> Vec<&str> {
        let values = self.curves_by().into_iter().zip(common);
        values.filter_map(|(axis, value)| Some(self.axes.get(axis)?.values.get(*value)?.as_str())).collect()
    }
}

/// The level that says what a run found: that of its load line, else the last that came to its end.
fn deciding(levels: &[LevelSummary], line: Option<u16>) -> Option<&LevelSummary> {
    let of_line = levels.iter().find(|level| Some(level.index) == line);
    of_line.or_else(|| levels.iter().rfind(|level| level.finished && !level.falling))
}

fn cell(position: &[usize], runs: &[&Taken]) -> Cell {
    let levels = runs.iter().filter_map(|run| Some((*run, run.level.as_ref()?)));
    let counting: Vec<(&Taken, &LevelSummary)> =
        levels.filter(|(_, level)| level.validity == Validity::Valid).collect();
    let quantities = Quantity::ALL.into_iter().filter_map(|quantity| {
        let values: Vec<f64> = counting.iter().filter_map(|(run, level)| quantity.of(run, level)).collect();
        // A mean over those runs that happen to have a value would be that of the mildest.
        let mean = crate::compare::mean(&values).filter(|_| values.len() == counting.len())?;
        let ci95 = student::mean_interval(&values).map(|interval| [interval.lo, interval.hi]);
        let is_bound = |run: &Taken| run.line.as_ref().is_some_and(|line| line.at_least);
        let at_least = quantity.may_be_more() && counting.iter().any(|(run, _)| is_bound(run));
        Some(Measured { quantity, values, mean, ci95, at_least })
    });
    let run = |taken: &&Taken| RunOfCell {
        run: taken.run.clone(),
        verdict: taken.verdict,
        level: taken.level.as_ref().map(|level| level.index),
        validity: taken.level.as_ref().map(|level| level.validity),
    };
    Cell {
        position: position.to_vec(),
        quantities: quantities.collect(),
        limits: limits(runs),
        runs: runs.iter().map(run).collect(),
        predicted: None,
        bound_by: None,
    }
}

/// What runs name as their limit, the surest of each.
fn limits(runs: &[&Taken]) -> Vec<NamedLimit> {
    let mut named: Vec<NamedLimit> = Vec::new();
    for name in runs.iter().filter_map(|run| run.limits.first()).map(Limit::in_short) {
        match named.iter_mut().find(|known| known.name == name) {
            Some(known) => known.runs += 1,
            None => named.push(NamedLimit { name, runs: 1 }),
        }
    }
    named.sort_by(|one, other| other.runs.cmp(&one.runs).then_with(|| one.name.cmp(&other.name)));
    named
}

fn notes(cells: &[Cell], taken: &[Taken]) -> Vec<String> {
    let runs = || cells.iter().flat_map(|cell| &cell.runs);
    let all = runs().count();
    let mut notes = Vec::new();
    let mut left_out = |is_it: &dyn Fn(&RunOfCell) -> bool, why: &str| {
        let ids: Vec<&str> = runs().filter(|run| is_it(run)).map(|run| run.run.as_str()).collect();
        let verb = if ids.len() == 1 { "is" } else { "are" };
        let more = if ids.len() > MOST_NAMED { ", ..." } else { "" };
        let shown = ids.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
        if !ids.is_empty() {
            let count = ids.len();
            notes.push(format!(
                "{count} of {all} runs {verb} left out: {why} (`plimsoll show`: {shown}{more})"
            ));
        }
    };
    for (bound, why) in [
        (Validity::GeneratorBound, "the load threads were the limit"),
        (Validity::ReceiverBound, "receiving was the limit"),
        (Validity::HostBound, "this host was the limit"),
        (Validity::ClockBound, "the clocks of workers left an objective open"),
    ] {
        left_out(&|run| run.validity == Some(bound), why);
    }
    left_out(&|run| run.level.is_none(), "nothing was measured");
    let overloaded = taken.iter().filter_map(|run| run.level.as_ref());
    let overloaded = overloaded.filter(|level| level.overload && level.validity == Validity::Valid).count();
    if overloaded > 0 {
        let verb = if overloaded == 1 { "was" } else { "were" };
        notes.push(format!(
            "{overloaded} of {all} runs {verb} in overload, less than 99 % done: times grow with the length of the hold there"
        ));
    }
    if !cells.is_empty() && cells.iter().all(|cell| cell.runs.len() < 2) {
        notes.push("each combination was run once, so there are no intervals: --repeat 3 gives them".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in which nothing was measured.
    pub(super) fn bare(position: &[usize]) -> Taken {
        Taken {
            position: position.to_vec(),
            run: String::new(),
            verdict: Verdict::Met,
            level: None,
            line: None,
            demanded: None,
            limits: Vec::new(),
            cost: None,
            headroom: None,
        }
    }

    fn axes() -> Vec<Axis> {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        vec![
            axis("platform.with.handler", &["serial", "cooperative"]),
            axis("gateway.delay", &["0ms", "10ms"]),
        ]
    }

    fn level(index: u16, achieved: f64, validity: Validity) -> LevelSummary {
        LevelSummary { index, achieved: Some(achieved), validity, finished: true, ..LevelSummary::default() }
    }

    fn taken(position: [usize; 2], achieved: f64, validity: Validity) -> Taken {
        let level = Some(level(1, achieved, validity));
        Taken { run: format!("{achieved}"), level, ..bare(&position) }
    }

    #[test]
    fn the_level_of_the_load_line_counts_else_the_last_that_ended() {
        let mut levels = [1.0, 2.0, 3.0].map(|achieved| level(achieved as u16, achieved, Validity::Valid));
        let achieved =
            |line, levels: &[LevelSummary]| deciding(levels, line).and_then(|level| level.achieved);
        assert_eq!(achieved(Some(2), &levels), Some(2.0));
        assert_eq!(achieved(None, &levels), Some(3.0));
        levels[2].finished = false;
        assert_eq!(achieved(None, &levels), Some(2.0));
        assert_eq!(achieved(None, &[]), None);
    }

    #[test]
    fn levels_of_qos_are_names() {
        let axis = |key: &str| Axis { key: key.into(), values: vec!["0".into(), "1".into()] };
        assert_eq!(axis("mqtt.qos").numbers(), None);
        assert_eq!(axis("population.devices").numbers(), Some((vec![0.0, 1.0], "")));
        let axes = vec![axis("mqtt.qos"), axis("population.devices")];
        assert_eq!(Sweep::of("sweep", Origin::default(), axes, &[]).along, 1);
    }

    #[test]
    fn repeats_of_a_combination_have_an_interval_and_curves_run_along_the_axis_of_numbers() {
        let valid = Validity::Valid;
        let runs = [
            taken([1, 1], 40.0, valid),
            taken([0, 0], 10.0, valid),
            taken([0, 0], 14.0, valid),
            taken([0, 0], 99.0, Validity::HostBound),
            taken([0, 1], 20.0, valid),
        ];
        let sweep = Sweep::of("sweep", Origin::default(), axes(), &runs);
        assert_eq!(sweep.along, 1);
        assert_eq!(sweep.axes[1].numbers(), Some((vec![0.0, 10.0], "ms")));
        let first = sweep.cells[0].measured(Quantity::Throughput).unwrap();
        assert_eq!((first.mean, first.values.len()), (12.0, 2), "valid runs alone");
        // Student's t with one degree of freedom: 12.706 times the standard error, 2.
        assert!((first.ci95.unwrap()[1] - (12.0 + 12.706 * 2.0)).abs() < 0.01);
        let curves = sweep.curves();
        let names: Vec<(Vec<&str>, usize)> =
            curves.iter().map(|(common, cells)| (sweep.values_of(common), cells.len())).collect();
        assert_eq!(names, [(vec!["serial"], 2), (vec!["cooperative"], 1)]);

        assert_eq!(sweep.notes, ["1 of 5 runs is left out: this host was the limit (`plimsoll show`: 99)"]);
    }
}
