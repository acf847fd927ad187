//! Searches, storms and runs that nothing disturbs but what is planted.

use super::bench::Setup;
use plimsoll_analysis::search::Ending;
use plimsoll_model::Verdict;

const SEARCH: &str =
    "search: { from: 100, to: 4000, tolerance: 5 %, time: 60m }, hold: 20s, samples: 20, warm_up: 2s";

#[test]
fn a_search_finds_the_capacity_that_the_model_has() {
    // M/M/1 with 1 ms: the 99 % quantile is ln(100) / (1000 - x), below 50 ms up to 908/s.
    for seed in 1..=3 {
        let found = Setup { load: SEARCH.into(), ..Setup::default() }.run(seed);
        let finding = found.search.as_ref().unwrap();
        let met = finding.met.unwrap();
        assert_eq!((found.verdict, finding.ended), (Verdict::Met, Ending::Confirmed), "{}", found.reason);
        assert!((750.0..1000.0).contains(&met), "{met}");
        assert!(finding.precision.is_some_and(|precision| precision < 0.12), "{finding:?}");
    }
}

#[test]
fn a_search_that_its_host_ends_certifies_nothing() {
    // The generator can do 500/s, the platform 20,000/s.
    let setup = Setup {
        stations: "{ name: broker, service: 50us }".into(),
        more: "  generator_cost: 500us\n".into(),
        load: SEARCH.into(),
        ..Setup::default()
    };
    let found = setup.run(1);
    assert_eq!(found.verdict, Verdict::Invalid, "{}", found.reason);
    assert!(found.reason.contains("this host cannot decide"), "{}", found.reason);
    assert_eq!(found.search.as_ref().unwrap().ended, Ending::HostLimited);
}

#[test]
fn a_host_that_is_busy_for_a_while_is_waited_for() {
    let setup = Setup {
        faults: "{ kind: starve_generator, share: 80 %, at: 30s, for: 60s }".into(),
        load: SEARCH.into(),
        ..Setup::default()
    };
    let found = setup.run(1);
    assert_eq!(found.verdict, Verdict::Met, "{}", found.reason);
    assert!(found.search.as_ref().unwrap().met.unwrap() > 700.0);
}

#[test]
fn a_search_whose_platform_dies_says_so_and_keeps_its_load_line() {
    let setup = Setup { faults: "{ kind: die, at: 60s }".into(), load: SEARCH.into(), ..Setup::default() };
    let found = setup.run(1);
    assert_eq!(found.verdict, Verdict::Missed);
    assert!(found.reason.contains("broker died at"), "{}", found.reason);
    assert_eq!(found.search.as_ref().unwrap().ended, Ending::Died);
    assert!(found.load_line.is_some());
}

#[test]
fn a_storm_is_planned_and_no_death_unless_the_component_stays_away() {
    let storm = "levels: [150], hold: 10s, samples: 10, warm_up: 1s, \
                 storm: { component: broker, after: 3s, down: 1s }";
    let objectives = "achieved: \">= 50 %\", delivered: \">= 50 %\", publish_p99: \"< 2h\"".into();
    let calm = Setup { load: storm.into(), objectives, ..Setup::default() };
    let summary = calm.run(1);
    assert_eq!(summary.verdict, Verdict::Met, "{}", summary.reason);
    // It dies for good while it is down, so that it cannot be started again.
    let gone = Setup { faults: "{ kind: die, at: 4.5s }".into(), ..calm };
    let summary = gone.run(1);
    assert_eq!(summary.verdict, Verdict::Missed, "{}", summary.reason);
    assert!(summary.levels[0].death.is_some());
}

#[test]
fn a_level_that_was_too_short_is_held_again_and_longer() {
    // A 99 % quantile needs a thousand observations; there are about 900 in the first hold.
    let setup = Setup {
        load: "levels: [90], hold: 10s, samples: 10, warm_up: 1s, again: 5m".into(),
        objectives: "publish_p99: \"< 50 ms\"".into(),
        ..Setup::default()
    };
    let summary = setup.run(1);
    let holds: Vec<f64> = summary.levels.iter().map(|level| level.hold).collect();
    assert_eq!(holds, [10.0, 20.0]);
    assert_eq!(summary.verdict, Verdict::Met, "{}", summary.reason);
    let never = Setup { load: setup.load.replace("5m", "0s"), ..setup };
    assert_eq!(never.run(1).verdict, Verdict::Invalid);
}

#[test]
fn a_wide_gap_is_said_and_not_hidden() {
    let setup =
        Setup { load: "levels: [200, 2000], hold: 10s, samples: 10, warm_up: 1s".into(), ..Setup::default() };
    let summary = setup.run(1);
    assert!(summary.reason.contains("between 200 and 2,000/s"), "{}", summary.reason);
}
