//! Predictions of configurations that were not run, against runs of them.

use super::bench::{Setup, between, seeds};
use super::changes::setup;
use super::coverage::least;
use plimsoll_analysis::capacity_plan::{self, Basis, CapacityPlan, Question};
use plimsoll_analysis::summary::Summary;
use std::collections::BTreeMap;

/// How often the configuration that predictions start from is run.
const TURNS: u64 = 3;
/// Devices of a run.
const DEVICES: u32 = 50;

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

fn plan(runs: &[Summary], times: [u32; 3]) -> Result<CapacityPlan, String> {
    let basis: Vec<Basis<'_>> = runs.iter().map(|summary| Basis { summary, devices: DEVICES }).collect();
    let names = ["front", "broker", "store"].map(str::to_owned);
    let times: BTreeMap<String, f64> = names.into_iter().zip(times.map(f64::from)).collect();
    capacity_plan::of(&basis, &Question { configurations: vec![times], ..Question::default() })
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
        let before: Vec<Summary> =
            (0..TURNS).map(|turn| chain.with([1; 3]).run(seed * TURNS + turn)).collect();
        let mut plan = match plan(&before, times) {
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
