use super::super::evidence::Used;
use super::super::{DuringStops, Estimate, InTurn, MediumStops, Path, SmallDose, exclude_by_medium_stops};
use super::*;
use crate::dissection::Occupation;
use std::collections::BTreeMap;

fn part(components: &[&str], elasticity: [f64; 3]) -> Part {
    let [lo, mean, hi] = elasticity;
    let estimate = Estimate { mean, ci95: Some([lo, hi]) };
    // Who limits by a large dose got a small one, too.
    let small =
        (!components.is_empty() && lo > DECIDES).then_some(SmallDose { dose: 0.15, elasticity: estimate });
    Part {
        components: components.iter().map(|&name| name.to_owned()).collect(),
        means: if components.is_empty() { Means::Occupy } else { Means::Stop },
        dose: 0.6,
        doses: vec![0.6],
        blocks: 8,
        elasticity: estimate,
        under_short_stops: None,
        under_medium_stops: None,
        by_large: estimate,
        small,
        during_stops: DuringStops::default(),
        capacity: None,
        at_least: 200.0,
        used: None,
    }
}

/// Two components that were stopped in turn, thirty times each; the last one is always silent then, and the first one so often.
fn in_turn(lost: [f64; 3], silent: u64) -> [InTurn; 1] {
    let [lo, mean, hi] = lost;
    let stops = |silent| DuringStops { stops: 30, silent, little: 0, nearly_all: 30 - silent };
    [InTurn {
        components: vec!["a".to_owned(), "b".to_owned()],
        lost: Estimate { mean, ci95: Some([lo, hi]) },
        stops: vec![stops(silent), stops(30)],
        speeds: vec![None, None],
    }]
}

const ALL_LOST: [f64; 3] = [0.85, 0.95, 1.05];
const HALF_LOST: [f64; 3] = [0.45, 0.52, 0.59];
const LIMITS: [f64; 3] = [0.9, 1.0, 1.1];
const IDLE: [f64; 3] = [-0.05, 0.0, 0.05];

fn evidence(parts: &[Part]) -> Evidence<'_> {
    Evidence { parts, capacity: 100.0, ..Evidence::default() }
}

fn used(processor: f64) -> Used {
    let processor_list = Some("1".to_owned());
    Used { processor, thread: Some(processor), processors: Some(1.0), processor_list, ..Used::default() }
}

/// The name that is given, and the kind; or why there is none.
fn said(evidence: &Evidence<'_>) -> Result<(String, LimitKind), String> {
    let argument = argue(evidence);
    match &argument.limits[..] {
        [limit] => Ok((limit.name(), limit.kind)),
        _ => Err(argument.open.join("; ")),
    }
}

#[test]
fn one_that_decides_alone_is_named_by_what_it_does_meanwhile() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    let known = |used: Used| {
        let used = BTreeMap::from([("a".to_owned(), used)]);
        said(&Evidence { used, ..evidence(&parts) }).unwrap()
    };
    assert_eq!(known(used(0.97)), ("a".into(), LimitKind::Processor));
    assert_eq!(known(used(0.05)), ("a".into(), LimitKind::Waiting));
    assert_eq!(known(used(0.4)), ("a".into(), LimitKind::Unknown), "it computes for much of the time");
    let of_disk = Evidence {
        used: BTreeMap::from([("a".to_owned(), used(0.05))]),
        pressure: vec![("a disk", 0.62), ("memory", 0.01)],
        ..evidence(&parts)
    };
    let told = argue(&of_disk).limits[0].evidence.join("; ");
    assert!(told.contains("waited for a disk for 62 % of the time") && !told.contains("memory"), "{told}");
    assert_eq!(known(Used { waits: 0.5, ..used(0.45) }).1, LimitKind::Processor, "it waits for a processor");
    assert_eq!(known(Used { throttled: 0.7, ..used(0.3) }).1, LimitKind::Quota);
}

#[test]
fn full_processors_are_named_before_the_component_that_suffers_most() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE), part(&[], LIMITS)];
    let of_both = |a: Used, b: Used| {
        let used = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        said(&Evidence { used, processors: Some(1.0), ..evidence(&parts) }).unwrap()
    };
    let of = |a: f64, b: f64| of_both(used(a), used(b));
    assert_eq!(of(0.6, 0.38), ("the platform's processors".into(), LimitKind::Processors));
    assert_eq!(of(0.95, 0.03), ("a".into(), LimitKind::Processor));
    assert_eq!(of(0.3, 0.1).0, "a", "they are not full");
    let elsewhere = Used { processor_list: Some("2".to_owned()), ..used(0.38) };
    assert_eq!(of_both(used(0.6), elsewhere).0, "a", "they do not share one");
}

#[test]
fn who_may_decide_as_well_takes_the_name_away() {
    let parts = [part(&["a"], LIMITS), part(&["b"], [0.1, 0.4, 0.7])];
    assert!(
        said(&evidence(&parts)).unwrap_err().contains("b may as well: there was no time for a small dose")
    );
    for (lost, why) in
        [([0.89, 0.9, 0.91], "each of them stops the others"), ([0.4, 0.5, 0.6], "there was no time")]
    {
        let in_turn = in_turn(lost, 0);
        let told = said(&Evidence { in_turn: &in_turn, ..evidence(&parts) });
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{told:?}");
    }
    let small = Some(SmallDose { dose: 0.3, elasticity: parts[1].elasticity });
    let slowed_by_little = parts.clone().map(|part| Part { small: part.small.or(small), ..part });
    let near = said(&evidence(&slowed_by_little)).unwrap_err();
    assert!(near.contains("b may as well: stops cannot separate limits within 10 %"), "{near}");
    let both = [part(&["a"], LIMITS), part(&["b"], LIMITS)];
    assert!(said(&evidence(&both)).unwrap_err().contains("or their limits are equal"));
    let [lo, mean, hi] = LIMITS;
    let small = || Some(SmallDose { dose: 0.1, elasticity: Estimate { mean, ci95: Some([lo, hi]) } });
    let sure = both.clone().map(|part| Part { small: small(), ..part });
    assert!(said(&evidence(&sure)).unwrap_err().contains("or their limits are equal"));
}

#[test]
fn who_calls_the_others_and_is_occupied_itself_is_told_from_those_it_calls() {
    let parts = [part(&["worker"], LIMITS), part(&["store"], LIMITS), part(&["queue"], LIMITS)];
    // 8.9 ms of the 10 between two of a hundred operations a second.
    let stay = 0.0089;
    let of = |itself: [u64; 3], asks: &[&str], stay: f64| {
        let occupation = |(name, itself): (&str, u64)| Occupation {
            component: name.to_owned(),
            looks: 200,
            itself,
            asks: if name == "worker" {
                asks.iter().map(|&name| name.to_owned()).collect()
            } else {
                Vec::new()
            },
        };
        let occupations =
            ["worker", "store", "queue"].into_iter().zip(itself).map(occupation).collect::<Vec<_>>();
        let used = BTreeMap::from([("worker".to_owned(), used(0.08))]);
        let stays = BTreeMap::from([("worker", stay)]);
        said(&Evidence { used, occupations: &occupations, stays, is_captured: true, ..evidence(&parts) })
    };
    assert_eq!(of([178, 15, 7], &["queue", "store"], stay), Ok(("worker".into(), LimitKind::Waiting)));
    for (itself, asks, stay, why) in [
        ([20, 170, 7], &["queue", "store"][..], stay, "it waits for the store"),
        ([178, 15, 7], &["store"], stay, "why the queue stops it is not known"),
        ([178, 150, 7], &["queue", "store"], stay, "the store is occupied as well"),
        ([125, 15, 7], &["queue", "store"], 0.0062, "for that much of the time by chance"),
        ([178, 15, 7], &["queue", "store"], 0.001, "it sleeps until it tries again"),
    ] {
        let open = of(itself, asks, stay).unwrap_err();
        assert!(
            open.contains("decide the throughput, each of them") && !open.contains("--capture"),
            "{why}: {open}"
        );
    }
    assert!(said(&evidence(&parts)).unwrap_err().contains("(--capture)"));
}

#[test]
fn elasticities_of_a_component_that_is_occupied_and_of_those_it_calls_are_parts_of_the_time() {
    let occupations = ["worker", "store"].map(|name| Occupation {
        component: name.to_owned(),
        looks: 200,
        itself: if name == "worker" { 178 } else { 10 },
        asks: Vec::new(),
    });
    let limit = Limit {
        component: Some("worker".to_owned()),
        components: Vec::new(),
        kind: LimitKind::Waiting,
        evidence: Vec::new(),
        elasticity: None,
    };
    let capacity = Some(Estimate { mean: 101.0, ci95: None });
    let allows = |name: &str| Part { capacity, ..part(&[name], LIMITS) };
    let mut told = [allows("worker"), allows("store"), part(&["bridge"], IDLE)];
    share_occupation(&mut told, &[limit], &Evidence { occupations: &occupations, ..evidence(&[]) });
    let of = |part: &Part| (part.name(), part.elasticity.mean, part.capacity.is_some());
    let expected = [("worker", 0.89, true), ("store", 0.05, false), ("bridge", 0.0, false)];
    assert_eq!(told.each_ref().map(of), expected.map(|(name, mean, allows)| (name.to_owned(), mean, allows)));
}

/// A part by its elasticities under long and medium stops.
fn with_medium(name: &str, long: [f64; 3], medium: [f64; 3]) -> Part {
    let [lo, mean, hi] = medium;
    let elasticity = Estimate { mean, ci95: Some([lo, hi]) };
    Part {
        under_medium_stops: Some(MediumStops { stop: 0.024, elasticity, dose: 0.2 }),
        ..part(&[name], long)
    }
}

#[test]
fn medium_stops_tell_the_limit_from_those_that_feed_it() {
    let of = |store: [f64; 3], worker: [f64; 3]| {
        let mut parts = [
            with_medium("a", LIMITS, store),
            with_medium("b", [0.75, 0.8, 0.85], worker),
            part(&["c"], IDLE),
        ];
        exclude_by_medium_stops(&mut parts, Estimate { mean: 100.0, ci95: None });
        let used = BTreeMap::from([("a".to_owned(), used(0.05))]);
        let lost = in_turn(ALL_LOST, 30);
        let argument = argue(&Evidence { used, in_turn: &lost, ..evidence(&parts) });
        let [limit] = &argument.limits[..] else { return Err(argument.open.join("; ")) };
        Ok((limit.name(), limit.kind, limit.evidence.join("; "), parts[1].elasticity.mean, parts[1].at_least))
    };
    let [most, some, none] = [[0.8, 0.87, 0.94], [0.2, 0.3, 0.4], [-0.03, 0.0, 0.03]];
    let (name, kind, why, worker, at_least) = of(most, none).unwrap();
    assert_eq!((name.as_str(), kind, worker), ("a", LimitKind::Waiting, 0.0));
    assert!(
        why.contains("with stops of 24 ms, elasticities are a 0.87, b 0.00: the others lose nothing"),
        "{why}"
    );
    assert!(at_least > 120.0, "{at_least}");
    let open = of(most, some).unwrap_err();
    assert!(open.contains("a and b decide the throughput"), "what is in hand may be gone by then: {open}");
    let (_, kind, ..) = of(most, most).unwrap();
    assert_eq!(kind, LimitKind::Coupled, "each of them loses its stops at once");
    // A part without medium stops may decide, too.
    let mut parts = [with_medium("a", LIMITS, most), with_medium("b", LIMITS, none), part(&["c"], LIMITS)];
    exclude_by_medium_stops(&mut parts, Estimate { mean: 100.0, ci95: None });
    assert!(said(&evidence(&parts)).unwrap_err().contains("a and b and c decide the throughput"));
}

#[test]
fn short_stops_tell_the_limit_from_those_who_wait_for_it() {
    let of = |own: [f64; 3], other: [f64; 3], processor: f64| {
        let short = |[lo, mean, hi]: [f64; 3]| Some(Estimate { mean, ci95: Some([lo, hi]) });
        let parts = [
            Part { under_short_stops: short(own), ..part(&["store"], LIMITS) },
            Part { under_short_stops: short(other), ..part(&["worker"], LIMITS) },
        ];
        let used = BTreeMap::from([("store".to_owned(), used(processor))]);
        said(&Evidence { used, ..evidence(&parts) })
    };
    let named = |found: Result<(String, LimitKind), String>| found.ok();
    let [most, some, none] = [[0.82, 0.89, 0.96], [0.3, 0.4, 0.5], [-0.06, -0.02, 0.01]];
    assert_eq!(named(of(most, none, 0.05)), Some(("store".into(), LimitKind::Waiting)));
    assert_eq!(named(of(most, some, 0.97)), Some(("store".into(), LimitKind::Processor)));
    assert_eq!(named(of(most, some, 0.05)), None, "what hardly computes needs a clearer difference");
    assert_eq!(named(of(some, none, 0.05)), None, "the rest is nobody's");
    let good_part = [0.62, 0.74, 0.86];
    assert_eq!(named(of(good_part, [0.14, 0.21, 0.28], 0.63)), None, "the rest may be who holds a lock");
    assert_eq!(named(of(good_part, none, 0.97)), Some(("store".into(), LimitKind::Processor)));
    // A quota gets no short stops, and may be what limits.
    let short = |mean: f64| Some(Estimate { mean, ci95: Some([mean - 0.05, mean + 0.05]) });
    let parts = [
        Part { under_short_stops: short(0.9), ..part(&["store"], LIMITS) },
        Part { under_short_stops: short(0.0), ..part(&["worker"], LIMITS) },
        part(&["bridge"], LIMITS),
    ];
    let open = said(&evidence(&parts)).unwrap_err();
    assert!(open.contains("store and worker and bridge decide the throughput"), "{open}");
}

#[test]
fn a_path_with_few_places_is_the_limit_of_the_two_it_lies_between() {
    let path = |component: &str, at_once| Path {
        component: component.to_owned(),
        callers: Vec::new(),
        delays: vec![0.005, 0.02],
        blocks: 12,
        at_once,
        at_least: Some(80.0),
    };
    let both = |processor| BTreeMap::from(["a", "b"].map(|name| (name.to_owned(), used(processor))));
    let few = Some(Estimate { mean: 3.0, ci95: Some([2.8, 3.2]) });
    let during_stops = DuringStops { stops: 20, silent: 18, little: 2, nearly_all: 0 };
    let silent = |name: &str| Part { during_stops, ..part(&[name], LIMITS) };
    let parts = [silent("a"), silent("b"), part(&["c"], IDLE)];
    let all_lost = in_turn(ALL_LOST, 30);
    let evidence = |parts| Evidence { in_turn: &all_lost, ..evidence(parts) };
    let of = |path: Path| argue(&Evidence { paths: &[path], used: both(0.3), ..evidence(&parts) });
    let limits = |argument: Argument| argument.limits.into_iter().map(|limit| (limit.name(), limit.kind));
    let named = |path| limits(of(path)).collect::<Vec<_>>();
    assert_eq!(named(path("b", few)), [("a and b".to_owned(), LimitKind::Pool)]);
    assert_eq!(named(path("b", None)), [("a and b".to_owned(), LimitKind::Coupled)]);
    assert_eq!(named(path("c", few)), [("a and b".to_owned(), LimitKind::Coupled)], "that is another path");
    let told = |argument: Argument| argument.limits[0].evidence.join("; ");
    assert!(told(of(path("b", None))).contains("80 round trips or more were under way at once"));
    assert!(told(argue(&evidence(&parts))).contains("a relay before a or b would show whether"));
    let busy = Evidence { paths: &[path("b", few)], used: both(0.97), ..evidence(&parts) };
    assert_eq!(limits(argue(&busy)).collect::<Vec<_>>(), [("a and b".to_owned(), LimitKind::Coupled)]);
    let third = [silent("a"), silent("b"), part(&["c"], [0.4, 0.6, 0.8])];
    let open = argue(&Evidence { paths: &[path("b", few)], used: both(0.3), ..evidence(&third) });
    assert!(open.limits.is_empty(), "c may decide as well");
    // What is behind the path stops with it, and its own path seems as narrow.
    let three = [silent("a"), silent("b"), silent("c")];
    let called_by = |own: Path, caller: &str| Path { callers: vec![caller.to_owned()], ..own };
    let rows: [(Vec<Path>, &str); 3] = [
        (vec![called_by(path("b", few), "a")], "a and b"),
        (vec![called_by(path("c", few), "b"), called_by(path("b", few), "a")], "a and b"),
        (vec![path("b", few)], "b"),
    ];
    for (paths, name) in rows {
        let all = BTreeMap::from(["a", "b", "c"].map(|name| (name.to_owned(), used(0.3))));
        let argument = argue(&Evidence { paths: &paths, used: all, ..evidence(&three) });
        assert_eq!(argument.limits[0].name(), name);
        let said = argument.limits[0].evidence.join("; ");
        assert!(said.contains("keep its place there while it waits for c"), "{said}");
    }
    // Who computes all the time limits by itself, and the others wait.
    let short = |mean: f64| Some(Estimate { mean, ci95: Some([mean - 0.05, mean + 0.05]) });
    let computes = [
        Part { under_short_stops: short(0.9), ..silent("a") },
        Part { under_short_stops: short(0.0), ..silent("b") },
    ];
    let alone = argue(&Evidence { paths: &[path("b", few)], ..evidence(&computes) });
    assert_eq!(limits(alone).collect::<Vec<_>>(), [("a".to_owned(), LimitKind::Unknown)]);
}

#[test]
fn the_share_of_full_processors_has_the_error_of_what_was_read() {
    let of = |processor_half| {
        let mut parts = [part(&[], LIMITS), part(&["a"], IDLE), part(&["b"], IDLE)];
        let one = |processor| Used { processor_half, ..used(processor) };
        let used = BTreeMap::from([("a".to_owned(), one(0.75)), ("b".to_owned(), one(0.25))]);
        share_processors(&mut parts, &used);
        let of =
            |name: &str| parts.iter().find(|part| part.components == [name.to_owned()]).unwrap().elasticity;
        let Estimate { mean, ci95: Some([lo, hi]) } = of("b") else { panic!() };
        assert!((mean - 0.25).abs() < 1e-9 && (of("a").mean - 0.75).abs() < 1e-9);
        (hi - lo) / 2.0
    };
    assert!((of(0.0) - 0.025).abs() < 1e-9, "a quarter of 0.1");
    // A quarter of the interval of the whole, and three quarters of what was read of one, a quarter of the other: by squares.
    let expected = (0.025_f64.powi(2) + 0.04_f64.powi(2) * (0.75_f64.powi(2) + 0.25_f64.powi(2))).sqrt();
    assert!((of(0.04) - expected).abs() < 1e-9);
}

#[test]
fn nobody_is_named_where_nobody_decides() {
    let parts = [part(&["a"], IDLE), part(&["b"], IDLE)];
    let of = |evidence: Evidence<'_>| said(&evidence);
    assert!(of(evidence(&parts)).unwrap_err().contains("0.05 at most"));
    let generator = of(Evidence { generator: Some(0.97), ..evidence(&parts) }).unwrap();
    assert_eq!(generator.1, LimitKind::Generator);
    let host = of(Evidence { generator: Some(0.97), kept_from_generator: 0.2, ..evidence(&parts) });
    assert!(host.unwrap_err().contains("kept 20 % of the time from a load thread"));
    assert_eq!(of(Evidence { refused: 0.8, ..evidence(&parts) }).unwrap().1, LimitKind::Refusal);
}

#[test]
fn components_may_wait_for_subscribers_that_work() {
    let idle = [part(&["a"], IDLE), part(&["b"], IDLE)];
    let of = |parts: &[Part], subscribers_work| said(&Evidence { subscribers_work, ..evidence(parts) });
    assert_eq!(of(&idle, 0.97).unwrap(), ("the subscribers".into(), LimitKind::Subscribers));
    assert!(of(&idle, 0.6).unwrap_err().contains("0.05 at most"));
    let deciding = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    assert_eq!(of(&deciding, 0.3).unwrap().0, "a");
    let open = of(&deciding, 0.6).unwrap_err();
    assert!(
        open.starts_with("a may limit the load, or only wait: the subscribers worked for 60 %"),
        "{open}"
    );
    let late = said(&Evidence { subscribers_acknowledge_late: true, ..evidence(&deciding) }).unwrap_err();
    assert!(late.contains("the emulated network delays what subscribers acknowledge"), "{late}");
}

#[test]
fn operations_without_an_end_and_effects_that_are_too_large_are_no_proof() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    let lost = said(&Evidence { unended: 0.04, ..evidence(&parts) }).unwrap_err();
    assert!(lost.contains("4 % of the operations never came to their end"), "{lost}");
    let parts = [part(&["a"], [1.5, 1.8, 2.1]), part(&["b"], IDLE)];
    assert!(said(&evidence(&parts)).unwrap_err().contains("more than the stops explain"));
}

#[test]
fn a_thread_that_has_one_of_several_processors_limits_though_all_are_full() {
    let parts = [part(&["a"], LIMITS), part(&[], LIMITS), part(&["b"], IDLE)];
    let of = |thread: f64| {
        let two = |used: Used| Used { processors: Some(2.0), processor_list: Some("0-1".to_owned()), ..used };
        let own = two(Used { thread: Some(thread), ..used(0.95) });
        let used = BTreeMap::from([("a".to_owned(), own), ("b".to_owned(), two(used(0.95)))]);
        said(&Evidence { processors: Some(2.0), used, ..evidence(&parts) }).unwrap()
    };
    assert_eq!(of(0.95), ("a".into(), LimitKind::Processor));
    assert_eq!(of(0.5), ("the platform's processors".into(), LimitKind::Processors));
}

#[test]
fn nobody_is_named_while_a_component_could_not_be_slowed() {
    let coupled = |name: &str| Part {
        during_stops: DuringStops { stops: 40, silent: 40, little: 0, nearly_all: 0 },
        ..part(&[name], LIMITS)
    };
    let alone = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    for parts in [vec![coupled("a"), coupled("b")], alone.to_vec()] {
        let all_lost = in_turn(ALL_LOST, 30);
        let whole = Evidence { in_turn: &all_lost, ..evidence(&parts) };
        assert!(said(&whole).is_ok());
        let missing = vec!["c".to_owned()];
        let error = said(&Evidence { missing, ..whole }).unwrap_err();
        assert!(error.ends_with("may limit the load, but c could not be slowed"), "{error}");
    }
    // Nor one that computes most of what is computed on full processors; all of them together are shown to limit.
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE), part(&[], LIMITS)];
    let of = |a: f64, b: f64| {
        let used = BTreeMap::from([("a".to_owned(), used(a)), ("b".to_owned(), used(b))]);
        said(&Evidence { used, missing: vec!["c".to_owned()], ..evidence(&parts) })
    };
    assert!(of(0.95, 0.03).is_err());
    assert_eq!(of(0.6, 0.38).unwrap().1, LimitKind::Processors);
}

#[test]
fn what_spins_while_operations_wait_for_something_else_is_no_full_processor() {
    let of = |short: [f64; 3]| {
        let [lo, mean, hi] = short;
        let own =
            Part { under_short_stops: Some(Estimate { mean, ci95: Some([lo, hi]) }), ..part(&["a"], LIMITS) };
        let parts = [own, part(&["b"], IDLE)];
        let used = BTreeMap::from([("a".to_owned(), used(0.97))]);
        said(&Evidence { used, ..evidence(&parts) }).unwrap().1
    };
    assert_eq!(of([0.9, 0.97, 1.0]), LimitKind::Processor);
    assert_eq!(of([0.1, 0.2, 0.3]), LimitKind::Unknown);
}

/// A large dose takes more from a component than what it may allow beyond the throughput.
#[test]
fn who_got_no_small_dose_may_only_come_near_to_the_limit() {
    let parts = [Part { small: None, ..part(&["a"], LIMITS) }, part(&["b"], IDLE)];
    let open = said(&evidence(&parts)).unwrap_err();
    assert!(open.contains("no time for a small one"), "{open}");
    assert_eq!(said(&evidence(&[part(&["a"], LIMITS), part(&["b"], IDLE)])).unwrap().0, "a");
}

/// A component that has few messages on their way to a load thread loses its stops, whoever limits.
#[test]
fn a_load_thread_that_is_busy_takes_the_name_of_a_component_away() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    let said = said(&Evidence { generator: Some(0.97), ..evidence(&parts) }).unwrap_err();
    assert!(said.starts_with("a may limit the load, or only wait: a load thread used 97 %"), "{said}");
}

/// As one that gives up after a time, or that stops asking after failures.
#[test]
fn a_component_that_refuses_while_another_one_is_stopped_leaves_it_open() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE)];
    let of = |refused, share| {
        said(&Evidence { refused, refused_while: vec![("a".to_owned(), share)], ..evidence(&parts) })
    };
    let open = of(0.0, 0.4).unwrap_err();
    assert!(
        open.starts_with(
            "Plimsoll saw 40 % of the operations refused while it slowed a, and 0 % while it slowed nothing"
        ),
        "{open}"
    );
    assert_eq!(of(0.3, 0.31).unwrap().0, "a", "some are refused whatever is slowed");
}

#[test]
fn what_was_used_at_another_speed_says_nothing_of_what_is_at_its_limit() {
    let parts = [part(&["a"], LIMITS), part(&["b"], IDLE), part(&[], LIMITS)];
    let of = |rate| {
        let used = BTreeMap::from([("a".to_owned(), used(0.97))]);
        let capacity_when_read = Some(rate);
        argue(&Evidence { used, processors: Some(1.0), capacity_when_read, ..evidence(&parts) })
            .limits
            .remove(0)
    };
    assert_eq!(of(95.0).kind, LimitKind::Processor);
    let warming = of(60.0);
    assert_eq!((warming.name().as_str(), warming.kind), ("a", LimitKind::Unknown));
    let said = warming.evidence.join("; ");
    assert!(
        said.contains("against it: 60 operations/s while it was read what it uses, and 100 later"),
        "{said}"
    );
}

#[test]
fn a_bound_on_the_load_refuses_nothing_of_one_operation_at_a_time() {
    let parts = [part(&["a"], IDLE)];
    let of = |refused_alone| said(&Evidence { refused: 0.8, refused_alone, ..evidence(&parts) });
    assert_eq!(of(0.0).unwrap().1, LimitKind::Refusal);
    assert!(of(0.8).unwrap_err().contains("80 % of the operations were refused"));
}

#[test]
fn more_than_stops_explain_counts_whatever_dose_it_was() {
    let own = Part { by_large: Estimate { mean: 3.0, ci95: Some([2.5, 3.5]) }, ..part(&["a"], LIMITS) };
    assert!(said(&evidence(&[own])).unwrap_err().contains("lost more than the stops explain"));
}

#[test]
fn stops_in_turn_tell_equal_limits_and_a_lock_and_few_between_from_each_other() {
    let of = |elasticity, pair, in_turn: &[InTurn]| {
        let parts =
            [part(&["a"], LIMITS), part(&["b"], elasticity), part(&["a", "b"], pair), part(&["c"], IDLE)];
        said(&Evidence { in_turn, ..evidence(&parts) })
    };
    let named = |kind| ("a and b".to_owned(), kind);
    assert_eq!(of(LIMITS, LIMITS, &in_turn(ALL_LOST, 30)).unwrap(), named(LimitKind::Coupled));
    assert_eq!(of(LIMITS, LIMITS, &in_turn(HALF_LOST, 14)).unwrap(), named(LimitKind::Lock));
    // What a busy station has left after a stop of its own is of any length.
    let [mut queue] = in_turn(HALF_LOST, 6);
    queue.stops[0].nearly_all = 4;
    assert!(of(LIMITS, LIMITS, &[queue]).is_err());
    // A queue between equal limits is empty at the beginning of some stops.
    let few_halts = of(LIMITS, LIMITS, &in_turn(HALF_LOST, 4)).unwrap_err();
    assert!(few_halts.contains("or their limits are equal"), "{few_halts}");
    // Who is faster than it can be by itself while the other one stands still had to share something with it.
    let faster = |silent, [lo, hi]: [f64; 2]| {
        let [mut in_turn] = in_turn(HALF_LOST, silent);
        in_turn.speeds = vec![Some(Estimate { mean: (lo + hi) / 2.0, ci95: Some([lo, hi]) }), None];
        let mut parts = [part(&["a"], LIMITS), part(&["b"], LIMITS), part(&["a", "b"], LIMITS)];
        parts[1].capacity = Some(Estimate { mean: 100.0, ci95: Some([95.0, 108.0]) });
        said(&Evidence { in_turn: &[in_turn], ..evidence(&parts) })
    };
    assert_eq!(faster(4, [1.2, 1.5]).unwrap(), named(LimitKind::Lock));
    assert!(faster(4, [1.02, 1.2]).is_err(), "it can do as much by itself");
    let never_kept = faster(0, [1.2, 1.5]).unwrap_err();
    assert!(never_kept.contains("or their limits are equal"), "nor are these only equal: {never_kept}");
    // A processor that the other one leaves to it explains as much.
    let on_one_processor = |waits| {
        let [mut in_turn] = in_turn(HALF_LOST, 4);
        in_turn.speeds = vec![Some(Estimate { mean: 1.35, ci95: Some([1.2, 1.5]) }), None];
        let mut parts = [part(&["a"], LIMITS), part(&["b"], LIMITS), part(&["a", "b"], LIMITS)];
        parts[1].capacity = Some(Estimate { mean: 100.0, ci95: Some([95.0, 108.0]) });
        let used = BTreeMap::from([("b".to_owned(), Used { waits, ..used(0.3) })]);
        said(&Evidence { in_turn: &[in_turn], used, ..evidence(&parts) })
    };
    assert_eq!(on_one_processor(0.05).unwrap(), named(LimitKind::Lock));
    assert!(
        on_one_processor(0.15).is_err(),
        "0.93 of the time for an operation, 0.15 of it without a processor"
    );
    let unknown = of(LIMITS, LIMITS, &in_turn(HALF_LOST, 0)).unwrap_err();
    assert!(unknown.contains("or their limits are equal"), "their speeds are not known: {unknown}");
    let [mut as_fast] = in_turn(HALF_LOST, 0);
    as_fast.speeds = vec![Some(Estimate { mean: 1.0, ci95: Some([0.95, 1.05]) }); 2];
    let limit = |name| Part {
        capacity: Some(Estimate { mean: 100.0, ci95: Some([97.0, 103.0]) }),
        ..part(&[name], LIMITS)
    };
    let parts = [limit("a"), limit("b"), part(&["a", "b"], LIMITS)];
    let equal = said(&Evidence { in_turn: &[as_fast], ..evidence(&parts) }).unwrap_err();
    assert!(equal.ends_with("limits are about equal: a and b were stopped in turn: the platform lost 52 % (45 to 59) of that time"), "{equal}");
    assert!(of(LIMITS, LIMITS, &[]).unwrap_err().contains("or their limits are equal"), "not known");
    let between = of(LIMITS, LIMITS, &in_turn([0.6, 0.75, 0.9], 30)).unwrap_err();
    assert!(between.contains("or their limits are equal"), "some operations may need only one of them");
    assert!(of(LIMITS, IDLE, &in_turn(ALL_LOST, 30)).is_err(), "both together do not decide");
    let some = [0.36, 0.49, 0.62];
    assert_eq!(
        of(some, LIMITS, &in_turn(ALL_LOST, 30)).unwrap(),
        named(LimitKind::Coupled),
        "it is made up for in part"
    );
    assert!(
        of([0.0, 0.35, 0.7], LIMITS, &in_turn(ALL_LOST, 30)).is_err(),
        "it may only stand on the way of what ends"
    );
}

#[test]
fn a_wait_hides_up_to_an_operation_of_each_stop_and_computing_hides_nothing() {
    let mut waits = part(&["a"], [0.94, 0.96, 0.98]);
    // A tenth of each stop at most, and 0.0375 of it on average.
    waits.allow_for_waits(0.1, &BTreeMap::new());
    let [lo, hi] = waits.elasticity.ends();
    let more = |hidden: f64| 0.96 * (1.0 - 0.6 * (1.0 - hidden)) / (0.4 * (1.0 - hidden));
    assert!((waits.elasticity.mean - more(0.0375)).abs() < 1e-9, "{:?}", waits.elasticity);
    assert!(lo < 0.96 && hi > more(0.083), "nothing may be hidden, or much: {lo} to {hi}");
    let mut computes = part(&["a"], [0.94, 0.96, 0.98]);
    let all = BTreeMap::from([("a".to_owned(), Used { processor: 1.0, ..Used::default() })]);
    computes.allow_for_waits(0.1, &all);
    let ends = computes.elasticity.ends();
    assert!((ends[0] - 0.94).abs() < 1e-9 && (ends[1] - 0.98).abs() < 1e-9, "{ends:?}");
    let mut shared = part(&[], [0.94, 0.96, 0.98]);
    shared.allow_for_waits(0.1, &BTreeMap::new());
    assert_eq!(shared.elasticity.ends(), [0.94, 0.98], "processors are not stopped");
}
