//! What runs of one configuration say of configurations that nobody ran: their load lines, what limits them, what they cost, and
//! the cheapest one for a wanted load (docs/planning.md).

mod quantiles;

use crate::headroom::Headroom;
use crate::level::LevelVerdict;
use crate::limits::LimitKind;
use crate::summary::Summary;
use plimsoll_model::record::RunRecord;
use plimsoll_model::text::grouped;
use quantiles::Model;

use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

pub use quantiles::{PredictedQuantile, TimesAt};

/// Version of the schema of a plan.
pub const SCHEMA: u32 = 0;

/// How often what limits is doubled, trebled and so on where the user asks for no configuration.
const USUAL: [f64; 3] = [2.0, 3.0, 4.0];
/// More of one component is no plan any more.
const MOST: u32 = 10_000;
/// A component that uses less of its processors may wait for something that they do not show.
const HARDLY: f64 = 0.5;

/// A run of the configuration that predictions start from.
pub struct Basis<'a> {
    /// What was recorded of it.
    pub record: &'a RunRecord,
    /// What it found.
    pub summary: &'a Summary,
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Configurations: components with so many times their present capacity. Empty for the usual ones.
    pub configurations: Vec<BTreeMap<String, f64>>,
    /// A load that the platform is to sustain, in operations per second.
    pub demand: Option<f64>,
    /// Devices that it is to have.
    pub devices: Option<u32>,
    /// Loads whose times are wanted, in operations per second.
    pub at: Vec<f64>,
    /// The component that limits, if the user knows it; `None` to take it from the runs.
    pub limit: Option<String>,
}

/// What runs of one configuration say of others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CapacityPlan {
    /// Version of this schema.
    pub schema: u32,
    /// The scenario's name.
    pub name: String,
    /// The runs, by their ids.
    pub runs: Vec<String>,
    /// The load line as these runs found it, in operations per second: at least, and at most.
    pub load_line: Bounds,
    /// The component that limits it.
    pub limited_by: String,
    /// How full each component is at that load line, the one that limits first.
    pub components: Vec<ComponentUse>,
    /// The load that the platform is to sustain, in operations per second; null where none was asked for.
    pub demand: Option<f64>,
    /// The configurations, in the order in which they were asked for.
    pub configurations: Vec<Configuration>,
    /// A configuration that sustains the wanted load, not always the cheapest; null where none was asked for, or none is known.
    pub enough: Option<Configuration>,
    /// The currency and the time of costs; null where nothing has a price.
    pub money: Option<[String; 2]>,
    /// What the predictions rest on, for people.
    pub assumptions: Vec<String>,
    /// What is not predicted and why, for people.
    pub open: Vec<String>,
}

/// A quantity that lies between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Bounds {
    /// At least so much; null where it is not known.
    pub least: Option<f64>,
    /// At most so much; null where it is not known.
    pub most: Option<f64>,
}

/// How full a component is at the measured load line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ComponentUse {
    /// Its name.
    pub component: String,
    /// The share of its capacity that it uses.
    pub used: f64,
    /// The share that it uses at most, by an experiment; null where nobody slowed it.
    pub at_most: Option<f64>,
}

/// A configuration, and what is predicted of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Configuration {
    /// How many times its present capacity each component has; those that are not named stay as they are.
    pub times: BTreeMap<String, f64>,
    /// The load line in present ones: at least, and at most.
    pub ratio: Bounds,
    /// The load line in operations per second: at least, and at most.
    pub load_line: Bounds,
    /// The component that limits then, as far as all of them are known.
    pub limited_by: String,
    /// What it costs; null where nothing has a price, or a component with a price has no whole number of its present capacity.
    pub cost: Option<f64>,
    /// Whether it sustains the wanted load; null where none was asked for, or it may or may not.
    pub is_enough: Option<bool>,
    /// Its times at the loads that were asked for.
    pub times_at: Vec<TimesAt>,
    /// The load line that runs of this configuration found: at least, and at most; null where none were named.
    pub measured: Option<Bounds>,
    /// Whether both may be the same; null where no runs were named, or an end is not known.
    pub is_as_predicted: Option<bool>,
}

/// What the runs of one configuration say.
///
/// # Errors
/// Why they say nothing, for people.
pub fn of(basis: &[Basis<'_>], question: &Question) -> Result<CapacityPlan, String> {
    let measured = Measured::of(basis, question.limit.as_deref())?;
    check_names(&measured, question)?;
    let usual = || USUAL.map(|times| BTreeMap::from([(measured.limited_by().to_owned(), times)])).to_vec();
    let wanted = match (question.configurations.is_empty(), question.at.is_empty()) {
        (true, true) => usual(),
        // Times at a load are wanted, and no other configuration than this one.
        (true, false) => vec![BTreeMap::new()],
        (false, _) => question.configurations.clone(),
    };
    let mut open = Vec::new();
    let mut configurations = Vec::new();
    for times in wanted {
        match measured.predict(&times, question.demand) {
            Some(found) => configurations.push(found),
            None => open.push(format!(
                "nothing is predicted of {}: a component that does not limit has less capacity there, and may limit then",
                in_words(&times)
            )),
        }
    }
    let most_devices = basis.iter().map(|run| run.record.terms.devices).max().unwrap_or_default();
    let beyond = question.devices.filter(|devices| *devices > most_devices);
    if let Some(devices) = beyond {
        open.push(format!(
            "the runs had {most_devices} devices at most, and not {devices}. Memory, descriptors and ports for so many connections              were not seen, so load lines have no lower end. Levels of devices show it"
        ));
        configurations.iter_mut().for_each(Configuration::forget_least);
    }
    if !question.at.is_empty() {
        open.extend(measured.add_times(basis, &question.at, &mut configurations));
    }
    let enough = question.demand.filter(|_| beyond.is_none()).and_then(|demand| measured.enough(demand));
    if let Some(demand) = question.demand.filter(|_| beyond.is_none() && enough.is_none()) {
        open.push(format!(
            "no configuration with up to {MOST} times a component is known to sustain {}/s",
            grouped(demand)
        ));
    }
    let first = measured.runs.first().map(|(summary, _)| *summary);
    Ok(CapacityPlan {
        schema: SCHEMA,
        name: first.map(|summary| summary.name.clone()).unwrap_or_default(),
        runs: measured.runs.iter().map(|(summary, _)| summary.run.clone()).collect(),
        load_line: measured.over_runs(&vec![[1.0, 1.0]; measured.runs.len()]),
        limited_by: measured.limited_by().to_owned(),
        components: measured.components(),
        demand: question.demand,
        configurations,
        enough,
        money: first
            .and_then(|summary| summary.cost.as_ref())
            .filter(|cost| cost.total > 0.0)
            .map(|cost| [cost.currency.clone(), cost.per.clone()]),
        assumptions: measured.assumptions(),
        open,
    })
}

impl CapacityPlan {
    /// Sets the only configuration beside runs of it.
    ///
    /// # Errors
    /// Why they cannot be compared, for people.
    pub fn check(&mut self, runs: &[&Summary]) -> Result<(), String> {
        let [configuration] = self.configurations.as_mut_slice() else {
            return Err("runs check one configuration: name that one alone".to_owned());
        };
        let found = bounds(runs.iter().map(|run| (*run, [1.0, 1.0])));
        let (least, most) =
            (found.least.ok_or("a run that is to check the prediction found no load line")?, found.most);
        let predicted = configuration.load_line;
        let is_above = predicted.most.map(|most| least > most);
        let is_below = most.zip(predicted.least).map(|(most, predicted)| most < predicted);
        configuration.measured = Some(found);
        configuration.is_as_predicted = match (is_above, is_below) {
            (Some(true), _) | (_, Some(true)) => Some(false),
            (Some(false), Some(false)) => Some(true),
            _ => None,
        };
        Ok(())
    }
}

/// Between which ends the load lines of runs lie, each times a factor at least and at most, with 95 % confidence over the runs. The
/// lower end is not known where a run has no load line, and the upper one where no level above it missed.
fn bounds<'a>(runs: impl Iterator<Item = (&'a Summary, [f64; 2])> + Clone) -> Bounds {
    let line = |summary: &'a Summary| summary.load_line.as_ref();
    let lows = runs.clone().map(|(summary, [low, _])| Some((line(summary)?.rate? * low).ln()));
    let highs = runs.map(|(summary, [_, high])| Some((line(summary)?.most()? * high).ln()));
    let end = |values: Option<Vec<f64>>, sign: f64| {
        let values = values.filter(|values| !values.is_empty())?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let half = student::mean_interval(&values).map_or(0.0, |interval| (interval.hi - interval.lo) / 2.0);
        Some((mean + sign * half).exp())
    };
    Bounds { least: end(lows.collect(), -1.0), most: end(highs.collect(), 1.0) }
}

/// A configuration for people.
pub fn in_words(times: &BTreeMap<String, f64>) -> String {
    let each: Vec<String> = times.iter().map(|(name, times)| format!("{name} x {times}")).collect();
    if each.is_empty() { "as it is".to_owned() } else { each.join(", ") }
}

impl Configuration {
    /// What was not measured may keep the platform from all of it.
    fn forget_least(&mut self) {
        (self.ratio.least, self.load_line.least) = (None, None);
        self.is_enough = self.is_enough.filter(|is_enough| !is_enough);
    }
}

/// The runs that predictions start from, each with what limits it.
struct Measured<'a> {
    runs: Vec<(&'a Summary, Headroom)>,
}

impl Measured<'_> {
    fn of<'a>(basis: &[Basis<'a>], limit: Option<&str>) -> Result<Measured<'a>, String> {
        for Basis { summary, .. } in basis {
            let id = &summary.run;
            let line = summary.load_line.as_ref();
            let line =
                line.ok_or_else(|| format!("run {id} found no load line, from which predictions start"))?;
            line.rate.ok_or_else(|| {
                format!("the load line of run {id} is no rate of operations, and nothing else is predicted")
            })?;
        }
        let found = basis.iter().map(|run| (run.summary, Headroom::of(run.summary)));
        let found: Vec<(&Summary, Option<Headroom>)> = found.collect();
        let named = found.iter().filter_map(|(_, headroom)| Some(headroom.as_ref()?.component.as_str()));
        let named: BTreeSet<&str> = limit.map_or_else(|| named.collect(), |limit| BTreeSet::from([limit]));
        let limit = match (named.len(), named.first()) {
            (1, Some(limit)) => (*limit).to_owned(),
            (0, _) => {
                return Err("no run names a component that limits its load line: find it with `plimsoll run SCENARIO --why`, or \
                            name it with --limit"
                    .to_owned());
            }
            _ => {
                return Err(format!(
                    "the runs do not agree on what limits: {}; name runs of one configuration, or say it with --limit",
                    named.into_iter().collect::<Vec<_>>().join(", ")
                ));
            }
        };
        // A run that names nobody was of the same configuration.
        let computes = basis.iter().all(|run| computes(run.summary, &limit));
        let runs = found.into_iter().map(|(summary, headroom)| {
            let named = headroom.filter(|headroom| headroom.component == limit);
            let headroom = named.or_else(|| Headroom::where_limits(limit.clone(), computes, summary));
            headroom.map(|headroom| (summary, headroom)).ok_or_else(|| {
                format!("run {} does not say how full {limit} was at its load line", summary.run)
            })
        });
        Ok(Measured { runs: runs.collect::<Result<_, _>>()? })
    }

    fn limited_by(&self) -> &str {
        self.runs.first().map(|(_, headroom)| headroom.component.as_str()).unwrap_or_default()
    }

    /// The load lines that the runs found, times factors of each.
    fn over_runs(&self, ratios: &[[f64; 2]]) -> Bounds {
        bounds(self.runs.iter().map(|(summary, _)| *summary).zip(ratios.iter().copied()))
    }

    /// What the runs predict together; `None` where a component that does not limit has less capacity.
    fn predict(&self, times: &BTreeMap<String, f64>, demand: Option<f64>) -> Option<Configuration> {
        let factors: Vec<(&str, f64)> = times.iter().map(|(name, times)| (name.as_str(), *times)).collect();
        let each: Option<Vec<_>> =
            self.runs.iter().map(|(_, headroom)| headroom.predicted(&factors)).collect();
        let each = each?;
        let ratios: Vec<[f64; 2]> = each.iter().map(|prediction| prediction.ratio).collect();
        let load_line = self.over_runs(&ratios);
        let is_enough = demand.and_then(|demand| match load_line {
            Bounds { least: Some(least), .. } if least >= demand => Some(true),
            Bounds { most: Some(most), .. } if most < demand => Some(false),
            _ => None,
        });
        Some(Configuration {
            times: times.clone(),
            ratio: Bounds {
                least: ratios.iter().map(|[low, _]| *low).reduce(f64::min),
                most: ratios.iter().map(|[_, high]| *high).reduce(f64::max),
            },
            load_line,
            limited_by: each.first().map(|prediction| prediction.limited_by.clone()).unwrap_or_default(),
            cost: self.cost(times),
            is_enough,
            times_at: Vec::new(),
            measured: None,
            is_as_predicted: None,
        })
    }

    /// Adds the times of each configuration at some loads, as all runs together predict them; what is not predicted and why.
    fn add_times(
        &self,
        basis: &[Basis<'_>],
        rates: &[f64],
        configurations: &mut [Configuration],
    ) -> BTreeSet<String> {
        let runs: Vec<(&RunRecord, &Summary)> = basis.iter().map(|run| (run.record, run.summary)).collect();
        let line =
            |summary: &Summary| summary.load_line.as_ref().and_then(|line| line.rate).unwrap_or_default();
        let capacities = self.runs.iter().map(|(summary, headroom)| line(summary) / headroom.used);
        let capacity = capacities.sum::<f64>() / self.runs.len() as f64;
        let model = match Model::of(&runs, self.limited_by(), capacity) {
            Ok(model) => model,
            Err(why) => return BTreeSet::from([why]),
        };
        let others: Vec<ComponentUse> = self.components().into_iter().skip(1).collect();
        let mean_line =
            self.runs.iter().map(|(summary, _)| line(summary)).sum::<f64>() / self.runs.len() as f64;
        let mut open = BTreeSet::new();
        for configuration in configurations {
            let times = |name: &str| configuration.times.get(name).copied().unwrap_or(1.0);
            let factor = times(self.limited_by());
            for rate in rates {
                let used = |own: &ComponentUse| own.used * rate / mean_line / times(&own.component);
                let fullest = others.iter().map(|own| (own, used(own)));
                let fullest = fullest.max_by(|(_, one), (_, other)| one.total_cmp(other));
                let found = match fullest.filter(|(_, used)| *used > quantiles::OTHERS) {
                    Some((own, used)) => Err(format!(
                        "at {}/s, {} is {:.0} % full, and its waits are not simulated",
                        grouped(*rate),
                        own.component,
                        used * 100.0
                    )),
                    None => model.at(*rate, factor, self.limited_by()),
                };
                match found {
                    Ok(found) => configuration.times_at.push(found),
                    Err(why) => {
                        open.insert(format!("{}: {why}", in_words(&configuration.times)));
                    }
                }
            }
        }
        open
    }

    /// A configuration that sustains a load for certain: of what limits there is one more, until it is enough. Messages wait for
    /// other components, too, so with more of those, fewer of what limits may be enough.
    fn enough(&self, demand: f64) -> Option<Configuration> {
        let mut times = BTreeMap::new();
        loop {
            let found = self.predict(&times, Some(demand))?;
            if found.is_enough == Some(true) {
                return Some(found);
            }
            let more = times.entry(found.limited_by).or_insert(1.0);
            *more += 1.0;
            if *more > f64::from(MOST) {
                return None;
            }
        }
    }

    fn cost(&self, times: &BTreeMap<String, f64>) -> Option<f64> {
        let cost = self.runs.first()?.0.cost.as_ref().filter(|cost| cost.total > 0.0)?;
        let mut total = 0.0;
        for part in &cost.priced {
            let times = times.get(&part.name).copied().unwrap_or(1.0);
            let count = part.count as f64 * times;
            if count.fract() != 0.0 {
                return None;
            }
            total += count * part.price;
        }
        Some(total)
    }

    /// The mean over the runs, of each component that all of them know.
    fn components(&self) -> Vec<ComponentUse> {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let limiting = ComponentUse {
            component: self.limited_by().to_owned(),
            used: mean(self.runs.iter().map(|(_, headroom)| headroom.used).collect()),
            at_most: None,
        };
        let of = |name: &str| {
            let own =
                |headroom: &Headroom| headroom.others.iter().find(|other| other.component == name).cloned();
            let each: Option<Vec<_>> = self.runs.iter().map(|(_, headroom)| own(headroom)).collect();
            let each = each?;
            let at_most: Option<Vec<f64>> = each.iter().map(|other| other.at_most).collect();
            Some(ComponentUse {
                component: name.to_owned(),
                used: mean(each.iter().map(|other| other.used).collect()),
                at_most: at_most.map(mean),
            })
        };
        let others = self.runs.first().map(|(_, headroom)| headroom.others.as_slice()).unwrap_or_default();
        std::iter::once(limiting).chain(others.iter().filter_map(|other| of(&other.component))).collect()
    }

    fn assumptions(&self) -> Vec<String> {
        let unproved: Vec<String> = self
            .components()
            .into_iter()
            .skip(1)
            .filter(|own| own.at_most.is_none() && own.used < HARDLY)
            .map(|own| own.component)
            .collect();
        let mut found = vec![
            "what is added works beside what is there: it shares no lock, no database and no processor with it".to_owned(),
            "messages, their mix and the objectives stay as they were in the runs".to_owned(),
        ];
        if !unproved.is_empty() {
            found.push(format!(
                "how full others are is read from their processors; whether they wait for something else was not tested: {} \
                 (`plimsoll run SCENARIO --why` tests it)",
                unproved.join(", ")
            ));
        }
        let undecided =
            |summary: &Summary| summary.bounding().is_some_and(|level| level.verdict != LevelVerdict::Missed);
        if self.runs.iter().any(|(summary, _)| undecided(summary)) {
            found.push(
                "the level above a load line did not miss for certain, so load lines may be higher"
                    .to_owned(),
            );
        }
        if self.runs.len() == 1 {
            found.push("one run says nothing of chance: name several of the same configuration".to_owned());
        }
        found
    }
}

/// Whether a component computes where it limits: a run says so, or it does not say that the component waits.
fn computes(summary: &Summary, component: &str) -> bool {
    let of_it = summary.limits.iter().find(|limit| limit.component.as_deref() == Some(component));
    of_it.is_none_or(|limit| matches!(limit.kind, LimitKind::Processor | LimitKind::Quota))
}

/// Reports names that no run knows.
fn check_names(measured: &Measured<'_>, question: &Question) -> Result<(), String> {
    let known: BTreeSet<&str> = measured
        .runs
        .iter()
        .flat_map(|(_, headroom)| headroom.others.iter().map(|other| other.component.as_str()))
        .chain([measured.limited_by()])
        .collect();
    let named = question.configurations.iter().flat_map(BTreeMap::keys);
    match named.into_iter().find(|name| !known.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!(
            "the runs saw no component `{name}`; they saw: {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostSummary, PricedPart};
    use crate::laws::{ComponentLaws, ComponentLevel};
    use crate::limits::Limit;
    use crate::load_line::LoadLine;

    /// A run whose store is full to 0.8 at its load line, and its front to 0.4; the next level missed.
    fn run(rate: f64) -> Summary {
        let laws = |component: &str, used: f64| ComponentLaws {
            component: component.into(),
            servers: Some(1.0),
            demand: None,
            levels: vec![ComponentLevel { level: 1, rate, used, utilisation: Some(used) }],
        };
        let part = |name: &str, count, price| PricedPart { name: name.into(), on: None, count, price };
        Summary {
            load_line: Some(LoadLine {
                rate: Some(rate),
                devices: None,
                connect_rate: None,
                level: 1,
                at_least: false,
                below: Some(rate * 1.02),
                at_most: None,
                limited_by: None,
                next_level: None,
            }),
            limits: vec![Limit {
                component: Some("store".into()),
                components: Vec::new(),
                kind: LimitKind::Processor,
                evidence: Vec::new(),
                elasticity: None,
            }],
            laws: vec![laws("store", 0.8), laws("front", 0.4)],
            cost: Some(CostSummary {
                currency: "USD".into(),
                per: "month".into(),
                total: 110.0,
                priced: vec![part("store", 1, 100.0), part("front", 2, 5.0)],
                unpriced: Vec::new(),
                load_line_per_cost: None,
            }),
            ..crate::summarize(&RunRecord::default())
        }
    }

    fn plan(runs: &[Summary], question: &Question) -> Result<CapacityPlan, String> {
        let mut record = RunRecord::default();
        record.terms.devices = 100;
        let basis: Vec<Basis<'_>> = runs.iter().map(|summary| Basis { record: &record, summary }).collect();
        of(&basis, question)
    }

    fn times(all: &[(&str, f64)]) -> BTreeMap<String, f64> {
        all.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect()
    }

    #[test]
    fn the_usual_configurations_have_what_limits_two_three_and_four_times() {
        let found = plan(&[run(1000.0)], &Question::default()).unwrap();
        let first = &found.configurations[0];
        assert_eq!(found.configurations.len(), 3);
        assert_eq!((found.limited_by.as_str(), &first.times), ("store", &times(&[("store", 2.0)])));
        assert_eq!((first.limited_by.as_str(), first.cost), ("store", Some(210.0)));
        let (least, most) = (first.load_line.least.unwrap(), first.load_line.most.unwrap());
        assert!((1600.0..2000.0).contains(&least) && (most - 2295.0).abs() < 1.0, "{first:?}");
        assert_eq!(found.configurations[2].limited_by, "front");
        let ends = [found.load_line.least, found.load_line.most].map(|end| end.unwrap().round());
        assert_eq!(ends, [1000.0, 1020.0]);
        assert!(found.assumptions.iter().any(|own| own.contains("one run")), "{:?}", found.assumptions);
    }

    #[test]
    fn several_runs_widen_by_what_they_differ() {
        let [one, three] = [vec![run(1000.0)], vec![run(960.0), run(1000.0), run(1040.0)]]
            .map(|runs| plan(&runs, &Question::default()).unwrap().configurations[0].load_line);
        assert!(three.least < one.least && three.most > one.most, "{one:?} {three:?}");
    }

    #[test]
    fn a_configuration_for_a_demand_has_more_of_whatever_limits() {
        let question = Question { demand: Some(5000.0), ..Question::default() };
        let found = plan(&[run(1000.0)], &question).unwrap();
        let enough = found.enough.unwrap();
        assert!(enough.load_line.least.unwrap() >= 5000.0, "{enough:?}");
        assert!(enough.times["store"] >= 5.0 && enough.times["front"] >= 3.0, "{enough:?}");
        assert_eq!(enough.cost, Some(enough.times["store"] * 100.0 + enough.times["front"] * 10.0));
        assert_eq!(found.configurations[0].is_enough, Some(false));
        let question = Question { demand: Some(900.0), ..Question::default() };
        assert_eq!(plan(&[run(1000.0)], &question).unwrap().enough.unwrap().times, BTreeMap::new());
    }

    #[test]
    fn more_devices_than_were_seen_leave_an_upper_end_alone() {
        let question = Question { devices: Some(1_000_000), demand: Some(1500.0), ..Question::default() };
        let found = plan(&[run(1000.0)], &question).unwrap();
        assert!(
            found.enough.is_none() && found.open.iter().any(|own| own.contains("100 devices")),
            "{found:?}"
        );
        assert!(
            found
                .configurations
                .iter()
                .all(|own| own.load_line.least.is_none() && own.load_line.most.is_some())
        );
        assert!(found.configurations.iter().all(|own| own.is_enough != Some(true)));
    }

    #[test]
    fn a_prediction_is_set_beside_what_was_measured() {
        let question = Question { configurations: vec![times(&[("store", 2.0)])], ..Question::default() };
        for (rate, expected) in [(2000.0, Some(true)), (1500.0, Some(false)), (2400.0, Some(false))] {
            let mut found = plan(&[run(1000.0)], &question).unwrap();
            found.check(&[&run(rate)]).unwrap();
            assert_eq!(found.configurations[0].is_as_predicted, expected, "{rate}");
        }
        let mut usual = plan(&[run(1000.0)], &Question::default()).unwrap();
        assert!(usual.check(&[&run(2000.0)]).unwrap_err().contains("one configuration"));
    }

    #[test]
    fn what_runs_do_not_say_is_refused_with_the_reason() {
        let refused = |change: fn(&mut Summary)| {
            let mut run = run(1000.0);
            change(&mut run);
            plan(&[run], &Question::default()).unwrap_err()
        };
        assert!(refused(|run| run.load_line = None).contains("found no load line"));
        let nameless = refused(|run| {
            run.limits.clear();
            run.laws.clear();
        });
        assert!(nameless.contains("--why") && nameless.contains("--limit"), "{nameless}");
        let other = Question { configurations: vec![times(&[("stroe", 2.0)])], ..Question::default() };
        assert!(plan(&[run(1000.0)], &other).unwrap_err().contains("they saw: front, store"));
        let mut front = run(1000.0);
        front.limits[0].component = Some("front".into());
        assert!(plan(&[run(1000.0), front], &Question::default()).unwrap_err().contains("do not agree"));
        let said = Question { limit: Some("front".into()), ..Question::default() };
        let mut silent = run(1000.0);
        silent.limits.clear();
        assert_eq!(plan(&[silent.clone()], &said).unwrap().limited_by, "front");
        // A component that waits in one run is no fuller of work in the other one, which names nobody.
        let mut waiting = run(1000.0);
        waiting.limits[0].kind = LimitKind::Waiting;
        waiting.laws[0].levels[0].utilisation = Some(0.02);
        let mut nameless = waiting.clone();
        nameless.limits.clear();
        let question = Question { limit: Some("store".into()), ..Question::default() };
        let unseen = plan(&[waiting, nameless], &question).unwrap_err();
        assert!(unseen.contains("does not say how full store was"), "{unseen}");
        // One of two runs names what limits: it limits in the other one, too.
        let both = plan(&[silent, run(1000.0)], &Question::default()).unwrap();
        assert_eq!((both.limited_by.as_str(), both.runs.len()), ("store", 2));
        let less = Question { configurations: vec![times(&[("front", 0.5)])], ..Question::default() };
        let found = plan(&[run(1000.0)], &less).unwrap();
        assert!(found.configurations.is_empty() && found.open[0].contains("front x 0.5"), "{:?}", found.open);
    }
}
