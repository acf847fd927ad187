//! What varies against what comes of it: the runs of a scenario's `matrix`, each combination with an interval over its repeats.

use crate::level::LevelSummary;
use crate::summary::Summary;
use plimsoll_model::{Metric, Validity, Verdict};
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

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
}

impl Taken {
    /// A run of the combination at that position.
    pub fn of(position: &[usize], summary: &Summary) -> Taken {
        Taken {
            position: position.to_vec(),
            run: summary.run.clone(),
            verdict: summary.verdict,
            level: deciding(&summary.levels, summary.load_line.as_ref().map(|line| line.level)).cloned(),
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
    /// The combinations that were run, in the order of the matrix.
    pub cells: Vec<Cell>,
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
}

/// What is measured of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Operations done per second: the work's throughput T.
    Throughput,
    /// Of the operations due in the hold, those that were done in it: the work's load P.
    Done,
    /// Due to done, the mean; absent in overload, where it depends on the length of the hold.
    PublishTime,
    /// Due to done, the median.
    PublishTimeMedian,
    /// Due to done, the 99 % quantile.
    PublishTimeP99,
    /// Due to delivered, the median.
    SubscribeTimeMedian,
    /// Due to delivered, the 99 % quantile.
    SubscribeTimeP99,
    /// Created to fetched or sent, the median.
    WaitTime,
    /// Fetched or sent to retrieved, the median.
    TransferTime,
    /// Retrieved to taken by the handler, the median.
    DispatchTime,
    /// Retrieved to done, the median.
    ProcessingTime,
    /// Processor time of the platform for each operation.
    PlatformCpu,
    /// Processor time of the load threads for each operation.
    GeneratorCpu,
}

impl Quantity {
    /// All, in the order of reports.
    pub const ALL: [Quantity; 13] = [
        Quantity::Throughput,
        Quantity::Done,
        Quantity::PublishTime,
        Quantity::PublishTimeMedian,
        Quantity::PublishTimeP99,
        Quantity::SubscribeTimeMedian,
        Quantity::SubscribeTimeP99,
        Quantity::WaitTime,
        Quantity::TransferTime,
        Quantity::DispatchTime,
        Quantity::ProcessingTime,
        Quantity::PlatformCpu,
        Quantity::GeneratorCpu,
    ];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::Throughput => "throughput",
            Quantity::Done => "done of what was due",
            Quantity::PublishTime => "publish time, mean",
            Quantity::PublishTimeMedian => "publish time, median",
            Quantity::PublishTimeP99 => "publish time, 99 %",
            Quantity::SubscribeTimeMedian => "subscribe time, median",
            Quantity::SubscribeTimeP99 => "subscribe time, 99 %",
            Quantity::WaitTime => "wait at the device, median",
            Quantity::TransferTime => "device to gateway, median",
            Quantity::DispatchTime => "wait at the dispatcher, median",
            Quantity::ProcessingTime => "processing time, median",
            Quantity::PlatformCpu => "platform's processor time an operation",
            Quantity::GeneratorCpu => "load threads' processor time an operation",
        }
    }

    /// In what it is told to programs.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::Throughput => "1/s",
            Quantity::Done => "1",
            _ => "s",
        }
    }

    /// Whether it is a time; else it is a rate or a share.
    pub const fn is_time(self) -> bool {
        !matches!(self, Quantity::Throughput | Quantity::Done)
    }

    fn of(self, level: &LevelSummary) -> Option<f64> {
        let life = level.event_life.as_ref();
        let done = level.achieved.filter(|rate| *rate > 0.0);
        match self {
            Quantity::Throughput => level.achieved,
            Quantity::Done => level.achieved_ratio(),
            Quantity::PublishTime => level.times[Metric::PublishTime].mean,
            Quantity::PublishTimeMedian => level.times[Metric::PublishTime].p50,
            Quantity::PublishTimeP99 => level.times[Metric::PublishTime].p99,
            Quantity::SubscribeTimeMedian => level.times[Metric::SubscribeTime].p50,
            Quantity::SubscribeTimeP99 => level.times[Metric::SubscribeTime].p99,
            Quantity::WaitTime => life?.wait.p50,
            Quantity::TransferTime => life?.transfer.p50,
            Quantity::DispatchTime => life?.dispatch.p50,
            Quantity::ProcessingTime => life?.processing.p50,
            Quantity::PlatformCpu => Some(level.platform_cpu? / done?),
            Quantity::GeneratorCpu => Some(level.generator.cpu_per_million? / 1e6),
        }
    }
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
        let notes = notes(&cells, taken);
        Sweep { schema: SCHEMA, name: name.to_owned(), origin, axes, along, cells, notes }
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
    of_line.or_else(|| levels.iter().rfind(|level| level.finished))
}

fn cell(position: &[usize], runs: &[&Taken]) -> Cell {
    let levels = runs.iter().filter_map(|run| run.level.as_ref());
    let counting: Vec<&LevelSummary> = levels.filter(|level| level.validity == Validity::Valid).collect();
    let quantities = Quantity::ALL.into_iter().filter_map(|quantity| {
        let values: Vec<f64> = counting.iter().filter_map(|level| quantity.of(level)).collect();
        // A mean over those runs that happen to have a value would be that of the mildest.
        let mean = crate::compare::mean(&values).filter(|_| values.len() == counting.len())?;
        let ci95 = student::mean_interval(&values).map(|interval| [interval.lo, interval.hi]);
        Some(Measured { quantity, values, mean, ci95 })
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
        runs: runs.iter().map(run).collect(),
        predicted: None,
        bound_by: None,
    }
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
        Taken { position: position.to_vec(), run: format!("{achieved}"), verdict: Verdict::Met, level }
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
