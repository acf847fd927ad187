//! Systems against exact small cases, against their definition a step at a time, and against theory.

use super::*;
use crate::distribution::InterArrival;
use crate::queue::{Queue, Stall};
use proptest::prelude::*;

const MILLI: Nanos = Nanos(1_000_000);
const fn millis(count: i64) -> Nanos {
    Nanos(count * MILLI.0)
}

fn fixed(workers: usize, work: Nanos) -> Settings {
    Settings { workers, service: ServiceTime::Deterministic(work), limit: None, stall: None, seed: 1 }
}

const PLAIN: Discipline = Discipline { lock: None, sharing: false, quota: None };
const SHARING: Discipline = Discipline { sharing: true, ..PLAIN };
const TENTHS: Discipline =
    Discipline { quota: Some(Quota { work: millis(20), period: millis(100) }), ..PLAIN };

fn locked(lock: Nanos) -> Discipline {
    Discipline { lock: Some(ServiceTime::Deterministic(lock)), ..PLAIN }
}

/// When each of the arrivals is served; `None` for one that is refused.
fn services(settings: Settings, discipline: Discipline, arrivals: &[Nanos]) -> Vec<Option<Service>> {
    let mut system = System::new(settings, discipline);
    let mut served = vec![None; arrivals.len()];
    for (id, at) in arrivals.iter().enumerate() {
        system.arrive(*at, id);
    }
    while let Some(change) = system.next_change() {
        system.advance(change);
    }
    let mut last = Nanos::ZERO;
    while let Some((id, service)) = system.take_departed() {
        assert!(service.departure >= last, "departures in their order");
        last = service.departure;
        assert_eq!(served[id].replace(service), None, "departed twice");
    }
    served
}

/// Departures in whole milliseconds of arrivals in whole milliseconds.
fn departures(settings: Settings, discipline: Discipline, arrivals: &[i64]) -> Vec<i64> {
    let arrivals: Vec<Nanos> = arrivals.iter().map(|at| millis(*at)).collect();
    let departure = |service: Option<Service>| service.unwrap().departure;
    let departures = services(settings, discipline, &arrivals).into_iter().map(departure);
    departures.map(|at| (at.0 % MILLI.0 == 0).then_some(at.0 / MILLI.0).unwrap()).collect()
}

#[test]
fn one_at_a_time_holds_the_lock_and_the_others_wait_with_their_workers() {
    let (settings, lock) = (fixed(3, millis(1)), locked(millis(2)));
    assert_eq!(departures(settings, lock, &[0, 0, 0]), [3, 5, 7]);
    // The fourth waits for a worker until 3 and comes to the lock at 4, behind the third, which holds it until 7.
    assert_eq!(departures(settings, lock, &[0, 0, 0, 0, 20]), [3, 5, 7, 9, 23]);
    assert_eq!(departures(fixed(1, millis(1)), lock, &[0, 0]), [3, 6]);
}

#[test]
fn all_that_is_there_shares_the_workers() {
    let settings = fixed(1, millis(6));
    assert_eq!(departures(settings, SHARING, &[0, 0, 0]), [18, 18, 18]);
    // The first has had 3 ms when the second comes: 3 left at half speed, then 3 of the second at full speed.
    assert_eq!(departures(settings, SHARING, &[0, 3, 30]), [9, 12, 36]);
    // Two workers: two messages are served at full speed, three at two thirds of it.
    assert_eq!(departures(fixed(2, millis(6)), SHARING, &[0, 0]), [6, 6]);
    assert_eq!(departures(fixed(2, millis(6)), SHARING, &[0, 0, 0]), [9, 9, 9]);
}

#[test]
fn a_used_up_quota_stops_everything_until_the_next_period() {
    assert_eq!(departures(fixed(1, millis(30)), TENTHS, &[0, 0]), [110, 220]);
    // Two workers use it up in half the time.
    assert_eq!(departures(fixed(2, millis(30)), TENTHS, &[0, 0]), [210, 210]);
    // What was not used is lost: 5 ms before the end of a period, and 5 in the next.
    assert_eq!(departures(fixed(1, millis(10)), TENTHS, &[95]), [105]);
    assert_eq!(departures(fixed(1, millis(20)), TENTHS, &[0, 0, 250]), [20, 120, 270]);
    // An end at the moment at which the quota is used up is in time.
    assert_eq!(departures(fixed(4, millis(5)), TENTHS, &[0, 0, 0, 0, 6]), [5, 5, 5, 5, 105]);
}

#[test]
fn what_waits_for_the_lock_uses_neither_quota_nor_share() {
    let locked = locked(millis(10));
    // 5 and 5 without the lock, 10 with it; the second has its 10 in the next period.
    let quota = Discipline { quota: TENTHS.quota, ..locked };
    assert_eq!(departures(fixed(2, millis(5)), quota, &[0, 0]), [15, 110]);
    // Both share until 10; then each has the lock and the processor for itself.
    assert_eq!(departures(fixed(1, millis(5)), Discipline { sharing: true, ..locked }, &[0, 0]), [20, 30]);
}

#[test]
fn stalls_stop_shares_and_locks_too() {
    let stall = Some(Stall { every: millis(10), length: millis(4) });
    let settings = Settings { stall, ..fixed(1, millis(4)) };
    assert_eq!(departures(settings, SHARING, &[5, 5]), [17, 17]);
    assert_eq!(departures(settings, locked(millis(2)), &[5]), [15]);
}

#[test]
fn a_quota_without_a_nanosecond_for_each_worker_does_not_stop_all_work() {
    let quota = Some(Quota { work: Nanos(0), period: Nanos(10) });
    let served = services(fixed(2, Nanos(3)), Discipline { quota, ..PLAIN }, &[Nanos(0)]);
    assert_eq!(served[0].unwrap().departure, Nanos(11));
}

/// The time under the lock bounds the throughput, whatever the number of workers.
#[test]
fn the_lock_bounds_the_throughput() {
    for workers in [2, 8, 64] {
        let arrivals = vec![Nanos::ZERO; 1000];
        let served = departures(fixed(workers, millis(1)), locked(millis(2)), &vec![0; arrivals.len()]);
        assert_eq!(served.last(), Some(&2001), "{workers} workers");
    }
}

#[test]
fn a_refused_arrival_takes_its_draws() {
    let settings = Settings { service: ServiceTime::Exponential(MILLI), ..fixed(1, MILLI) };
    let discipline = Discipline { lock: Some(ServiceTime::Exponential(MILLI)), ..PLAIN };
    let (mut one, mut other) = (System::new(settings, discipline), System::new(settings, discipline));
    one.turn_away();
    other.arrive(Nanos::ZERO, 0);
    let last = |system: &mut System| {
        system.arrive(millis(1000), 1);
        system.advance(millis(2000));
        std::iter::from_fn(|| system.take_departed()).last()
    };
    let (one, other) = (last(&mut one), last(&mut other));
    assert!(one.is_some());
    assert_eq!(one, other);
}

/// Draws of a nanosecond at least: a draw below half of one is one in 200,000.
const SMALL: ServiceTime = ServiceTime::LogNormal { mean: Nanos(10), cv: 0.7 };

fn demands(settings: &Settings, lock: Option<ServiceTime>, count: usize) -> Vec<Demand> {
    let mut demands = Demands::new(settings, lock);
    (0..count).map(|_| demands.draw()).collect()
}

fn times(gaps: &[i64]) -> Vec<Nanos> {
    let mut at = 0;
    gaps.iter()
        .map(|gap| {
            at += gap;
            Nanos(at)
        })
        .collect()
}

/// A first-come first-served system with lock, quota and stalls by its definition, a nanosecond at a time.
fn walk(settings: Settings, discipline: Discipline, arrivals: &[Nanos]) -> Vec<Option<Service>> {
    let demands = demands(&settings, discipline.lock, arrivals.len());
    let mut served = vec![None; arrivals.len()];
    // The number of each arrival, with what is left of its work, and of its use of the lock that is to come.
    let mut at_work: Vec<(usize, i64, Option<i64>)> = Vec::new();
    let (mut waiting, mut at_lock) = (VecDeque::new(), VecDeque::new());
    let (mut holder, mut begins, mut busy) = (None, vec![Nanos::ZERO; arrivals.len()], 0);
    let (mut come, mut left, mut now) = (0, 0, 0);
    while come < arrivals.len() || busy > 0 {
        while let Some(place) = at_work.iter().position(|(_, work, _)| *work == 0) {
            let (id, _, to_lock) = at_work.remove(place);
            if let Some(locked) = to_lock {
                at_lock.push_back((id, locked));
            } else {
                served[id] = Some(Service { begin: begins[id], departure: Nanos(now) });
                busy -= 1;
                holder = holder.filter(|holder| *holder != id);
                if let Some(id) = waiting.pop_front() {
                    begins[id] = Nanos(now);
                    busy += 1;
                    at_work.push((id, demands[id].work.0, demands[id].locked.map(|locked| locked.0)));
                }
            }
            if holder.is_none()
                && let Some((id, locked)) = at_lock.pop_front()
            {
                holder = Some(id);
                at_work.push((id, locked, None));
            }
        }
        while arrivals.get(come).is_some_and(|at| at.0 == now) {
            if busy < settings.workers {
                begins[come] = Nanos(now);
                busy += 1;
                at_work.push((come, demands[come].work.0, demands[come].locked.map(|locked| locked.0)));
            } else if settings.limit.is_none_or(|limit| waiting.len() < limit) {
                waiting.push_back(come);
            }
            come += 1;
        }
        if let Some(quota) = discipline.quota
            && now % quota.period.0 == 0
        {
            left = quota.work.0;
        }
        let stalls = |stall: Stall| now >= stall.every.0 && now % stall.every.0 < stall.length.0;
        let used_up = discipline.quota.is_some() && left < at_work.len() as i64;
        if !settings.stall.is_some_and(stalls) && !used_up {
            left -= at_work.len() as i64;
            at_work.iter_mut().for_each(|(_, work, _)| *work -= 1);
        }
        now += 1;
    }
    served
}

/// Processor sharing by its definition: what is left of every job, from one event to the next.
fn share(workers: usize, arrivals: &[Nanos], works: &[Demand]) -> Vec<f64> {
    let mut departures = vec![0.0; arrivals.len()];
    let mut left: Vec<(usize, f64)> = Vec::new();
    let (mut now, mut come) = (0.0, 0);
    while come < arrivals.len() || !left.is_empty() {
        let speed = (workers as f64 / left.len() as f64).min(1.0);
        let least = left.iter().map(|(_, work)| *work).fold(f64::INFINITY, f64::min);
        let arrival = arrivals.get(come).map_or(f64::INFINITY, |at| at.0 as f64);
        let next = arrival.min(now + least / speed);
        left.iter_mut().for_each(|(_, work)| *work -= (next - now) * speed);
        now = next;
        left.retain(|(id, work)| {
            if *work < 1e-9 {
                departures[*id] = now;
            }
            *work >= 1e-9
        });
        if arrival <= now {
            left.push((come, works[come].work.0 as f64));
            come += 1;
        }
    }
    departures
}

proptest! {
    #[test]
    fn without_hindrance_it_is_the_queue(
        gaps in prop::collection::vec(0i64..20, 1..40), workers in 1usize..4, seed: u64,
        limit in prop::option::of(0usize..4), stall in prop::option::of((2i64..30, 0i64..30)),
    ) {
        let stall = stall.map(|(every, length)| Stall { every: Nanos(every), length: Nanos(length % every) });
        let settings = Settings { workers, service: SMALL, limit, stall, seed };
        let mut queue = Queue::new(settings);
        let arrivals = times(&gaps);
        let expected: Vec<_> = arrivals.iter().map(|at| queue.arrive(*at)).collect();
        prop_assert_eq!(services(settings, PLAIN, &arrivals), expected);
    }

    #[test]
    fn changes_agree_with_a_walk(
        gaps in prop::collection::vec(0i64..20, 1..40), workers in 1usize..4, seed: u64,
        limit in prop::option::of(0usize..4), stall in prop::option::of((2i64..30, 0i64..30)),
        lock: bool, quota in prop::option::of((3i64..20, 4i64..60)),
    ) {
        let stall = stall.map(|(every, length)| Stall { every: Nanos(every), length: Nanos(length % every) });
        let settings = Settings { workers, service: SMALL, limit, stall, seed };
        let quota = quota.map(|(work, period)| Quota { work: Nanos(work), period: Nanos(period) });
        let discipline = Discipline { lock: lock.then_some(SMALL), sharing: false, quota };
        let arrivals = times(&gaps);
        let expected = walk(settings, discipline, &arrivals);
        prop_assert_eq!(services(settings, discipline, &arrivals), expected);
    }

    #[test]
    fn shares_agree_with_their_definition(
        gaps in prop::collection::vec(0i64..2000, 1..40), workers in 1usize..4, seed: u64,
    ) {
        let service = ServiceTime::LogNormal { mean: Nanos(1000), cv: 0.7 };
        let settings = Settings { workers, service, limit: None, stall: None, seed };
        let arrivals = times(&gaps);
        let demands = demands(&settings, None, arrivals.len());
        let expected = share(workers, &arrivals, &demands);
        let served = services(settings, SHARING, &arrivals);
        for (id, service) in served.iter().enumerate() {
            let Service { begin, departure } = service.unwrap();
            prop_assert_eq!(begin, arrivals[id]);
            prop_assert!(departure >= begin + demands[id].work, "faster than a worker");
            // Each departure is rounded up to the nanosecond, which holds up the others for less than one.
            let late = departure.0 as f64 - expected[id];
            prop_assert!((-0.01..=arrivals.len() as f64).contains(&late), "{}: {} ns late", id, late);
        }
        // One worker has the same work to do in the same time, in whatever order.
        if workers == 1 {
            let last = |services: &[Option<Service>]| services.iter().map(|s| s.unwrap().departure.0).max();
            let plain = services(settings, PLAIN, &arrivals);
            let late = last(&served).unwrap() - last(&plain).unwrap();
            prop_assert!((0..=arrivals.len() as i64).contains(&late), "work is lost: {} ns", late);
        }
    }
}

/// Mean time from arrival to departure of Poisson arrivals, in units of the mean service time, and its standard error.
/// Busy periods are independent of each other, so that the error is that of a ratio of their sums (the regenerative
/// method: Crane and Iglehart, Simulating Stable Stochastic Systems, Operations Research 23, 1975).
fn mean_response(
    workers: usize,
    service: ServiceTime,
    utilisation: f64,
    discipline: Discipline,
) -> (f64, f64) {
    const COUNT: usize = 200_000;
    let settings = Settings { service, ..fixed(workers, MILLI) };
    let mut draws = random(11, &[1]);
    let mut at = 0.0;
    let gap = service.mean().0 as f64 / (utilisation * workers as f64);
    let arrivals: Vec<Nanos> = (0..COUNT)
        .map(|_| {
            at += gap * InterArrival::Exponential.sample(&mut draws);
            Nanos(at as i64)
        })
        .collect();
    let served = services(settings, discipline, &arrivals);
    let mut cycles: Vec<(f64, f64)> = Vec::new();
    let mut last = Nanos(-1);
    for (at, service) in arrivals.iter().zip(served) {
        let departure = service.unwrap().departure;
        if last < *at {
            cycles.push((0.0, 0.0));
        }
        last = last.max(departure);
        let (time, count) = cycles.last_mut().unwrap();
        *time += (departure - *at).0 as f64 / MILLI.0 as f64;
        *count += 1.0;
    }
    let mean = cycles.iter().map(|(time, _)| time).sum::<f64>() / COUNT as f64;
    let squares: f64 = cycles.iter().map(|(time, count)| (time - mean * count).powi(2)).sum();
    (mean, squares.sqrt() / COUNT as f64)
}

/// M/G/1 with processor sharing has the mean of M/M/1, 1 / (mu - lambda), whatever the law of service (Kleinrock, Queueing
/// Systems 2, 4.4), and m processors have that of M/M/m (Cohen, Acta Informatica 12, 1979). First come, first served,
/// M/D/1 has another.
#[test]
fn the_mean_response_of_sharing_does_not_depend_on_the_law_of_service() {
    let laws = [
        ServiceTime::Exponential(MILLI),
        ServiceTime::Deterministic(MILLI),
        ServiceTime::LogNormal { mean: MILLI, cv: 2.0 },
    ];
    for law in laws {
        for utilisation in [0.5, 0.8] {
            let theory = 1.0 / (1.0 - utilisation);
            let (mean, error) = mean_response(1, law, utilisation, SHARING);
            println!("{law:?} at {utilisation}: {mean:.4}, theory {theory:.4}, error {error:.4}");
            assert!((mean - theory).abs() < 4.0 * error, "{law:?}: {mean}, theory {theory}, error {error}");
        }
        // M/M/2: 1 / (mu (1 - rho^2)).
        let (mean, error) = mean_response(2, law, 0.8, SHARING);
        let theory = 1.0 / (1.0 - 0.8f64.powi(2));
        println!("{law:?} on two: {mean:.4}, theory {theory:.4}, error {error:.4}");
        assert!((mean - theory).abs() < 4.0 * error, "{law:?}: {mean}, theory {theory}, error {error}");
    }
    let (mean, error) = mean_response(1, ServiceTime::Deterministic(MILLI), 0.8, PLAIN);
    let theory = 1.0 + 0.8 / (2.0 * (1.0 - 0.8));
    assert!((mean - theory).abs() < 4.0 * error, "M/D/1: {mean}, theory {theory}, error {error}");
    assert!((mean - 5.0).abs() > 4.0 * error, "the test tells one discipline from the other");
}

/// With workers in plenty, the lock is a queue of its own: service without it delays arrivals at it, and Poisson arrivals
/// that are delayed independently are Poisson again (Doob), so that the lock is M/M/1.
#[test]
fn the_lock_behind_many_workers_is_a_queue_of_its_own() {
    let lock = Some(ServiceTime::Exponential(MILLI));
    let service = ServiceTime::Exponential(MILLI);
    // 1,000 workers at 0.0007 of their number: 0.7 arrivals in each service time, which the lock takes too.
    let (mean, error) = mean_response(1000, service, 0.0007, Discipline { lock, ..PLAIN });
    let theory = 1.0 + 1.0 / (1.0 - 0.7);
    println!("lock: {mean:.4}, theory {theory:.4}, error {error:.4}");
    assert!((mean - theory).abs() < 4.0 * error, "{mean}, theory {theory}, error {error}");
}
