//! The abstract gateway with devices that send their events: its profiles, and its command on bad days.

use crate::harness::{Bench, count, until_valid};
use crate::truth::listening_address;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// One run of each dispatcher and each handler: what the gateway can do in all nine ways is tested where it is built.
#[test]
fn events_over_http_and_mqtt_are_all_worked_on() {
    for (profile, mqtt, dispatcher, handler) in [
        ("gateway-http", "", "serial", "preemptive"),
        ("gateway-http", "", "cooperative", "cooperative"),
        ("gateway-mqtt", "mqtt: { qos: 1 }\n", "preemptive", "serial"),
        ("gateway-mqtt", "mqtt: { qos: 1 }\n", "cooperative", "preemptive"),
    ] {
        let bench = Bench::new();
        let finished = until_valid(|| {
            bench.run(&format!(
                "name: push\nplatform: {{ profile: {profile}, with: {{ dispatcher: {dispatcher}, handler: {handler}, \
                 cpu: \"0.01\", io: \"0.00001\" }} }}\npopulation: {{ devices: 4 }}\n{mqtt}\
                 load: {{ arrivals: constant, levels: [100], hold: 2s, samples: 2, warm_up: 0s, drain: 5s }}\n\
                 objectives: {{ publish_p50: \"< 1 s\", publish_p99: null }}\n"
            ))
        });
        let level = finished.level(0);
        assert_eq!(level["verdict"], "met", "{profile} {dispatcher}/{handler}: {finished:?}");
        let due = count(level, "due");
        assert!(due >= 199, "{finished:?}");
        assert_eq!((count(level, "sent"), count(level, "acknowledged")), (due, due), "{finished:?}");
    }
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
fn more_connections_than_open_files_are_refused() {
    for dispatcher in ["serial", "preemptive", "cooperative"] {
        let bench = Bench::new();
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

#[test]
fn a_gateway_without_a_manager_polls_nobody() {
    let bench = Bench::new();
    bench.call(["gateway"]).exits(104).says("--manager");
    bench.call(["gateway", "--push", "smoke"]).exits(104).says("tcp, http, mqtt");
    bench
        .call(["gateway", "--push", "http", "--listen", "nowhere"])
        .exits(1)
        .says("cannot listen at nowhere");
}
