//! Experiments on rows of stations with one planted limit: it is named and no other, its elasticity is that of the planted
//! network, and a forecast of what a faster one buys holds when it is made faster.

use super::bench::{Setup, between, seeds};
use plimsoll_analysis::experiment::{Experiment, InTurn, Part};
use plimsoll_analysis::limits::{Limit, LimitKind};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;

/// A row of stations.
#[derive(Clone, Default)]
struct Row {
    stations: Vec<Station>,
    /// Keys of the simulation beside the stations.
    more: &'static str,
    /// Who may be named: all of them, and each with its planted elasticity where that is known.
    planted: Vec<(usize, Option<f64>)>,
    /// Operations per second that the planted limit allows.
    capacity: f64,
}

/// A station: its mean service time in seconds, its workers, and its other keys.
#[derive(Clone)]
struct Station {
    service: f64,
    workers: u32,
    keys: String,
}

impl Station {
    fn of(service: f64, keys: &str) -> Station {
        Station { service, workers: 1, keys: keys.to_owned() }
    }

    fn with(self, workers: u32) -> Station {
        Station { workers, ..self }
    }
}

fn name(place: usize) -> String {
    format!("s{place}")
}

impl Row {
    /// Three to five stations that are up to 70 % busy at the capacity that the one at the planted place allows.
    fn of(seed: u64, limit: impl Fn(f64) -> Station) -> Row {
        let count = 3 + seed as usize % 3;
        let place = (seed / 3) as usize % count;
        let capacity = between(seed + 5, 100.0, 300.0);
        let other = |at: usize| {
            let busy = between(seed + 11 * at as u64 + 1, 0.1, 0.7);
            let keys = if (seed + at as u64).is_multiple_of(3) { ", processor: 0 %" } else { "" };
            Station::of(busy / capacity, keys)
        };
        let station = |at: usize| if at == place { limit(1.0 / capacity) } else { other(at) };
        let stations = (0..count).map(station).collect();
        Row { stations, planted: vec![(place, Some(1.0))], capacity, ..Row::default() }
    }

    fn setup(&self, load: String) -> Setup {
        let station = |(place, one): (usize, &Station)| {
            let Station { service, workers, keys } = one;
            format!("{{ name: s{place}, service: {:.0}us, workers: {workers}{keys} }}", service * 1e6)
        };
        let stations: Vec<String> = self.stations.iter().enumerate().map(station).collect();
        Setup {
            stations: stations.join(", "),
            more: format!("  acknowledged_by: s{}\n{}", stations.len() - 1, self.more),
            load,
            subscribers: 0,
            objectives: String::new(),
            ..Setup::default()
        }
    }

    fn why(&self, seed: u64) -> (Summary, Experiment) {
        // Operations of these rows take up to fifty times as long as those of the real ones, and so do stops.
        let load = "warm_up: 1s, experiment: { with_levels: false, within: 40m }";
        let summary = self.setup(load.into()).run(seed);
        let experiment =
            summary.experiment.clone().unwrap_or_else(|| panic!("seed {seed}: {:?}", summary.notes));
        (summary, experiment)
    }

    /// Throughput with many operations in flight, for some minutes.
    fn measured(&self, seed: u64) -> f64 {
        let load = "model: closed, in_flight: [180], hold: 200s, samples: 20, warm_up: 5s, again: 0s";
        self.setup(load.into()).run(seed + 1000).levels[0].achieved.unwrap()
    }
}

fn spinning(seed: u64) -> Row {
    Row::of(seed, |service| Station::of(service, ""))
}

fn sleeping(seed: u64) -> Row {
    Row::of(seed, |service| Station::of(service, ", processor: 0 %"))
}

/// One thread that computes for a half of its time.
fn single_thread(seed: u64) -> Row {
    Row::of(seed, |service| Station::of(service, ", processor: 50 %"))
}

/// Workers that wait.
fn pool_of_workers(seed: u64) -> Row {
    let workers = 2 + seed as u32 % 4;
    Row::of(seed, |service| Station::of(service * f64::from(workers), ", processor: 0 %").with(workers))
}

fn quota(seed: u64) -> Row {
    let share = between(seed, 0.2, 0.5);
    Row::of(seed, |service| Station::of(service * share, &format!(", quota: {:.1} %", share * 100.0)))
}

fn shared_processor(seed: u64) -> Row {
    let row = spinning(seed);
    let parts: Vec<f64> = (0..row.stations.len() as u64).map(|at| between(seed + 7 * at, 0.2, 1.0)).collect();
    let whole: f64 = parts.iter().sum();
    let stations = parts.iter().map(|part| Station::of(part / whole / row.capacity, "").with(4)).collect();
    let planted = parts.iter().enumerate().map(|(at, part)| (at, Some(part / whole))).collect();
    Row { stations, planted, more: "  processors: 1\n", ..row }
}

/// Two stations that compute, all of it under one lock.
fn lock_of_two(seed: u64) -> Row {
    locked(seed, "")
}

/// The same of two that wait, as for a disk.
fn lock_of_two_that_wait(seed: u64) -> Row {
    locked(seed, ", processor: 0 %")
}

fn locked(seed: u64, keys: &str) -> Row {
    let mut row = spinning(seed);
    let (first, share) = (row.planted[0].0, between(seed, 0.35, 0.65));
    let second = (first + 1) % row.stations.len();
    for (place, part) in [(first, share), (second, 1.0 - share)] {
        row.stations[place] =
            Station::of(part / row.capacity, &format!(", lock: 100 %, shared_lock: one{keys}"));
    }
    Row { planted: vec![(first, None), (second, None)], ..row }
}

/// A station with few connections to the next one, whose many workers wait.
fn pool_of_connections(seed: u64) -> Row {
    pool(seed, "")
}

/// The same with a relay before the next one.
fn pool_behind_a_relay(seed: u64) -> Row {
    pool(seed, ", relay: true")
}

fn pool(seed: u64, keys: &str) -> Row {
    let mut row = spinning(seed);
    let first = row.planted[0].0.min(row.stations.len() - 2);
    let pool = 2 + seed as u32 % 3;
    let others: Vec<usize> = (0..row.stations.len()).filter(|at| *at != first && *at != first + 1).collect();
    for at in others {
        row.stations[at] = Station::of(between(seed + at as u64, 0.1, 0.6) / row.capacity, "");
    }
    row.stations[first] = Station::of(0.3 / row.capacity, &format!(", pool: {pool}"));
    let keys = format!(", processor: 0 %{keys}");
    row.stations[first + 1] = Station::of(f64::from(pool) / row.capacity, &keys).with(20);
    Row { planted: vec![(first, None), (first + 1, None)], ..row }
}

/// A station that waits, and takes one operation at a time. The one before it has many in hand: long stops of that one last until these are
/// done, and it seems to decide as well.
fn fed_by_few(seed: u64) -> Row {
    let mut row = sleeping(seed);
    let first = row.planted[0].0.min(row.stations.len() - 2);
    for (at, station) in row.stations.iter_mut().enumerate() {
        *station = Station::of(between(seed + at as u64, 0.05, 0.3) / row.capacity, "");
    }
    let in_hand = 12 + seed % 9;
    row.stations[first].keys = format!(", pool: {in_hand}");
    let law = if seed.is_multiple_of(2) { ", law: deterministic" } else { "" };
    row.stations[first + 1] = Station::of(1.0 / row.capacity, &format!(", processor: 0 %{law}"));
    Row { planted: vec![(first + 1, Some(1.0))], ..row }
}

/// Two stations, each of which allows as much as the other or nearly so, with service that varies or does not: nothing is between them but
/// a queue.
fn equal_limits(seed: u64) -> Row {
    let mut row = sleeping(seed);
    let first = row.planted[0].0;
    let second = (first + 1) % row.stations.len();
    let near = [1.0, 0.95, 0.9, 1.05][(seed / 2) as usize % 4];
    let law = if seed.is_multiple_of(2) { ", law: deterministic" } else { "" };
    for (place, part) in [(first, 1.0), (second, near)] {
        row.stations[place] = Station::of(part / row.capacity, &format!(", processor: 0 %{law}"));
    }
    row
}

/// What came of the seeds of a kind.
#[derive(Default)]
struct Found {
    named: usize,
    of: usize,
    /// Planted elasticities, and of them those that the interval covers, and whose interval lies within a fifth of it.
    planted: usize,
    covered: usize,
    near: usize,
    /// The same of stations that do not limit: within 0.15 of zero.
    others: usize,
    others_near: usize,
}

/// Runs a kind with its seeds. Nobody who was not planted may be named.
/// Of what several stations share, that which cannot be told from chance in the time stays without a name: four in five are enough.
fn examine(kind: &str, plant: fn(u64) -> Row, kinds: &[LimitKind]) {
    let mut found = Found::default();
    for seed in 0..(seeds() / 2).max(1) {
        let row = plant(seed);
        let (summary, experiment) = row.why(seed);
        let mut said: Vec<String> = summary
            .limits
            .iter()
            .flat_map(|limit| limit.component.iter().chain(&limit.components))
            .cloned()
            .collect();
        said.sort();
        let mut planted: Vec<String> = row.planted.iter().map(|(place, _)| name(*place)).collect();
        planted.sort();
        let told = || {
            let Summary { limits, notes, .. } = &summary;
            format!("{kind}, seed {seed}: planted {planted:?}: {limits:?}, {:?}, {notes:?}", experiment.open)
        };
        assert!(said.is_empty() || said == planted, "{}", told());
        assert!(summary.limits.iter().all(|limit| kinds.contains(&limit.kind)), "{}", told());
        found.of += 1;
        found.named += usize::from(said == planted);
        for InTurn { components, lost, stops, speeds } in &experiment.in_turn {
            println!(
                "{kind}, seed {seed}: {said:?}, {components:?} in turn: {lost:.2?}, {stops:?}, {speeds:.2?}"
            );
        }
        if said.is_empty() {
            println!("{}", told());
            for part in &experiment.parts {
                let Part {
                    doses,
                    blocks,
                    elasticity,
                    under_short_stops,
                    under_medium_stops,
                    during_stops,
                    ..
                } = part;
                println!(
                    "  {}: {doses:.2?} {blocks} {elasticity:.2?} {under_short_stops:.2?} {under_medium_stops:.2?} {during_stops:?}",
                    part.name()
                );
            }
        }
        for part in experiment.parts.iter().filter(|part| part.components.is_empty()) {
            println!("{kind}, seed {seed}: the processors {:.2?}", part.elasticity);
        }
        let off = experiment.capacity.mean / row.capacity - 1.0;
        assert!(off.abs() < 0.12, "{}: capacity {:?}, planted {}", told(), experiment.capacity, row.capacity);
        for part in experiment.parts.iter().filter(|part| part.components.len() == 1) {
            let is_it = |planted: &&(usize, Option<f64>)| name(planted.0) == part.components[0];
            let Some([lo, hi]) = part.elasticity.ci95 else { continue };
            match row.planted.iter().find(is_it) {
                Some((_, Some(theory))) => {
                    found.planted += 1;
                    found.covered += usize::from((lo..=hi).contains(theory));
                    let near = lo >= 0.8 * theory && hi <= 1.2 * theory;
                    found.near += usize::from(near);
                    if !near {
                        println!(
                            "{kind}, seed {seed}: {} planted {theory:.2}, {lo:.2} to {hi:.2}",
                            part.name()
                        );
                    }
                }
                Some((_, None)) => {}
                None => {
                    found.others += 1;
                    let near = lo >= -0.15 && hi <= 0.15;
                    found.others_near += usize::from(near);
                    if !near {
                        println!("{kind}, seed {seed}: {} planted 0, {lo:.2} to {hi:.2}", part.name());
                    }
                }
            }
        }
    }
    println!(
        "{kind}: named {} of {}; planted elasticities within a fifth {} of {}, covered {}; others within 0.15 {} of {}",
        found.named, found.of, found.near, found.planted, found.covered, found.others_near, found.others
    );
    if found.planted >= 20 {
        assert!(found.near * 10 >= found.planted * 8, "{kind}: {} of {} are near", found.near, found.planted);
        assert!(
            found.covered * 10 >= found.planted * 8,
            "{kind}: {} of {} are covered",
            found.covered,
            found.planted
        );
        let near = found.others_near;
        assert!(near * 10 >= found.others * 9, "{kind}: {near} of {} others are near", found.others);
    }
    // Of few seeds of what several share, any may be the one that stays open.
    let least = match (plant(0).planted.iter().all(|(_, theory)| theory.is_some()), found.of) {
        (true, of) => of * 9,
        (false, of) => of.saturating_sub(2) * 8,
    };
    assert!(found.named * 10 >= least, "{kind}: {} of {} were named", found.named, found.of);
}

#[test]
fn a_spinning_station_is_found() {
    examine("spinning", spinning, &[LimitKind::Processor]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_sleeping_station_is_found() {
    examine("sleeping", sleeping, &[LimitKind::Waiting]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_single_thread_that_waits_half_of_its_time_is_found() {
    examine("single thread", single_thread, &[LimitKind::Waiting, LimitKind::Unknown]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn workers_that_wait_are_found() {
    examine("workers", pool_of_workers, &[LimitKind::Waiting]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_quota_is_found() {
    examine("quota", quota, &[LimitKind::Quota]);
}

#[test]
fn a_processor_that_all_share_is_found() {
    examine("shared processor", shared_processor, &[LimitKind::Processors, LimitKind::Processor]);
}

#[test]
fn a_lock_of_two_stations_is_found() {
    examine("lock of two", lock_of_two, &[LimitKind::Lock, LimitKind::Coupled]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_lock_of_two_stations_that_wait_is_found() {
    examine("lock of two that wait", lock_of_two_that_wait, &[LimitKind::Lock, LimitKind::Coupled]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_pool_of_connections_is_found() {
    examine("pool of connections", pool_of_connections, &[LimitKind::Coupled]);
}

#[test]
#[ignore = "acceptance: laboratory"]
fn a_pool_of_connections_behind_a_relay_is_found() {
    examine("pool behind a relay", pool_behind_a_relay, &[LimitKind::Coupled, LimitKind::Pool]);
}

#[test]
fn who_only_feeds_the_limit_is_told_from_it() {
    examine("fed by few", fed_by_few, &[LimitKind::Waiting]);
}

/// Of two limits that lie together one may be named, and never anything that both share.
#[test]
fn equal_limits_are_neither_a_lock_nor_a_pool() {
    for seed in 0..(seeds() / 2).max(2) {
        let row = equal_limits(seed);
        let (summary, experiment) = row.why(seed);
        println!("seed {seed}: {:?}, {:?}", summary.limits, experiment.open);
        let least = row.stations.iter().map(|station| 1.0 / station.service).fold(f64::INFINITY, f64::min);
        for Limit { component, components, kind, .. } in &summary.limits {
            let own = component.as_ref().and_then(|name| {
                let is_it = |place: &usize| self::name(*place) == *name;
                (0..row.stations.len()).find(is_it)
            });
            let allows = own.map(|place| 1.0 / row.stations[place].service);
            assert_eq!(
                (components.len(), *kind),
                (0, LimitKind::Waiting),
                "seed {seed}: {:?}",
                summary.limits
            );
            assert!(allows.is_some_and(|rate| rate < least * 1.01), "seed {seed}: {:?}", summary.limits);
        }
    }
}

/// Delays name most pools, and count their places.
#[test]
fn the_places_of_a_pool_behind_a_relay_are_counted() {
    let (mut counted, mut near, all) = (0, 0, (seeds() / 2).max(1));
    for seed in 0..all {
        let row = pool_behind_a_relay(seed);
        let (summary, experiment) = row.why(seed);
        let places = f64::from(2 + seed as u32 % 3);
        let planted: Vec<String> = row.planted.iter().map(|(place, _)| name(*place)).collect();
        let is_right = |limit: &Limit| planted.iter().all(|name| limit.components.contains(name));
        assert!(summary.limits.iter().all(is_right), "seed {seed}: {planted:?}, {:?}", summary.limits);
        let at_once = experiment.paths.iter().find_map(|path| path.at_once);
        let is_pool = |limit: &Limit| limit.kind == LimitKind::Pool;
        let (true, Some(at_once)) = (summary.limits.iter().any(is_pool), at_once) else {
            println!("seed {seed}: {:?}, {:?}, {:?}", summary.limits, experiment.paths, experiment.open);
            continue;
        };
        let [lo, hi] = at_once.ci95.unwrap();
        println!("seed {seed}: {places} places: {:.2} ({lo:.2} to {hi:.2})", at_once.mean);
        counted += 1;
        near += u64::from(lo >= places * 0.8 && hi <= places * 1.2);
    }
    println!("pool behind a relay: counted {counted} of {all}, within a fifth {near}");
    assert!(counted * 10 >= all * 8 && near * 10 >= counted * 9, "{counted} of {all}, {near} near");
}

/// Forecasts of 25 % more speed and of a second worker, against the same network with that.
#[test]
#[ignore = "acceptance: laboratory"]
fn forecasts_hold_when_the_limit_becomes_faster() {
    let (mut within, mut all, mut widths) = (0, 0, Vec::new());
    for seed in 0..seeds() {
        let kinds: [fn(u64) -> Row; 4] = [spinning, sleeping, single_thread, pool_of_workers];
        let row = kinds[(seed % 4) as usize](seed);
        let (summary, experiment) = row.why(seed);
        let place = row.planted[0].0;
        for (percent, faster) in [(25.0, true), (100.0, false)] {
            let Some(forecast) = experiment.faster.iter().find(|one| one.percent == percent) else {
                println!("seed {seed}: no forecast: {:?}, {:?}", summary.limits, experiment.open);
                continue;
            };
            let mut better = row.clone();
            match faster {
                true => better.stations[place].service /= 1.25,
                false => better.stations[place].workers *= 2,
            }
            let (measured, [lo, hi]) = (better.measured(seed), forecast.capacity.ci95.unwrap());
            all += 1;
            let holds = (lo..=hi).contains(&measured);
            within += usize::from(holds);
            widths.push((hi - lo) / 2.0 / measured);
            if !holds {
                println!(
                    "seed {seed}, {percent} %: {lo:.1} to {hi:.1}, measured {measured:.1}, {:?}",
                    forecast.then
                );
                for part in &experiment.parts {
                    let Part { elasticity, capacity, .. } = part;
                    let (of, whole) = (part.name(), experiment.capacity.mean);
                    println!("  of {whole:.1}: {of}: {elasticity:.2?}, allows {capacity:.1?}");
                }
                for (place, Station { service, workers, keys }) in row.stations.iter().enumerate() {
                    println!("  planted s{place}: {:.1}{keys}", f64::from(*workers) / service);
                }
            }
        }
    }
    widths.sort_by(f64::total_cmp);
    let median = widths[widths.len() / 2];
    println!("forecasts: {within} of {all} held; median half-width {:.1} %", median * 100.0);
    assert!(median < 0.1, "{median}");
    // Nominal 95 %: by the binomial law at 1 %, of 200 at least 181 hold, of few nearly all.
    assert!(within as f64 >= all as f64 * 0.9, "{within} of {all}");
}

/// The mean time of a row of exponential servers at a rate, by queueing theory (M/M/1 in tandem).
fn mean_time(services: &[f64], rate: f64) -> f64 {
    services.iter().map(|service| service / (1.0 - rate * service)).sum()
}

#[test]
fn latency_rises_with_a_slower_component_as_theory_says() {
    let (mut near, mut all) = (0, 0);
    for seed in 0..(seeds() / 10).max(1) {
        let services = [between(seed, 2e-3, 4e-3), 6e-3, between(seed + 1, 1e-3, 3e-3)];
        let stations = vec![
            Station::of(services[0], ""),
            Station::of(services[1], ""),
            Station::of(services[2], ", processor: 0 %"),
        ];
        let setup = Setup {
            objectives: "publish_mean: < 1 s, publish_p99: < 5 s".into(),
            ..Row { stations, ..Row::default() }
                .setup("warm_up: 1s, experiment: { with_levels: false, within: 40m }".into())
        };
        let summary = setup.run(seed);
        let experiment = summary.experiment.unwrap();
        let keys: Vec<&str> = experiment.latencies.iter().map(|latency| latency.objective.as_str()).collect();
        assert_eq!(keys.len(), 2, "{keys:?}");
        // Nothing can be said of one that sleeps through short stops.
        assert_eq!(experiment.not_in_latencies(), ["s2"]);
        let mean = experiment.latencies.iter().find(|latency| latency.objective == "publish_mean").unwrap();
        for part in &mean.parts {
            let place = usize::from(part.component == "s1");
            let mut slower = services;
            slower[place] /= 0.6;
            let rise = mean_time(&slower, mean.rate) / mean_time(&services, mean.rate) - 1.0;
            let [lo, hi] = part.elasticity.ci95.unwrap();
            println!("seed {seed}: {} {lo:.2} to {hi:.2}, by theory {:.2}", part.component, rise * 1.5);
            all += 1;
            near += usize::from((lo..=hi).contains(&(rise * 1.5)));
        }
    }
    println!("latency: {near} of {all} intervals cover");
    // Nominal 95 %; of few, one may miss.
    assert!(near + 1 >= all || near as f64 >= 0.88 * all as f64, "{near} of {all}");
}

/// Where the generator has no more to give, or nothing is left to be slowed, no component is named.
#[test]
fn nobody_is_named_where_the_generator_limits() {
    let row = Row {
        stations: vec![Station::of(0.2e-3, ""), Station::of(0.3e-3, "")],
        more: "  generator_cost: 1ms\n",
        capacity: 300.0,
        ..Row::default()
    };
    let (summary, experiment) = row.why(1);
    let named = |limit: &Limit| limit.component.is_some() || !limit.components.is_empty();
    assert!(!summary.limits.iter().any(named), "{:?}, {:?}", summary.limits, experiment.open);
    assert_eq!(summary.verdict, Verdict::Invalid, "what the platform can do was not seen");
}
