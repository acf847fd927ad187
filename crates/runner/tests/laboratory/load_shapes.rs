//! Loads that change: the times at which a curve is too much, recovery from a spike, and platforms that stay slow after an overload. What
//! is true follows from queueing, or was planted.

use crate::bench::{Setup, between, seeds};
use crate::coverage::least;
use plimsoll_analysis::faults::Outcome;
use plimsoll_analysis::hysteresis::Change;
use plimsoll_analysis::level::LevelVerdict;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;

/// Seconds of a curve, and of its samples.
const HOLD: f64 = 120.0;
const SAMPLE: f64 = 2.0;
/// What a broker with a service time of 2 ms serves a second, and how many waiting messages take 50 ms.
const CAPACITY: f64 = 500.0;
const WAITING: f64 = 25.0;
const LOW: f64 = 100.0;

/// From 100/s evenly to a peak after a minute, and back.
fn along_a_curve(peak: f64, arrivals: &str, law: &str, seed: u64) -> Summary {
    let half = HOLD / 2.0;
    let points = format!(
        "[{{ at: 0s, rate: {LOW} }}, {{ at: {half}s, rate: {peak} }}, {{ at: {HOLD}s, rate: {LOW} }}]"
    );
    let samples = HOLD / SAMPLE;
    let setup = Setup {
        stations: format!("{{ name: broker, service: 2ms, law: {law} }}"),
        load: format!(
            "curve: {{ points: {points} }}, arrivals: {arrivals}, samples: {samples}, warm_up: 1s, drain: 20s"
        ),
        objectives: "delivered: \">= 99.9 %\", achieved: null, publish_p99: \"< 50 ms\"".into(),
        ..Setup::default()
    };
    setup.run(seed)
}

/// Of even arrivals and services, the backlog is the area between load and capacity, so it is known when a message waits for 50 ms.
#[test]
fn the_time_at_which_a_curve_is_too_much_is_found() {
    for seed in 0..seeds() {
        let peak = between(seed, 560.0, 700.0).round();
        let summary = along_a_curve(peak, "constant", "deterministic", seed);
        let slope = (peak - LOW) / (HOLD / 2.0);
        let crossing = (CAPACITY - LOW) / slope;
        let begins = crossing + (2.0 * WAITING / slope).sqrt();
        // Two triangles of backlog, which drains as the load falls on.
        let backlog = (peak - CAPACITY).powi(2) / slope;
        let ends = HOLD - crossing + (2.0 * (backlog - WAITING) / slope).sqrt();
        let level = &summary.levels[0];
        let curve = level.curve.as_ref().unwrap();
        let [missed] = curve.missed.as_slice() else { panic!("seed {seed}: {:#?}", curve.missed) };
        let [from, to] = missed.span;
        assert!(
            (from - begins).abs() <= SAMPLE,
            "seed {seed}, peak {peak}: from {from}, planted {begins:.1}"
        );
        assert!((to - ends).abs() <= SAMPLE, "seed {seed}, peak {peak}: to {to}, planted {ends:.1}");
        // At equal load, messages wait on the way down and not on the way up.
        assert_eq!(missed.at_least, None, "seed {seed}");
        assert_eq!((level.verdict, summary.verdict), (LevelVerdict::Missed, Verdict::Missed));
        assert_eq!(summary.load_line, None);
        let told = format!("was missed from {from:.1} s to {to:.1} s");
        assert!(summary.reason.contains(&told), "seed {seed}: {}", summary.reason);
        let offered: f64 = curve.parts.iter().map(|part| part.offered * SAMPLE).sum();
        assert!(
            (offered - level.due as f64).abs() <= 2.0,
            "seed {seed}: {offered} offered, {} due",
            level.due
        );
    }
}

/// At 300/s, a message of twenty thousand takes longer than 50 ms (M/M/1: exp(-200/s x 50 ms)). Slow ones come together, since they wait
/// behind each other, so that a sample may miss by itself: in no more runs than one of twenty.
#[test]
fn a_curve_within_the_capacity_is_met_all_along() {
    let trials = seeds();
    let mut alarms = 0;
    for seed in 0..trials {
        let summary = along_a_curve(300.0, "poisson", "exponential", 1_000 + seed);
        let curve = summary.levels[0].curve.as_ref().unwrap();
        assert_eq!(summary.load_line, None);
        if !curve.missed.is_empty() {
            println!("seed {seed}: {}", summary.reason);
            assert_eq!(summary.verdict, Verdict::Missed, "seed {seed}");
            alarms += 1;
            continue;
        }
        assert_eq!(summary.verdict, Verdict::Met, "seed {seed}: {}", summary.reason);
        assert!(curve.parts.iter().all(|part| part.met == Some(true)), "seed {seed}");
    }
    println!("of {trials} curves within the capacity, {alarms} are said to be too much");
    assert!(trials - alarms >= least(trials), "{alarms} of {trials}");
}

/// Twice the capacity for so long leaves as many seconds of work, which drain with what 100/s leave of the capacity.
#[test]
fn recovery_from_a_spike_takes_as_long_as_its_backlog() {
    const SHORT: f64 = 0.25;
    for seed in 0..seeds() {
        let lasts = (between(seed, 1.0, 3.0) * 10.0).round() / 10.0;
        let setup = Setup {
            stations: "{ name: broker, service: 2ms, law: deterministic }".into(),
            load: format!(
                "spike: {{ from: {LOW}, to: 1000, at: 5s, for: {}ms }}, arrivals: constant, hold: 20s, samples: 80, warm_up: 1s",
                (lasts * 1e3).round()
            ),
            objectives: "delivered: \">= 99.9 %\", publish_p99: \"< 50 ms\", fault_recovery: \"< 10 s\""
                .into(),
            ..Setup::default()
        };
        let summary = setup.run(seed);
        let level = &summary.levels[0];
        let [spike] = level.faults.as_slice() else { panic!("{:?}", level.faults) };
        assert_eq!(
            (spike.kind, spike.recovery.outcome),
            ("spike", Outcome::Recovered),
            "seed {seed}: {spike:#?}"
        );
        let planted = (CAPACITY * lasts - WAITING) / (CAPACITY - LOW);
        let found = spike.recovery.from_end.unwrap();
        assert!((found - planted).abs() <= 2.0 * SHORT, "seed {seed}: {found:.2} s, planted {planted:.2} s");
        let parts =
            [Some(&spike.before), Some(&spike.during), spike.recovering.as_ref(), spike.after.as_ref()];
        assert_eq!(parts.into_iter().flatten().map(|part| part.due).sum::<u64>(), level.due);
        assert_eq!(level.curve.as_ref().unwrap().missed, []);
        assert_eq!(summary.verdict, Verdict::Met, "seed {seed}: {}", summary.reason);
        assert!(summary.reason.contains("recovered"), "{}", summary.reason);
    }
}

/// Up to 400/s and down again at a broker that serves 1,000/s, or half of that from the middle of the highest level on.
fn up_and_down(levels: &str, stays_slow: bool, seed: u64) -> Summary {
    let setup = Setup {
        stations: "{ name: broker, service: 1ms }".into(),
        faults: if stays_slow { "{ kind: slow, times: 2, at: 28s }".into() } else { String::new() },
        load: format!("levels: {levels}, ramp_down: true, hold: 10s, samples: 20, warm_up: 1s, again: 0s"),
        objectives: "delivered: \">= 99.9 %\", achieved: null, publish_p99: null, publish_p90: \"< 50 ms\""
            .into(),
        ..Setup::default()
    };
    setup.run(seed)
}

#[test]
fn a_platform_that_stays_slow_shows_hysteresis() {
    for seed in 0..seeds() {
        let summary = up_and_down("[100, 200, 400]", true, 2_000 + seed);
        let found = summary.hysteresis.as_ref().unwrap();
        let loads: Vec<&str> = found.pairs.iter().map(|pair| pair.load.as_str()).collect();
        assert_eq!(loads, ["200/s", "100/s"]);
        let slower = found.pairs.iter().all(|pair| pair.change == Change::Slower);
        assert!(slower && found.seen, "seed {seed}: {found:#?}");
        assert!(found.told.contains("has not recovered"), "{}", found.told);
        // The load line is that of the way up.
        let line = summary.load_line.as_ref().unwrap();
        assert!(!summary.levels[usize::from(line.level)].falling, "seed {seed}");
    }
}

/// In at most 5 % of the runs, any interval misses the factor of one.
#[test]
fn a_platform_that_recovers_shows_none() {
    // With and without an overload at the top.
    let trials = 2 * seeds();
    let (mut covered, mut alarms) = (0, 0);
    for seed in 1..=trials {
        let levels = if seed % 2 == 0 { "[100, 200, 400]" } else { "[100, 300, 1200]" };
        let summary = up_and_down(levels, false, 3_000 + seed);
        let found = summary.hysteresis.as_ref().unwrap();
        assert_eq!(found.pairs.len(), 2);
        let covers = |[lo, hi]: [f64; 2]| lo <= 1.0 && 1.0 <= hi;
        covered += u64::from(found.pairs.iter().all(|pair| pair.interval.is_some_and(covers)));
        alarms += u64::from(found.seen);
    }
    println!(
        "of {trials} platforms that recover, {alarms} are said not to; {covered} have one in all intervals"
    );
    assert_eq!(alarms, 0);
    assert!(covered >= least(trials), "{covered} of {trials}");
}
