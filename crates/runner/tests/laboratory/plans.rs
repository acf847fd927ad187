//! Predictions of configurations that were not run, against runs of them.

use super::bench::{Setup, between, seeds};
use super::changes::setup;
use super::coverage::least;
use plimsoll_analysis::capacity_plan::{self, Basis, CapacityPlan, Question};
use plimsoll_runner::Outcome;
use std::collections::BTreeMap;

/// How often the configuration that predictions start from is run.
const TURNS: u64 = 3;

/// Three stations in a row, of which the store limits; service times in microseconds.
struct Chain {
    front: f64,
    broker: f64,
    store: f64,
}

impl Chain {
    fn of(seed: u64) -> Chain {
        let store = between(seed, 600.0, 3000.0).round();
        let share = |number: u64, low, high| (store * between(seed * number, low, high)).round();
        Chain { front: share(7, 0.05, 0.6), broker: share(11, 0.05, 0.3), store }
    }

    /// With so many workers of each.
    fn with(&self, [front, broker, store]: [u32; 3]) -> Setup {
        setup(format!(
            "{{ name: front, service: {}us, workers: {front} }}, {{ name: broker, service: {}us, workers: {broker} }}, \
             {{ name: store, service: {}us, workers: {store} }}",
            self.front, self.broker, self.store
        ))
    }
}

const NAMES: [&str; 3] = ["front", "broker", "store"];

fn plan(runs: &[Outcome], times: [u32; 3], at: Vec<f64>) -> Result<CapacityPlan, String> {
    let names = NAMES.map(str::to_owned);
    let times: BTreeMap<String, f64> = names.into_iter().zip(times.map(f64::from)).collect();
    asked(runs, &Question { configurations: vec![times], at, ..Question::default() })
}

fn asked(runs: &[Outcome], question: &Question) -> Result<CapacityPlan, String> {
    let basis: Vec<Basis<'_>> =
        runs.iter().map(|run| Basis { record: &run.record, summary: &run.summary }).collect();
    capacity_plan::of(&basis, question)
}

/// One of each was run; two to four of the store, and one or two of the others, are predicted and then run.
#[test]
fn configurations_that_were_not_run_do_what_was_predicted() {
    let trials = seeds();
    let (mut predicted, mut rightly, mut widths) = (0, 0, Vec::new());
    for seed in 1..=trials {
        let chain = Chain::of(seed);
        let others = if seed % 2 == 0 { 1 } else { 2 };
        let times = [others, 1, 2 + (seed % 3) as u32];
        let before: Vec<Outcome> =
            (0..TURNS).map(|turn| chain.with([1; 3]).outcome(seed * TURNS + turn)).collect();
        let mut plan = match plan(&before, times, Vec::new()) {
            Ok(plan) => plan,
            Err(why) => {
                println!("seed {seed}: {why}");
                continue;
            }
        };
        predicted += 1;
        plan.check(&[&chain.with(times).run(1_000_000 + seed)]).unwrap();
        let found = &plan.configurations[0];
        let is_so = found.is_as_predicted == Some(true);
        if !is_so {
            println!(
                "seed {seed}: {} {} {} us, {times:?}: {found:?}",
                chain.front, chain.broker, chain.store
            );
        }
        rightly += u64::from(is_so);
        let [least, most] =
            [found.load_line.least.unwrap_or(0.0), found.load_line.most.unwrap_or(f64::INFINITY)];
        widths.push((most / least).sqrt() - 1.0);
    }
    widths.sort_by(f64::total_cmp);
    let median = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
    println!(
        "of {trials} configurations {predicted} are predicted, {rightly} rightly; half of a prediction is {median:.3} of its middle"
    );
    assert!(predicted >= least(trials) && rightly >= least(predicted), "{predicted} {rightly}");
    assert!(median <= 0.1, "{median}");
}

/// The configuration that a plan finds for a demand is run: its load line may be that demand or more. Without prices it has the fewest
/// additions.
#[test]
fn what_is_enough_for_a_demand_sustains_it() {
    let trials = seeds();
    let (mut found, mut enough, mut spare) = (0, 0, Vec::new());
    for seed in 1..=trials {
        let chain = Chain::of(seed);
        let before: Vec<Outcome> =
            (0..TURNS).map(|turn| chain.with([1; 3]).outcome(seed * TURNS + turn)).collect();
        let demand = (1e6 / chain.store * between(seed * 17, 1.2, 3.5)).round();
        let question = Question { demand: Some(demand), ..Question::default() };
        let planned = match asked(&before, &question) {
            Ok(plan) => plan.enough,
            Err(why) => {
                println!("seed {seed}: {why}");
                None
            }
        };
        let Some(planned) = planned else { continue };
        found += 1;
        let workers = NAMES.map(|name| planned.change.factor(name).round() as u32);
        let after = chain.with(workers).run(3_000_000 + seed);
        let most = after.load_line.as_ref().and_then(|line| line.most().or(line.rate));
        let is_enough = most.is_some_and(|most| most >= demand);
        if !is_enough {
            println!(
                "seed {seed}: {} {} {} us, {workers:?} for {demand}/s: {:?}",
                chain.front, chain.broker, chain.store, after.load_line
            );
        }
        enough += u64::from(is_enough);
        spare.push(most.unwrap_or_default() / demand - 1.0);
    }
    spare.sort_by(f64::total_cmp);
    let median = spare.get(spare.len() / 2).copied().unwrap_or_default();
    println!(
        "of {trials} demands {found} have a configuration, {enough} of which sustain it, by {median:.2} more in the median"
    );
    assert!(found >= least(trials) && enough >= least(found), "{found} {enough}");
}

/// Quantiles of publish time at loads that were not run, of one and of two workers of the store.
#[test]
fn times_at_loads_that_were_not_run_lie_where_they_were_predicted() {
    let trials = seeds();
    let (mut predicted, mut rightly, mut widths) = (0, 0, Vec::new());
    for seed in 1..=trials {
        let store = between(seed, 1500.0, 3000.0).round();
        let chain = Chain { front: (store * 0.05).round(), broker: (store * 0.1).round(), store };
        let workers = 1 + (seed % 2) as u32;
        let rate = (f64::from(workers) * 1e6 / store * between(seed * 13, 0.4, 0.85)).round();
        let before: Vec<Outcome> =
            (0..TURNS).map(|turn| chain.with([1; 3]).outcome(seed * TURNS + turn)).collect();
        let plan = plan(&before, [1, 1, workers], vec![rate]).unwrap();
        let Some(found) = plan.configurations[0].times_at.first() else {
            println!("seed {seed}: {:?}", plan.open);
            continue;
        };
        let mut setup = chain.with([1, 1, workers]);
        setup.load = format!("levels: [{rate}], hold: 60s, samples: 20, warm_up: 5s, again: 0s");
        let after = setup.run(2_000_000 + seed);
        let times = &after.levels[0].times[plimsoll_model::Metric::PublishTime];
        for (own, measured) in found.quantiles.iter().zip([times.p50, times.p95, times.p99]) {
            predicted += 1;
            let measured = measured.unwrap();
            let is_so = own.least <= measured && measured <= own.most;
            if !is_so {
                println!(
                    "seed {seed}: store {store} us, {workers} at {rate}/s, {measured}: {own:?} of {found:?}"
                );
            }
            rightly += u64::from(is_so);
            widths.push((own.most / own.least).sqrt() - 1.0);
        }
    }
    widths.sort_by(f64::total_cmp);
    let median = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
    println!(
        "of {trials} loads, {predicted} quantiles are predicted, {rightly} rightly; half of a prediction is {median:.3} of its middle"
    );
    assert!(predicted >= 3 * least(trials) && rightly >= least(predicted), "{predicted} {rightly}");
}
