//! Closed loops of which the throughput is known, left alone and slowed. Where the backlog is matters: it collects before
//! the station that is served worst, and what is slowed there is slowed for all.

use super::*;
use plimsoll_model::experiment::{Means, Perturbation};

/// From when an order lasts and messages are counted: by then every loop has come to rest.
const FROM: Nanos = Nanos::from_secs(5);

/// A station that spins, with exponential service times of that mean.
fn spinning(name: &str, mean: i64) -> StationSpec {
    station(name, ServiceTime::Exponential(ms(mean)))
}

fn order(means: Means, components: &[&str], share: f64, stop: Nanos) -> Perturbation {
    let components = components.iter().map(|&name| name.into()).collect();
    Perturbation::new(components, means, share, stop)
}

/// A closed loop of so many messages: how many end in a second, over so many seconds in which the order lasts.
fn throughput(mut spec: Spec, flight: u32, order: Option<Perturbation>, seconds: i64) -> f64 {
    spec.acknowledged_by = spec.stations.len() - 1;
    spec.network.round_trip = Nanos::from_micros(100);
    let simulation = Simulation::of(spec, 7);
    let to = FROM + Nanos::from_secs(seconds);
    if let Some(perturbation) = order {
        simulation.slow(&Order { perturbation, from: FROM, to });
    }
    simulation.populate(1, 0);
    simulation.connect(Client::Device(0));
    let (mut seen, mut next, mut count) = (Vec::new(), 0, 0);
    let mut send = || {
        simulation.send(0, next);
        next += 1;
    };
    while simulation.now() < to {
        simulation.wait(to, &mut seen);
        for (happening, at, _) in seen.drain(..) {
            match happening {
                Happening::Ready(..) => (0..flight).for_each(|_| send()),
                Happening::Acknowledged(..) => {
                    count += u32::from(at >= FROM);
                    send();
                }
                _ => {}
            }
        }
    }
    f64::from(count) / seconds as f64
}

/// Within that share of what is expected: counts are of 10,000 to 30,000 messages, so 3 % are three standard deviations.
#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} instead of {expected}");
}

#[test]
fn a_bottleneck_that_is_stopped_loses_that_share_and_who_has_time_to_spare_loses_nothing() {
    let of = |order| throughput(spec(vec![spinning("a", 5), spinning("b", 1)], Vec::new()), 300, order, 100);
    let stop = |name| Some(order(Means::Stop, &[name], 0.6, ms(400)));
    assert_near(of(None), 200.0, 0.03);
    assert_near(of(stop("a")), 80.0, 0.04);
    assert_near(of(stop("b")), 200.0, 0.03);
    assert_near(of(stop("unknown")), 200.0, 0.03);
}

#[test]
fn a_sleep_goes_on_through_a_stop_and_only_its_end_is_late() {
    let of = |order| {
        let mut sleeping = spinning("a", 5);
        sleeping.processor = 0.0;
        throughput(spec(vec![sleeping], Vec::new()), 50, order, 100)
    };
    let alone = of(None);
    assert_near(alone, 200.0, 0.03);
    // One sleep of each cycle of 400 ms ends for nothing, in the stop.
    assert_near(of(Some(order(Means::Stop, &["a"], 0.2, ms(80)))), alone * (320.0 + 5.0) / 400.0, 0.02);
    // Every fifth end falls into a stop, and is a quarter of a millisecond late.
    let short = Nanos::from_micros(500);
    assert_near(of(Some(order(Means::Stop, &["a"], 0.2, short))), alone * 5.0 / 5.05, 0.005);
    assert_near(of(Some(order(Means::Occupy, &[], 0.3, ms(50)))), alone, 0.001);
}

#[test]
fn stations_that_share_a_processor_are_limited_by_it() {
    let of = |order, processors| {
        let mut b = spinning("b", 2);
        // Enough threads to catch up after a stop against the one of the other.
        b.workers = 8;
        let mut shared = spec(vec![spinning("a", 3), b], Vec::new());
        shared.processors = Some(processors);
        throughput(shared, 100, order, 100)
    };
    assert_near(of(None, 1), 1000.0 / (3.0 + 2.0), 0.03);
    assert_near(of(None, 50), 1000.0 / 3.0, 0.03);
    assert_near(of(Some(order(Means::Occupy, &[], 0.3, ms(50))), 1), 140.0, 0.03);
    assert_near(of(Some(order(Means::Stop, &["b"], 0.2, ms(40))), 1), 200.0, 0.03);
    // The backlog is before the first: without it the second soon has nothing to do, and the processor is idle.
    assert_near(of(Some(order(Means::Stop, &["a"], 0.2, ms(100))), 1), 160.0, 0.03);
}

#[test]
fn who_is_stopped_with_a_shared_lock_stops_its_peers_and_who_waits_for_it_does_not() {
    let of = |order| {
        let (mut a, mut b) = (spinning("a", 3), spinning("b", 2));
        (a.lock, a.shared_lock) = (1.0, Some(0));
        (b.lock, b.shared_lock, b.workers) = (1.0, Some(0), 8);
        throughput(spec(vec![a, b], Vec::new()), 200, order, 150)
    };
    let alone = of(None);
    assert_near(alone, 200.0, 0.03);
    // The stop costs its time when it hits the holder, in 2 of 5 cycles of half a second: 300 cycles, +-0.0057.
    assert_near(of(Some(order(Means::Stop, &["b"], 0.2, ms(100)))) / alone, 1.0 - 0.2 * 0.4, 0.02);
    // The backlog is before the first, which cannot catch up.
    assert_near(of(Some(order(Means::Stop, &["a"], 0.2, ms(100)))), 160.0, 0.03);
}

#[test]
fn a_pool_limits_what_is_at_the_next_station() {
    let of = |order| {
        let (mut a, mut b) = (spinning("a", 1), spinning("b", 10));
        a.pool = Some(4);
        (b.workers, b.processor) = (100, 0.0);
        throughput(spec(vec![a, b], Vec::new()), 50, order, 50)
    };
    let expected = 4.0 / (ms(10) + HOP).as_secs_f64();
    assert_near(of(None), expected, 0.03);
    // What comes back in a stop finds nobody who sends more: but for what ends in it, its share is lost.
    assert_near(of(Some(order(Means::Stop, &["a"], 0.2, ms(200)))), expected * (0.8 + 0.01), 0.03);
}

#[test]
fn a_delay_keeps_the_places_of_a_pool_and_nothing_else() {
    let of = |pool, component, each_way: i64| {
        let (mut a, mut b) = (spinning("a", 1), spinning("b", 10));
        a.pool = pool;
        (b.workers, b.processor) = (100, 0.0);
        let delay = order(Means::Delay, &[component], 1.0, ms(each_way));
        throughput(spec(vec![a, b], Vec::new()), 300, Some(delay), 50)
    };
    assert_near(of(Some(4), "b", 5), 4.0 / (ms(20) + HOP).as_secs_f64(), 0.03);
    assert_near(of(Some(4), "b", 30), 4.0 / (ms(70) + HOP).as_secs_f64(), 0.03);
    assert_near(of(Some(4), "a", 30), 4.0 / (ms(10) + HOP).as_secs_f64(), 0.03);
    assert_near(of(None, "b", 30), 1000.0, 0.03);
    // All that is in flight is on its way.
    assert_near(of(None, "a", 250), 300.0 / 0.511, 0.03);
}

#[test]
fn a_cut_quota_gives_what_it_leaves() {
    let of = |quota, order| {
        let mut a = spinning("a", 5);
        a.quota = quota;
        throughput(spec(vec![a], Vec::new()), 50, order, 200)
    };
    let cut = || Some(order(Means::Quota, &["a"], 0.4, ms(50)));
    assert_near(of(Some(0.5), None), 100.0, 0.03);
    assert_near(of(Some(0.5), cut()), 60.0, 0.04);
    assert_near(of(None, cut()), 200.0, 0.03);
}

#[test]
fn a_dose_is_told_once_when_its_order_is_over() {
    let mut limited = spinning("b", 1);
    limited.quota = Some(0.5);
    let simulation = Simulation::of(spec(vec![spinning("a", 1), limited], Vec::new()), 1);
    let slow = |perturbation, from, to| simulation.slow(&Order { perturbation, from, to });
    let pass = |until| simulation.wait(until, &mut Vec::new());
    let dose = |component: &str, from, share| Dose { component: component.into(), from, share };
    pass(ms(1000));
    slow(order(Means::Stop, &["b", "unknown", "a"], 0.2, ms(20)), ms(500), ms(1210));
    slow(order(Means::Quota, &["a", "b"], 0.4, ms(20)), ms(1100), ms(1300));
    slow(order(Means::Occupy, &[], 0.3, ms(30)), ms(1100), ms(1400));
    slow(order(Means::Stop, &["a"], 0.2, ms(20)), ms(500), ms(1000));
    pass(ms(1209));
    assert_eq!(simulation.take_doses(), []);
    pass(ms(1300));
    // Two whole stops of a fifth of a second, and half of a third, from when the order was given.
    let stopped = 50.0 / 210.0;
    let expected = [
        dose("a", ms(1000), stopped),
        dose("b", ms(1000), stopped),
        dose("a", ms(1100), 0.0),
        dose("b", ms(1100), 0.4),
    ];
    assert_eq!(simulation.take_doses(), expected);
    pass(ms(2000));
    assert_eq!(simulation.take_doses(), [dose("", ms(1100), 0.3)]);
    assert_eq!(simulation.take_doses(), []);
}

#[test]
fn who_stands_still_does_not_get_a_lock_that_it_waits_for() {
    let locked = |name, work| {
        let mut station = station(name, ServiceTime::Deterministic(ms(work)));
        (station.workers, station.lock, station.shared_lock) = (2, 1.0, Some(3));
        station
    };
    let pause = fault(FaultKind::Pause(Some(1)), ms(120), ms(200));
    let (_, seen) = run(spec(vec![locked("a", 10), locked("b", 10)], pause), Nanos::ZERO, 4);
    // At 131 ms it would be the turn of the second, which asked before the first did for its last.
    let ends: Vec<Nanos> = acknowledged(&seen).iter().map(|(_, at)| *at).collect();
    assert_eq!(ends, [112, 122, 132, 142].map(ms));
    let first = seen.iter().find(|(happening, ..)| matches!(happening, Happening::Received(..)));
    assert_eq!(first.map(|(_, at, _)| *at), Some(ms(211)));
}

#[test]
fn a_death_leaves_locks_processors_and_places_to_others() {
    let (mut a, mut b) = (spinning("a", 3), spinning("b", 2));
    (a.lock, a.shared_lock, a.pool) = (0.5, Some(0), Some(2));
    (b.lock, b.shared_lock, b.workers) = (0.5, Some(0), 4);
    let die = fault(FaultKind::Die(1), ms(1000), ms(2000));
    let mut all = spec(vec![a, b], die);
    all.processors = Some(1);
    let (_, seen) = run(all, ms(10), 500);
    assert_eq!(acknowledged(&seen).len(), 500, "the first goes on");
    let lost = 500 - received(&seen);
    assert!((90..115).contains(&lost), "{lost} were lost, those of one second");
}
