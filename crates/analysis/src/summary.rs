//! The machine-readable result. Times are in seconds, sizes in bytes, rates per second; null where a thing does
//! not exist. Its JSON Schema is `docs/schema/summary.schema.json`.

use crate::closed_bounds::ClosedBounds;
use crate::cost::CostSummary;
use crate::curve::CurveSummary;
use crate::dissection::DissectionSummary;
use crate::energy::EnergySummary;
use crate::experiment::Experiment;
use crate::gauges::GaugeSummary;
use crate::generator::Generator;
use crate::growth::Soak;
use crate::hysteresis::Hysteresis;
use crate::laws::ComponentLaws;
use crate::level::{LevelSummary, LevelVerdict};
use crate::limits::Limit;
use crate::load_line::{self, LoadLine};
use crate::scalability::Scalability;
use crate::search::Finding;
use crate::time_summary::{TimeSummary, observed};
use crate::usage;
use crate::wire::WireSummary;
use plimsoll_model::record::{ComponentUsage, LevelRecord, RunRecord};
use plimsoll_model::{Metric, Nanos, Verdict};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A run's result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Summary {
    /// Version of this schema.
    pub schema: u32,
    /// The run's id in the run store.
    pub run: String,
    /// The scenario's name.
    pub name: String,
    /// The verdict.
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["met", "missed", "invalid", "failed", "interrupted", "running"])))]
    pub verdict: Verdict,
    /// Why, for people.
    pub reason: String,
    /// The highest level of the unbroken run of met levels from the lowest; null where the lowest is not met, and where the load
    /// changes within the level. After a search: the level that confirmed it.
    pub load_line: Option<LoadLine>,
    /// Rate that the load line was to reach at least, in operations per second; null where none was demanded.
    pub demanded_load_line: Option<f64>,
    /// What the search found; null where the levels were listed.
    pub search: Option<Finding>,
    /// How the levels were chosen and why some were not run, for people; empty where all that were listed were run.
    pub notes: Vec<String>,
    /// The time that is about the platform, `publish_time` or `subscribe_time`: the latter where a broker acknowledges what
    /// another part of the platform delivers.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub leading_time: Metric,
    /// The objectives of each level, as text.
    pub objectives: Vec<String>,
    /// The levels, in the order of running.
    pub levels: Vec<LevelSummary>,
    /// The load generator over all levels.
    pub generator: Generator,
    /// First SYN to CONNACK of the clients during set-up; null where none connected then.
    #[serde(serialize_with = "observed")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeSummary>"))]
    pub connect_time: TimeSummary,
    /// What connections cost below MQTT during set-up.
    pub wire: WireSummary,
    /// Growth of the platform's resident memory with the devices connected, in bytes per connection, least squares over
    /// the levels; null where levels do not differ in devices or the memory is not known.
    pub memory_per_connection: Option<f64>,
    /// The platform's components, where their processes are known.
    pub components: Vec<ComponentSummary>,
    /// What other observers saw in the holds, such as what the host waited for.
    pub gauges: Vec<GaugeSummary>,
    /// Service demand, utilisation and bound of each component (docs/metrics.md).
    pub laws: Vec<ComponentLaws>,
    /// Bounds of throughput over the operations in flight of the closed model; null in the open model, and where none hold.
    pub closed_bounds: Option<ClosedBounds>,
    /// The law of scalability over the levels of the closed model; null in the open model, and with too few levels.
    pub scalability: Option<Scalability>,
    /// What limits the load, the surest first; empty where no name can be given.
    pub limits: Vec<Limit>,
    /// What was learned by slowing each part of the platform; null of a run without that (docs/why.md).
    pub experiment: Option<Experiment>,
    /// What the platform costs, and what it sustains for that; null where the scenario has no prices.
    pub cost: Option<CostSummary>,
    /// The energy that the host's processors took at the load line; null where the host shows no counter of it.
    pub energy: Option<EnergySummary>,
    /// What grew in levels with a hold of five minutes or more, one entry for each of them.
    pub soaks: Vec<Soak>,
    /// How levels of the way down compare with those of the way up; null of a run without a way down.
    pub hysteresis: Option<Hysteresis>,
    /// What the wire said; null where nothing was captured.
    pub dissection: Option<DissectionSummary>,
    /// Where the run comes from: versions, seed, host, platform, placement.
    pub provenance: serde_json::Value,
}

impl Summary {
    /// The verdict in a word for people. Experiments alone judge no level: they find what limits, or do not.
    pub fn verdict_word(&self) -> &'static str {
        let is_experiment_alone = self.experiment.is_some() && self.levels.is_empty();
        match self.verdict {
            Verdict::Met if is_experiment_alone => "found",
            Verdict::Invalid if is_experiment_alone && self.limits.is_empty() => "not found",
            verdict => verdict.name(),
        }
    }

    /// The curve that the load followed; `None` of a run of levels of one load each.
    pub fn curve(&self) -> Option<&CurveSummary> {
        load_line::rising(&self.levels).first()?.curve.as_ref()
    }

    /// The level that bounds the load line: the next one, or without a load line the lowest that was not met. `None` where all
    /// were met.
    pub fn bounding(&self) -> Option<&LevelSummary> {
        match &self.load_line {
            Some(line) => self.levels.iter().find(|level| Some(level.index) == line.next_level),
            None => load_line::rising(&self.levels).into_iter().find(|level| !level.is_met()),
        }
    }

    /// The level that shows what limits: the bounding one, or the lowest above it that missed where that one decided nothing.
    pub fn limiting(&self) -> Option<&LevelSummary> {
        let bounding = self.bounding()?;
        let is_above = |level: &&LevelSummary| level.load.amount() > bounding.load.amount();
        let is_missed = |level: &&LevelSummary| level.verdict == LevelVerdict::Missed;
        let open = (bounding.verdict == LevelVerdict::Undecided).then(|| load_line::rising(&self.levels));
        let missed = open.into_iter().flatten().filter(is_above).find(is_missed);
        Some(missed.unwrap_or(bounding))
    }

    /// Which of the loads of the run a level has, counted from 1 in rising order, and how many loads there are; a load that was
    /// held several times counts once.
    pub fn number_of_load(&self, level: u16) -> (usize, usize) {
        let rising = load_line::rising(&self.levels);
        let load = self.levels.iter().find(|one| one.index == level).map(|level| level.load.amount());
        let below = rising.iter().filter(|one| load.is_some_and(|load| one.load.amount() < load)).count();
        (below + 1, rising.len())
    }

    /// The level that was missed although the run was met, since nothing demands it.
    pub fn tolerated(&self) -> Option<&LevelSummary> {
        let is_listed = self.verdict == Verdict::Met && self.search.is_none();
        let bounding = self.bounding().filter(|level| level.verdict == LevelVerdict::Missed);
        bounding.filter(|_| is_listed && self.demanded_load_line.is_none())
    }
}

/// The levels' generators in one: times as given, the rest averaged.
pub(crate) fn generator_over(
    levels: &[LevelSummary],
    [lateness, at_work_when_late, receiver_lag]: [TimeSummary; 3],
) -> Generator {
    let average =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let threads = levels.iter().map(|level| level.generator.cpu.len()).max().unwrap_or(0);
    let of_thread = |thread: usize| {
        average(levels.iter().filter_map(|l| l.generator.cpu.get(thread).copied().flatten()).collect())
    };
    Generator {
        lateness,
        at_work_when_late,
        receiver_lag,
        cpu: (0..threads).map(of_thread).collect(),
        run_delay: average(levels.iter().filter_map(|level| level.generator.run_delay).collect()),
        steal: average(levels.iter().filter_map(|level| level.generator.steal).collect()),
        cpu_per_million: cpu_per_million(levels),
    }
}

/// Processor time over all levels / messages sent in them.
fn cpu_per_million(levels: &[LevelSummary]) -> Option<f64> {
    let measured =
        levels.iter().filter_map(|level| Some((level.generator.cpu_per_million?, level.sent as f64)));
    let (cpu, sent) = measured.fold((0.0, 0.0), |(cpu, sum), (cost, sent)| (cpu + cost * sent, sum + sent));
    (sent > 0.0).then(|| cpu / sent)
}

/// What a component of the platform used over the whole run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ComponentSummary {
    /// Its name in the platform profile.
    pub name: String,
    /// Mean processor use, 1 for a whole processor.
    pub cpu_mean: f64,
    /// Highest processor use of any reading.
    pub cpu_max: f64,
    /// What it used without load, before the levels; null where the scenario asks for no such time.
    pub idle: Option<IdleUsage>,
    /// What it used without load, after the last level; null where the scenario asks for no such time.
    pub idle_after: Option<IdleUsage>,
    /// Threads of it that were runnable without a processor, on average: it waits for itself where its own threads have too
    /// few processors, and for others where those take them; null where that could not be read.
    pub run_delay: Option<f64>,
    /// Share of the time for which the quota of its control group kept it from running; zero without a quota.
    pub throttled: f64,
    /// Highest resident memory of its processes together, in bytes: what they share counts for each.
    pub rss_max: u64,
    /// Most open file descriptors; null where they could not be read.
    pub descriptors_max: Option<u64>,
    /// Readings.
    pub readings: usize,
}

/// What a component used while nobody loaded the platform.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct IdleUsage {
    /// Mean processor use, 1 for a whole processor.
    pub cpu_mean: f64,
    /// Mean resident memory, in bytes.
    pub rss_mean: f64,
    /// Readings that lie in that time as a whole.
    pub readings: usize,
}

impl IdleUsage {
    fn before(levels: &[LevelRecord], readings: &[&ComponentUsage]) -> Option<IdleUsage> {
        let idle: Vec<_> = levels.iter().filter_map(|level| level.start.idle).collect();
        IdleUsage::of(readings, |usage| {
            idle.iter().any(|&(begin, end)| usage.at - usage.window >= begin && usage.at <= end)
        })
    }

    fn after(levels: &[LevelRecord], readings: &[&ComponentUsage]) -> Option<IdleUsage> {
        let end = LevelRecord::last_end(levels)?;
        IdleUsage::of(readings, |usage| usage.at - usage.window >= end)
    }

    fn of(readings: &[&ComponentUsage], within: impl Fn(&ComponentUsage) -> bool) -> Option<IdleUsage> {
        let readings: Vec<_> = readings.iter().filter(|usage| within(usage)).collect();
        let (cpu, window) = readings.iter().fold((0.0, 0.0), |(cpu, window), usage| {
            (cpu + usage.cpu.as_secs_f64(), window + usage.window.as_secs_f64())
        });
        let memory: f64 = readings.iter().map(|usage| usage.rss as f64).sum();
        let count = readings.len();
        (count > 0 && window > 0.0).then(|| IdleUsage {
            cpu_mean: cpu / window,
            rss_mean: memory / count as f64,
            readings: count,
        })
    }
}

impl ComponentSummary {
    pub(crate) fn of(record: &RunRecord) -> Vec<ComponentSummary> {
        usage::names(&record.components)
            .into_iter()
            .map(|name| ComponentSummary::of_one(record, name))
            .collect()
    }

    fn of_one(record: &RunRecord, name: &str) -> ComponentSummary {
        let readings: Vec<_> = record.components.iter().filter(|usage| usage.component == name).collect();
        let share = |cpu: Nanos, window: Nanos| cpu.0 as f64 / window.0.max(1) as f64;
        let cpu: Nanos = readings.iter().map(|usage| usage.cpu).sum();
        let window: Nanos = readings.iter().map(|usage| usage.window).sum();
        ComponentSummary {
            name: name.to_owned(),
            cpu_mean: share(cpu, window),
            cpu_max: readings.iter().map(|usage| share(usage.cpu, usage.window)).fold(0.0, f64::max),
            idle: IdleUsage::before(&record.levels, &readings),
            idle_after: IdleUsage::after(&record.levels, &readings),
            run_delay: readings
                .iter()
                .map(|usage| usage.run_delay)
                .sum::<Option<Nanos>>()
                .filter(|_| window > Nanos::ZERO)
                .map(|waited| share(waited, window)),
            throttled: share(readings.iter().map(|usage| usage.throttled).sum(), window),
            rss_max: readings.iter().map(|usage| usage.rss).max().unwrap_or(0),
            descriptors_max: readings.iter().filter_map(|usage| usage.descriptors).max(),
            readings: readings.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::{LevelEnd, LevelStart};

    #[test]
    fn a_level_that_decided_nothing_shows_no_limit_where_a_higher_one_missed() {
        use LevelVerdict::{Met, Missed, Undecided};
        let limiting = |verdicts: [LevelVerdict; 3]| {
            let level = |(index, verdict): (u16, LevelVerdict)| LevelSummary {
                index,
                load: plimsoll_model::Load::Rate(100.0 * f64::from(index + 1)),
                verdict,
                ..LevelSummary::default()
            };
            let levels: Vec<LevelSummary> = (0..).zip(verdicts).map(level).collect();
            let load_line = load_line::find(&levels);
            let summary = Summary { load_line, levels, ..crate::summarize(&RunRecord::default()) };
            summary.limiting().map(|level| level.index)
        };
        assert_eq!(limiting([Met, Undecided, Missed]), Some(2));
        assert_eq!(limiting([Met, Undecided, Met]), Some(1));
        assert_eq!(limiting([Met, Missed, Missed]), Some(1));
    }

    #[test]
    fn a_baseline_is_what_was_read_while_nobody_loaded_the_platform() {
        let reading = |at: i64, cpu: i64, rss: u64| ComponentUsage {
            component: "broker".into(),
            at: Nanos::from_secs(at),
            window: Nanos::from_secs(1),
            cpu: Nanos::from_millis(cpu),
            rss,
            ..ComponentUsage::default()
        };
        let idle = Some((Nanos::from_secs(2), Nanos::from_secs(4)));
        let start = LevelStart { idle, ..LevelStart::default() };
        // That of 2 s reaches before the idle time, and that of 5 s behind it.
        let readings = [reading(2, 900, 9), reading(3, 10, 100), reading(4, 30, 300), reading(5, 900, 9)];
        let readings: Vec<_> = readings.iter().collect();
        let level = LevelRecord { start, ..LevelRecord::default() };
        let baseline = IdleUsage::before(&[level], &readings).unwrap();
        assert!((baseline.cpu_mean - 0.02).abs() < 1e-9, "{baseline:?}");
        assert_eq!((baseline.rss_mean, baseline.readings), (200.0, 2));
        assert_eq!(IdleUsage::before(&[LevelRecord::default()], &readings), None);
        let end = LevelEnd { at: Nanos::from_millis(3_500), ..LevelEnd::default() };
        let ended = LevelRecord { end: Some(end), ..LevelRecord::default() };
        let after = IdleUsage::after(&[ended], &readings).unwrap();
        assert_eq!((after.rss_mean, after.readings), (9.0, 1), "that of 4 s reaches before the end");
        assert_eq!(IdleUsage::after(&[LevelRecord::default()], &readings), None, "it goes on");
    }
}
