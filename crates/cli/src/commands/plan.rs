//! `plimsoll plan`: what stored runs say of configurations that nobody ran.

use super::stored::{StoreOption, observed};
use crate::exit_code;
use crate::failure::Failure;
use crate::output::say;
use clap::Args;
use plimsoll_analysis::capacity_plan::{self, Basis, Question};
use plimsoll_analysis::summarize;
use plimsoll_model::Nanos;
use plimsoll_model::record::RunRecord;
use plimsoll_report::capacity_plan as render;
use plimsoll_store::RunReader;
use std::collections::BTreeMap;

/// More combinations than that are no table any more.
const MOST: usize = 200;

/// Predicts the load line, the limit and the cost of configurations that were not run
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll plan last
  plimsoll plan 3vk1 a81x b07q --times store=2,4 --times front=1,2
  plimsoll plan last --demand 5000
  plimsoll plan last --devices 20000 --every 10s
  plimsoll plan last --times store=1,2 --at 800
  plimsoll plan last --times store=2 --check 9c2e

Predictions start from runs of one configuration that found a load line and what
limits it. --times multiplies what a component has: replicas, processors, or
its quota. Without it, what limits has two, three and four times as much.")]
pub struct Plan {
    /// Runs of one configuration: ids, their beginnings, `last`, or names of scenarios
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    runs: Vec<String>,
    /// Capacities of a component, in present ones, as in store=2,4 (repeatable: each with each)
    #[arg(long, value_name = "COMPONENT=N,...", value_parser = times)]
    times: Vec<Times>,
    /// Find a configuration that sustains so many operations per second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    demand: Option<f64>,
    /// The component that limits, where the runs do not name it
    #[arg(long, value_name = "COMPONENT")]
    limit: Option<String>,
    /// Predict times at so many operations per second, by simulation (repeatable)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at: Vec<f64>,
    /// Devices that the platform is to have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
    /// How often each of --devices sends a message, as in 60s: together they are the demand
    #[arg(long, value_name = "TIME", value_parser = every, requires = "devices", conflicts_with = "demand")]
    every: Option<Nanos>,
    /// Runs of the configuration of --times, to set beside the prediction (repeatable)
    #[arg(long, value_name = "RUN")]
    check: Vec<String>,
    #[command(flatten)]
    store: StoreOption,
    /// Print the machine-readable plan instead
    #[arg(long)]
    json: bool,
}

/// Capacities of a component.
#[derive(Clone)]
struct Times {
    component: String,
    times: Vec<f64>,
}

impl Plan {
    pub fn perform(self) -> Result<u8, Failure> {
        let reader = RunReader::open(&self.store.store)?;
        let read = |ids: &[String]| -> Result<Vec<RunRecord>, Failure> {
            ids.iter().map(|id| Ok(observed(reader.run(id)?))).collect()
        };
        let (records, checks) = (read(&self.runs)?, read(&self.check)?);
        let summaries: Vec<_> = records.iter().map(summarize).collect();
        let runs = records.iter().zip(&summaries);
        let basis: Vec<Basis<'_>> = runs.map(|(record, summary)| Basis { record, summary }).collect();
        let question = Question {
            configurations: configurations(&self.times).map_err(Failure::Usage)?,
            demand: self.demand(),
            devices: self.devices,
            at: self.at.clone(),
            limit: self.limit.clone(),
        };
        let mut plan = capacity_plan::of(&basis, &question).map_err(Failure::Usage)?;
        if !checks.is_empty() {
            let checks: Vec<_> = checks.iter().map(summarize).collect();
            plan.check(&checks.iter().collect::<Vec<_>>()).map_err(Failure::Usage)?;
        }
        say(&if self.json { render::json(&plan) } else { render::terminal(&plan) });
        Ok(exit_code::MET)
    }
}

impl Plan {
    /// What the platform is to sustain, in operations per second.
    fn demand(&self) -> Option<f64> {
        let of_devices = || Some(f64::from(self.devices?) / self.every?.as_secs_f64());
        self.demand.or_else(of_devices)
    }
}

/// Each capacity of a component with each of the others.
fn configurations(all: &[Times]) -> Result<Vec<BTreeMap<String, f64>>, String> {
    let mut found = vec![BTreeMap::new()];
    for Times { component, times } in all {
        if found.first().is_some_and(|first| first.contains_key(component)) {
            return Err(format!(
                "--times names {component} twice: write all its numbers at once, as in {component}=2,4"
            ));
        }
        let with = |known: &BTreeMap<String, f64>, times: f64| {
            let mut known = known.clone();
            known.insert(component.clone(), times);
            known
        };
        found = found.iter().flat_map(|known| times.iter().map(move |times| with(known, *times))).collect();
        if found.len() > MOST {
            return Err(format!("--times makes more than {MOST} configurations: leave some out"));
        }
    }
    Ok(if all.is_empty() { Vec::new() } else { found })
}

fn times(text: &str) -> Result<Times, String> {
    let form = "write a component and its capacities in present ones, as in store=2,4";
    let (component, numbers) = text.split_once('=').ok_or(form)?;
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.01..=10_000.0).contains(number));
    let times: Option<Vec<f64>> = numbers.split(',').map(number).collect();
    let times = times.ok_or_else(|| format!("capacities are numbers from 0.01 to 10000; {form}"))?;
    Ok(Times { component: component.trim().to_owned(), times })
}

fn every(text: &str) -> Result<Nanos, String> {
    let time = plimsoll_scenario::duration(text)?;
    if time > Nanos::ZERO {
        Ok(time)
    } else {
        Err("a device waits for some time between two messages".to_owned())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.trim_end_matches("/s").parse::<f64>().ok();
    rate.filter(|rate| *rate > 0.0 && rate.is_finite())
        .ok_or_else(|| "a load is a number of operations per second, as in 5000".to_owned())
}
