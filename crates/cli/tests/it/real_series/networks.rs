//! Kinds in which the platform is far away.

use super::far_network::FarNetwork;
use super::{Kind, Said, between};
use crate::harness::Bench;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "nothing, far", right: &[], run: healthy },
    Kind { name: "network becomes slower", right: &["network"], run: slower },
    Kind { name: "network loses packets", right: &["network"], run: lossy },
    Kind { name: "network cut", right: &["network"], run: cut },
    Kind { name: "slow platform, far", right: &["platform"], run: slow_platform },
    Kind { name: "frozen platform, far", right: &["platform"], run: frozen_platform },
];

const TWO_LEVELS: &str = "levels: [200, 400], warm_up: 2s, hold: 7s";
const ONE_LEVEL: &str = "levels: [200], warm_up: 1s, hold: 9s";

/// Waits until the first level's hold is over and the second one warms up.
fn await_second_level(bench: &Bench) {
    // Looking takes some of the processors, so that it ends early in the hold.
    bench.await_count(0, "sent");
    std::thread::sleep(Duration::from_millis(7200));
}

fn healthy(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.delay(Duration::from_secs_f64(between(number, 0.0, 0.015)));
    network.begin_mosquitto(&bench);
    Said::by_blame(&network.run(&bench, TWO_LEVELS, "publish_p99: \"< 60 ms\"").finish())
}

fn slower(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.begin_mosquitto(&bench);
    let run = network.run(&bench, TWO_LEVELS, "publish_p50: \"< 60 ms\", publish_p99: null");
    await_second_level(&bench);
    network.delay(Duration::from_secs_f64(between(number, 0.040, 0.080)));
    Said::by_blame(&run.finish())
}

fn lossy(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.delay(Duration::from_millis(5));
    network.begin_mosquitto(&bench);
    let run = network.run(&bench, TWO_LEVELS, "publish_p99: \"< 60 ms\"");
    await_second_level(&bench);
    network.lose(&bench, between(number, 15.0, 60.0) as u32);
    Said::by_blame(&run.finish())
}

fn cut(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.delay(Duration::from_millis(5));
    network.begin_mosquitto(&bench);
    let run = network.run(&bench, ONE_LEVEL, "publish_p99: \"< 60 ms\"");
    bench.await_count(0, "sent");
    std::thread::sleep(Duration::from_secs(1));
    network.cut(&bench);
    std::thread::sleep(Duration::from_secs_f64(between(number, 1.8, 3.0)));
    network.mend(&bench);
    Said::by_blame(&run.finish())
}

/// A station that can serve 250 messages a second.
fn slow_platform(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.delay(Duration::from_secs_f64(between(number, 0.010, 0.030)));
    network.begin_station(&bench, &["--workers", "1", "--service", "exponential:4ms"]);
    let load = "levels: [100, 400], warm_up: 1s, hold: 7s";
    let run = network.run(&bench, load, "publish_p50: \"< 120 ms\", publish_p99: null");
    Said::by_blame(&run.finish())
}

fn frozen_platform(number: u64) -> Said {
    let bench = Bench::new();
    let mut network = FarNetwork::new(&bench);
    network.delay(Duration::from_millis(5));
    network.begin_mosquitto(&bench);
    let run = network.run(&bench, ONE_LEVEL, "publish_p99: \"< 60 ms\"");
    bench.await_count(0, "sent");
    std::thread::sleep(Duration::from_secs(1));
    let platform = Pid::from_raw(network.platform() as i32).unwrap();
    kill_process(platform, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs_f64(between(number, 1.8, 3.0)));
    kill_process(platform, Signal::CONT).unwrap();
    Said::by_blame(&run.finish())
}
