//! The whole way from arrivals to sample parts in simulated time: the null driver has no network and no real clock, so
//! every number is known in advance.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_load::arrivals::{Arrivals, Process};
use plimsoll_load::clients::{ClientKind, Clients};
use plimsoll_load::driver::{Client, Driver, Event, Traffic};
use plimsoll_load::drivers::null::NullDriver;
use plimsoll_load::layout::Layout;
use plimsoll_load::owners::Owners;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply, Shard, Wiring};
use plimsoll_load::share::Share;
use plimsoll_load::topology::Topology;
use plimsoll_model::record::{LevelEnd, SamplePart};
use plimsoll_model::{Counts, Histogram, Metric, Nanos, RunId};
use plimsoll_scenario::plan::{ArrivalsPer, LevelPlan, Plan};
use plimsoll_scenario::{Environment, SourceFile, load};
use plimsoll_stats::distribution::InterArrival;
use plimsoll_stats::queue::{Queue, ServiceTime, Settings};
use std::sync::Arc;
use std::sync::mpsc::channel;

const SUBSCRIBERS: u32 = 3;

fn plan(load_keys: &str) -> Arc<Plan> {
    let text = format!(
        "name: simulated\nplatform: embedded\npopulation: {{ devices: 10, subscribers: {SUBSCRIBERS} }}\nload: {{ {load_keys} }}\n"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| None };
    Arc::new(
        load(&SourceFile { name: "test".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}")),
    )
}

struct Level {
    counts: Counts,
    samples: Vec<Counts>,
    histogram: Box<dyn Fn(Metric) -> Histogram>,
    end: LevelEnd,
    /// When its drain ended.
    drained: Nanos,
}

/// Runs one level of `seconds` hold against a single server with that service time.
fn run(plan: &Arc<Plan>, service: Nanos, seconds: i64) -> Level {
    run_on(plan, null_driver(service), seconds)
}

fn null_driver(service: Nanos) -> NullDriver {
    let service = ServiceTime::Deterministic(service);
    let queue = Queue::new(Settings { workers: 1, service, limit: None, stall: None, seed: 1 });
    NullDriver::new(RunId::from_bits(7).tag(), queue, SUBSCRIBERS)
}

fn run_on(plan: &Arc<Plan>, driver: impl Driver, seconds: i64) -> Level {
    let run = RunId::from_bits(7);
    let topology = Arc::new(Topology::of(plan, run));
    let (replies_in, replies) = channel();
    let wiring = Wiring {
        replies: replies_in,
        mailboxes: vec![Arc::default()],
        number: 0,
        population: 0,
        owners: Arc::new(Owners::new(plan, &Arc::new(Layout::of_one_process(1, 1)))),
        queriers: None,
        datagram_header: 28,
        throttle: None,
        awaits_stages: false,
        run_context: Arc::default(),
    };
    let mut shard = Shard::new(Arc::clone(plan), run, topology, Share::WHOLE, driver, wiring);
    let clients = Clients { kind: ClientKind::Devices, share: Share::WHOLE, from: 0, to: 10 };
    shard.apply(Command::Connect { clients, start: Nanos::ZERO, gap: Nanos(1), awaited: true });
    step_until(&mut shard, Nanos::from_millis(100));

    let hold_start = Nanos::from_secs(1);
    let hold_end = hold_start + Nanos::from_secs(seconds);
    let timeline = Timeline { level: 0, start: hold_start, hold_start, hold_end, samples: 10, cut: None };
    let drain_end = hold_end + Nanos::from_secs(1);
    shard.apply(Command::Run { timeline, level: plan.load.levels[0], messages: None, drain_end });
    let (mut parts, mut drained): (Vec<SamplePart>, Nanos) = (Vec::new(), Nanos::ZERO);
    while drained == Nanos::ZERO {
        shard.step();
        for reply in replies.try_iter() {
            match reply {
                Reply::Part(part) => parts.push(*part),
                Reply::Drained => drained = shard.now(),
                _ => {}
            }
        }
    }
    shard.apply(Command::PassOn);
    shard.apply(Command::Close);

    let mut end = None;
    for reply in replies.try_iter() {
        match reply {
            Reply::Part(part) => parts.push(*part),
            Reply::Closed(_, level_end) => end = Some(level_end),
            _ => {}
        }
    }
    parts.retain(|part| part.sample.is_some());
    let mut counts = Counts::default();
    let mut samples = vec![Counts::default(); 10];
    for part in &parts {
        counts += part.counts;
        samples[usize::from(part.sample.unwrap())] += part.counts;
    }
    let histogram = Box::new(move |metric| {
        let mut merged = Histogram::new();
        for (_, histogram) in parts.iter().flat_map(|part| &part.histograms).filter(|(m, _)| *m == metric) {
            merged.merge(histogram);
        }
        merged
    });
    Level { counts, samples, histogram, end: *end.unwrap(), drained }
}

fn step_until(shard: &mut Shard<impl Driver>, until: Nanos) {
    while shard.now() < until {
        shard.step();
    }
}

#[test]
fn every_arrival_is_booked_once_and_nothing_is_late_in_simulated_time() {
    let plan = plan("levels: [1000], hold: 5s, samples: 10, warm_up: 0s, precision: 0s");
    let level = run(&plan, Nanos::from_millis(0), 5);
    let process = Process {
        gaps: InterArrival::Exponential,
        per: ArrivalsPer::Population,
        rate: 1000.0,
        devices: 10,
        seed: plan.seed,
        level: 0,
    };
    let due = Arrivals::new(process, Share::WHOLE, Nanos::from_secs(5)).count() as u64;
    assert_eq!(level.counts.due, due);
    assert_eq!((level.counts.sent, level.counts.unsent, level.counts.acknowledged), (due, 0, due));
    assert_eq!(level.counts.expected_deliveries, due * u64::from(SUBSCRIBERS));
    assert_eq!(level.counts.delivered, level.counts.expected_deliveries);
    assert_eq!(level.counts.completed, due);
    assert_eq!((level.counts.lost(), level.counts.duplicated, level.counts.reordered), (0, 0, 0));
    assert_eq!((level.histogram)(Metric::Lateness).max(), Some(Nanos::ZERO));
    assert_eq!(level.samples.iter().map(|sample| sample.due).sum::<u64>(), due);
    assert_eq!(level.end.first_loss, None);
}

/// Constant arrivals every 10 ms at a server of 4 ms never wait: every time is the service time.
#[test]
fn an_idle_server_answers_in_its_service_time() {
    let plan = plan("levels: [100], arrivals: constant, hold: 5s, samples: 10, warm_up: 0s, precision: 0s");
    let level = run(&plan, Nanos::from_millis(4), 5);
    for metric in [Metric::PublishTime, Metric::PublishTimeFromSend, Metric::SubscribeTime] {
        let times = (level.histogram)(metric);
        let off = |time: Option<Nanos>| (time.unwrap() - Nanos::from_millis(4)).0.abs();
        // A histogram bucket at 4 ms is 4 µs wide.
        assert!(off(times.min()) <= 4096 && off(times.max()) <= 4096, "{metric:?}: {times:?}");
    }
}

/// 200/s at a server that takes 10 ms: half of what is due is done within the hold, the wait of the last message is
/// about half the hold, and after a drain of 1 s a further 100 are done.
#[test]
fn overload_shows_in_the_achieved_load_and_in_times_from_due() {
    let plan = plan("levels: [200], arrivals: constant, hold: 10s, samples: 10, warm_up: 0s, precision: 0s");
    let level = run(&plan, Nanos::from_millis(10), 10);
    assert!(level.counts.due.abs_diff(2000) <= 1, "{:?}", level.counts);
    assert!(level.counts.completed.abs_diff(1000) <= 1, "{:?}", level.counts);
    assert!(level.counts.acknowledged.abs_diff(1100) <= 5, "{:?}", level.counts);
    assert_eq!(level.counts.sent, level.counts.due, "the null driver sends at once");
    assert_eq!(level.counts.lost(), level.counts.expected_deliveries - level.counts.delivered);
    let longest = (level.histogram)(Metric::PublishTime).max().unwrap();
    assert!((longest.as_secs_f64() - 5.5).abs() < 0.1, "{longest}");
    assert!(level.end.first_loss.is_some_and(|loss| loss.message_number > 0));
}

/// Five in flight at a server of 10 ms: it is always busy, so 100/s, and each operation takes 50 ms.
#[test]
fn a_closed_loop_keeps_its_operations_in_flight() {
    let plan = plan("model: closed, in_flight: [5], hold: 10s, samples: 10, warm_up: 0s");
    assert_eq!(plan.load.levels, [LevelPlan::InFlight(5)]);
    let level = run(&plan, Nanos::from_millis(10), 10);
    assert!(level.counts.completed.abs_diff(1000) <= 1, "{:?}", level.counts);
    let median = (level.histogram)(Metric::PublishTime).quantile(0.5).unwrap();
    assert!((median.as_secs_f64() - 0.05).abs() < 0.0002, "{median}");
}

/// 20 sessions a second of 5 messages each, at a server of 1 ms with 10 ms of thinking: 100 messages a second, and most
/// wait for nobody.
#[test]
fn partly_open_sessions_offer_their_messages_one_after_the_other() {
    let plan = plan(
        "model: partly_open, session_messages: 5, think_time: 10ms, levels: [100], hold: 10s, samples: 10, warm_up: 40ms",
    );
    let level = run(&plan, Nanos::from_millis(1), 10);
    // Of about 200 sessions of a Poisson process; four deviations of their number are allowed.
    assert!(level.counts.due.abs_diff(1000) < 5 * 57, "{:?}", level.counts);
    assert_eq!((level.counts.sent, level.counts.unsent), (level.counts.due, 0));
    let median = (level.histogram)(Metric::PublishTime).quantile(0.5).unwrap();
    assert!((median.as_secs_f64() - 0.001).abs() < 0.0001, "{median}");
}

/// A thread that stands still once: what happens meanwhile has its true time, and is seen afterwards.
struct Stalling {
    driver: NullDriver,
    from: Nanos,
    to: Nanos,
}

impl Driver for Stalling {
    fn now(&self) -> Nanos {
        self.driver.now()
    }

    fn processor_time(&self) -> Nanos {
        self.driver.processor_time()
    }

    fn connect(&mut self, client: Client) -> bool {
        self.driver.connect(client)
    }

    fn release(&mut self, client: Client) -> bool {
        self.driver.release(client)
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        self.driver.submit(device, sequence);
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.driver.withdraw(events);
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.driver.poll(until, events);
        while self.driver.now() >= self.from && self.driver.now() < self.to {
            self.driver.poll(self.to, events);
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        self.driver.take_traffic()
    }

    fn disconnect(&mut self) {
        self.driver.disconnect();
    }
}

/// A hold from 1 s to 6 s during whose end the thread stands still: until 5 ms after it, and until 60 ms after it.
fn around_a_stall(plan: &Arc<Plan>) -> [Level; 2] {
    [5, 60].map(|after| {
        let (driver, to) = (null_driver(Nanos::from_millis(10)), Nanos::from_millis(6000 + after));
        run_on(plan, Stalling { driver, from: Nanos::from_millis(5955), to }, 5)
    })
}

/// 500 messages wait at the end of the hold, for 5 s; the drain is 1 s. A thread that stands still in it cannot receive what comes, so
/// that it waits for as long once more, but for no longer than that.
#[test]
fn a_drain_is_as_long_as_the_thread_was_awake() {
    let plan = plan(
        "levels: [200], arrivals: constant, hold: 5s, samples: 10, warm_up: 0s, precision: 0s, drain: 1s",
    );
    let ended = |from: i64, to: i64| {
        let driver = null_driver(Nanos::from_millis(20));
        let stalling = Stalling { driver, from: Nanos::from_millis(from), to: Nanos::from_millis(to) };
        run_on(&plan, stalling, 5).drained.0 / 1_000_000
    };
    let near = |ended: i64, expected: i64| assert!((expected..expected + 60).contains(&ended), "{ended}");
    near(ended(6200, 6350), 7000);
    near(ended(6200, 6700), 7500);
    near(ended(5500, 6500), 7500);
    near(ended(6100, 7900), 8000);
}

/// Without thinking, each end within the hold makes the next message of its slot due at that moment.
#[test]
fn what_is_due_in_the_last_moment_of_a_closed_loop_is_booked_whatever_stalls() {
    let plan = plan("model: closed, in_flight: [5], think_time: 0s, hold: 5s, samples: 10, warm_up: 0s");
    let [short, long] = around_a_stall(&plan);
    for level in [&short, &long] {
        assert_eq!(level.counts.due, 5 + level.counts.completed, "{:?}", level.counts);
        assert_eq!(level.counts.due, level.counts.sent + level.counts.unsent);
        assert_eq!(level.counts.unsent, level.counts.never_ready);
        assert_eq!(level.counts.sent, level.counts.acknowledged);
    }
    assert_eq!(short.counts.never_ready, 0, "taken up late");
    // At 10 ms each, four or five end between 5.955 s and 6 s.
    assert!((4..=5).contains(&long.counts.never_ready), "{:?}", long.counts);
}

/// The same for sessions that go on for longer than the level: one a second arrives.
#[test]
fn what_is_due_in_the_last_moment_of_sessions_is_booked_whatever_stalls() {
    let plan = plan(
        "model: partly_open, arrivals: constant, session_messages: 1000, think_time: 0s, levels: [1000], hold: 5s, samples: 10, warm_up: 0s",
    );
    let process = Process {
        gaps: InterArrival::Constant,
        per: ArrivalsPer::Population,
        rate: 1.0,
        devices: 10,
        seed: plan.seed,
        level: 0,
    };
    let sessions = Arrivals::new(process, Share::WHOLE, Nanos::from_secs(5)).count() as u64;
    let [short, long] = around_a_stall(&plan);
    for level in [&short, &long] {
        assert_eq!(level.counts.due, sessions + level.counts.completed, "{:?}", level.counts);
        assert_eq!(level.counts.due, level.counts.sent + level.counts.unsent);
        assert_eq!(level.counts.unsent, level.counts.never_ready);
    }
    assert_eq!(short.counts.never_ready, 0, "taken up late");
    assert!(long.counts.never_ready > 0);
}
