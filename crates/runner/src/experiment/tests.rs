use super::blocks::FEWEST_ROUNDS;
use super::*;
use plimsoll_model::experiment::Block;
use plimsoll_model::record::{LevelStart, SampleRecord};
use plimsoll_model::{Counts, Histogram, Load, Metric};

const PLAN: ExperimentPlan = ExperimentPlan {
    within: Nanos::from_secs(600),
    with_levels: false,
    most_in_flight: 20_000,
    timeout: Nanos::from_secs(10),
};

fn parts(names: &[&str]) -> Vec<Slowable> {
    names
        .iter()
        .map(|name| Slowable { component: (*name).to_owned(), quota: None, has_relay: false })
        .collect()
}

/// A level of five seconds with so many operations a second, each of which took so long.
fn level(stage: Stage, rate: u64, took: Nanos) -> LevelRecord {
    let mut times = Histogram::new();
    times.record_n(took, rate * 5);
    let counts = Counts { due: rate * 5, ..Counts::default() };
    let start = LevelStart {
        hold: Nanos::from_secs(5),
        samples: 1,
        load: Load::InFlight(1000),
        experiment: Some(ExperimentLevel::new(stage, Vec::new())),
        ..LevelStart::default()
    };
    let sample = SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() };
    LevelRecord { start, samples: vec![Some(sample)], ..LevelRecord::default() }
}

fn large(within: i64, names: &[&str], rate: u64, took: Nanos) -> Step {
    let terms = Terms { qos: 1, ..Terms::default() };
    let plan = ExperimentPlan { within: Nanos::from_secs(within), ..PLAN };
    let mut experiment = Experiment::new(plan, (&terms, 7), parts(names), true, Nanos::from_secs(1));
    assert!(matches!(experiment.next(&[], &[], Nanos::ZERO), Step::Level(_)));
    let done = [level(Stage::Alone, 100, took), level(Stage::Saturated, rate, took)];
    experiment.next(&done, &[], Nanos::from_secs(20))
}

#[test]
fn each_part_is_slowed_as_often_as_the_others_between_untouched_blocks() {
    let Step::Level(next) = large(600, &["a", "b", "c"], 200, Nanos::from_millis(10)) else { panic!() };
    // Twenty-five times ten milliseconds are longer than forty operations take; as a whole number of samples it is a little less.
    assert_eq!(next.level, LevelPlan::Experiment(100));
    let blocks = &next.experiment.blocks;
    assert!(blocks.iter().enumerate().all(|(place, block)| block.perturbation.is_some() == (place % 2 == 1)));
    assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].begin && pair[0].measured > pair[0].begin));
    let count = |name: &str| {
        let own = |block: &&Block| block.perturbation.as_ref().is_some_and(|own| own.components == [name]);
        blocks.iter().filter(own).count()
    };
    assert!(count("a") >= FEWEST_ROUNDS && count("a") == count("b") && count("b") == count("c"));
    assert_eq!(next.hold, Nanos::from_millis(83) * i64::from(next.samples));
    assert!(next.hold < Nanos::from_secs(348), "{:?}", next.hold);
}

#[test]
fn a_platform_that_needs_more_in_flight_is_measured_with_more() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let mut experiment = Experiment::new(PLAN, (&terms, 7), parts(&["a"]), true, Nanos::from_secs(1));
    let mut saturated = level(Stage::Saturated, 4000, Nanos::from_millis(10));
    saturated.start.load = Load::InFlight(SATURATED);
    let done = [level(Stage::Alone, 100, Nanos::from_millis(10)), saturated];
    let Step::Level(next) = experiment.next(&done, &[], Nanos::ZERO) else { panic!() };
    assert_eq!(next.experiment.stage, Stage::Saturated);
    // Forty operations of a stop are few beside those of 249 ms at that rate.
    assert_eq!(next.level, LevelPlan::Experiment(1992));
    let done = [done[0].clone(), done[1].clone(), level(Stage::Saturated, 400, Nanos::from_millis(10))];
    let Step::Level(next) = experiment.next(&done, &[], Nanos::ZERO) else { panic!() };
    assert_eq!(next.experiment.stage, Stage::Large, "1,000 in flight are enough for 400 a second");
}

#[test]
fn a_single_part_has_untouched_blocks_of_its_own() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let mut experiment = Experiment::new(PLAN, (&terms, 7), parts(&["a"]), false, Nanos::from_secs(1));
    let took = Nanos::from_millis(10);
    let done = [level(Stage::Alone, 100, took), level(Stage::Saturated, 200, took)];
    let Step::Level(next) = experiment.next(&done, &[], Nanos::ZERO) else { panic!() };
    let slowed = next.experiment.blocks.iter().filter(|block| block.perturbation.is_some()).count();
    assert_eq!(next.experiment.blocks.len(), 3 * slowed + 1);
}

#[test]
fn a_stop_is_long_beside_an_operation_and_what_takes_too_long_is_said() {
    let Step::Level(next) = large(3600, &["a"], 200, Nanos::from_millis(100)) else { panic!() };
    let perturbations = next.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref());
    let stops = perturbations.filter(|own| own.means == Means::Stop).map(|own| own.stop);
    // A hundred milliseconds fifteen times would be longer than a part of what an operation may take.
    assert_eq!(stops.min(), Some(Nanos::from_millis(1200)));
    let Step::Over(Some(why)) = large(60, &["a", "b"], 10, Nanos::from_millis(100)) else { panic!() };
    assert!(why.contains("load.experiment.within allows 60 s"), "{why}");
    let terms = Terms::default();
    let mut none = Experiment::new(PLAN, (&terms, 7), Vec::new(), false, Nanos::ZERO);
    assert!(matches!(none.next(&[], &[], Nanos::ZERO), Step::Over(Some(_))));
}

#[test]
fn blocks_hold_whole_periods_of_a_quota() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let quick = Nanos::from_micros(300);
    let own = vec![Slowable { component: "a".to_owned(), quota: Some(0.5), has_relay: false }];
    let mut experiment = Experiment::new(PLAN, (&terms, 7), own, true, Nanos::from_secs(1));
    let done = [level(Stage::Alone, 100, quick), level(Stage::Saturated, 3000, quick)];
    let used = ComponentUsage {
        component: "a".to_owned(),
        at: done[1].start.hold,
        window: done[1].start.hold,
        throttled: done[1].start.hold / 2,
        ..ComponentUsage::default()
    };
    let Step::Level(next) = experiment.next(&done, &[used], Nanos::ZERO) else { panic!() };
    let means = |block: &Block| block.perturbation.as_ref().map(|own| own.means);
    assert!(next.experiment.blocks.iter().any(|block| means(block) == Some(Means::Quota)));
    let sample = next.hold / i64::from(next.samples);
    for block in &next.experiment.blocks {
        let counts = sample * i64::from(block.end - block.measured);
        assert!(counts >= Nanos::from_secs(1) && counts.0 % QUOTA_PERIOD.0 == 0, "{counts:?}");
    }
}

#[test]
fn who_leaves_a_quota_unused_is_stopped_and_a_small_quota_is_cut_by_less() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let slowable = |quota| Slowable { component: "a".to_owned(), quota: Some(quota), has_relay: false };
    let mut experiment = Experiment::new(PLAN, (&terms, 7), vec![slowable(0.5)], false, Nanos::ZERO);
    let quick = Nanos::from_micros(300);
    let done = [level(Stage::Alone, 100, quick), level(Stage::Saturated, 3000, quick)];
    let Step::Level(next) = experiment.next(&done, &[], Nanos::ZERO) else { panic!() };
    let perturbations = next.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref());
    assert!(perturbations.map(|own| own.means).all(|means| means == Means::Stop));
    experiment.used_up = vec!["a".to_owned()];
    let of = |quota: f64| {
        let own = experiment.slowed(&slowable(quota), LARGE, Nanos::from_millis(150));
        (own.means, (own.share * 100.0).round())
    };
    assert_eq!(
        [of(0.5), of(0.02), of(0.012)],
        [(Means::Quota, 60.0), (Means::Quota, 50.0), (Means::Stop, 60.0)]
    );
}

/// What becomes of a level, in which so much of the usual throughput is left by each perturbation.
fn done(next: NextLevel, usual: f64, left: impl Fn(&Perturbation) -> f64) -> LevelRecord {
    let NextLevel { level: LevelPlan::Experiment(in_flight), hold, samples, experiment, .. } = next else {
        panic!("{:?}", next.level)
    };
    let of_sample = usual * hold.as_secs_f64() / f64::from(samples);
    let of_block = |block: &Block| {
        let due = (block.perturbation.as_ref().map_or(1.0, &left) * of_sample).round() as u64;
        let counts = Counts { due, ..Counts::default() };
        (block.begin..block.end).map(move |_| Some(SampleRecord { counts, ..SampleRecord::default() }))
    };
    let filled = experiment.blocks.iter().flat_map(of_block).collect();
    let load = Load::InFlight(in_flight);
    let start = LevelStart { hold, samples, load, experiment: Some(experiment), ..LevelStart::default() };
    LevelRecord { start, samples: filled, ..LevelRecord::default() }
}

fn perturbations_of(next: &NextLevel) -> Vec<&Perturbation> {
    next.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref()).collect()
}

#[test]
fn who_seems_to_limit_is_slowed_by_little_too() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let mut experiment = Experiment::new(PLAN, (&terms, 7), parts(&["a", "b"]), false, Nanos::from_secs(1));
    let took = Nanos::from_millis(20);
    let mut levels = vec![level(Stage::Alone, 100, took), level(Stage::Saturated, 200, took)];
    let Step::Level(large) = experiment.next(&levels, &[], Nanos::ZERO) else { panic!() };
    levels.push(done(*large, 2000.0, |own| if own.components == ["a"] { 1.0 - own.share } else { 1.0 }));
    let Step::Level(small) = experiment.next(&levels, &[], Nanos::ZERO) else { panic!() };
    let own: Vec<&Perturbation> =
        small.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref()).collect();
    assert_eq!(small.experiment.stage, Stage::Small);
    assert!(!own.is_empty() && own.iter().all(|own| own.components == ["a"] && own.share < 0.2));
}

/// The steps after `b` and what calls it have stopped each other, where a relay stands before `b`, and so much is left by a delay.
fn behind_a_relay(left_by_delay: impl Fn(Nanos) -> f64) -> (NextLevel, Step) {
    let terms = Terms { qos: 1, ..Terms::default() };
    let mut own = parts(&["a", "b", "c"]);
    own[1].has_relay = true;
    let mut experiment = Experiment::new(PLAN, (&terms, 7), own, false, Nanos::from_secs(1));
    let took = Nanos::from_millis(20);
    let mut levels = vec![level(Stage::Alone, 100, took), level(Stage::Saturated, 200, took)];
    let mut next = |levels: &[LevelRecord]| experiment.next(levels, &[], Nanos::ZERO);
    let Step::Level(large) = next(&levels) else { panic!() };
    let is_coupled = |own: &Perturbation| own.components[0] != "c";
    levels.push(done(*large, 2000.0, |own| if is_coupled(own) { 1.0 - own.share } else { 1.0 }));
    let Step::Level(delays) = next(&levels) else { panic!() };
    levels.push(done((*delays).clone(), 2000.0, |own| left_by_delay(own.stop)));
    (*delays, next(&levels))
}

#[test]
fn paths_to_those_that_stop_each_other_are_delayed_once() {
    // Ten places, each taken for 5 ms.
    let pool = |each_way: Nanos| 5.0 / (5.0 + 2e3 * each_way.as_secs_f64());
    let (delays, after) = behind_a_relay(pool);
    assert_eq!(delays.experiment.stage, Stage::Delays);
    let own: Vec<&Perturbation> =
        delays.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref()).collect();
    assert!(own.iter().all(|own| own.components == ["b"] && own.means == Means::Delay));
    let mut millis: Vec<f64> = own.iter().map(|own| (own.stop.as_secs_f64() * 1e3).round()).collect();
    millis.sort_by(f64::total_cmp);
    millis.dedup();
    assert_eq!(millis, [5.0, 20.0]);
    assert_eq!(after, Step::Over(None), "more of the two would show nothing");
    let (_, after) = behind_a_relay(|_| 1.0);
    let Step::Level(next) = after else { panic!() };
    let stages = next.experiment.blocks.iter().filter_map(|block| block.perturbation.as_ref());
    assert!(next.experiment.stage == Stage::Small && stages.clone().all(|own| own.components != ["c"]));
}

#[test]
fn several_that_seem_to_decide_get_medium_stops_and_one_that_only_feeds_gets_nothing_more() {
    let terms = Terms { qos: 1, ..Terms::default() };
    let own = parts(&["queue", "worker", "store"]);
    let mut experiment = Experiment::new(PLAN, (&terms, 7), own, false, Nanos::from_secs(1));
    let mut levels = vec![
        level(Stage::Alone, 100, Nanos::from_millis(6)),
        level(Stage::Saturated, 200, Nanos::from_millis(6)),
    ];
    let Step::Level(large) = experiment.next(&levels, &[], Nanos::ZERO) else { panic!() };
    let loses = |own: &Perturbation, seconds: f64| match own.components[0].as_str() {
        "store" => 1.0 - own.share,
        "worker" => 1.0 - own.share * (1.0 - seconds / own.stop.as_secs_f64()).max(0.0),
        _ => 1.0,
    };
    // What the worker has in hand lasts for 40 ms.
    levels.push(done(*large, 2000.0, |own| loses(own, 0.04)));
    let Step::Level(medium) = experiment.next(&levels, &[], Nanos::ZERO) else { panic!() };
    let stopped: Vec<&Perturbation> = perturbations_of(&medium);
    assert!(stopped.iter().all(|own| own.stop == Nanos::from_millis(24) && own.components[0] != "queue"));
    assert!(["worker", "store"].iter().all(|name| stopped.iter().any(|own| own.components == [*name])));
    levels.push(done((*medium).clone(), 2000.0, |own| loses(own, 0.04)));
    let Step::Level(small) = experiment.next(&levels, &[], Nanos::ZERO) else { panic!() };
    assert!(perturbations_of(&small).iter().all(|own| own.components == ["store"] && !own.in_turn));
}
