//! The abstract gateway with devices that send their events: its profiles, and its command on bad days.

use crate::harness::{Bench, count, until};
use crate::truth::listening_address;
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// One run of each dispatcher and each handler: what the gateway can do in all nine ways is tested where it is built.
#[test]
#[ignore = "acceptance: gateway"]
fn events_over_http_and_mqtt_are_all_worked_on() {
    for (profile, mqtt, dispatcher, handler) in [
        ("gateway-http", "", "serial", "preemptive"),
        ("gateway-http", "", "cooperative", "cooperative"),
        ("gateway-mqtt", "mqtt: { qos: 1 }\n", "preemptive", "serial"),
        ("gateway-mqtt", "mqtt: { qos: 1 }\n", "cooperative", "preemptive"),
        // Nothing is answered: the log alone tells which events were worked on.
        ("gateway-mqtt", "mqtt: { qos: 0 }\n", "preemptive", "cooperative"),
    ] {
        let bench = Bench::beside_others();
        let told_otherwise = mqtt.contains("qos: 0");
        let measure = || {
            bench.run(&format!(
                "name: push\nplatform: {{ profile: {profile}, with: {{ dispatcher: {dispatcher}, handler: {handler}, \
                 cpu: \"0.01\", io: \"0.00001\" }} }}\npopulation: {{ devices: 4 }}\n{mqtt}\
                 load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 5s }}\n\
                 objectives: {{ publish_p50: \"< 1 s\", publish_p99: null }}\n"
            ))
        };
        // Of a host that is busy when the clocks are compared, they are not known well enough.
        let finished =
            until(measure, |level| level["validity"] == "valid" && parts_agree(level, told_otherwise));
        let level = finished.level(0);
        assert_eq!(level["verdict"], "met", "{profile} {dispatcher}/{handler}: {finished:?}");
        let due = count(level, "due");
        assert!(due >= 199, "{finished:?}");
        assert_eq!((count(level, "sent"), count(level, "acknowledged")), (due, due), "{finished:?}");
        // The gateway's log tells of each what its answer does not.
        let (life, whole) = (&level["event_life"], &level["publish_time"]);
        for part in ["wait", "transfer", "dispatch", "processing"] {
            assert_eq!(life[part]["n"], whole["n"], "{profile} {dispatcher}/{handler}, {part}: {level:#}");
        }
        assert!(life["clock"]["readings"].as_u64().unwrap() >= 5, "{level:#}");
    }
}

/// Whether the parts of a life are no more than the publish time, of which the way of the answer is left; where the log alone tells of
/// the end, they are all of it.
fn parts_agree(level: &Value, is_all: bool) -> bool {
    let life = &level["event_life"];
    let mean = |of: &Value| of["mean"].as_f64();
    let parts: Option<f64> = ["wait", "transfer", "processing"].iter().map(|part| mean(&life[part])).sum();
    let within: Option<f64> =
        ["median_within", "offset_within"].iter().map(|part| life["clock"][part].as_f64()).sum();
    let whole = mean(&level["publish_time"]);
    parts.zip(whole).zip(within).is_some_and(|((parts, whole), within)| {
        let known = 50e-6 + 2.0 * within;
        parts > 0.0 && parts < whole + known && (!is_all || parts > 0.98 * whole - known)
    })
}

fn post(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 3\r\n\r\na-1")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

/// What a process has used of the processors so far.
fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Its name, in brackets, may hold anything; user and system time are the 12th and 13th field after it (proc_pid_stat(5)).
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// With fewer open files than connections the gateway refuses those that are too many, serves the others, takes new ones when
/// there is room, and keeps no processor busy meanwhile.
#[test]
#[ignore = "acceptance: gateway"]
fn more_connections_than_open_files_are_refused() {
    for dispatcher in ["serial", "preemptive", "cooperative"] {
        let bench = Bench::beside_others();
        let command =
            bench.plimsoll(["gateway", "--push=http", "--listen=127.0.0.1:0", "--dispatcher", dispatcher]);
        // Both limits, so that the gateway cannot raise its own.
        let gateway = bench.start(&mut bench.behind_shell("ulimit -n 128; exec \"$@\"", &command));
        let address = listening_address(&gateway).parse().unwrap();
        let idle: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(address).ok()).collect();
        let begin = Instant::now();
        let mut refused = 0;
        for mut stream in &idle {
            // The gateway has nothing to say to those whom it keeps.
            stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            refused += usize::from(matches!(stream.read(&mut [0; 8]), Ok(0)));
        }
        assert!(refused > 100, "{dispatcher}: {refused} of {} in {:?}", idle.len(), begin.elapsed());
        let (before, begin) = (processor_time(gateway.id()), Instant::now());
        std::thread::sleep(Duration::from_millis(400));
        let busy = (processor_time(gateway.id()) - before).as_secs_f64() / begin.elapsed().as_secs_f64();
        assert!(busy < 0.5, "{dispatcher}: {busy}");
        drop(idle);
        let begin = Instant::now();
        let answer = loop {
            assert!(begin.elapsed() < Duration::from_secs(20), "{dispatcher}");
            if let Some(answer) = post(address) {
                break answer;
            }
        };
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        gateway.signal(Signal::TERM);
        gateway.finish().exits(0).says("1 events done, 0 failed, ").says("connections refused");
    }
}

/// A gateway that is killed and started again comes by the same bootup, and its log is read on.
#[test]
fn a_gateway_comes_again_after_a_storm() {
    let finished = Bench::beside_others().run(
        "name: storm\nplatform: { profile: gateway-mqtt, with: { cpu: '0.01', io: '0' } }\npopulation: { devices: 4 }\n\
         mqtt: { qos: 1, offline: buffer, reconnect: { from: 50ms, to: 200ms } }\n\
         load: { arrivals: constant, levels: [100], hold: 4s, samples: 4, warm_up: 0s, drain: 10s, \
         storm: { after: 1s, down: 500ms } }\n\
         objectives: { achieved: null, publish_p99: null }\n",
    );
    let level = finished.level(0);
    assert_eq!((count(level, "clients_lost"), count(level, "clients_back")), (4, 4), "{finished:?}");
    let due = count(level, "due");
    assert!(due >= 399, "{finished:?}");
    // What was sent before the storm and not answered may be gone with the gateway: one event of each device, and its window.
    let acknowledged = count(level, "acknowledged");
    assert!(acknowledged + 4 * 20 >= due, "{acknowledged} of {due}: {finished:?}");
    // Lives were told before and after: more than a second and a half of the four could have brought.
    let told = level["event_life"]["processing"]["n"].as_u64().unwrap();
    assert!(told > 160 && told <= acknowledged, "{told} of {acknowledged}: {finished:?}");
}

/// A gateway that cannot begin is not awaited: what it said is told.
#[test]
fn a_gateway_that_cannot_begin_says_why() {
    for profile in ["gateway-http", "gateway-mqtt"] {
        let finished = Bench::beside_others().run(&format!(
            "name: none\nplatform: {{ profile: {profile}, with: {{ cores: '4096' }} }}\npopulation: {{ devices: 1 }}\n\
             load: {{ levels: [1], hold: 1s }}\n"
        ));
        assert_eq!(finished.code, Some(1), "{finished:?}");
        let reason = finished.summary["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("cannot keep to 4096 processors"), "{finished:?}");
    }
}

/// What the gateway cannot call by a name in its log is refused before anything is started.
#[test]
fn events_have_names() {
    let finished = Bench::beside_others().run(
        "name: none\nplatform: { profile: gateway-mqtt }\npopulation: { devices: 1 }\nmessage: { marker: integer }\n\
         load: { levels: [1], hold: 1s }\n",
    );
    assert_eq!(finished.code, Some(104), "{finished:?}");
    assert!(finished.stderr.contains("use `ascii`"), "{finished:?}");
}

#[test]
fn a_gateway_without_a_manager_polls_nobody() {
    let bench = Bench::beside_others();
    bench.call(["gateway"]).exits(104).says("--manager");
    bench.call(["gateway", "--push", "smoke"]).exits(104).says("tcp, http, mqtt");
    bench
        .call(["gateway", "--push", "http", "--listen", "nowhere"])
        .exits(1)
        .says("cannot listen at nowhere");
}
