//! Kinds of which a broker on this host is a part.

use super::{Kind, Said, between};
use crate::harness::{Bench, kill};
use crate::mosquitto::Mosquitto;
use crate::real_blame::{Robbers, broker_once_up, scenario};
use crate::scripted_broker::{Acknowledge, Fault, Script, ScriptedBroker};
use std::fs;
use std::time::Duration;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "robbed Mosquitto", right: &["host"], run: robbed_broker },
    Kind { name: "starved generator", right: &["host"], run: starved_generator },
    Kind { name: "starved host", right: &["host"], run: starved_host },
    Kind { name: "slow reader", right: &["receiver"], run: slow_reader },
    Kind { name: "lost acknowledgements", right: &["platform"], run: lost_acknowledgements },
    Kind { name: "lost deliveries", right: &["platform"], run: lost_deliveries },
    Kind { name: "killed Mosquitto", right: &["mosquitto"], run: killed_broker },
];

fn robbed_broker(_: u64) -> Said {
    let bench = Bench::new();
    // What is robbed still gets its turn each few milliseconds.
    let text = scenario("levels: [1000], hold: 5s", "objectives: { publish_p99: \"< 2 ms\" }");
    let run = bench.start(&mut bench.run_command(&text));
    let robbers = Robbers::on(broker_once_up(run.id()), -10);
    let finished = run.finish();
    drop(robbers);
    Said::by_blame(&finished)
}

fn starved_generator(_: u64) -> Said {
    let bench = Bench::new();
    let text = scenario("levels: [1000], hold: 5s", "objectives: { publish_p99: \"< 20 ms\" }");
    let run = bench.start(&mut bench.run_command(&text));
    // Load threads ask for precedence, so that only who goes before them can starve them.
    let robbers = Robbers::on(load_thread_once_up(run.id()), -20);
    let finished = run.finish();
    drop(robbers);
    Said::by_blame(&finished)
}

/// Whoever runs on this host waits for a processor, from a moment of the hold on.
fn starved_host(number: u64) -> Said {
    let bench = Bench::new();
    let text = scenario("levels: [1000], hold: 5s", "objectives: { publish_p99: \"< 20 ms\" }");
    let run = bench.start(&mut bench.run_command(&text));
    broker_once_up(run.id());
    std::thread::sleep(Duration::from_secs_f64(between(number, 0.5, 3.0)));
    let robbers = Robbers::on(std::process::id(), -20);
    std::thread::sleep(Duration::from_secs_f64(between(number, 1.0, 2.0)));
    drop(robbers);
    Said::by_blame(&run.finish())
}

fn load_thread_once_up(run: u32) -> u32 {
    let is_load = |thread: &u32| {
        let name = fs::read_to_string(format!("/proc/{run}/task/{thread}/comm")).unwrap_or_default();
        name.starts_with("load-")
    };
    for _ in 0..200 {
        let threads = fs::read_dir(format!("/proc/{run}/task")).unwrap().flatten();
        let found = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_load);
        if let Some(thread) = found {
            return thread;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no load thread within 10 s")
}

/// Each message takes our subscriber longer than they are apart.
fn slow_reader(number: u64) -> Said {
    let bench = Bench::new();
    let broker = Mosquitto::start(
        &bench,
        "allow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 0\nmax_inflight_messages 0\n",
    );
    let finished = bench.run(&format!(
        "name: slow reader\nplatform: {{ profile: existing, address: \"mqtt://127.0.0.1:{}\" }}\n\
         population: {{ devices: 4, subscribers: {{ count: 1, work: {:.1}ms }} }}\n\
         load: {{ levels: [400], warm_up: 0s, hold: 4s, samples: 8, drain: 1s, again: 0s }}\n",
        broker.port(),
        between(number, 4.0, 8.0)
    ));
    Said::by_blame(&finished)
}

fn scripted(script: Script) -> Said {
    let broker = ScriptedBroker::start(script);
    let bench = Bench::new();
    let finished = bench.run(&format!(
        "name: scripted\nplatform: {}\npopulation: {{ devices: 20, subscribers: 1 }}\n\
         load: {{ arrivals: constant, levels: [200], warm_up: 500ms, hold: 5s, samples: 10, drain: 2s, again: 0s }}\n",
        broker.platform()
    ));
    Said::by_blame(&finished)
}

fn lost_acknowledgements(number: u64) -> Said {
    let step = between(number, 5.0, 50.0) as u64;
    scripted(Script { acknowledge: Acknowledge::AllButEach(step), ..Script::default() })
}

fn lost_deliveries(number: u64) -> Said {
    // Each device has fifty messages in the hold.
    let step = between(number, 4.0, 20.0) as usize;
    let faults =
        (0..20).flat_map(|device| (1..60).step_by(step).map(move |message| ((device, message), Fault::Drop)));
    scripted(Script { faults: faults.collect(), ..Script::default() })
}

fn killed_broker(number: u64) -> Said {
    let bench = Bench::new();
    let text = scenario("levels: [200, 400], hold: 4s", "objectives: { publish_p99: \"< 50 ms\" }");
    let run = bench.start(&mut bench.run_command(&text));
    let broker = broker_once_up(run.id());
    bench.await_level(0);
    // In either level.
    std::thread::sleep(Duration::from_secs_f64(between(number, 0.5, 6.0)));
    kill(broker);
    Said::by_blame(&run.finish())
}
