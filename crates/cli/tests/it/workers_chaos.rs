//! Workers, their server and their coordinator on bad days, at random: what counts is exact, and what does not count says why.

use crate::harness::{Bench, STORE, count};
use crate::workers::Fleet;
use rustix::process::Signal;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Levels enough for some before, during and after what happens.
const SCENARIO: &str = "name: chaos
platform: embedded
seed: 23
population: { devices: 30, subscribers: 2 }
mqtt: { qos: 1 }
load: { levels: [60, 80, 60, 80], hold: 3s, samples: 3, warm_up: 200ms, drain: 3s, again: 0s }
objectives: { publish_p99: null, achieved: null, delivered: null, subscribe_p50: \"< 10 s\" }
";
const WORKERS: usize = 3;
/// Runs beside each other: they wait more than they work.
const AT_ONCE: usize = 3;
/// The longest that a run may take: a worker that is gone is waited for.
const LONGEST: Duration = Duration::from_secs(240);

/// What happens, and for how long.
#[derive(Clone, Copy, Debug)]
enum Event {
    WorkerKilled(usize),
    WorkerStopped(usize, Duration),
    ServerKilled(Duration),
    CoordinatorKilled,
}

/// Event and moment of a seed: a splitmix generator.
fn event(seed: u64) -> (Event, Duration) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |bound: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    };
    let moment = Duration::from_millis(below(10_000));
    let absence = Duration::from_millis(200 + below(9_000));
    let worker = below(WORKERS as u64) as usize;
    let event = match below(8) {
        0 => Event::CoordinatorKilled,
        1 => Event::WorkerKilled(worker),
        2..=4 => Event::WorkerStopped(worker, absence),
        _ => Event::ServerKilled(absence),
    };
    (event, moment)
}

/// The levels of a run on which that befalls.
fn levels(seed: u64) -> Vec<Value> {
    let bench = Bench::beside_others();
    let mut fleet = Fleet::begin(&bench, WORKERS);
    let (event, moment) = event(seed);
    let going_on = fleet.run(&bench, SCENARIO, WORKERS - 1);
    bench.await_level(0);
    std::thread::sleep(moment);
    match event {
        Event::WorkerKilled(worker) => fleet.signal(worker, Signal::KILL),
        Event::WorkerStopped(worker, absence) => {
            fleet.signal(worker, Signal::STOP);
            std::thread::sleep(absence);
            fleet.signal(worker, Signal::CONT);
        }
        Event::ServerKilled(absence) => {
            fleet.kill_nats();
            std::thread::sleep(absence);
            fleet.start_nats();
        }
        Event::CoordinatorKilled => {
            going_on.signal(Signal::KILL);
            drop(going_on);
            let shown = bench.call(["show", "--store", STORE, "--json"]);
            let summary: Value = serde_json::from_str(&shown.stdout).unwrap();
            return summary["levels"].as_array().unwrap().clone();
        }
    }
    going_on.finish_within(LONGEST).levels().to_vec()
}

#[test]
#[ignore = "acceptance: workers-chaos"]
fn what_counts_is_exact_and_what_does_not_says_why() {
    let runs: u64 = std::env::var("PLIMSOLL_RUNS").map_or(50, |runs| runs.parse().unwrap());
    let alone = Bench::beside_others().run(SCENARIO).judged().levels().to_vec();
    let next = AtomicU64::new(0);
    let check = || {
        let mut counts = [0, 0];
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= runs {
                return counts;
            }
            let levels = levels(seed);
            let told: Vec<String> = levels.iter().map(|level| level["validity"].to_string()).collect();
            println!("run {seed}: {:?}: {}", event(seed), told.join(", "));
            for (number, (level, alone)) in levels.iter().zip(&alone).enumerate() {
                // That in which the coordinator was killed has no end.
                let is_valid = level["validity"] == "valid" && level["finished"] == true;
                counts[usize::from(!is_valid)] += 1;
                if level["finished"] == false {
                    assert_eq!(level["verdict"], "unfinished", "run {seed}, level {number}: {level:#}");
                    continue;
                }
                if !is_valid {
                    let reasons = level["reasons"].as_array().unwrap();
                    assert!(!reasons.is_empty(), "run {seed}, level {number} does not say why: {level:#}");
                    continue;
                }
                for name in
                    ["due", "sent", "acknowledged", "expected_deliveries", "delivered", "lost", "duplicated"]
                {
                    let both = [level, alone].map(|level| count(level, name));
                    assert_eq!(both[0], both[1], "run {seed}, level {number}, {name}: {level:#}");
                }
            }
        }
    };
    let counts: Vec<[u32; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(check)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let [valid, invalid] = [0, 1].map(|kind| counts.iter().map(|counts| counts[kind]).sum::<u32>());
    println!("{valid} levels count, {invalid} do not, in {runs} runs");
    assert!(u64::from(valid) > runs && u64::from(invalid) > runs / 4, "{valid} and {invalid}");
}
