use super::*;
use crate::spec::{Fault, GeneratorSpec, NetworkSpec, StationSpec};
use plimsoll_stats::queue::ServiceTime;

mod experiments;

fn ms(millis: i64) -> Nanos {
    Nanos::from_millis(millis)
}

fn station(name: &str, service: ServiceTime) -> StationSpec {
    StationSpec {
        name: name.into(),
        workers: 1,
        service,
        processor: 1.0,
        lock: 0.0,
        shared_lock: None,
        quota: None,
        sharing: false,
        limit: None,
        pool: None,
        relay: false,
    }
}

fn spec(stations: Vec<StationSpec>, faults: Vec<Fault>) -> Spec {
    Spec {
        stations,
        acknowledged_by: 0,
        processors: None,
        network: NetworkSpec { round_trip: ms(2), jitter: Nanos::ZERO, local: false },
        generator: GeneratorSpec { cost: Nanos::ZERO },
        faults,
    }
}

type Seen = Vec<(Happening, Nanos, Nanos)>;

/// Sends a message every so often for so long, then waits a while; all that happened.
fn run(spec: Spec, gap: Nanos, messages: u32) -> (Simulation, Seen) {
    let simulation = Simulation::of(spec, 1);
    simulation.populate(1, 1);
    let mut seen = Vec::new();
    simulation.connect(Client::Device(0));
    simulation.connect(Client::Subscriber(0));
    let begin = ms(100);
    for sequence in 0..messages {
        let due = begin + gap * i64::from(sequence);
        while simulation.now() < due {
            simulation.wait(due, &mut seen);
        }
        simulation.send(0, sequence);
    }
    let end = simulation.now() + Nanos::from_secs(60);
    while simulation.now() < end {
        simulation.wait(end, &mut seen);
    }
    (simulation, seen)
}

fn acknowledged(seen: &Seen) -> Vec<(u32, Nanos)> {
    seen.iter()
        .filter_map(|(happening, at, _)| match happening {
            Happening::Acknowledged(0, sequence) => Some((*sequence, *at)),
            _ => None,
        })
        .collect()
}

fn received(seen: &Seen) -> usize {
    seen.iter().filter(|(happening, ..)| matches!(happening, Happening::Received(..))).count()
}

fn fault(kind: FaultKind, from: Nanos, to: Nanos) -> Vec<Fault> {
    vec![Fault { kind, from, to }]
}

#[test]
fn an_idle_station_answers_after_its_service_and_a_round_trip() {
    let stations = vec![
        station("a", ServiceTime::Deterministic(ms(1))),
        station("b", ServiceTime::Deterministic(ms(3))),
    ];
    let (simulation, seen) = run(spec(stations, Vec::new()), ms(10), 100);
    let acknowledged = acknowledged(&seen);
    assert_eq!(acknowledged.len(), 100);
    assert!(acknowledged.iter().all(|(sequence, at)| *at == ms(100 + 10 * i64::from(*sequence) + 3)));
    assert_eq!(received(&seen), 100);
    let host = simulation.host();
    let used: Vec<Nanos> = host.components.iter().map(|(_, used)| used.processor).collect();
    assert_eq!(used, [ms(100), ms(300)]);
}

#[test]
fn sharing_serves_all_and_loses_no_work() {
    let mut shared = station("a", ServiceTime::Deterministic(ms(4)));
    shared.sharing = true;
    let (simulation, seen) = run(spec(vec![shared], Vec::new()), ms(3), 10);
    let mut acknowledged = acknowledged(&seen);
    acknowledged.sort();
    assert_eq!(acknowledged.len(), 10);
    // Work of 40 ms that begins at 101 ms and never pauses: the last answer is there a way later.
    let last = acknowledged.iter().map(|(_, at)| *at).max().unwrap();
    assert!(last >= ms(142) && last < ms(142) + Nanos(100), "{last:?}");
    assert_eq!(simulation.host().components[0].1.processor, ms(40));
}

#[test]
fn a_lock_makes_workers_take_turns_and_a_quota_makes_them_wait() {
    let mut locked = station("a", ServiceTime::Deterministic(ms(10)));
    (locked.workers, locked.lock) = (10, 1.0);
    let (_, seen) = run(spec(vec![locked], Vec::new()), Nanos::ZERO, 5);
    let ends: Vec<Nanos> = acknowledged(&seen).iter().map(|(_, at)| *at).collect();
    assert_eq!(ends, [112, 122, 132, 142, 152].map(ms));
    let mut slow = station("a", ServiceTime::Deterministic(ms(10)));
    slow.quota = Some(0.2);
    let (_, seen) = run(spec(vec![slow], Vec::new()), Nanos::ZERO, 5);
    let ends: Vec<Nanos> = acknowledged(&seen).iter().map(|(_, at)| *at).collect();
    assert_eq!(ends, [112, 122, 211, 221, 311].map(ms), "20 ms in each tenth of a second");
}

#[test]
fn a_pause_holds_everything_and_a_starved_station_says_so() {
    let stations = || vec![station("a", ServiceTime::Deterministic(ms(1)))];
    let pause = fault(FaultKind::Pause(None), ms(500), ms(900));
    let (simulation, seen) = run(spec(stations(), pause), ms(10), 100);
    assert!(!acknowledged(&seen).iter().any(|(_, at)| (ms(503)..ms(901)).contains(at)));
    assert_eq!(acknowledged(&seen).len(), 100);
    assert_eq!(simulation.host().components[0].1.starved, Nanos::ZERO);
    let starve = fault(FaultKind::Starve(Some(0), 0.5), ms(0), Nanos::MAX);
    let (simulation, _) = run(spec(stations(), starve), ms(10), 100);
    assert!(simulation.host().components[0].1.starved > ms(300));
}

#[test]
fn losses_are_lost_before_or_after_the_acknowledgement() {
    let stations = || vec![station("a", ServiceTime::Deterministic(ms(1)))];
    let (_, seen) = run(spec(stations(), fault(FaultKind::Lose(None, 0.5), ms(0), Nanos::MAX)), ms(5), 400);
    assert_eq!(acknowledged(&seen).len(), 400);
    assert!((150..250).contains(&received(&seen)));
    let lost = fault(FaultKind::LoseAcknowledgements(0.5), ms(0), Nanos::MAX);
    let (_, seen) = run(spec(stations(), lost), ms(5), 400);
    assert!((150..250).contains(&acknowledged(&seen).len()));
    assert_eq!(received(&seen), 400);
}

#[test]
fn a_death_disconnects_everybody_until_it_is_over() {
    let stations = vec![station("a", ServiceTime::Deterministic(ms(1)))];
    let (simulation, seen) = run(spec(stations, fault(FaultKind::Die(0), ms(502), ms(1500))), ms(5), 200);
    assert_eq!(simulation.take_death(), Some(("a".to_owned(), ms(502))));
    assert_eq!(simulation.take_death(), None);
    let count = |wanted: fn(&Happening) -> bool| seen.iter().filter(|(seen, ..)| wanted(seen)).count();
    assert_eq!(count(|seen| matches!(seen, Happening::Disconnected(_))), 2);
    assert_eq!(count(|seen| matches!(seen, Happening::Ready(.., true))), 2);
    assert_eq!(count(|seen| matches!(seen, Happening::Abandoned(..))), 1, "one was under way");
    assert_eq!(acknowledged(&seen).len(), 199);
}

#[test]
fn a_starved_generator_reads_late_and_a_lossy_network_sends_again() {
    let stations = || vec![station("a", ServiceTime::Deterministic(ms(1)))];
    let starve = fault(FaultKind::StarveGenerator(0.5), ms(0), Nanos::MAX);
    let (simulation, seen) = run(spec(stations(), starve), ms(7), 100);
    assert!(seen.iter().any(|(.., lag)| *lag > ms(5)));
    assert!(simulation.host().generator.starved > ms(100));
    let loss = fault(FaultKind::NetworkLoss(0.05), ms(0), Nanos::MAX);
    let (simulation, seen) = run(spec(stations(), loss), ms(7), 1000);
    assert_eq!(acknowledged(&seen).len(), 1000);
    let host = simulation.host();
    assert!((0.03..0.07).contains(&(host.sent_again as f64 / host.packets as f64)));
    assert!(simulation.round_trips().len() > 200);
}

/// A message that takes the generator hundreds of days takes nobody else as long.
#[test]
fn probes_of_a_generator_that_stood_still_for_ages_are_few() {
    let mut slow = spec(vec![station("a", ServiceTime::Deterministic(ms(1)))], Vec::new());
    slow.generator.cost = Nanos::from_secs(300 * 86_400);
    let (simulation, _) = run(slow, ms(7), 1000);
    assert_eq!(simulation.now(), Nanos::MAX);
    assert!(simulation.round_trips().len() < 20_000);
}

#[test]
fn a_ping_is_answered_after_what_was_sent_before() {
    let simulation =
        Simulation::of(spec(vec![station("a", ServiceTime::Deterministic(ms(50)))], Vec::new()), 1);
    simulation.populate(1, 0);
    simulation.connect(Client::Device(0));
    let mut seen = Vec::new();
    simulation.wait(ms(50), &mut seen);
    simulation.wait(ms(50), &mut seen);
    simulation.send(0, 0);
    simulation.ping(0);
    while simulation.now() < ms(300) {
        simulation.wait(ms(300), &mut seen);
    }
    let at = |wanted: Happening| seen.iter().find(|(seen, ..)| *seen == wanted).map(|(_, at, _)| *at);
    assert!(at(Happening::Answered(0)) >= at(Happening::Acknowledged(0, 0)));
    assert!(at(Happening::Answered(0)).is_some());
}
