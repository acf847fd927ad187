//! What is said to grow through a long hold, against platforms that leak and platforms that do not.

use super::bench::{Setup, between, seeds};
use super::coverage::least;
use plimsoll_analysis::summary::Summary;

/// A quarter of an hour at a low rate, of three stations.
fn soak(seed: u64, faults: String) -> Summary {
    let setup = Setup {
        stations:
            "{ name: front, service: 1ms }, { name: broker, service: 2ms }, { name: store, service: 5ms }"
                .into(),
        faults,
        load: "levels: [20], hold: 15m, samples: 30, warm_up: 10s, again: 0s".into(),
        ..Setup::default()
    };
    setup.run(seed)
}

/// At most 5 % of soaks in which nothing grows say that something does.
#[test]
fn where_nothing_grows_hardly_anything_is_said_to() {
    let trials = 2 * seeds();
    let mut alarms = 0;
    for seed in 1..=trials {
        let summary = soak(seed, String::new());
        let [found] = summary.soaks.as_slice() else { panic!("seed {seed}: {:?}", summary.soaks) };
        assert!(found.quantities >= 5, "{found:?}");
        if !found.grew.is_empty() {
            println!("seed {seed}: {:?}", found.grew);
            alarms += 1;
        }
    }
    println!("of {trials} soaks in which nothing grows, {alarms} say that something does");
    assert!(trials - alarms >= least(trials), "{alarms} of {trials}");
}

/// 100 KiB a minute of one of three stations.
#[test]
fn leaks_are_found_with_their_station_and_rate() {
    let trials = seeds().div_ceil(2);
    let (mut found, mut covered) = (0, 0);
    for seed in 1..=trials {
        let station = ["front", "broker", "store"][(seed % 3) as usize];
        let rate = between(seed, 100.0, 200.0).round();
        let leak = format!("{{ kind: leak, station: {station}, a_minute: {rate} KiB }}");
        let summary = soak(10_000 + seed, leak);
        let growth = summary.soaks.iter().flat_map(|soak| &soak.grew);
        let growth = growth.filter(|growth| growth.quantity == "memory").collect::<Vec<_>>();
        match growth.as_slice() {
            [growth] if growth.subject == station => {
                found += 1;
                let [lo, hi] = growth.interval.map(|end| end / 1024.0);
                covered += u64::from(lo <= rate && rate <= hi);
            }
            other => println!("seed {seed}: {station} leaks {rate} KiB a minute, but {other:?}"),
        }
    }
    println!("of {trials} leaks {found} are found; {covered} intervals cover the rate");
    assert!(found * 10 >= trials * 9, "{found} of {trials}");
    assert!(covered >= least(found), "{covered} of {found}");
}
