//! Several populations in one run, against real systems: each ledger is exact, and so is that of all together.

use crate::harness::{Bench, Finished, RESULTS, STORE, count, until_valid};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is exact in each population is exact in all: every count of the whole is the sum of theirs.
#[track_caller]
fn assert_exact(run: &Finished, names: &[&str], subscribers: u64) {
    let judged = [0, 3, 99].map(Some);
    assert!(judged.contains(&run.code), "{:?}\n{}\n{}", run.code, run.stdout, run.stderr);
    assert!(!run.levels().is_empty());
    for level in run.levels() {
        let own: Vec<&Value> = level["populations"].as_array().unwrap().iter().collect();
        assert_eq!(own.iter().map(|own| own["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
        for name in ["due", "sent", "unsent", "acknowledged", "expected_deliveries", "delivered", "lost"] {
            let sum: u64 = own.iter().map(|own| count(&own["figures"], name)).sum();
            assert_eq!(sum, count(level, name), "{name}: {}", run.stdout);
        }
        for figures in own.iter().map(|own| &own["figures"]) {
            let sent = count(figures, "sent");
            assert!(sent > 0, "{figures:#}");
            assert_eq!(sent + count(figures, "unsent"), count(figures, "due"), "{figures:#}");
            assert_eq!(count(figures, "acknowledged"), sent, "{figures:#}");
            assert_eq!(count(figures, "expected_deliveries"), sent * subscribers, "{figures:#}");
            assert_eq!(count(figures, "delivered"), sent * subscribers, "{figures:#}");
            for nothing in ["lost", "late", "duplicated", "reordered", "foreign", "refused"] {
                assert_eq!(count(figures, nothing), 0, "{nothing}: {figures:#}");
            }
        }
    }
}

/// The forms of markers are those of a population's own message.
#[test]
fn a_probe_is_of_one_population() {
    let bench = Bench::beside_others();
    let scenario = "name: two\nplatform: embedded\npopulations:\n- { name: a, devices: 2 }\n- { name: b, devices: 2 }\n\
                    load: { levels: [10] }\n";
    bench.write("two.yaml", scenario);
    bench
        .call(["check", "--probe", "two.yaml"])
        .exits(1)
        .says("a probe tries the messages of one population");
}

/// Devices publish to one Mosquitto, and subscribers are clients of another one to which it is bridged.
#[test]
fn subscribers_may_be_clients_of_another_broker() {
    let bench = Bench::beside_others();
    let [inner, outer] = [(); 2].map(|()| {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    });
    let base = "allow_anonymous true\nuser root\nmax_queued_messages 0\nmax_inflight_messages 0\npersistence false\n";
    let bridge = format!("connection out\naddress 127.0.0.1:{outer}\ntopic # out 1\n");
    let _outer = Broker::begin(&bench, "outer", outer, &format!("listener {outer} 127.0.0.1\n{base}"));
    let _inner =
        Broker::begin(&bench, "inner", inner, &format!("listener {inner} 127.0.0.1\n{base}{bridge}"));
    let run = bench.run(&format!(
        "name: bridged
platform: {{ profile: existing, address: 'mqtt://127.0.0.1:{inner}' }}
population: {{ devices: 10 }}
subscribers: {{ count: 2, platform: {{ address: 'mqtt://127.0.0.1:{outer}' }} }}
message: {{ target: 'city/{{device}}' }}
load: {{ levels: [200], hold: 2s, samples: 4, warm_up: 1s }}
objectives: {{ publish_p99: null }}
"
    ));
    assert_eq!(run.levels().len(), 1, "{}\n{}", run.stdout, run.stderr);
    let level = run.level(0);
    assert!(level["populations"].is_null(), "of one population nothing is said twice: {level:#}");
    let sent = count(level, "sent");
    assert!(sent > 200 && count(level, "acknowledged") == sent, "{level:#}");
    assert_eq!((count(level, "delivered"), count(level, "foreign")), (2 * sent, 0), "{level:#}");
}

struct Broker(Child);

impl Broker {
    fn begin(bench: &Bench, name: &str, port: u16, configuration: &str) -> Broker {
        let file = bench.write(&format!("{name}.conf"), configuration);
        let mut command = Command::new("mosquitto");
        command.arg("-c").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let broker = Broker(command.spawn().expect("mosquitto is installed by scripts/peers"));
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(10), "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        broker
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tests that measure.
mod alone {
    use super::*;

    /// An objective on one population is judged by what it measured, however well the others do.
    #[test]
    fn a_population_misses_by_itself() {
        let scenario = "name: two
platform: embedded
populations:
  - { name: near, devices: 20, message: { target: 'near/{device}' } }
  - { name: far, devices: 5, link: { delay: 40ms }, message: { target: 'far/{device}' }, load: { rate: 60/s } }
subscribers: 1
load: { levels: [400], hold: 3s, samples: 6, warm_up: 500ms, again: 0s }
objectives: { near.publish_p95: '< 500 ms', far.publish_p95: '< 60 ms', publish_p50: '< 60 ms' }
";
        let run = until_valid(|| Bench::new().run(scenario));
        assert_exact(&run, &["near", "far"], 1);
        let level = run.level(0);
        let of =
            |place: usize| level["populations"][place]["figures"]["verdict"].as_str().unwrap().to_owned();
        // A round trip of the far ones takes 80 ms, and theirs is the twentieth part of all messages and more.
        assert_eq!((of(0).as_str(), of(1).as_str()), ("met", "missed"), "{}", run.stdout);
        assert_eq!(level["verdict"], "missed", "{}", run.stdout);
        assert!(level["reasons"][0].as_str().unwrap().contains("far.publish_p95"), "{}", run.stdout);
        assert_eq!(run.code, Some(99));
    }

    /// Sensors over MQTT, meters over CoAP and cameras over HTTP at one oneM2M service entity, whose notifications one set of
    /// subscribers receives: the published example in its quick form.
    /// Beside other tests, this service entity sometimes ends while it starts.
    #[test]
    fn three_protocols_at_one_service_entity_have_exact_ledgers() {
        let bench = Bench::beside_others();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mixed-city.yaml");
        let mut command = bench.plimsoll(["run", "--quick"]);
        command.arg(example.canonicalize().unwrap()).args(RESULTS);
        let run = bench.start(&mut command).finish();
        assert_exact(&run, &["sensors", "meters", "cameras"], 1);
        let level = run.level(0);
        let protocols: Vec<&str> = level["populations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| own["protocol"].as_str().unwrap())
            .collect();
        assert_eq!(protocols, ["MQTT", "CoAP", "HTTP"]);
        assert!(run.stdout.contains("population") && run.stdout.contains("cameras"), "{}", run.stdout);
        // Exports have a row for all and one for each.
        let rows = bench.call(["export", "--store", STORE, "--rows", "levels"]).exits(0).stdout;
        let ends: Vec<&str> = rows.lines().skip(1).take(4).filter_map(|row| row.rsplit(',').next()).collect();
        assert_eq!(ends, ["", "sensors", "meters", "cameras"]);
        bench.call(["report", "--store", STORE, "--output", "report.html"]).exits(0);
        let report = std::fs::read_to_string(bench.path("report.html")).unwrap();
        assert!(report.contains("id=\"populations\"") && report.contains(">meters<"));
    }
}
