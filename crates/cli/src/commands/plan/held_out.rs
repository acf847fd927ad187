//! Runs of the configurations that a plan predicts: the stored scenario of its first run, with more replicas or larger quotas.

use super::Times;
use crate::commands::bundle::places;
use crate::commands::load_options::read_named;
use crate::commands::run::{KEPT, options};
use crate::commands::stored::StoreOption;
use crate::commands::sweep::ToldSweep;
use crate::failure::Failure;
use plimsoll_model::record::RunRecord;
use plimsoll_runner::bundle::key_and_value;
use plimsoll_runner::sweep::Sweeping;
use plimsoll_scenario::plan::Plan;
use plimsoll_scenario::{Environment, Matrix, Override, SourceFile, matrix};
use std::collections::BTreeMap;

/// A search goes so many times beyond what is predicted at most, so that a level can miss.
const BEYOND: f64 = 1.3;
/// A count is a whole number as far as binary fractions allow.
const WHOLE: f64 = 1e-6;

/// Runs of a configuration: how many times its capacity each component has, and the ids of the runs.
pub type Held = (BTreeMap<String, f64>, Vec<String>);

/// Configurations that are to be run.
pub struct HeldOut<'a> {
    /// The run whose scenario is run again.
    pub record: &'a RunRecord,
    /// Where runs are stored.
    pub store: &'a StoreOption,
    /// What changes.
    pub times: &'a [Times],
    /// Objectives of the command line.
    pub objectives: &'a [String],
    /// How often each is run.
    pub repeat: u32,
    /// Whether nothing is said of the runs.
    pub quiet: bool,
}

impl HeldOut<'_> {
    /// Runs all of them; the ids of the runs of each. The load lines are predicted to be `most` at most, in operations per second.
    ///
    /// # Errors
    /// The profile does not say how a capacity is set, or a run could not be done.
    pub fn run(&self, most: Option<f64>) -> Result<Vec<Held>, Failure> {
        let matrix = self.matrix(most)?;
        plimsoll_runner::check_certificates(&matrix.first).map_err(Failure::Usage)?;
        plimsoll_runner::check_commands(&matrix.first).map_err(Failure::Usage)?;
        plimsoll_runner::check_faults(&matrix.first).map_err(Failure::Usage)?;
        let sweeping = Sweeping { matrix: &matrix, turns: self.repeat, resume: true, quick: false };
        let swept = sweeping.run(&options(self.store)?, &mut ToldSweep::new(self.quiet))?;
        if swept.interrupted {
            return Err(Failure::Interrupted(KEPT));
        }
        let failed = swept.failures.into_iter().next();
        let sweep = match (swept.sweep, failed) {
            (Some(sweep), None) => sweep,
            (_, why) => {
                return Err(Failure::Undoable(why.unwrap_or_else(|| "no run could be done".to_owned())));
            }
        };
        let times = |position: &[usize]| {
            let pairs = self.times.iter().zip(position);
            let pairs =
                pairs.filter_map(|(own, value)| Some((own.component.clone(), *own.times.get(*value)?)));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let ids = sweep.cells.iter().map(|cell| {
            let ids = cell.runs.iter().map(|run| run.run.clone()).collect();
            (times(&cell.position), ids)
        });
        Ok(ids.collect())
    }

    /// The scenario with all capacities that each component is to have.
    fn matrix(&self, most: Option<f64>) -> Result<Matrix, Failure> {
        let objectives = self.objectives.iter().cloned().map(Override::Objective);
        let mut overrides: Vec<Override> = objectives.chain(self.platform_as_map()).collect();
        let present = self.read(&overrides)?.first;
        for times in self.times {
            let (key, values) = capacity(&present, times).map_err(Failure::Usage)?;
            overrides.push(Override::Key(format!("matrix.{key}=[{}]", values.join(", "))));
        }
        let to = most.map(|most| (most * BEYOND).ceil());
        if let Some((_, to)) = present.load.search.zip(to).filter(|(search, to)| *to > search.to) {
            // What is predicted would else lie above all levels.
            overrides.push(Override::Key(format!("load.search.to={to}")));
        }
        self.read(&overrides)
    }

    fn read(&self, overrides: &[Override]) -> Result<Matrix, Failure> {
        let source =
            SourceFile { name: format!("run {}", self.record.id), text: self.record.scenario.clone() };
        let (own, places) = (self.profile(), places(self.record));
        let file = |path: &str| {
            if own.as_deref() == Some(path) {
                return Ok(self.record.provenance.profile.clone());
            }
            let found = places.iter().map(|place| read_named(&place.join(path)));
            found.reduce(Result::or).unwrap_or_else(|| Err("there is no such file".to_owned()))
        };
        let variable = |name: &str| std::env::var(name).ok();
        let environment = Environment { profile: &file, variable: &variable };
        Ok(matrix(&source, false, overrides, &environment)?)
    }

    /// The profile as the scenario names it: a name, or a path.
    fn profile(&self) -> Option<String> {
        let named = self.record.scenario.lines().map(key_and_value);
        let mut named =
            named.filter(|(key, value)| (key == "platform" || key == "profile") && !value.is_empty());
        named.next().map(|(_, value)| value)
    }

    /// The platform with keys of its own, where the scenario has its name alone.
    fn platform_as_map(&self) -> Option<Override> {
        let mut lines = self.record.scenario.lines().map(key_and_value);
        let (_, name) = lines.find(|(key, value)| key == "platform" && !value.is_empty())?;
        let name = serde_json::Value::from(name);
        Some(Override::Key(format!("platform={{ profile: {name} }}")))
    }
}

/// The key by which the capacity of a component is set, and its values.
fn capacity(plan: &Plan, wanted: &Times) -> Result<(String, Vec<String>), String> {
    let (platform, name) = (&plan.platform, &wanted.component);
    if platform.command.is_some() || !platform.profile.components.iter().any(|own| own.name == *name) {
        return Err(format!(
            "the platform's profile does not start {name}, so --run does not know how its capacity is set: run the configuration with \
             `plimsoll run SCENARIO --set KEY=VALUE`, and name that run with --check"
        ));
    }
    let times = wanted.times.iter();
    match platform.quotas.get(name).and_then(|quota| Some((quota, quota.processors?))) {
        Some((quota, processors)) => {
            let is_alone = quota.memory.is_none() && quota.period.is_none();
            let key = format!("platform.quotas.{name}{}", if is_alone { "" } else { ".processors" });
            Ok((key, times.map(|times| (processors * times).to_string()).collect()))
        }
        None => {
            let present = platform.replicas_of(name) as f64;
            let count = |times: &f64| {
                let count = present * times;
                let is_whole = (count - count.round()).abs() <= WHOLE && count.round() >= 1.0;
                is_whole.then(|| count.round().to_string()).ok_or_else(|| {
                    format!("{name} has no quota, and {count} replicas of it cannot be run: give it `platform.quotas.{name}`")
                })
            };
            Ok((format!("platform.replicas.{name}"), times.map(count).collect::<Result<_, _>>()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(platform: &str) -> Plan {
        let text = format!(
            "name: t\nplatform: {platform}\npopulation: {{ devices: 1, subscribers: 0 }}\nload: {{ levels: [1] }}\n"
        );
        let environment = Environment { profile: &|_| Err(String::new()), variable: &|_| None };
        let source = SourceFile { name: "t.yaml".into(), text };
        plimsoll_scenario::load(&source, &[], &environment).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn key(platform: &str, component: &str, times: &[f64]) -> Result<(String, Vec<String>), String> {
        capacity(&plan(platform), &Times { component: component.into(), times: times.to_vec() })
    }

    #[test]
    fn a_capacity_is_set_by_a_quota_or_by_replicas() {
        let found = |platform: &str, times: &[f64]| key(platform, "broker", times).unwrap();
        let texts = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found("embedded", &[2.0, 3.0]),
            ("platform.replicas.broker".to_owned(), texts(&["2", "3"]))
        );
        assert_eq!(
            found("{ profile: embedded, quotas: { broker: 0.25 } }", &[2.0, 3.0]),
            ("platform.quotas.broker".to_owned(), texts(&["0.5", "0.75"]))
        );
        let limited = "{ profile: embedded, quotas: { broker: { processors: 0.25, period: 10ms } } }";
        assert_eq!(found(limited, &[2.0]).0, "platform.quotas.broker.processors");
        assert_eq!(found("{ profile: embedded, replicas: { broker: 2 } }", &[1.5]).1, texts(&["3"]));
        assert!(key("embedded", "broker", &[1.5]).unwrap_err().contains("1.5 replicas"));
        assert!(key("embedded", "store", &[2.0]).unwrap_err().contains("--check"));
    }
}
