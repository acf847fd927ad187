//! `plimsoll plan`: what stored runs say of configurations that nobody ran.

mod held_out;

use super::stored::StoreOption;
use crate::exit_code;
use crate::failure::Failure;
use crate::output::{complain, say};
use clap::Args;
use held_out::HeldOut;
use plimsoll_analysis::capacity_plan::{self, Basis, CapacityPlan, Question};
use plimsoll_analysis::rejudged::rejudged;
use plimsoll_analysis::summarize;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Nanos;
use plimsoll_model::objective::Objective;
use plimsoll_model::record::RunRecord;
use plimsoll_report::capacity_plan as render;
use plimsoll_runner::stored::observed;
use plimsoll_store::{RunReader, keep_plan_checks};
use std::collections::BTreeMap;

/// More combinations than that are no table any more.
const MOST: usize = 200;

/// Predicts the load line, the limit and the cost of configurations that were not run
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll plan last
  plimsoll plan 3vk1 a81x b07q --times store=2,4 --times front=1,2
  plimsoll plan last --demand 5000
  plimsoll plan last --devices 20000 --every 10s \\
      --objective \"publish_p99 < 200 ms\"
  plimsoll plan last --faster store=1.3
  plimsoll plan last --times store=1,2 --at 800
  plimsoll plan last --times store=2 --check 9c2e
  plimsoll plan last --times store=2,3 --run
  plimsoll plan 3vk1 a81x --mix sensors=7,cameras=3

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
    /// Processors of a component so many times as fast, as in store=1.3 (repeatable)
    #[arg(long, value_name = "COMPONENT=N", value_parser = faster)]
    faster: Vec<(String, f64)>,
    /// Find the cheapest configuration that sustains so many operations per second
    #[arg(long, value_name = "RATE", value_parser = rate)]
    demand: Option<f64>,
    /// What a level must meet, as "publish_p99 < 50 ms", in place of the scenario's objective of that
    /// name (repeatable)
    #[arg(long, value_name = "OBJECTIVE")]
    objective: Vec<String>,
    /// The component that limits, where the runs do not name it
    #[arg(long, value_name = "COMPONENT")]
    limit: Option<String>,
    /// Predict times at so many operations per second, by simulation (repeatable)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at: Vec<f64>,
    /// Devices that the platform is to have, as in 20000 or 1M
    #[arg(long, value_name = "N", value_parser = devices)]
    devices: Option<u32>,
    /// How often each of --devices sends a message, as in 60s: together they are the demand
    #[arg(long, value_name = "TIME", value_parser = every, requires = "devices", conflicts_with = "demand")]
    every: Option<Nanos>,
    /// Shares of the operations that populations have, between two mixes that were run
    #[arg(long, value_name = "POPULATION=SHARE,...", value_parser = mix)]
    mix: Option<Mix>,
    /// Runs of the configuration of --times, to set beside the prediction (repeatable)
    #[arg(long, value_name = "RUN")]
    check: Vec<String>,
    /// Run each configuration of --times, and set it beside its prediction
    #[arg(long, requires = "times", conflicts_with_all = ["check", "faster", "mix"])]
    run: bool,
    /// How often --run runs each of them
    #[arg(long, value_name = "N", default_value_t = 1, requires = "run",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
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

/// Shares of populations.
#[derive(Clone)]
struct Mix(BTreeMap<String, f64>);

impl Plan {
    pub fn perform(self) -> Result<u8, Failure> {
        let objectives = self.objectives()?;
        let reader = RunReader::open(&self.store.store)?;
        let read = |ids: &[String]| -> Result<Vec<RunRecord>, Failure> {
            ids.iter().map(|id| judged(observed(reader.run(id)?), &objectives)).collect()
        };
        let (records, checks) = (read(&self.runs)?, read(&self.check)?);
        let summaries: Vec<_> = records.iter().map(summarize).collect();
        let runs = records.iter().zip(&summaries);
        let basis: Vec<Basis<'_>> = runs.map(|(record, summary)| Basis { record, summary }).collect();
        let question = Question { residuals: reader.plan_checks()?, ..self.question()? };
        let mut plan = capacity_plan::of(&basis, &question).map_err(|why| self.refused(&why))?;
        if !checks.is_empty() {
            let ids = checks.iter().map(|run| run.id.clone()).collect();
            let checks: Vec<_> = checks.iter().map(summarize).collect();
            plan.check(&checks.iter().collect::<Vec<_>>()).map_err(Failure::Usage)?;
            self.keep(&plan, &[ids]);
        }
        if let Some(record) = records.first().filter(|_| self.run) {
            self.check_by_runs(&mut plan, record, &objectives)?;
        }
        say(&if self.json { render::json(&plan) } else { render::terminal(&plan) });
        Ok(exit_code::MET)
    }

    /// Runs each configuration, and sets it beside its prediction.
    fn check_by_runs(
        &self,
        plan: &mut CapacityPlan,
        record: &RunRecord,
        objectives: &[Objective],
    ) -> Result<(), Failure> {
        let held_out = HeldOut {
            record,
            store: &self.store,
            times: &self.times,
            objectives: &self.objective,
            repeat: self.repeat,
            quiet: self.json,
        };
        let most = plan.configurations.iter().filter_map(|own| own.load_line.most).reduce(f64::max);
        let runs = held_out.run(most)?;
        let reader = RunReader::open(&self.store.store)?;
        let mut checks = Vec::new();
        let mut without = Vec::new();
        for own in &mut plan.configurations {
            let ids = runs.iter().find(|(times, _)| *times == own.change.times).map(|(_, ids)| ids.clone());
            let ids = ids.unwrap_or_default();
            let read = |id: &String| judged(reader.run_of_id(id)?, objectives);
            let records: Vec<RunRecord> = ids.iter().map(read).collect::<Result<_, Failure>>()?;
            let summaries: Vec<Summary> = records.iter().map(summarize).collect();
            if let Err(why) = own.check(&summaries.iter().collect::<Vec<_>>()) {
                without.push(format!("{}: {why}", own.change.in_words()));
            }
            checks.push(ids);
        }
        plan.open.extend(without);
        self.keep(plan, &checks);
        Ok(())
    }

    /// Keeps how far runs lay from their predictions, for later plans of other platforms.
    fn keep(&self, plan: &CapacityPlan, checks: &[Vec<String>]) {
        let residuals = plan.residuals(checks);
        if residuals.is_empty() {
            return;
        }
        if let Err(why) = keep_plan_checks(&self.store.store, &residuals) {
            complain(&format!("the check is not kept for later plans: {why}"));
        }
    }

    fn question(&self) -> Result<Question, Failure> {
        Ok(Question {
            configurations: configurations(&self.times).map_err(Failure::Usage)?,
            faster: self.faster.iter().cloned().collect(),
            demand: self.demand(),
            devices: self.devices,
            at: self.at.clone(),
            limit: self.limit.clone(),
            mix: self.mix.clone().map(|Mix(shares)| shares),
            residuals: Vec::new(),
        })
    }

    fn objectives(&self) -> Result<Vec<Objective>, Failure> {
        let read = |text: &String| plimsoll_scenario::objective(text).map_err(Failure::Usage);
        self.objective.iter().map(read).collect()
    }

    /// Why nothing is predicted: other objectives may be the reason.
    fn refused(&self, why: &str) -> Failure {
        match self.objective.as_slice() {
            [] => Failure::Usage(why.to_owned()),
            own => Failure::Usage(format!("with {}: {why}", own.join(" and "))),
        }
    }

    /// What the platform is to sustain, in operations per second.
    fn demand(&self) -> Option<f64> {
        let of_devices = || Some(f64::from(self.devices?) / self.every?.as_secs_f64());
        self.demand.or_else(of_devices)
    }
}

/// A run as it is judged by some objectives.
fn judged(record: RunRecord, objectives: &[Objective]) -> Result<RunRecord, Failure> {
    rejudged(record, objectives).map_err(Failure::Usage)
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
    let times: Option<Vec<f64>> = numbers.split(',').map(factor).collect();
    let times = times.ok_or_else(|| format!("capacities are numbers from 0.01 to 10000; {form}"))?;
    Ok(Times { component: component.trim().to_owned(), times })
}

fn factor(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| (0.01..=10_000.0).contains(number))
}

fn faster(text: &str) -> Result<(String, f64), String> {
    let form = "write a component and how many times as fast its processors are, as in store=1.3";
    let (component, number) = text.split_once('=').ok_or(form)?;
    let number = factor(number).ok_or_else(|| format!("that is a number from 0.01 to 10000; {form}"))?;
    Ok((component.trim().to_owned(), number))
}

fn mix(text: &str) -> Result<Mix, String> {
    let form = "write the share of each population, as in sensors=7,cameras=3";
    let share = |own: &str| {
        let (name, share) = own.split_once('=')?;
        let share = share.trim().parse::<f64>().ok().filter(|share| *share >= 0.0 && share.is_finite())?;
        Some((name.trim().to_owned(), share))
    };
    let shares: Option<BTreeMap<String, f64>> = text.split(',').map(share).collect();
    shares.filter(|shares| shares.values().sum::<f64>() > 0.0).map(Mix).ok_or_else(|| form.to_owned())
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
    let rate = amount(text.trim_end_matches("/s"));
    rate.ok_or_else(|| "a load is a number of operations per second, as in 5000 or 5k".to_owned())
}

fn devices(text: &str) -> Result<u32, String> {
    let count = amount(text).filter(|count| count.fract() == 0.0 && *count <= f64::from(u32::MAX));
    count.map(|count| count as u32).ok_or_else(|| "devices are a whole number, as in 20000 or 1M".to_owned())
}

/// A number above zero, in thousands (k) or millions (M) where it says so.
fn amount(text: &str) -> Option<f64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (place, 'k') => (text.get(..place)?, 1e3),
        (place, 'M') => (text.get(..place)?, 1e6),
        _ => (text, 1.0),
    };
    let amount = number.trim().parse::<f64>().ok()? * unit;
    (amount > 0.0 && amount.is_finite()).then_some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_may_be_thousands_and_millions() {
        assert_eq!(["1M", "20000", "2.5k"].map(devices), [1_000_000, 20_000, 2_500].map(Ok));
        assert_eq!(["5k/s", "5000"].map(rate), [5000.0, 5000.0].map(Ok));
        for wrong in ["", "0", "-5", "1.5", "M", "1G", "5000M"] {
            assert!(devices(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_and_factors_are_read_with_their_names() {
        let Mix(shares) = mix("sensors=7, cameras=3").unwrap();
        assert_eq!(
            shares.into_iter().collect::<Vec<_>>(),
            [("cameras".into(), 3.0), ("sensors".into(), 7.0)]
        );
        assert!(mix("sensors").is_err() && mix("sensors=0").is_err() && mix("sensors=-1").is_err());
        assert_eq!(faster("store=1.3"), Ok(("store".into(), 1.3)));
        assert!(faster("store=0").is_err() && faster("1.3").is_err());
    }
}
