//! Whether the intervals that judgements rest on cover the truth as often as they say.

use super::bench::{Setup, seeds};
use plimsoll_model::Metric;

/// How often 95 % intervals must cover in so many trials so that an exact binomial test at 1 % does not refuse them.
pub fn least(trials: u64) -> u64 {
    // The largest count whose lower tail has a probability below 1 %.
    let (n, p) = (trials as f64, 0.95f64);
    let mut tail = 0.0;
    let mut log_choose = 0.0;
    for count in 0..=trials {
        let k = count as f64;
        tail += (log_choose + k * p.ln() + (n - k) * (1.0 - p).ln()).exp();
        if tail > 0.01 {
            return count;
        }
        log_choose += ((n - k) / (k + 1.0)).ln();
    }
    trials
}

/// The truth of M/M/1 at half load: the median of the time from send is ln 2 / (mu - lambda), and a platform that keeps up
/// has no growing backlog.
#[test]
fn intervals_of_quantiles_and_of_what_was_achieved_cover() {
    let trials = seeds().max(40);
    let setup = Setup {
        more: "  network: { round_trip: 0us, jitter: 0us }\n  generator_cost: 0us\n".into(),
        load: "levels: [500], hold: 10s, samples: 20, warm_up: 1s, again: 0s".into(),
        ..Setup::default()
    };
    let truth = |q: f64| -(1.0 - q).ln() / 500.0;
    let (mut median, mut tail, mut achieved) = (0, 0, 0);
    for seed in 1..=trials {
        let summary = setup.run(seed);
        let level = &summary.levels[0];
        let covers = |interval: Option<[f64; 2]>, truth: f64| {
            let [lo, hi] = interval.unwrap();
            u64::from(lo <= truth && truth <= hi)
        };
        median += covers(level.times[Metric::PublishTimeFromSend].quantiles_ci95.p50, truth(0.5));
        tail += covers(level.times[Metric::PublishTimeFromSend].quantiles_ci95.p99, truth(0.99));
        achieved += covers(level.achieved_ci95, 1.0);
    }
    println!("of {trials} intervals cover: median {median}, p99 {tail}, achieved {achieved}");
    let least = least(trials);
    assert!(
        median >= least && tail >= least && achieved >= least,
        "{median} {tail} {achieved}, least {least}"
    );
}

#[test]
fn the_test_of_coverage_is_exact() {
    // 200 trials at 95 %: 181 or fewer have a probability of 0.6 %, 182 or fewer of 1.3 %.
    assert_eq!(least(200), 182);
}
