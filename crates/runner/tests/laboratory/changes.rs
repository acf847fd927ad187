//! What sweeps say of a change of configuration, against platforms whose load lines are known.

use super::bench::{Setup, between, seeds};
use super::coverage::least;
use plimsoll_analysis::headroom::Headroom;
use plimsoll_analysis::sweep::{Axis, Change, Effect, Origin, Sweep, Taken};

/// How often each combination is run.
const TURNS: u64 = 3;
/// The bound of publish time, in seconds.
const BOUND: f64 = 0.15;

/// A search with steps of 2 %, on a network that takes no time, and a generator that costs nothing. The last station
/// acknowledges, so that what it limits shows in publish time.
pub fn setup(stations: String) -> Setup {
    let last = if stations.contains("store") { "store" } else { "broker" };
    Setup {
        stations,
        more: format!(
            "  acknowledged_by: {last}\n  network: {{ round_trip: 0us, jitter: 0us }}\n  generator_cost: 0us\n"
        ),
        load: "search: { from: 60, to: 8000, tolerance: 2 %, time: 30m }, hold: 10s, samples: 20, warm_up: 1s, again: 0s"
            .into(),
        subscribers: 0,
        objectives: format!("publish_p99: \"< {} ms\"", BOUND * 1e3),
        ..Setup::default()
    }
}

/// What a sweep says of the change from one platform to another one.
fn change(seed: u64, before: &Setup, after: &Setup) -> Change {
    let turns = (0..TURNS).flat_map(|turn| {
        let run = move |(place, setup): (usize, &Setup)| Taken::of(&[place], &setup.run(seed * TURNS + turn));
        [(0, before), (1, after)].map(run)
    });
    let axis = Axis { key: "platform.profile".into(), values: vec!["before".into(), "after".into()] };
    Sweep::of("change", Origin::default(), vec![axis], &turns.collect::<Vec<_>>()).changes.remove(0)
}

/// Where 99 % of messages of M/M/1 stay below the bound: the time that they spend there is exponential with rate mu - lambda.
fn line(service: f64) -> f64 {
    1.0 / service - 100f64.ln() / BOUND
}

/// A station twice or four times as fast.
#[test]
fn a_faster_bottleneck_moves_the_load_line_by_as_much_as_the_interval_says() {
    let trials = seeds();
    let (mut covers, mut higher, mut widths) = (0, 0, Vec::new());
    for seed in 1..=trials {
        let before = between(seed, 0.001_5, 0.006);
        let after = before / between(seed * 7, 1.5, 4.0);
        let station =
            |service: f64| setup(format!("{{ name: broker, service: {}us }}", (service * 1e6).round()));
        let found = change(seed, &station(before), &station(after));
        let truth = line((after * 1e6).round() / 1e6) / line((before * 1e6).round() / 1e6);
        let (least, most) = (found.least.unwrap_or(0.0), found.most.unwrap_or(f64::INFINITY));
        covers += u64::from(least <= truth && truth <= most);
        higher += u64::from(found.effect == Effect::Higher);
        widths.push((most / least).sqrt() - 1.0);
    }
    widths.sort_by(f64::total_cmp);
    let median = widths[widths.len() / 2];
    println!(
        "of {trials} intervals {covers} cover, {higher} find the change; half of an interval is {median:.3} of its middle"
    );
    assert!(covers >= least(trials), "{covers} of {trials}");
    assert!(higher >= least(trials), "{higher} of {trials}");
    assert!(median <= 0.1, "{median}");
}

/// The front takes a twentieth of what the store does, and gets faster.
#[test]
fn a_faster_component_that_does_not_limit_changes_nothing() {
    let trials = seeds();
    let mut undistinguished = 0;
    for seed in 1..=trials {
        let store = between(seed, 1500.0, 6000.0).round();
        let with_front = |share: f64| {
            let front = (store * share).round();
            setup(format!("{{ name: front, service: {front}us }}, {{ name: store, service: {store}us }}"))
        };
        let found = change(seed, &with_front(0.05), &with_front(0.05 / between(seed * 7, 1.5, 4.0)));
        if matches!(found.effect, Effect::Higher | Effect::Lower) {
            println!("seed {seed}: {found:?}");
            continue;
        }
        undistinguished += 1;
    }
    println!("of {trials} changes {undistinguished} are not distinguishable");
    assert!(undistinguished >= least(trials), "{undistinguished} of {trials}");
}

/// One to four workers of the store, in which the front has room for less than that or more.
#[test]
fn more_workers_of_what_limits_move_the_load_line_as_predicted() {
    let trials = seeds();
    let (mut predicted, mut known, mut widths) = (0, 0, Vec::new());
    for seed in 1..=trials {
        let store = between(seed, 600.0, 3000.0).round();
        let front = (store * between(seed * 7, 0.05, 0.6)).round();
        let workers = 2 + seed % 3;
        let with = |workers: u64| {
            setup(format!(
                "{{ name: front, service: {front}us }}, {{ name: store, service: {store}us, workers: {workers} }}"
            ))
        };
        let (before, after) = (with(1), with(workers));
        let each: Option<Vec<[f64; 2]>> = (0..TURNS)
            .map(|turn| {
                let headroom = Headroom::of(&before.run(seed * TURNS + turn))?;
                Some(headroom.predicted(&[("store", workers as f64)])?.ratio)
            })
            .collect();
        let Some(each) = each else { continue };

        known += 1;
        let low = each.iter().map(|[low, _]| *low).fold(f64::INFINITY, f64::min);
        let high = each.iter().map(|[_, high]| *high).fold(0.0, f64::max);
        let found = Change { predicted: Some([low, high]), ..change(seed, &before, &after) };
        let is_so = found.is_as_predicted() == Some(true);
        if !is_so {
            println!("seed {seed}: store {store} us, front {front} us, {workers} workers: {found:?}");
        }
        predicted += u64::from(is_so);
        widths.push((high / low).sqrt() - 1.0);
    }
    widths.sort_by(f64::total_cmp);
    let median = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
    println!(
        "of {trials} changes {known} are predicted, {predicted} rightly; half of a prediction is {median:.3} of its middle"
    );
    assert!(known >= least(trials) && predicted >= least(known), "{known} {predicted}");
    assert!(median <= 0.1, "{median}");
}
