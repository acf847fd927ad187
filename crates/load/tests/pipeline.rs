//! The whole way from arrivals to sample parts in simulated time: the null driver has no network and no real clock, so
//! every number is known in advance.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_load::arrivals::{Arrivals, Process, Share};
use plimsoll_load::driver::Client;
use plimsoll_load::drivers::null::NullDriver;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply, Shard, Wiring};
use plimsoll_load::topology::Topology;
use plimsoll_model::record::{LevelEnd, SamplePart};
use plimsoll_model::{Counts, Histogram, Metric, Nanos, RunId};
use plimsoll_scenario::plan::{ArrivalsPer, LevelPlan, Plan};
use plimsoll_scenario::{Environment, Source, load};
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
    Arc::new(load(&Source { name: "test".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}")))
}

struct Level {
    counts: Counts,
    samples: Vec<Counts>,
    histogram: Box<dyn Fn(Metric) -> Histogram>,
    end: LevelEnd,
}

/// Runs one level of `seconds` hold against a single server with that service time.
fn run(plan: &Arc<Plan>, service: Nanos, seconds: i64) -> Level {
    let run = RunId::from_bits(7);
    let topology = Arc::new(Topology::of(plan, run));
    let (replies_in, replies) = channel();
    let wiring = Wiring { replies: replies_in, mailboxes: vec![Arc::default()] };
    let service = ServiceTime::Deterministic(service);
    let queue = Queue::new(Settings { workers: 1, service, limit: None, stall: None, seed: 1 });
    let driver = NullDriver::new(run.tag(), queue, SUBSCRIBERS);
    let mut shard = Shard::new(Arc::clone(plan), run, topology, Share::WHOLE, driver, wiring);
    let clients = (0..10).map(Client::Device).collect();
    shard.apply(Command::Connect { clients, start: Nanos::ZERO, gap: Nanos(1), awaited: true });
    step_until(&mut shard, Nanos::from_millis(100));

    let hold_start = Nanos::from_secs(1);
    let hold_end = hold_start + Nanos::from_secs(seconds);
    let timeline = Timeline { level: 0, start: hold_start, hold_start, hold_end, samples: 10 };
    let drain_end = hold_end + Nanos::from_secs(1);
    shard.apply(Command::Run { timeline, level: plan.load.levels[0], drain_end });
    step_until(&mut shard, drain_end + Nanos::from_millis(30));
    shard.apply(Command::PassOn);
    shard.apply(Command::Close);

    let mut parts: Vec<SamplePart> = Vec::new();
    let mut end = None;
    for reply in replies.try_iter() {
        match reply {
            Reply::Part(part) => parts.push(part),
            Reply::Closed(level_end) => end = Some(level_end),
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
    Level { counts, samples, histogram, end: end.unwrap() }
}

fn step_until(shard: &mut Shard<NullDriver>, until: Nanos) {
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
