//! The abstract gateway as a platform, and gateways of others.

use crate::harness::{Bench, Finished, STORE, count};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

pub fn scenario(with: &str) -> String {
    format!(
        "name: polled\nplatform: {{ profile: gateway, with: {{ {with} }} }}\n\
         population: {{ devices: 6, subscribers: 0 }}\n\
         load: {{ arrivals: constant, levels: [60], warm_up: 200ms, hold: 1s, samples: 4, drain: 2s }}\n\
         objectives: {{ publish_p99: null, achieved: null }}\n"
    )
}

/// Every event of the level was done, and each part of its life is told.
pub fn check(finished: &Finished, what: &str) {
    let level = finished.level(0);
    assert!(count(level, "sent") > 0, "{what}: {finished:?}");
    assert_eq!(count(level, "acknowledged"), count(level, "sent"), "{what}: {level:#}");
    let life = &level["event_life"];
    for part in ["wait", "transfer", "dispatch", "processing"] {
        assert_eq!(life[part]["n"], level["publish_time"]["n"], "{what}: {part} of {level:#}");
    }
    // Both read the same clock of the kernel, or the wall clock, which does not drift within seconds.
    let clock = &life["clock"];
    assert!(clock["readings"].as_u64().unwrap() >= 5, "{what}: {clock:#}");
    let [median, within] = ["median", "median_within"].map(|part| clock[part].as_f64().unwrap());
    assert!(within > 0.0 && within < 0.1 && median != 0.0, "{what}: {clock:#}");
    // In overload there are no means.
    let mean = |of: &Value| of["mean"].as_f64();
    let parts: Option<f64> = ["wait", "transfer", "processing"].iter().map(|part| mean(&life[part])).sum();
    if let Some((parts, whole)) = parts.zip(mean(&level["publish_time"])) {
        // The gateway's clock is known to within some microseconds.
        let known = 2.0 * (within + clock["offset_within"].as_f64().unwrap());
        assert!(
            (parts - whole).abs() < 0.02 * whole + 50e-6 + known,
            "{what}: {parts} of {whole}, {clock:#}"
        );
    }
}

#[test]
#[ignore = "acceptance: gateway"]
fn all_nine_models_are_measured() {
    let bench = Bench::new();
    for dispatcher in ["serial", "preemptive", "cooperative"] {
        for handler in ["serial", "preemptive", "cooperative"] {
            let what = format!("dispatcher: {dispatcher}, handler: {handler}");
            let finished = bench.run(&scenario(&format!("{what}, cpu: '0.05', io: '0.00002'")));
            check(&finished, &what);
        }
    }
}

#[test]
fn a_gateway_with_another_configuration_is_refused_with_both_values() {
    let bench = Bench::beside_others();
    let profile =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/gateway.yaml")).unwrap();
    let (own, wrong) = ("--pool={pool}", "--pool=3");
    assert!(profile.contains(own));
    bench.write("wrong.yaml", &profile.replace(own, wrong));
    let refused = scenario("").replace("profile: gateway", "profile: ./wrong.yaml");
    bench.run(&refused).exits(1).says("POOL_SIZE: the gateway has 3, the scenario 10");
}

/// The columns of the work, and each event with its whole life in order.
#[test]
fn lives_of_events_are_exported() {
    let bench = Bench::beside_others();
    let finished = bench.run(&(scenario("") + "record: { messages: true }\n"));
    check(&finished, "logged");
    let exported = bench.call(["export", "last", "--format", "events", "--store", STORE]).exits(0);
    let mut lines = exported.stdout.lines();
    let names = "sid,eid,created_time,fetched_time,retrieved_time,dispatched_time,done_time";
    assert_eq!(lines.next(), Some(names));
    // As well as the clocks are known to each other, which on a busy machine is not to microseconds; in milliseconds.
    let clock = &finished.level(0)["event_life"]["clock"];
    let [median, offset] = ["median_within", "offset_within"].map(|part| clock[part].as_f64().unwrap());
    let known = 0.05 + 2e3 * (median + offset);
    let mut events = 0;
    for line in lines {
        let times: Vec<f64> = line.split(',').skip(2).map(|time| time.parse().unwrap()).collect();
        assert!(
            times.len() == 5 && times.windows(2).all(|pair| pair[0] <= pair[1] + known),
            "{line}: {known}"
        );
        events += 1;
    }
    assert!(events >= count(finished.level(0), "acknowledged"));
}

/// The scenario with a gateway that somebody else starts.
pub fn existing(manager: SocketAddr) -> String {
    let platform = format!("{{ profile: gateway-existing, address: \"gateway://{manager}\" }}");
    let existing = scenario("").replace("{ profile: gateway, with: {  } }", &platform);
    assert!(existing.contains("existing"));
    existing
}

/// One that a person would have written in an afternoon.
pub struct Python(Child);

impl Python {
    pub fn start(manager: &str, more: &[&str]) -> Python {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.py");
        let mut command = Command::new("python3");
        command
            .args([program, manager])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Python(command.spawn().expect("python3 is installed by scripts/test"))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_gateway_in_another_language_takes_the_place_of_ours() {
    let bench = Bench::beside_others();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _gateway = Python::start(&free.to_string(), &[]);
    let finished = bench.run(&existing(free));
    check(&finished, "python");
}

#[test]
fn what_was_measured_is_kept_when_the_gateway_is_killed() {
    let bench = Bench::beside_others();
    let long = scenario("").replace("hold: 1s", "hold: 6s").replace("samples: 4", "samples: 12");
    let run = bench.start(&mut bench.run_command(&long));
    bench.await_count(0, "acknowledged");
    let gateway = crate::harness::children(run.id())
        .into_iter()
        .find(|&child| {
            let command = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            command.split('\0').nth(1) == Some("gateway")
        })
        .expect("the gateway is a child of the run");
    crate::harness::kill(gateway);
    let finished = run.finish().exits(99).says("gateway died");
    assert!(count(finished.level(0), "acknowledged") > 0);
}

/// Tests that measure.
mod alone {
    use super::*;

    #[test]
    fn the_delay_of_the_network_is_seen_where_it_is_waited_for() {
        let bench = Bench::new();
        let delayed = scenario("dispatcher: preemptive") + "gateway: { delay: 20ms }\n";
        let finished = bench.run(&delayed);
        check(&finished, "delayed");
        // The status and the event itself, each so late.
        let wait = finished.level(0)["event_life"]["wait"]["p50"].as_f64().unwrap();
        assert!(wait > 0.022, "{wait}");
    }
}
