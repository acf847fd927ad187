//! Who is blamed for what befalls a real broker: it dies, stands still, is robbed of its processor, or the run itself is
//! stopped. What the laboratory shows in simulated time for many strengths is shown here once for each.

use crate::harness::{Bench, Finished, children, count, kill, until};
use crate::mosquitto::Mosquitto;
use rustix::process::{Pid, Signal, getpriority_process, kill_process, setpriority_process};
use serde_json::Value;
use std::process::{Child, Command};
use std::time::Duration;

/// A broker that is started, with that much load and those keys.
pub(crate) fn scenario(load: &str, more: &str) -> String {
    format!(
        "name: blame\nplatform: mosquitto\npopulation: {{ devices: 20, subscribers: 1 }}\n\
         load: {{ {load}, samples: 10, warm_up: 500ms, drain: 2s, again: 0s }}\n{more}\n"
    )
}

/// The process of the broker of a run: the child of the guard that Plimsoll started.
fn broker(run: u32) -> u32 {
    let is_broker = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "mosquitto"
    };
    let all = |parent: u32| -> Vec<u32> {
        let own = children(parent);
        own.iter().copied().chain(own.iter().flat_map(|&child| children(child))).collect()
    };
    all(run).into_iter().find(is_broker).expect("a broker runs")
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// Nothing is known of it but its address, and it ends in the last level.
#[test]
#[ignore = "acceptance: faults"]
fn a_platform_that_ends_where_nobody_watches_its_processes_is_the_headline() {
    let bench = Bench::new();
    let broker = Mosquitto::start(&bench, "allow_anonymous true");
    let address = format!("mqtt://127.0.0.1:{}", broker.port());
    let platform = format!("platform: {{ profile: existing, address: \"{address}\" }}");
    let text = scenario("levels: [100, 200], hold: 3s", "objectives: { publish_p99: null }");
    let run = bench.start(&mut bench.run_command(&text.replace("platform: mosquitto", &platform)));
    bench.await_level(1);
    drop(broker);
    let run = run.finish().exits(99).says("died at 200/s").says("nobody listens there any more");
    assert_eq!(run.summary["verdict"], "missed");
    assert_eq!(run.level(1)["blame"]["culprit"], "platform");
    assert!(run.summary["reason"].as_str().unwrap().contains("sustains at least 100/s"), "{}", run.stdout);
}

/// It is silent from the first second of a hold to its end, and answers all of it in the drain.
#[test]
#[ignore = "acceptance: faults"]
fn a_broker_that_stands_still_and_comes_back_is_not_gone() {
    let bench = Bench::new();
    let text = scenario("levels: [100, 200, 400], hold: 3s", "objectives: { publish_p99: null }");
    let run = bench.start(&mut bench.run_command(&text.replace("drain: 2s", "drain: 4s")));
    bench.await_level(1);
    std::thread::sleep(Duration::from_millis(800));
    let broker = broker(run.id());
    signal(broker, Signal::STOP);
    std::thread::sleep(Duration::from_millis(3500));
    signal(broker, Signal::CONT);
    let run = run.finish();
    assert_eq!(run.levels().len(), 3, "{}", run.stdout);
    assert_eq!(run.level(1)["lost"], 0, "{}", run.stdout);
    assert!(run.level(1)["stall"].as_str().is_some(), "{}", run.stdout);
}

/// Four loops that go before everything else, on every processor that a process or thread may have.
pub(crate) struct Robbers(Vec<Child>);

impl Robbers {
    /// The more negative `nice` is, the more they take of what they share.
    pub(crate) fn on(task: u32, nice: i32) -> Robbers {
        let status = std::fs::read_to_string(format!("/proc/{task}/status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        let loops = (0..4).map(|_| {
            let script = "while :; do :; done";
            let child = Command::new("taskset").args(["-c", list, "sh", "-c", script]).spawn().unwrap();
            setpriority_process(Pid::from_raw(child.id() as i32), nice).unwrap();
            child
        });
        Robbers(loops.collect())
    }
}

impl Drop for Robbers {
    fn drop(&mut self) {
        for robber in &mut self.0 {
            let _ = robber.kill();
            let _ = robber.wait();
        }
    }
}

pub(crate) fn broker_once_up(run: u32) -> u32 {
    for _ in 0..200 {
        let found = std::panic::catch_unwind(|| broker(run));
        if let Ok(broker) = found {
            return broker;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no broker within 10 s")
}

#[test]
#[ignore = "acceptance: faults"]
fn a_run_that_was_stopped_says_so_and_goes_on() {
    let bench = Bench::new();
    let text = scenario("levels: [100, 200], hold: 4s", "objectives: { publish_p99: null }");
    let run = bench.start(&mut bench.run_command(&text));
    bench.await_level(0);
    std::thread::sleep(Duration::from_millis(1500));
    signal(run.id(), Signal::STOP);
    std::thread::sleep(Duration::from_millis(2500));
    signal(run.id(), Signal::CONT);
    let run = run.finish();
    assert_eq!(run.levels().len(), 2, "{}", run.stdout);
    assert_eq!(run.level(0)["validity"], "host_bound", "{}", run.stdout);
    assert!(run.level(0)["stood_still"].as_f64().unwrap() > 1.5, "{}", run.stdout);
    assert!(run.level(0)["death"].is_null());
    assert!(run.said().contains("Plimsoll itself stood still"), "{}", run.stdout);
}

/// No device is connected to it, so nothing else shows its death.
#[test]
fn a_component_of_a_platform_that_runs_already_is_the_headline_when_it_ends() {
    let bench = Bench::beside_others();
    let broker = Mosquitto::start(&bench, "allow_anonymous true");
    let side = Mosquitto::start(&bench, "allow_anonymous true");
    let (port, other) = (broker.port(), side.port());
    let components = format!("{{ name: broker, port: {port} }}, {{ name: store, port: {other} }}");
    let address = format!("mqtt://127.0.0.1:{port}");
    let platform =
        format!("platform: {{ profile: existing, address: \"{address}\", components: [{components}] }}");
    let text = scenario("levels: [100, 200, 400], hold: 3s", "objectives: { publish_p99: null }");
    let text = text.replace("platform: mosquitto", &platform);
    let run = bench.start(&mut bench.run_command(&text));
    bench.await_level(1);
    drop(side);
    let run = run.finish().judged().says("store died at 200/s").says("1 of 3 levels were not run");
    assert_eq!(run.level(1)["death"]["component"], "store");
    assert_eq!(run.level(1)["blame"]["component"], "store");
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn a_broker_that_is_killed_is_the_headline_and_keeps_the_load_line_found_before() {
        let bench = Bench::new();
        let text = scenario("levels: [100, 200, 400], hold: 3s", "objectives: { publish_p99: null }");
        let run = bench.start(&mut bench.run_command(&text));
        bench.await_level(1);
        kill(broker(run.id()));
        let run = run.finish().exits(99).says("mosquitto died at 200/s").says("1 of 3 levels were not run");
        assert_eq!(run.summary["verdict"], "missed");
        assert_eq!(run.levels().len(), 2);
        assert_eq!(run.level(1)["death"]["component"], "mosquitto");
        assert_eq!(run.level(1)["blame"]["component"], "mosquitto");
    }

    /// At QoS 0 without subscribers nothing but a later answer shows that the broker reads.
    #[test]
    fn what_a_frozen_broker_was_sent_is_not_certified_and_what_a_healthy_one_read_is() {
        let text = scenario(
            "levels: [200], hold: 3s",
            "mqtt: { qos: 0 }\nobjectives: { achieved: \">= 90 %\", subscribe_p99: null }",
        )
        .replace("subscribers: 1", "subscribers: 0");
        let healthy = until(|| Bench::new().run(&text), |level| level["validity"] == "valid");
        assert_eq!(
            (count(healthy.level(0), "unproved"), &healthy.level(0)["verdict"]),
            (0, &Value::from("met"))
        );
        let frozen = || {
            let bench = Bench::new();
            let run = bench.start(&mut bench.run_command(&text));
            bench.await_count(0, "sent");
            let broker = broker(run.id());
            signal(broker, Signal::STOP);
            // The run ends it with everything that it started.
            run.finish()
        };
        let run = until(frozen, |level| level["validity"] == "valid");
        assert_eq!(run.level(0)["verdict"], "undecided", "{}", run.stdout);
        assert!(count(run.level(0), "unproved") > 300, "{}", run.stdout);
        assert!(run.said().contains("nothing proves that"), "{}", run.stdout);
        run.exits(3);
    }

    #[test]
    fn a_broker_that_is_robbed_of_its_processor_is_not_blamed() {
        assert!(getpriority_process(None).is_ok());
        let text = scenario("levels: [1000], hold: 4s", "objectives: { publish_p99: \"< 5 ms\" }");
        let robbed = || {
            let bench = Bench::new();
            let run = bench.start(&mut bench.run_command(&text));
            let robbers = Robbers::on(broker_once_up(run.id()), -10);
            let finished = run.finish();
            drop(robbers);
            finished
        };
        let run: Finished = robbed();
        let level = run.level(0);
        assert_ne!(level["verdict"], "missed", "{}", run.stdout);
        assert!(level["held_by_others"].as_f64().unwrap() > 0.05, "{}", run.stdout);
        // A shared machine may have kept the generator waiting, too.
        assert_ne!(level["blame"]["culprit"], "platform", "{}", run.stdout);
    }
}
